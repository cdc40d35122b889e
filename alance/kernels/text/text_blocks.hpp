// Numbers in posting lists: varints, and bit-packed blocks of 128 or 256 values in lanes.
//
// Value i of a block is number i / L of lane i mod L, where L is 4 lanes for 128 values and 8 for
// 256. A lane is a stream of `width` 32-bit words, lowest bits first; the words of the lanes
// alternate.
//
// Source: D. Lemire, L. Boytsov, "Decoding Billions of Integers per Second through Vectorization",
// 2015; docs/format/search-indices.md, "`part_N_invert.lance`".
#pragma once
#include <bit>
#include <vector>

#include "base/bounds.hpp"

namespace alance::text {

constexpr int64_t kLaneValues = 32;
constexpr int64_t kMaxBlock = 256;

// Weight of a token in a document (BM25), without the token's own factor (idf).
inline float weight_of(float frequency, float length, float mean_length) {
  constexpr float kK1 = 1.2f, kB = 0.75f;
  const float norm = kK1 * (1 - kB + kB * length / mean_length);
  return (kK1 + 1) * frequency / (frequency + norm);
}

template <int L>
inline void unpack_block(const uint8_t* in, unsigned width, uint32_t* out) {
  const uint32_t mask = width == 32 ? ~0u : (1u << width) - 1;
  for (unsigned i = 0; i < kLaneValues; ++i) {
    const unsigned bit = i * width, word = bit / 32, shift = bit % 32;
    for (int lane = 0; lane < L; ++lane) {
      uint32_t value = width ? load<uint32_t>(in + 4 * (word * L + lane)) >> shift : 0;
      if (shift + width > 32)
        value |= load<uint32_t>(in + 4 * ((word + 1) * L + lane)) << (32 - shift);
      out[i * L + lane] = value & mask;
    }
  }
}

// Append the width, one byte, and 128 packed values.
inline void pack_block(const uint32_t* values, std::vector<uint8_t>& out) {
  uint32_t all = 0;
  for (int i = 0; i < 128; ++i) all |= values[i];
  const unsigned width = static_cast<unsigned>(std::bit_width(all));
  out.push_back(static_cast<uint8_t>(width));
  uint32_t words[4 * 32] = {};
  for (unsigned i = 0; width && i < kLaneValues; ++i) {
    const unsigned bit = i * width, word = bit / 32, shift = bit % 32;
    for (unsigned lane = 0; lane < 4; ++lane) {
      const uint32_t value = values[i * 4 + lane];
      words[word * 4 + lane] |= value << shift;
      if (shift + width > 32) words[(word + 1) * 4 + lane] |= value >> (32 - shift);
    }
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(words);
  out.insert(out.end(), bytes, bytes + 16 * width);
}

inline void put_varint(uint64_t value, std::vector<uint8_t>& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<uint8_t>(value | 0x80));
  out.push_back(static_cast<uint8_t>(value));
}

inline void put_u32(uint32_t value, std::vector<uint8_t>& out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + 4);
}

// Checked reader of the numbers of a block.
class BlockReader {
 public:
  BlockReader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  bool is_done() const { return at_ == end_; }
  uint8_t byte() { return *take(1); }
  uint32_t u32() { return load<uint32_t>(take(4)); }

  uint32_t varint() {
    const uint64_t value = long_varint();
    if (value > UINT32_MAX) corrupt("text index: a number of more than 32 bits");
    return static_cast<uint32_t>(value);
  }

  // Varint of at most 35 bits.
  uint64_t long_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const uint8_t next = byte();
      value |= static_cast<uint64_t>(next & 0x7F) << shift;
      if (next < 0x80) return value;
    }
    corrupt("text index: a number of more than 32 bits");
  }

  // Unpack `count` values, 128 or 256.
  void block(unsigned width, int64_t count, uint32_t* out) {
    if (width > 32) corrupt("text index: numbers of ", width, " bits");
    const uint8_t* in = take(count / 8 * width);
    if (count == 128)
      unpack_block<4>(in, width, out);
    else
      unpack_block<8>(in, width, out);
  }

 private:
  const uint8_t* take(int64_t size) {
    if (end_ - at_ < size) corrupt("text index: a block ends too soon");
    const uint8_t* here = at_;
    at_ += size;
    return here;
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace alance::text
