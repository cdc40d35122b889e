// The fragments of a manifest, from its wire form to flat tables: where the record of each is, and
// what all readers ask of all fragments.
//
// Records of more than the usual fields give None: the caller then parses the message as a whole,
// which knows more and says what is wrong.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "owned.hpp"
#include "proto_wire.hpp"

namespace alance {
namespace {

constexpr uint32_t kFragments = 2;  // of Manifest
constexpr uint32_t kId = 1, kFiles = 2, kDeletions = 3, kRows = 4, kRowIds = 5, kUpdated = 7,
                   kCreated = 9;                                  // of DataFragment
constexpr uint32_t kPath = 1, kFields = 2, kColumns = 3, kBase = 7;  // of DataFile
constexpr uint32_t kNumDeleted = 4, kDeletionBase = 7;               // of DeletionFile
constexpr int64_t kNone = -1;

struct Record {
  int64_t start, stop;
  uint64_t id = 0, rows = 0;
  int64_t deleted = kNone;  // rows; 0: not told; -1: there is no deletion file
};

bool is_ascii(std::string_view text) {
  uint8_t all = 0;
  for (const char one : text) all |= static_cast<uint8_t>(one);
  return all < 0x80;
}

bool is_usual_file(std::string_view content) {
  ProtoWire wire(content);
  while (wire.next()) {
    if (wire.field == kPath) {
      if (wire.wire != 2 || !is_ascii(wire.bytes())) return false;
    } else if (wire.field == kFields || wire.field == kColumns) {
      wire.numbers([](uint64_t) {});
    } else if (wire.wire == 0 && wire.field <= kBase) {
      wire.varint();
    } else {
      return false;
    }
  }
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

bool read_record(std::string_view content, Record& record) {
  ProtoWire wire(content);
  while (wire.next()) {
    const bool is_number = wire.field == kId || wire.field == kRows;
    if (is_number != (wire.wire == 0)) return false;
    switch (wire.field) {
      case kId: record.id = wire.varint(); break;
      case kRows: record.rows = wire.varint(); break;
      case kFiles:
        if (!is_usual_file(wire.bytes())) return false;
        break;
      case kDeletions:
        if (record.deleted != kNone || !read_deletions(wire.bytes(), record)) return false;
        break;
      case kRowIds:
      case kUpdated:
      case kCreated: wire.bytes(); break;
      default: return false;
    }
  }
  return wire.ok;
}

// The records of all fragments, and the rest of the message; false: something is unusual.
bool read_manifest(std::string_view content, std::vector<Record>& records, std::string& rest) {
  const auto* begin = reinterpret_cast<const uint8_t*>(content.data());
  ProtoWire wire(content);
  while (true) {
    const uint8_t* from = wire.position();
    if (!wire.next()) return wire.ok;
    if (wire.field == kFragments) {
      if (wire.wire != 2) return false;
      const std::string_view part = wire.bytes();
      if (!wire.ok) return false;
      const int64_t stop = wire.position() - begin;
      Record record{stop - static_cast<int64_t>(part.size()), stop};
      if (!read_record(part, record)) return false;
      records.push_back(record);
    } else {
      wire.skip();
      rest.append(reinterpret_cast<const char*>(from),
                  static_cast<size_t>(wire.position() - from));
    }
  }
}

template <typename T, typename Of>
Numpy<T> column(const std::vector<Record>& records, Of of) {
  Owned<T> found(static_cast<int64_t>(records.size()));
  for (size_t i = 0; i < records.size(); ++i) found[static_cast<int64_t>(i)] = of(records[i]);
  return found.numpy();
}

// (the message without its fragments; of each fragment where its record starts and stops, its id,
// physical rows, deleted rows: 0 not told, -1 none). None: parse the message as a whole.
nb::object manifest_fragments(const Bytes& content) {
  std::vector<Record> records;
  std::string rest;
  bool usual;
  {
    nb::gil_scoped_release release;
    usual = read_manifest({reinterpret_cast<const char*>(content.data()), content.size()}, records,
                          rest);
  }
  if (!usual) return nb::none();
  return nb::make_tuple(
      nb::bytes(rest.data(), rest.size()),
      column<int64_t>(records, [](const Record& one) { return one.start; }),
      column<int64_t>(records, [](const Record& one) { return one.stop; }),
      column<uint64_t>(records, [](const Record& one) { return one.id; }),
      column<uint64_t>(records, [](const Record& one) { return one.rows; }),
      column<int64_t>(records, [](const Record& one) { return one.deleted; }));
}

}  // namespace
}  // namespace alance

void register_manifest_fragments(nanobind::module_& m) {
  m.def("manifest_fragments", &alance::manifest_fragments, nanobind::arg("content"));
}
