// Single values and levels of a chunk, checked as far as they are touched.
#pragma once
#include <string>

#include "fastlanes.hpp"

namespace alance::cells {

using fastlanes::BLOCK;
using fastlanes::ROW_BYTES;

inline std::string text(int64_t number) { return std::to_string(number); }

inline uint64_t load_bits(const uint8_t* from, int bits) {
  switch (bits) {
    case 8: return *from;
    case 16: return load<uint16_t>(from);
    case 32: return load<uint32_t>(from);
    default: return load<uint64_t>(from);
  }
}

inline bool is_word(int bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

// One value of a packed block with its width in front.
inline uint64_t packed_at(Part part, int bits, int64_t count, int64_t i) {
  if (part.size < bits / 8 || count > BLOCK)
    corrupt("bit-packing: " + text(count) + " values in a block of " + text(part.size) + " bytes");
  const uint64_t width = load_bits(part.data, bits);
  if (width > static_cast<uint64_t>(bits) ||
      part.size != bits / 8 + ROW_BYTES * static_cast<int64_t>(width))
    corrupt("bit-packing: a block of " + text(part.size) + " bytes, width " +
            std::to_string(width));
  return fastlanes::value_at(part.data + bits / 8, bits, static_cast<int>(width), i);
}

// One level of whole packed blocks of a known width, with raw or packed values behind them.
inline uint64_t level_in_blocks(Part part, int width, int64_t count, int64_t i) {
  const int64_t whole = count / BLOCK, tail = count % BLOCK, block = ROW_BYTES * width;
  const bool raw = part.size == whole * block + 2 * tail;
  if (!raw && (tail == 0 || part.size != (whole + 1) * block))
    corrupt("bit-packing: " + text(part.size) + " bytes for " + text(count) + " levels of width " +
            text(width));
  if (raw && i >= whole * BLOCK)
    return load<uint16_t>(part.data + whole * block + 2 * (i - whole * BLOCK));
  return fastlanes::value_at<uint16_t>(part.data + i / BLOCK * block, width, i % BLOCK);
}

}  // namespace alance::cells
