// Statistics of fixed-width values for the choice of a codec, in one pass: runs and bit widths.
#include <bit>

#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kBlockValues = 1024;  // values of one bit-packed block

ALANCE_CLONES uint64_t either_words(const uint8_t* data, int64_t num_words) {
  uint64_t all = 0;
  for (int64_t i = 0; i < num_words; ++i) all |= load<uint64_t>(data + 8 * i);
  return all;
}

// Number of neighbours that differ among `count` + 1 values.
template <typename T>
ALANCE_INLINE int64_t count_changes(const uint8_t* data, int64_t count) {
  int64_t total = 0;
  while (count > 0) {
    const int64_t part = std::min<int64_t>(count, 128);
    T sum = 0;  // as wide as the values: the compiler vectorises the loop
    for (int64_t i = 0; i < part; ++i) {
      const uint8_t* at = data + i * static_cast<int64_t>(sizeof(T));
      sum = static_cast<T>(sum + (load<T>(at) != load<T>(at + sizeof(T))));
    }
    total += static_cast<int64_t>(sum);
    data += part * static_cast<int64_t>(sizeof(T));
    count -= part;
  }
  return total;
}

}  // namespace

ValueCosts costs_of(const uint8_t* data, int64_t num_values, int bits) {
  const int64_t value_bytes = bits / 8;
  const auto changes =
      by_width(bits, [](auto word) { return Versions<count_changes<decltype(word)>>::best(); });
  ValueCosts costs{0, num_values > 0};
  for (int64_t first = 0; first < num_values; first += kBlockValues) {
    const int64_t count = std::min(kBlockValues, num_values - first);
    const uint8_t* in = data + first * value_bytes;
    const int width = std::bit_width(either(in, count * value_bytes, bits));
    costs.packed_bytes += value_bytes + kBlockValues / 8 * width;
    costs.num_runs += changes(in, std::min(count, num_values - first - 1));
  }
  return costs;
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
