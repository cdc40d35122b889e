// Fragments of a manifest, from the protobuf wire format to flat tables: the record of each, the
// facts that all readers need of all fragments, and their forms.
//
// Fragments have the same form if their records differ only in ids, row counts, names and sizes of
// files, and row ids. The form is a record without these. A table of many thousand fragments has a
// few forms.
//
// Totals of versions for listings: one call reads many manifests, and skips their schemas, indices
// and transactions.
//
// Unusual fields belong to the form of their record as they are. The caller then parses the message
// as a whole, too, which knows more fields and has precise errors.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/owned.hpp"
#include "base/hashes.hpp"
#include "base/proto_out.hpp"
#include "base/proto_wire.hpp"
#include "base/utf8.hpp"

namespace alance {
namespace {

constexpr uint32_t kFragments = 2;  // of Manifest
constexpr uint32_t kId = 1, kFiles = 2, kDeletions = 3, kRows = 4, kRowIds = 5, kUpdated = 7,
                   kCreated = 9, kOverlays = 11, kColumnCreated = 14;  // of DataFragment
constexpr uint32_t kExternalRowIds = 6, kColumnRowIds = 12;  // row ids in other places
constexpr uint32_t kPath = 1, kFields = 2, kColumns = 3, kSize = 6, kBase = 7;  // of DataFile
constexpr uint32_t kNumDeleted = 4, kDeletionBase = 7;                  // of DeletionFile
constexpr uint32_t kSegments = 1;          // of RowIdSequence
constexpr uint32_t kRange = 1;             // of U64Segment
constexpr uint32_t kStart = 1, kStop = 2;  // of a range
constexpr int64_t kNone = -1;

struct Record {
  bool is_usual = true;
  int64_t stop = 0;  // end of the record in the bytes of all records
  int64_t num_bytes = 0;
  uint64_t id = 0, rows = 0;
  uint64_t files = 0, file_bytes = 0;  // bytes of the files whose size is recorded
  int64_t deleted = kNone;  // rows; 0: not recorded; kNone: no deletion file
  uint64_t first_id = 0;
  int64_t num_ids = kNone;  // row ids that are one range from `first_id` on; kNone: they are not
  int32_t form = 0;
};

struct Table {
  bool is_usual = true;
  std::string rest;  // the message without its fragments
  ProtoOut content;  // the fragments alone, as fields of the message
  std::vector<Record> records;
  std::vector<std::string> forms;
};

// Form of a fragment, and scratch memory for the form of a file.
struct Forming {
  ProtoOut form, file;
};

// Add to a total; false beyond 63 bits.
bool add(uint64_t& total, uint64_t value) {
  total += value;
  return value <= INT64_MAX && total <= INT64_MAX;
}

// Add the size of a file, and append what belongs to the form of its fragment (null: not needed).
// False if its bytes are cut short; so for the following functions.
bool read_file(std::string_view content, Record& record, ProtoOut* form) {
  ProtoWire wire(content, true);
  bool is_usual = true;
  while (wire.next()) {
    if (wire.wire == 0) {
      const uint64_t value = wire.varint();
      if (wire.field == kSize) {
        is_usual &= add(record.file_bytes, value);
        continue;
      }
      is_usual &= wire.field <= kBase;
    } else if (wire.wire == 2 && wire.field == kPath) {
      is_usual &= is_ascii(wire.bytes());
      continue;
    } else if (wire.wire == 2 && (wire.field == kFields || wire.field == kColumns)) {
      wire.numbers([](uint64_t) {});
    } else {
      is_usual = false;
      wire.skip();
    }
    if (wire.ok && form) form->append(wire.whole());
  }
  record.is_usual &= is_usual;
  ++record.files;
  return wire.ok;
}

bool read_deletions(std::string_view content, Record& record) {
  ProtoWire wire(content, true);
  uint64_t count = 0;
  while (wire.next()) {
    record.is_usual &= wire.wire == 0 && wire.field <= kDeletionBase;
    if (wire.field == kNumDeleted && wire.wire == 0)
      count = wire.varint();
    else
      wire.skip();
  }
  record.is_usual &= record.deleted == kNone && count <= INT64_MAX;
  record.deleted = static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX));
  return wire.ok;
}

// Read row ids that are one range: their number, or kNone if they are not, or are damaged.
int64_t read_range(std::string_view sequence, uint64_t& start) {
  ProtoWire segments(sequence);
  if (!segments.next() || segments.field != kSegments || segments.wire != 2) return kNone;
  ProtoWire segment(segments.bytes());
  if (!segments.ok || !segments.done()) return kNone;
  if (!segment.next() || segment.field != kRange || segment.wire != 2) return kNone;
  ProtoWire range(segment.bytes());
  if (!segment.ok || !segment.done()) return kNone;
  uint64_t first = 0, stop = 0;
  while (range.next()) {
    if (range.wire != 0 || range.field > kStop) return kNone;
    (range.field == kStart ? first : stop) = range.varint();
  }
  if (!range.ok || first > stop || stop - first > UINT32_MAX) return kNone;
  start = first;
  return static_cast<int64_t>(stop - first);
}

// Read a record and make its form; null: not needed, and neither are the row ids.
bool read_record(std::string_view content, Record& record, Forming* forming) {
  ProtoWire wire(content, true);
  bool is_usual = true, has_row_ids = false;
  while (wire.next()) {
    const uint32_t field = wire.field;
    if (wire.wire == 0 && (field == kId || field == kRows)) {
      (field == kId ? record.id : record.rows) = wire.varint();
      continue;
    }
    const bool is_known = field <= kColumnCreated && field != kOverlays;
    if (wire.wire != 2 || !is_known || field == kId || field == kRows) {
      is_usual = false;
      wire.skip();
      if (wire.ok && forming) forming->form.append(wire.whole());
      continue;
    }
    const std::string_view part = wire.bytes();
    if (field == kFiles) {
      if (forming) forming->file.clear();
      if (!read_file(part, record, forming ? &forming->file : nullptr)) return false;
      if (forming) forming->form.message(kFiles, forming->file);
      continue;
    }
    if (field == kDeletions && !read_deletions(part, record)) return false;
    is_usual &= field <= kRowIds || field == kUpdated || field == kCreated;
    if (!forming) continue;
    forming->form.bytes(field, {});
    if (field == kRowIds || field == kExternalRowIds || field == kColumnRowIds) {
      const bool is_alone = !has_row_ids && field == kRowIds;
      record.num_ids = is_alone ? read_range(part, record.first_id) : kNone;
      has_row_ids = true;
    }
  }
  record.is_usual &= is_usual;
  return wire.ok;
}

// Numbers of forms, in order of first appearance.
class Forms {
 public:
  explicit Forms(std::vector<std::string>& forms) : forms_(forms) {}

  int32_t number_of(const std::string& form) {
    // Adjacent fragments mostly have the same form.
    if (!forms_.empty() && forms_[static_cast<size_t>(last_)] == form) return last_;
    const auto [place, is_new] = numbers_.try_emplace(form, static_cast<int32_t>(forms_.size()));
    if (is_new) forms_.push_back(form);
    return last_ = place->second;
  }

 private:
  std::vector<std::string>& forms_;
  std::unordered_map<std::string, int32_t, TextHash> numbers_;
  int32_t last_ = 0;
};

// Read a manifest; false if it is damaged.
bool read_manifest(std::string_view message, Table& table) {
  ProtoWire wire(message);
  Forms forms(table.forms);
  Forming forming;
  while (wire.next()) {
    if (wire.field != kFragments) {
      wire.skip();
      if (wire.ok) table.rest.append(wire.whole());
      continue;
    }
    if (wire.wire != 2) return false;
    const std::string_view part = wire.bytes();
    if (!wire.ok) return false;
    Record record;
    forming.form.clear();
    if (!read_record(part, record, &forming)) return false;
    table.content.bytes(kFragments, part);
    record.stop = std::ssize(table.content.text());
    record.num_bytes = std::ssize(part);
    record.form = forms.number_of(forming.form.text());
    table.is_usual &= record.is_usual;
    table.records.push_back(record);
  }
  return wire.ok;
}

template <typename T>
Owned<T> column(const std::vector<Record>& records, T Record::* member) {
  Owned<T> values(std::ssize(records));
  for (int64_t i = 0; i < values.size(); ++i) values[i] = records[static_cast<size_t>(i)].*member;
  return values;
}

// None: the message is damaged, or has fields of other kinds.
nb::object manifest_fragments(const Bytes& message) {
  Table table;
  bool is_read;
  {
    nb::gil_scoped_release release;
    is_read = read_manifest(text_of(message), table);
  }
  if (!is_read) return nb::none();
  const auto bytes_of = [](const std::string& text) { return nb::bytes(text.data(), text.size()); };
  nb::list forms;
  for (const std::string& form : table.forms) forms.append(bytes_of(form));
  const std::vector<Record>& records = table.records;
  return nb::make_tuple(
      bytes_of(table.rest), table.is_usual, bytes_of(table.content.text()),
      column(records, &Record::stop), column(records, &Record::num_bytes),
      column(records, &Record::id), column(records, &Record::rows),
      column(records, &Record::deleted), column(records, &Record::file_bytes),
      column(records, &Record::form), column(records, &Record::first_id),
      column(records, &Record::num_ids), forms);
}

// Add the record of a file with its own base path, or else with number `base`. Without `base`, the
// record gets no base path, and loses its own.
void add_based(ProtoOut& out, uint32_t field, std::string_view file, uint32_t base_field,
               std::optional<uint32_t> base) {
  ProtoOut content;
  ProtoWire wire(file);
  bool has_base = false;
  while (wire.next()) {
    const bool is_base = wire.field == base_field;
    wire.skip();
    has_base |= is_base;
    if (wire.ok && (base || !is_base)) content.append(wire.whole());
  }
  if (!wire.ok) corrupt("fragments: the record of a file is cut short, or has fields of other kinds");
  if (base && !has_base) content.number(base_field, *base);
  out.message(field, content);
}

nb::bytes based_fragments(const Bytes& content, std::optional<uint32_t> base) {
  ProtoOut out, record;
  {
    nb::gil_scoped_release release;
    ProtoWire fields(text_of(content));
    while (fields.next()) {
      if (fields.field != kFragments || fields.wire != 2) corrupt("fragments: other fields");
      ProtoWire wire(fields.bytes());
      record.clear();
      while (fields.ok && wire.next()) {
        const uint32_t field = wire.field;
        if (wire.wire == 2 && (field == kFiles || field == kDeletions)) {
          const std::string_view file = wire.bytes();
          if (wire.ok)
            add_based(record, field, file, field == kFiles ? kBase : kDeletionBase, base);
        } else {
          wire.skip();
          if (wire.ok) record.append(wire.whole());
        }
      }
      if (!wire.ok) corrupt("fragments: a record is cut short, or has fields of other kinds");
      out.message(kFragments, record);
    }
    if (!fields.ok) corrupt("fragments: the last one is cut short");
  }
  return nb::bytes(out.text().data(), out.text().size());
}

constexpr size_t kFooter = 16, kLength = 4;  // bytes behind the message, and in front of it
constexpr std::string_view kMagic = "LANC";
constexpr uint32_t kVersion = 3, kTimestamp = 7, kReader = 9, kWriter = 10, kWriterVersion = 13,
                   kMaxFieldId = 24;  // of Manifest
constexpr uint32_t kSeconds = 1, kNanos = 2;  // of Timestamp

// Columns of the totals of a manifest.
enum : size_t {
  kIsUsual, kOfVersion, kHasTime, kOfSeconds, kOfNanos, kOfReader, kOfWriter, kHasMaxFieldId,
  kNumFragments, kNumFiles, kFileBytes, kNumDeletionFiles, kDeletedRows, kNumRows, kNumTotals
};
using Totals = std::array<uint64_t, kNumTotals>;

// Last value of a varint field, or 0; `ok` turns false if the message is truncated.
uint64_t number_in(std::string_view message, uint32_t field, bool& ok) {
  ProtoWire wire(message);
  uint64_t value = 0;
  while (wire.next()) {
    if (wire.field == field && wire.wire == 0)
      value = wire.varint();
    else
      wire.skip();
  }
  ok = ok && wire.ok;
  return value;
}

bool add_fragment(std::string_view content, Totals& totals) {
  Record record;
  if (!read_record(content, record, nullptr) || !record.is_usual) return false;
  const bool has_deletions = record.deleted != kNone;
  ++totals[kNumFragments];
  totals[kNumFiles] += record.files;
  totals[kNumDeletionFiles] += has_deletions;
  return add(totals[kFileBytes], record.file_bytes) && add(totals[kNumRows], record.rows) &&
         add(totals[kDeletedRows], has_deletions ? static_cast<uint64_t>(record.deleted) : 0);
}

// Read a manifest's message; false if anything is unusual or wrong, and Python has to parse it.
bool read_message(std::string_view message, Totals& totals) {
  ProtoWire wire(message);
  bool has_writer = false, ok = true;
  while (wire.next()) {
    const bool is_number = wire.wire == 0;
    if (wire.field == kFragments && !is_number) {
      if (!add_fragment(wire.bytes(), totals)) return false;
    } else if (wire.field == kTimestamp && !is_number) {
      const std::string_view time = wire.bytes();
      if (totals[kHasTime]++) return false;
      totals[kOfSeconds] = number_in(time, kSeconds, ok);
      totals[kOfNanos] = number_in(time, kNanos, ok);
    } else if (wire.field == kVersion && is_number) {
      totals[kOfVersion] = wire.varint();
    } else if (wire.field == kReader && is_number) {
      totals[kOfReader] = wire.varint();
    } else if (wire.field == kWriter && is_number) {
      totals[kOfWriter] = wire.varint();
    } else {
      has_writer = has_writer || wire.field == kWriterVersion;
      totals[kHasMaxFieldId] |= wire.field == kMaxFieldId;
      wire.skip();
    }
  }
  const uint64_t most = std::max({totals[kOfVersion], totals[kOfReader], totals[kOfWriter]});
  return ok && wire.ok && has_writer && most <= INT64_MAX;
}

bool read_totals(std::string_view content, Totals& totals) {
  if (content.size() < kFooter + kLength) return false;
  const std::string_view footer = content.substr(content.size() - kFooter);
  if (footer.substr(kFooter - kMagic.size()) != kMagic) return false;
  const auto* bytes = reinterpret_cast<const uint8_t*>(content.data());
  const auto position = load<uint64_t>(bytes + content.size() - kFooter);
  const size_t most = content.size() - kFooter - kLength;
  if (position > most) return false;
  const auto length = load<uint32_t>(bytes + position);
  if (length != most - position) return false;
  return read_message(content.substr(static_cast<size_t>(position) + kLength, length), totals);
}

// The totals of each manifest; the first is 0 if it must be parsed as a whole.
Owned<int64_t> manifest_totals(const Bytes& content, const In<int64_t>& stops) {
  Owned<int64_t> out(std::ssize(stops) * int64_t{kNumTotals});
  int64_t start = 0;
  for (int64_t i = 0; i < std::ssize(stops); ++i) {
    const int64_t stop = stops.data()[i];
    if (stop < start || stop > std::ssize(content))
      corrupt("manifests: their ends decrease or are beyond the bytes");
    Totals totals{};
    totals[kIsUsual] = read_totals(
        text_of(content).substr(static_cast<size_t>(start), static_cast<size_t>(stop - start)),
        totals);
    std::copy(totals.begin(), totals.end(), &out[i * int64_t{kNumTotals}]);
    start = stop;
  }
  return out;
}

}  // namespace
}  // namespace alance

void register_manifest_fragments(nanobind::module_& m) {
  using namespace alance;
  m.def("manifest_fragments", &manifest_fragments, "message"_a);
  m.def("based_fragments", &based_fragments, "content"_a, "base"_a.none());
  m.def("manifest_totals", &manifest_totals, "content"_a, "stops"_a, NoGil());
}
