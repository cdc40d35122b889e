// Fragments of a manifest, from the protobuf wire format to flat tables: the record of each, the
// facts that all readers need of all fragments, and their forms.
//
// Fragments have the same form if their records differ only in ids, row counts, names and sizes of
// files, and row ids. The form is a record without these. A table of many thousand fragments has a
// few forms.
//
// Records with unusual fields give None: the caller then parses the message as a whole, which knows
// more fields and has precise errors.
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/owned.hpp"
#include "base/proto_wire.hpp"
#include "base/text_hash.hpp"

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
  uint64_t file_bytes = 0;  // of the files whose size is recorded
  int64_t deleted = kNone;  // rows; 0: not recorded; kNone: no deletion file
  int32_t form = 0;
};

struct Table {
  std::string rest;     // the message without its fragments
  std::string content;  // the fragments alone, as fields of the message
  std::vector<Record> records;
  std::vector<std::string> forms;
};

bool is_ascii(std::string_view text) {
  uint8_t all = 0;
  for (const char letter : text) all |= static_cast<uint8_t>(letter);
  return all < 0x80;
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_bytes(std::string& out, uint32_t field, std::string_view content) {
  append_varint(out, uint64_t{field} << 3 | 2);
  append_varint(out, content.size());
  out.append(content);
}

std::string_view between(const uint8_t* start, const uint8_t* stop) {
  return {reinterpret_cast<const char*>(start), static_cast<size_t>(stop - start)};
}

// Check a file, add its size, and append what belongs to the form of its fragment.
bool read_file(std::string_view content, Record& record, std::string& form) {
  ProtoWire wire(content);
  while (true) {
    const uint8_t* from = wire.position();
    if (!wire.next()) return wire.ok;
    if (wire.field == kPath) {
      if (wire.wire != 2 || !is_ascii(wire.bytes())) return false;
      continue;
    }
    if (wire.field == kFields || wire.field == kColumns) {
      wire.numbers([](uint64_t) {});
    } else if (wire.wire == 0 && wire.field <= kBase) {
      const uint64_t value = wire.varint();
      if (wire.field == kSize) {
        record.file_bytes += value;
        continue;
      }
    } else {
      return false;
    }
    if (!wire.ok) return false;
    form.append(between(from, wire.position()));
  }
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

// Read a record and make its form; `file` is scratch memory for the form of a file.
bool read_record(std::string_view content, Record& record, std::string& form, std::string& file) {
  ProtoWire wire(content);
  while (wire.next()) {
    const bool is_number = wire.field == kId || wire.field == kRows;
    if (is_number != (wire.wire == 0)) return false;
    switch (wire.field) {
      case kId: record.id = wire.varint(); break;
      case kRows: record.rows = wire.varint(); break;
      case kFiles:
        file.clear();
        if (!read_file(wire.bytes(), record, file)) return false;
        append_bytes(form, kFiles, file);
        break;
      case kDeletions:
        if (record.deleted != kNone || !read_deletions(wire.bytes(), record)) return false;
        append_bytes(form, kDeletions, {});
        break;
      case kRowIds:
      case kUpdated:
      case kCreated:
        wire.bytes();
        append_bytes(form, wire.field, {});
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
  std::string form, file;
  while (true) {
    const uint8_t* from = wire.position();
    if (!wire.next()) return wire.ok;
    if (wire.field != kFragments) {
      wire.skip();
      if (wire.ok) table.rest.append(between(from, wire.position()));
      continue;
    }
    if (wire.wire != 2) return false;
    const std::string_view part = wire.bytes();
    if (!wire.ok) return false;
    Record record;
    form.clear();
    if (!read_record(part, record, form, file)) return false;
    append_bytes(table.content, kFragments, part);
    record.stop = static_cast<int64_t>(table.content.size());
    record.num_bytes = static_cast<int64_t>(part.size());
    record.form = forms.number_of(form);
    table.records.push_back(record);
  }
}

template <typename T, typename Of>
Numpy<T> column(const std::vector<Record>& records, Of of) {
  Owned<T> values(static_cast<int64_t>(records.size()));
  for (size_t i = 0; i < records.size(); ++i) values[static_cast<int64_t>(i)] = of(records[i]);
  return values.numpy();
}

// (the message without its fragments; the fragments as fields of the message, one after the other;
// for each fragment the end of its field, the bytes of its record, id, physical rows, deleted rows
// (0: not recorded; -1: no deletion file), bytes of its files, number of its form; the forms).
// None: parse the message as a whole.
nb::object manifest_fragments(const Bytes& message) {
  Table table;
  bool usual;
  {
    nb::gil_scoped_release release;
    usual = read_manifest({reinterpret_cast<const char*>(message.data()), message.size()}, table);
  }
  if (!usual) return nb::none();
  nb::list forms;
  for (const std::string& form : table.forms) forms.append(nb::bytes(form.data(), form.size()));
  const std::vector<Record>& records = table.records;
  return nb::make_tuple(
      nb::bytes(table.rest.data(), table.rest.size()),
      nb::bytes(table.content.data(), table.content.size()),
      column<int64_t>(records, [](const Record& record) { return record.stop; }),
      column<int64_t>(records, [](const Record& record) { return record.num_bytes; }),
      column<uint64_t>(records, [](const Record& record) { return record.id; }),
      column<uint64_t>(records, [](const Record& record) { return record.rows; }),
      column<int64_t>(records, [](const Record& record) { return record.deleted; }),
      column<uint64_t>(records, [](const Record& record) { return record.file_bytes; }),
      column<int32_t>(records, [](const Record& record) { return record.form; }), forms);
}

// Append the record of a file with its own base path, or else with number `base`. Without `base`,
// the record gets no base path, and loses its own.
void append_based(std::string& out, uint32_t field, std::string_view file, uint32_t base_field,
                  std::optional<uint32_t> base) {
  std::string content;
  ProtoWire wire(file);
  bool has_base = false;
  while (true) {
    const uint8_t* from = wire.position();
    if (!wire.next()) break;
    const bool is_base = wire.field == base_field;
    wire.skip();
    has_base |= is_base;
    if (wire.ok && (base || !is_base)) content.append(between(from, wire.position()));
  }
  if (!wire.ok) corrupt("fragments: the record of a file is cut short, or has fields of other kinds");
  if (base && !has_base) {
    append_varint(content, uint64_t{base_field} << 3);
    append_varint(content, *base);
  }
  append_bytes(out, field, content);
}

// Records of fragments, as fields of a manifest, with all their files as in `append_based`.
nb::bytes based_fragments(const Bytes& content, std::optional<uint32_t> base) {
  std::string out, record;
  {
    nb::gil_scoped_release release;
    ProtoWire fields({reinterpret_cast<const char*>(content.data()), content.size()});
    while (fields.next()) {
      if (fields.field != kFragments || fields.wire != 2) corrupt("fragments: other fields");
      ProtoWire wire(fields.bytes());
      record.clear();
      while (fields.ok) {
        const uint8_t* from = wire.position();
        if (!wire.next()) break;
        const bool is_file = wire.wire == 2 && (wire.field == kFiles || wire.field == kDeletions);
        if (is_file) {
          const uint32_t field = wire.field;
          const std::string_view file = wire.bytes();
          if (wire.ok)
            append_based(record, field, file, field == kFiles ? kBase : kDeletionBase, base);
        } else {
          wire.skip();
          if (wire.ok) record.append(between(from, wire.position()));
        }
      }
      if (!wire.ok) corrupt("fragments: a record is cut short, or has fields of other kinds");
      append_bytes(out, kFragments, record);
    }
    if (!fields.ok) corrupt("fragments: the last one is cut short");
  }
  return nb::bytes(out.data(), out.size());
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

// (first row id of each fragment; number of its row ids, if they are one range, else -1: read the
// record itself).
nb::tuple row_id_ranges(const Bytes& content, const In<int64_t>& stops, const In<int64_t>& sizes) {
  const int64_t count = static_cast<int64_t>(stops.size());
  if (sizes.size() != stops.size()) corrupt("row ids: other numbers of stops and sizes");
  Owned<uint64_t> firsts(count);
  Owned<int64_t> counts(count);
  {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t stop = stops.data()[i], size = sizes.data()[i];
      if (size < 0 || stop < size || static_cast<size_t>(stop) > content.size())
        corrupt("row ids: records beyond their bytes");
      ProtoWire record({reinterpret_cast<const char*>(content.data()) + stop - size,
                        static_cast<size_t>(size)});
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
  }
  return nb::make_tuple(firsts.numpy(), counts.numpy());
}

}  // namespace
}  // namespace alance

void register_manifest_fragments(nanobind::module_& m) {
  m.def("manifest_fragments", &alance::manifest_fragments, nanobind::arg("message"));
  m.def("based_fragments", &alance::based_fragments, nanobind::arg("content"),
        nanobind::arg("base").none());
  m.def("row_id_ranges", &alance::row_id_ranges, nanobind::arg("content"),
        nanobind::arg("stops"), nanobind::arg("sizes"));
}
