// Totals of versions for listings: number, time, flags, and sums over the fragments. One call reads
// many manifests, and skips their schemas, indices and transactions.
#include <algorithm>
#include <cstring>

#include "base/owned.hpp"
#include "base/proto_wire.hpp"

namespace alance {
namespace {

constexpr size_t kFooter = 16, kLength = 4;  // bytes behind the message, and in front of it
constexpr std::string_view kMagic = "LANC";
// Fields of Manifest.
constexpr uint32_t kFragments = 2, kVersion = 3, kTimestamp = 7, kReader = 9, kWriter = 10,
                   kWriterVersion = 13, kMaxFieldId = 24;
constexpr uint32_t kFiles = 2, kDeletions = 3, kRows = 4;  // of DataFragment
constexpr uint32_t kSize = 6;                              // of DataFile
constexpr uint32_t kDeleted = 4;                           // of DeletionFile
constexpr uint32_t kSeconds = 1, kNanos = 2;               // of Timestamp
constexpr int64_t kColumns = 14;

// Totals of one manifest, in the order of the result's columns.
struct Totals {
  uint64_t is_usual = 0, version = 0, has_time = 0, seconds = 0, nanos = 0, reader = 0, writer = 0,
           has_max_field_id = 0, fragments = 0, files = 0, file_bytes = 0, deletion_files = 0,
           deleted_rows = 0, rows = 0;

  void write(int64_t* out) const {
    const uint64_t values[] = {is_usual,  version,    has_time,         seconds,      nanos,
                               reader,    writer,     has_max_field_id, fragments,    files,
                               file_bytes, deletion_files, deleted_rows,     rows};
    static_assert(sizeof(values) == kColumns * sizeof(int64_t));
    for (int64_t i = 0; i < kColumns; ++i) out[i] = static_cast<int64_t>(values[i]);
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

bool add(uint64_t& total, uint64_t value) {
  total += value;
  return value <= INT64_MAX && total <= INT64_MAX;
}

bool read_fragment(std::string_view record, Totals& totals) {
  ProtoWire wire(record);
  uint64_t rows = 0, deleted = 0;
  bool has_deletions = false, ok = true;
  while (wire.next()) {
    if (wire.field == kFiles && wire.wire == 2) {
      ++totals.files;
      ok = ok && add(totals.file_bytes, number_in(wire.bytes(), kSize, ok));
    } else if (wire.field == kDeletions && wire.wire == 2) {
      if (has_deletions) return false;
      has_deletions = true;
      deleted = number_in(wire.bytes(), kDeleted, ok);
    } else if (wire.field == kRows && wire.wire == 0) {
      rows = wire.varint();
    } else {
      wire.skip();
    }
  }
  ++totals.fragments;
  totals.deletion_files += has_deletions;
  return ok && wire.ok && add(totals.rows, rows) && add(totals.deleted_rows, deleted);
}

// Read a manifest's message; false if anything is unusual or wrong, and Python has to parse it.
bool read_message(std::string_view message, Totals& totals) {
  ProtoWire wire(message);
  bool has_writer = false, ok = true;
  while (wire.next()) {
    const bool is_number = wire.wire == 0;
    if (wire.field == kFragments && !is_number) {
      if (!read_fragment(wire.bytes(), totals)) return false;
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

bool read_manifest(std::string_view content, Totals& totals) {
  if (content.size() < kFooter + kLength) return false;
  const std::string_view footer = content.substr(content.size() - kFooter);
  if (footer.substr(kFooter - kMagic.size()) != kMagic) return false;
  uint64_t position = 0;
  uint32_t length = 0;
  std::memcpy(&position, footer.data(), sizeof(position));
  const size_t most = content.size() - kFooter - kLength;
  if (position > most) return false;
  std::memcpy(&length, content.data() + position, sizeof(length));
  if (length != most - position) return false;
  return read_message(content.substr(static_cast<size_t>(position) + kLength, length), totals);
}

// `kColumns` numbers for each manifest; the first is 0 if it must be parsed as a whole.
Numpy<int64_t> manifest_totals(const Bytes& content, const In<int64_t>& stops) {
  const auto count = static_cast<int64_t>(stops.size());
  Owned<int64_t> out(count * kColumns);
  {
    nb::gil_scoped_release release;
    int64_t start = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t stop = stops.data()[i];
      if (stop < start || static_cast<size_t>(stop) > content.size())
        corrupt("manifests: their ends decrease or are beyond the bytes");
      Totals totals;
      const std::string_view bytes(reinterpret_cast<const char*>(content.data()) + start,
                                   static_cast<size_t>(stop - start));
      totals.is_usual = read_manifest(bytes, totals);
      totals.write(&out[i * kColumns]);
      start = stop;
    }
  }
  return out.numpy();
}

}  // namespace
}  // namespace alance

void register_manifest_totals(nanobind::module_& m) {
  m.def("manifest_totals", &alance::manifest_totals, nanobind::arg("content"),
        nanobind::arg("stops"));
}
