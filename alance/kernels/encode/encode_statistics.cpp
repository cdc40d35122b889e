// Statistics of fixed-width values for the choice of a codec, in one pass: runs and bit widths.
#include <bit>

#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kBlockValues = 1024;  // values of one bit-packed block
constexpr int64_t kRunStretch = 4096;  // a run is cut into chunks of so many values
constexpr int64_t kRunPart = 255;  // and there into parts: the largest length of one byte

ALANCE_CLONES uint64_t either_words(const uint8_t* data, int64_t num_words) {
  uint64_t all = 0;
  for (int64_t i = 0; i < num_words; ++i) all |= load<uint64_t>(data + 8 * i);
  return all;
}

// Number of neighbours that differ among `count` + 1 values.
template <typename T, typename Sum>
inline int64_t count_changes(const uint8_t* data, int64_t count) {
  int64_t total = 0;
  while (count > 0) {
    const int64_t part = std::min<int64_t>(count, 128);
    Sum sum = 0;
    for (int64_t i = 0; i < part; ++i) {
      const uint8_t* at = data + i * static_cast<int64_t>(sizeof(T));
      sum = static_cast<Sum>(sum + (load<T>(at) != load<T>(at + sizeof(T))));
    }
    total += sum;
    data += part * static_cast<int64_t>(sizeof(T));
    count -= part;
  }
  return total;
}

ALANCE_CLONES int64_t changes_8(const uint8_t* data, int64_t count) {
  return count_changes<uint8_t, uint8_t>(data, count);
}
ALANCE_CLONES int64_t changes_16(const uint8_t* data, int64_t count) {
  return count_changes<uint16_t, uint16_t>(data, count);
}
ALANCE_CLONES int64_t changes_32(const uint8_t* data, int64_t count) {
  return count_changes<uint32_t, uint32_t>(data, count);
}
ALANCE_CLONES int64_t changes_64(const uint8_t* data, int64_t count) {
  return count_changes<uint64_t, uint64_t>(data, count);
}

int64_t changes(const uint8_t* data, int64_t count, int bits) {
  switch (bits) {
    case 8: return changes_8(data, count);
    case 16: return changes_16(data, count);
    case 32: return changes_32(data, count);
    default: return changes_64(data, count);
  }
}

// Returns the number of runs; calls `each` with the bit width of each 1024 values.
template <typename Each>
int64_t scan_blocks(const uint8_t* data, int64_t num_values, int bits, Each each) {
  const int64_t value_bytes = bits / 8;
  int64_t runs = num_values > 0;
  for (int64_t first = 0; first < num_values; first += kBlockValues) {
    const int64_t count = std::min(kBlockValues, num_values - first);
    const uint8_t* in = data + first * value_bytes;
    each(std::bit_width(either(in, count * value_bytes, bits)));
    runs += changes(in, std::min(count, num_values - first - 1), bits);
  }
  return runs;
}

template <typename T>
int64_t entries_of(const uint8_t* data, int64_t num_values, int64_t limit) {
  int64_t entries = 0;
  for (int64_t first = 0; first < num_values && entries <= limit;) {
    const T value = load<T>(data + first * static_cast<int64_t>(sizeof(T)));
    int64_t stop = first + 1;
    while (stop < num_values &&
           load<T>(data + stop * static_cast<int64_t>(sizeof(T))) == value)
      ++stop;
    const int64_t rest = (stop - first) % kRunStretch;
    entries += (stop - first) / kRunStretch * ((kRunStretch + kRunPart - 1) / kRunPart) +
               (rest + kRunPart - 1) / kRunPart;
    first = stop;
  }
  return entries;
}

// Number of one-byte run lengths that the values take; any number above `limit` if there are more.
int64_t run_entries(const uint8_t* data, int64_t num_values, int bits, int64_t limit) {
  return by_width(bits, [&](auto word) {
    return entries_of<decltype(word)>(data, num_values, limit);
  });
}

}  // namespace

ValueCosts costs_of(const uint8_t* data, int64_t num_values, int bits) {
  int64_t packed = 0;
  const int64_t runs = scan_blocks(data, num_values, bits, [&](int width) {
    packed += bits / 8 + kBlockValues / 8 * width;
  });
  return {packed, runs};
}

ChunkForm chunk_form(const uint8_t* data, int64_t num_values, int bits,
                     std::optional<double> most_runs) {
  const int64_t value_bytes = bits / 8, raw = num_values * value_bytes;
  const auto [packed, runs] = costs_of(data, num_values, bits);
  const bool packs = packed < raw;
  if (!num_values) return ChunkForm::kFlat;
  if (!most_runs || static_cast<double>(runs) < *most_runs * static_cast<double>(num_values)) {
    // On a tie runs beat bit-packing, and flat values beat both.
    const int64_t limit = (std::min(raw, packed) - !packs) / (value_bytes + 1);
    if (runs <= limit && run_entries(data, num_values, bits, limit) <= limit)
      return ChunkForm::kRuns;
  }
  return packs ? ChunkForm::kPacked : ChunkForm::kFlat;
}

uint64_t either(const uint8_t* data, int64_t num_bytes, int bits) {
  uint64_t all = either_words(data, num_bytes / 8), rest = 0;
  std::memcpy(&rest, data + num_bytes / 8 * 8, static_cast<size_t>(num_bytes % 8));
  all |= rest;
  for (int half = 32; half >= bits; half /= 2) all |= all >> half;
  return bits == 64 ? all : all & ((uint64_t{1} << bits) - 1);
}

}  // namespace alance
