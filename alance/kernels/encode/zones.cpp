// Statistics buffer of a file: zone maps of its columns. Source: docs/statistics.md.
#include "encode/zones.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/bounds.hpp"
#include "encode/container.hpp"
#include "encode/encode_chunks.hpp"

namespace alance {
namespace {

constexpr std::string_view kHalf = "f2";  // whose bounds are floats while they are collected
constexpr uint8_t kHasLow = 1, kHasHigh = 2, kHasValues = 4, kHasNans = 8;
constexpr size_t kHeaderBytes = 32, kEntryBytes = 40;
// Blocks of at most so many bytes are stored uncompressed: one zone of any column.
constexpr size_t kStoredBytes = 80;
constexpr int32_t kLevel = 1;  // of zlib

// Upper bound of a text in at most `limit` bytes; empty if it would be above 0xFF alone.
std::string rounded_up(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  std::string cut = text.substr(0, limit);
  while (!cut.empty() && cut.back() == static_cast<char>(0xFF)) cut.pop_back();
  if (!cut.empty()) cut.back() = static_cast<char>(cut.back() + 1);
  return cut;
}

struct Bounds {
  std::string low, high;
  uint8_t flags;
};

Bounds bounds_of(const Zones& zones, const Zone& zone, size_t limit) {
  const NumberKind* kind = zones.is_text() ? nullptr : &kNumberKinds[zones.kind()];
  Bounds bounds{{}, {}, zone.nans ? kHasNans : uint8_t{0}};
  if (zone.has_bounds) bounds.flags |= kHasValues | kHasLow | kHasHigh;
  if (!kind) {
    bounds.low = zone.low.substr(0, limit);
    bounds.high = rounded_up(zone.high, limit);
    if (bounds.high.empty() && !zone.high.empty())
      bounds.flags = static_cast<uint8_t>(bounds.flags & ~kHasHigh);
  } else if (!zone.has_bounds) {
    bounds.low = bounds.high = std::string(static_cast<size_t>((kind->bits + 7) / 8), '\0');
  } else if (kind->name == kHalf) {
    float low, high;
    std::memcpy(&low, zone.low.data(), sizeof low);
    std::memcpy(&high, zone.high.data(), sizeof high);
    append(bounds.low, static_cast<_Float16>(low));
    append(bounds.high, static_cast<_Float16>(high));
  } else {
    bounds.low = zone.low;
    bounds.high = zone.high;
  }
  return bounds;
}

// Zlib stream of a stored block (RFC 1950, 1951): so few bytes do not become smaller.
std::string stored(const std::string& raw) {
  uint32_t a = 1, b = 0;
  for (const char byte : raw) {
    a = (a + static_cast<uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  std::string out("\x78\x01\x01", 3);
  append(out, static_cast<uint16_t>(raw.size()));
  append(out, static_cast<uint16_t>(~raw.size()));
  append(out += raw, __builtin_bswap32(b << 16 | a));
  return out;
}

// Zones of a column before compression.
std::string raw_block(const Zones& zones, size_t limit) {
  std::string nulls, flags, low_sizes, high_sizes, lows, highs;
  for (const Zone& zone : zones.all()) {
    const Bounds bounds = bounds_of(zones, zone, limit);
    append(nulls, static_cast<uint32_t>(zone.nulls));
    append(flags, bounds.flags);
    if (zones.is_text()) {
      append(low_sizes, static_cast<uint8_t>(bounds.low.size()));
      append(high_sizes, static_cast<uint8_t>(bounds.high.size()));
    }
    lows += bounds.low;
    highs += bounds.high;
  }
  return nulls + flags + low_sizes + high_sizes + lows + highs;
}

ALANCE_INLINE void widen_halves(const uint8_t* halves, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<_Float16>(halves + 2 * i));
}

// Part of the buffer for one column.
struct Entry {
  const Zones& zones;
  Zone whole;
  Bounds bounds;
  size_t raw_bytes;
  std::string block;
};

Entry entry_of(const Zones& zones, const pages::Compress& compress) {
  Zone whole = zones.whole();
  for (size_t limit = kTextBytes;; limit /= 2) {
    const std::string raw = raw_block(zones, limit);
    const bool is_stored = raw.size() <= kStoredBytes;
    std::string block = is_stored ? stored(raw) : compress(pages::bytes_of(raw), kLevel);
    // Text bounds that do not compress are halved, once.
    const bool is_long = block.size() > 3 * limit / 2 * zones.all().size();
    if (zones.is_text() && !is_stored && is_long && limit == kTextBytes) continue;
    Bounds bounds = bounds_of(zones, whole, limit);
    return {zones, std::move(whole), std::move(bounds), raw.size(), std::move(block)};
  }
}

}  // namespace

Zones::Zones(uint32_t column, const std::string& kind, int64_t zone_rows, size_t max_zones)
    : column_(column), zone_rows_(zone_rows), max_zones_(max_zones) {
  if (zone_rows < 1 || max_zones < 1) corrupt("zones of no rows");
  if (kind == "s") return;
  for (kind_ = 0; kind_ < kNumNumberKinds; ++kind_)
    if (kNumberKinds[kind_].name == kind) return;
  corrupt("zones of values of kind ", kind);
}

void Zones::add(const pages::Values& values, const uint8_t* valid) {
  const int64_t count = values.count;
  if (is_text()) {
    const auto* view = std::get_if<pages::StringsView>(&values.kind);
    if (!view) corrupt("zones: other values than texts");
    return pages::with_strings(*view, count, [&](const auto& texts) {
      add_rows(count, [&](int64_t first, int64_t stop) {
        const uint8_t* end = texts.content + texts.num_bytes;
        return scan_texts(texts.ends, texts.content, end, valid, first, stop);
      });
    });
  }
  const NumberKind& kind = kNumberKinds[kind_];
  const auto* fixed = std::get_if<FixedIn>(&values.kind);
  if (!fixed || fixed->bits != kind.bits)
    corrupt("zones: other values than numbers of ", kind.bits, " bits");
  const uint8_t* data = fixed->data.data();
  if (kind.bits == 1)
    return add_rows(count, [&](int64_t first, int64_t stop) {
      return scan_bits(data, valid, first, stop);
    });
  std::vector<float> floats;
  if (kind.name == kHalf) {
    floats.resize(static_cast<size_t>(count));
    Versions<widen_halves>::best()(data, count, floats.data());
    data = reinterpret_cast<const uint8_t*>(floats.data());
  }
  add_rows(count, [&](int64_t first, int64_t stop) {
    return kind.scan(data + first * kind.width, valid ? valid + first : nullptr, stop - first);
  });
}

void Zones::merge(Zone& zone, const Zone& other) const {
  zone.num_rows += other.num_rows;
  zone.nulls += other.nulls;
  zone.nans += other.nans;
  if (!other.has_bounds) return;
  const auto is_less = [&](const std::string& a, const std::string& b) {
    return is_text() ? a < b : kNumberKinds[kind_].is_less(a, b);
  };
  if (!zone.has_bounds || is_less(other.low, zone.low)) zone.low = other.low;
  if (!zone.has_bounds || is_less(zone.high, other.high)) zone.high = other.high;
  zone.has_bounds = true;
}

void Zones::widen() {
  for (size_t i = 0; i < zones_.size(); i += 2) {
    if (i + 1 < zones_.size()) merge(zones_[i], zones_[i + 1]);
    if (i) zones_[i / 2] = std::move(zones_[i]);
  }
  zones_.resize((zones_.size() + 1) / 2);
  zone_rows_ *= 2;
}

Zone Zones::whole() const {
  Zone whole;
  for (const Zone& zone : zones_) merge(whole, zone);
  return whole;
}

std::string statistics_buffer(const std::vector<Zones*>& all_zones, const pages::Compress& compress) {
  int64_t zone_rows = 0;
  for (const Zones* zones : all_zones)
    if (!zones->all().empty()) zone_rows = std::max(zone_rows, zones->zone_rows());
  if (!zone_rows) return {};
  std::vector<Entry> columns;
  columns.reserve(all_zones.size());
  std::string bounds;
  for (Zones* zones : all_zones) {
    if (zones->all().empty()) continue;
    while (zones->zone_rows() < zone_rows) zones->widen();
    columns.push_back(entry_of(*zones, compress));
    bounds += columns.back().bounds.low + columns.back().bounds.high;
  }
  const size_t head_bytes = kHeaderBytes + kEntryBytes * columns.size() + bounds.size() + 4;
  std::string out = "alancest";
  append(out, uint16_t{1});
  append(out, uint16_t{0});
  append(out, static_cast<uint32_t>(zone_rows));
  append(out, static_cast<uint64_t>(columns[0].whole.num_rows));
  append(out, static_cast<uint32_t>(columns.size()));
  append(out, static_cast<uint32_t>(head_bytes));
  size_t place = head_bytes;
  for (const Entry& entry : columns) {
    append(out, entry.zones.column());
    append(out, entry.zones.kind());
    append(out, entry.bounds.flags);
    append(out, static_cast<uint16_t>(entry.bounds.low.size()));
    append(out, static_cast<uint16_t>(entry.bounds.high.size()));
    append(out, uint16_t{0});
    append(out, static_cast<uint32_t>(entry.raw_bytes));
    append(out, static_cast<uint64_t>(entry.whole.nulls));
    append(out, static_cast<uint32_t>(place));
    append(out, static_cast<uint32_t>(entry.block.size()));
    append(out, crc_of(entry.block));
    append(out, uint32_t{0});
    place += entry.block.size();
  }
  out += bounds;
  append(out, crc_of(out));
  for (const Entry& entry : columns) out += entry.block;
  return out;
}

namespace {

// Add the next rows; `valid` has a byte a row, and is None if all rows are valid.
void add(Zones& zones, nb::handle item, const std::optional<Bytes>& valid) {
  pages::Arrays arrays;
  const pages::Values values = pages::values_of(item, arrays);
  if (valid && std::ssize(*valid) != values.count)
    corrupt("zones: validity of ", valid->size(), " of ", values.count, " values");
  nb::gil_scoped_release release;
  zones.add(values, valid ? valid->data() : nullptr);
}

nb::bytes buffer_of(const std::vector<Zones*>& columns, nb::callable compress) {
  const std::string content = statistics_buffer(columns, pages::compress_of(std::move(compress)));
  return nb::bytes(content.data(), content.size());
}

}  // namespace
}  // namespace alance

void register_zones(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Zones>(m, "Zones")
      .def(nb::init<uint32_t, const std::string&, int64_t, size_t>(), "column"_a, "kind"_a,
           "zone_rows"_a, "max_zones"_a)
      .def("add", &add, "values"_a, "valid"_a = nb::none());
  m.def("statistics_buffer", &buffer_of, "columns"_a, "compress"_a);
}
