// Random access to a packed block of 1024 values (FastLanes, see bitpacking.cpp): one value,
// without unpacking the others.
//
// Value i of T bits is in row R of lane L, where
//     i = L + 16 * order(R div 8) + 128 * (R mod 8),  order = reversal of three bits
// at bit R * W of its lane. The words of a lane have T bits and are 128 bytes apart.
#pragma once
#include "codecs/spans.hpp"

namespace alance::fastlanes {

constexpr int64_t BLOCK = 1024;     // values of a packed block
constexpr int64_t ROW_BYTES = 128;  // of a row: one value of T bits in each of 1024 / T lanes
constexpr int ORDER[8] = {0, 4, 2, 6, 1, 5, 3, 7};  // of the groups of 16 values, by row div 8

template <typename T>
inline T value_at(const uint8_t* block, int width, int64_t i) {
  constexpr int bits = 8 * sizeof(T), lanes = 1024 / bits;
  if (width == 0) return 0;
  const int rest = static_cast<int>(i % 128), lane = rest % lanes;
  const int row = 8 * ORDER[rest / lanes * lanes / 16] + static_cast<int>(i / 128);
  const int word = row * width / bits, shift = row * width % bits;
  const uint8_t* at = block + word * ROW_BYTES + lane * static_cast<int>(sizeof(T));
  T value = static_cast<T>(load<T>(at) >> shift);
  if (shift + width > bits)
    value = static_cast<T>(value | static_cast<T>(load<T>(at + ROW_BYTES) << (bits - shift)));
  return width == bits ? value : static_cast<T>(value & ((T{1} << width) - 1));
}

// The same for values whose width is told at run time; 8, 16, 32 or 64 bits.
inline uint64_t value_at(const uint8_t* block, int bits, int width, int64_t i) {
  switch (bits) {
    case 8: return value_at<uint8_t>(block, width, i);
    case 16: return value_at<uint16_t>(block, width, i);
    case 32: return value_at<uint32_t>(block, width, i);
    default: return value_at<uint64_t>(block, width, i);
  }
}

}  // namespace alance::fastlanes
