// The statistics buffer of a file of few rows, which are one zone; docs/statistics.md.
#include <algorithm>
#include <array>

#include "small_page.hpp"

namespace alance::small {
namespace {

constexpr uint8_t HAS_LOW = 1, HAS_HIGH = 2, HAS_VALUES = 4, HAS_NANS = 8;
constexpr size_t TEXT_BYTES = 32;  // of a bound
constexpr uint32_t ZONE_ROWS = 8192;
constexpr size_t HEADER_BYTES = 32, ENTRY_BYTES = 40;

using Int128 = __int128;

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Each row that is not null, and how many of them are NaN.
template <typename T, typename At>
void bounds(const Rows& rows, Zone& zone, At at) {
  bool has_any = false;
  T low{}, high{};
  for (int64_t row = 0; row < rows.count; ++row) {
    if (rows.is_null(row)) continue;
    const T value = at(row);
    if (value != value) {
      zone.flags |= HAS_NANS;
      continue;
    }
    low = !has_any || value < low ? value : low;
    high = !has_any || value > high ? value : high;
    has_any = true;
  }
  if constexpr (std::is_floating_point_v<T>) {
    // The two zeros are equal here and not everywhere: the bounds hold both.
    if (low == 0) low = -T{0};
    if (high == 0) high = T{0};
  }
  if (has_any) {
    zone.flags |= HAS_VALUES | HAS_LOW | HAS_HIGH;
  } else {
    low = high = T{};
  }
  append(zone.low, low);
  append(zone.high, high);
}

template <typename T>
void numbers(const Rows& rows, Zone& zone) {
  const auto* values = reinterpret_cast<const uint8_t*>(rows.values.data());
  bounds<T>(rows, zone,
            [&](int64_t row) { return load<T>(values + row * static_cast<int64_t>(sizeof(T))); });
}

void texts(const Rows& rows, Zone& zone) {
  std::optional<std::string_view> low, high;
  for (int64_t row = 0; row < rows.count; ++row) {
    if (rows.is_null(row)) continue;
    const auto at = static_cast<size_t>(row);
    const auto text =
        std::string_view(rows.data)
            .substr(static_cast<size_t>(rows.ends[at]),
                    static_cast<size_t>(rows.ends[at + 1] - rows.ends[at]));
    if (!low || text < *low) low = text;
    if (!high || text > *high) high = text;
  }
  if (!low) return;
  zone.flags |= HAS_VALUES | HAS_LOW;
  zone.low = low->substr(0, TEXT_BYTES);
  if (high->size() <= TEXT_BYTES) {
    zone.high = *high;
    zone.flags |= HAS_HIGH;
    return;
  }
  // The shortest text of so many bytes that is no less; there is none above 0xFF alone.
  std::string cut(high->substr(0, TEXT_BYTES));
  while (!cut.empty() && cut.back() == static_cast<char>(0xFF)) cut.pop_back();
  if (cut.empty()) return;
  cut.back() = static_cast<char>(cut.back() + 1);
  zone.high = cut;
  zone.flags |= HAS_HIGH;
}

// The bytes as zlib stores them: what is so small does not become smaller.
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

std::string block_of(const Zone& zone, bool is_text, size_t& raw_bytes) {
  std::string raw;
  append(raw, static_cast<uint32_t>(zone.nulls));
  append(raw, zone.flags);
  if (is_text) {
    append(raw, static_cast<uint8_t>(zone.low.size()));
    append(raw, static_cast<uint8_t>(zone.high.size()));
  }
  raw += zone.low + zone.high;
  raw_bytes = raw.size();
  return stored(raw);
}

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    table[i] = value;
  }
  return table;
}

}  // namespace

uint32_t crc_of(std::string_view content) {
  static constexpr std::array<uint32_t, 256> table = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : content) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

Zone zone_of(const Rows& rows) {
  Zone zone{static_cast<uint64_t>(rows.count - rows.num_valid), 0, {}, {}};
  const auto* bits = reinterpret_cast<const uint8_t*>(rows.values.data());
  switch (rows.kind.number) {
    case 's': texts(rows, zone); break;
    case 'b':
      bounds<uint8_t>(rows, zone, [&](int64_t row) -> uint8_t {
        return bits[row / 8] >> (row % 8) & 1;
      });
      break;
    case 'f':
      rows.kind.bits == 32 ? numbers<float>(rows, zone) : numbers<double>(rows, zone);
      break;
    case 'u':
      switch (rows.kind.bits) {
        case 8: numbers<uint8_t>(rows, zone); break;
        case 16: numbers<uint16_t>(rows, zone); break;
        case 32: numbers<uint32_t>(rows, zone); break;
        default: numbers<uint64_t>(rows, zone);
      }
      break;
    default:
      switch (rows.kind.bits) {
        case 8: numbers<int8_t>(rows, zone); break;
        case 16: numbers<int16_t>(rows, zone); break;
        case 32: numbers<int32_t>(rows, zone); break;
        case 64: numbers<int64_t>(rows, zone); break;
        default: numbers<Int128>(rows, zone);
      }
  }
  return zone;
}

std::string statistics_of(const std::vector<Rows>& columns) {
  struct Entry {
    uint32_t column;
    const Rows* rows;
    Zone zone;
    std::string block;
    size_t raw;
  };
  std::vector<Entry> entries;
  std::string bounds;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i].kind.number) continue;
    Entry& entry = entries.emplace_back(
        Entry{static_cast<uint32_t>(i), &columns[i], zone_of(columns[i]), {}, 0});
    entry.block = block_of(entry.zone, columns[i].kind.number == 's', entry.raw);
    bounds += entry.zone.low + entry.zone.high;
  }
  if (entries.empty()) return {};
  const size_t head_bytes = HEADER_BYTES + ENTRY_BYTES * entries.size() + bounds.size() + 4;
  std::string out = "alancest";
  append(out, uint16_t{1});
  append(out, uint16_t{0});
  append(out, ZONE_ROWS);
  append(out, static_cast<uint64_t>(columns[0].count));
  append(out, static_cast<uint32_t>(entries.size()));
  append(out, static_cast<uint32_t>(head_bytes));
  size_t place = head_bytes;
  for (const Entry& entry : entries) {
    append(out, entry.column);
    append(out, entry.rows->kind.place);
    append(out, entry.zone.flags);
    append(out, static_cast<uint16_t>(entry.zone.low.size()));
    append(out, static_cast<uint16_t>(entry.zone.high.size()));
    append(out, uint16_t{0});
    append(out, static_cast<uint32_t>(entry.raw));
    append(out, entry.zone.nulls);
    append(out, static_cast<uint32_t>(place));
    append(out, static_cast<uint32_t>(entry.block.size()));
    append(out, crc_of(entry.block));
    append(out, uint32_t{0});
    place += entry.block.size();
  }
  out += bounds;
  append(out, crc_of(out));
  for (const Entry& entry : entries) out += entry.block;
  return out;
}

}  // namespace alance::small
