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
// Records with unusual fields give None: the caller then parses the message as a whole, which knows
// more fields and has precise errors.
#include <nanobind/stl/optional.h>

#include <algorithm>
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
                   kCreated = 9;                                        // of DataFragment
constexpr uint32_t kPath = 1, kFields = 2, kColumns = 3, kSize = 6, kBase = 7;  // of DataFile
constexpr uint32_t kNumDeleted = 4, kDeletionBase = 7;                  // of DeletionFile
constexpr int64_t kNone = -1;

struct Record {
  int64_t stop = 0;  // end of the record in the bytes of all records
  int64_t num_bytes = 0;
  uint64_t id = 0, rows = 0;
  uint64_t files = 0, file_bytes = 0;  // bytes of the files whose size is recorded
  int64_t deleted = kNone;  // rows; 0: not recorded; kNone: no deletion file
  int32_t form = 0;
};

struct Table {
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

// Check a file, add its size, and append what belongs to the form of its fragment; null: not needed.
bool read_file(std::string_view content, Record& record, ProtoOut* form) {
  ProtoWire wire(content);
  while (wire.next()) {
    if (wire.field == kPath) {
      if (wire.wire != 2 || !is_ascii(wire.bytes())) return false;
      continue;
    }
    if (wire.field == kFields || wire.field == kColumns) {
      wire.numbers([](uint64_t) {});
    } else if (wire.wire == 0 && wire.field <= kBase) {
      const uint64_t value = wire.varint();
      if (wire.field == kSize) {
        if (!add(record.file_bytes, value)) return false;
        continue;
      }
    } else {
      return false;
    }
    if (!wire.ok) return false;
    if (form) form->append(wire.whole());
  }
  ++record.files;
  return wire.ok;
}

bool read_deletions(std::string_view content, Record& record) {
  ProtoWire wire(content);
  uint64_t count = 0;
  while (wire.next()) {
    if (wire.wire != 0 || wire.field > kDeletionBase) return false;
    const uint64_t value = wire.varint();
    if (wire.field == kNumDeleted) count = value;
  }
  if (count > INT64_MAX) return false;
  record.deleted = static_cast<int64_t>(count);
  return wire.ok;
}

// Read a record and make its form; null: not needed.
bool read_record(std::string_view content, Record& record, Forming* forming) {
  ProtoWire wire(content);
  while (wire.next()) {
    const bool is_number = wire.field == kId || wire.field == kRows;
    if (is_number != (wire.wire == 0)) return false;
    switch (wire.field) {
      case kId: record.id = wire.varint(); break;
      case kRows: record.rows = wire.varint(); break;
      case kFiles:
        if (forming) forming->file.clear();
        if (!read_file(wire.bytes(), record, forming ? &forming->file : nullptr)) return false;
        if (forming) forming->form.message(kFiles, forming->file);
        break;
      case kDeletions:
        if (record.deleted != kNone || !read_deletions(wire.bytes(), record)) return false;
        if (forming) forming->form.bytes(kDeletions, {});
        break;
      case kRowIds:
      case kUpdated:
      case kCreated:
        wire.bytes();
        if (forming) forming->form.bytes(wire.field, {});
        break;
      default: return false;
    }
  }
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

// Read a manifest; false if something is unusual.
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

// None: parse the message as a whole.
nb::object manifest_fragments(const Bytes& message) {
  Table table;
  bool usual;
  {
    nb::gil_scoped_release release;
    usual = read_manifest(text_of(message), table);
  }
  if (!usual) return nb::none();
  const auto bytes_of = [](const std::string& text) { return nb::bytes(text.data(), text.size()); };
  nb::list forms;
  for (const std::string& form : table.forms) forms.append(bytes_of(form));
  const std::vector<Record>& records = table.records;
  return nb::make_tuple(bytes_of(table.rest), bytes_of(table.content.text()),
                        column(records, &Record::stop), column(records, &Record::num_bytes),
                        column(records, &Record::id), column(records, &Record::rows),
                        column(records, &Record::deleted), column(records, &Record::file_bytes),
                        column(records, &Record::form), forms);
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

constexpr uint32_t kExternal = 6, kColumn = 12;  // of DataFragment: row ids in other places
constexpr uint32_t kSegments = 1;                // of RowIdSequence
constexpr uint32_t kRange = 1;                   // of U64Segment
constexpr uint32_t kStart = 1, kStop = 2;        // of a range

// Read row ids that are one range; false if they are not, or are damaged.
bool read_range(std::string_view sequence, uint64_t& start, uint64_t& stop) {
  ProtoWire segments(sequence);
  if (!segments.next() || segments.field != kSegments || segments.wire != 2) return false;
  ProtoWire segment(segments.bytes());
  if (!segments.ok || !segments.done()) return false;
  if (!segment.next() || segment.field != kRange || segment.wire != 2) return false;
  ProtoWire range(segment.bytes());
  if (!segment.ok || !segment.done()) return false;
  start = stop = 0;
  while (range.next()) {
    if (range.wire != 0 || range.field > kStop) return false;
    (range.field == kStart ? start : stop) = range.varint();
  }
  return range.ok && start <= stop && stop - start <= UINT32_MAX;
}

std::tuple<Owned<uint64_t>, Owned<int64_t>> row_id_ranges(const Bytes& content,
                                                          const In<int64_t>& stops,
                                                          const In<int64_t>& sizes) {
  const int64_t count = std::ssize(stops);
  if (sizes.size() != stops.size()) corrupt("row ids: other numbers of stops and sizes");
  Owned<uint64_t> firsts(count);
  Owned<int64_t> counts(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t stop = stops.data()[i], size = sizes.data()[i];
    if (size < 0 || stop < size || stop > std::ssize(content))
      corrupt("row ids: records beyond their bytes");
    ProtoWire record(
        text_of(content).substr(static_cast<size_t>(stop - size), static_cast<size_t>(size)));
    uint64_t first = 0, last = 0;
    int num_sequences = 0;
    bool is_range = false;
    while (record.next()) {
      num_sequences +=
          record.field == kRowIds || record.field == kExternal || record.field == kColumn;
      if (record.field == kRowIds && record.wire == 2)
        is_range = read_range(record.bytes(), first, last);
      else
        record.skip();
    }
    is_range &= record.ok && num_sequences == 1;
    firsts[i] = is_range ? first : 0;
    counts[i] = is_range ? static_cast<int64_t>(last - first) : kNone;
  }
  return {std::move(firsts), std::move(counts)};
}

constexpr size_t kFooter = 16, kLength = 4;  // bytes behind the message, and in front of it
constexpr std::string_view kMagic = "LANC";
constexpr uint32_t kVersion = 3, kTimestamp = 7, kReader = 9, kWriter = 10, kWriterVersion = 13,
                   kMaxFieldId = 24;  // of Manifest
constexpr uint32_t kSeconds = 1, kNanos = 2;  // of Timestamp
constexpr int64_t kColumnsOfTotals = 14;

// Totals of one manifest, in the order of the result's columns.
struct Totals {
  uint64_t is_usual = 0, version = 0, has_time = 0, seconds = 0, nanos = 0, reader = 0, writer = 0,
           has_max_field_id = 0, fragments = 0, files = 0, file_bytes = 0, deletion_files = 0,
           deleted_rows = 0, rows = 0;

  void write(int64_t* out) const {
    const uint64_t values[] = {is_usual,   version,        has_time,         seconds,   nanos,
                               reader,     writer,         has_max_field_id, fragments, files,
                               file_bytes, deletion_files, deleted_rows,     rows};
    static_assert(sizeof(values) == kColumnsOfTotals * sizeof(int64_t));
    for (int64_t i = 0; i < kColumnsOfTotals; ++i) out[i] = static_cast<int64_t>(values[i]);
  }
};

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
  if (!read_record(content, record, nullptr)) return false;
  const bool has_deletions = record.deleted != kNone;
  ++totals.fragments;
  totals.files += record.files;
  totals.deletion_files += has_deletions;
  return add(totals.file_bytes, record.file_bytes) && add(totals.rows, record.rows) &&
         add(totals.deleted_rows, has_deletions ? static_cast<uint64_t>(record.deleted) : 0);
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
      if (totals.has_time) return false;
      totals.has_time = 1;
      totals.seconds = number_in(time, kSeconds, ok);
      totals.nanos = number_in(time, kNanos, ok);
    } else if (wire.field == kVersion && is_number) {
      totals.version = wire.varint();
    } else if (wire.field == kReader && is_number) {
      totals.reader = wire.varint();
    } else if (wire.field == kWriter && is_number) {
      totals.writer = wire.varint();
    } else {
      has_writer = has_writer || wire.field == kWriterVersion;
      totals.has_max_field_id |= wire.field == kMaxFieldId;
      wire.skip();
    }
  }
  const uint64_t most = std::max({totals.version, totals.reader, totals.writer});
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

// `kColumnsOfTotals` numbers for each manifest; the first is 0 if it must be parsed as a whole.
Owned<int64_t> manifest_totals(const Bytes& content, const In<int64_t>& stops) {
  Owned<int64_t> out(std::ssize(stops) * kColumnsOfTotals);
  int64_t start = 0;
  for (int64_t i = 0; i < std::ssize(stops); ++i) {
    const int64_t stop = stops.data()[i];
    if (stop < start || stop > std::ssize(content))
      corrupt("manifests: their ends decrease or are beyond the bytes");
    Totals totals;
    totals.is_usual = read_totals(
        text_of(content).substr(static_cast<size_t>(start), static_cast<size_t>(stop - start)),
        totals);
    totals.write(&out[i * kColumnsOfTotals]);
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
  m.def("row_id_ranges", &row_id_ranges, "content"_a, "stops"_a, "sizes"_a, NoGil());
  m.def("manifest_totals", &manifest_totals, "content"_a, "stops"_a, NoGil());
}
