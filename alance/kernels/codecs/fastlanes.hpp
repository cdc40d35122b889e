// Random access to a packed block of 1024 values (FastLanes, see bitpacking.cpp): one value,
// without unpacking the others.
//
// Value i of T bits is in row R of lane L, where
//     i = L + 16 * order(R div 8) + 128 * (R mod 8),  order = reversal of three bits
// at bit R * W of its lane. The words of a lane have T bits and are 128 bytes apart.
#pragma once
#include "codecs/spans.hpp"

namespace alance::fastlanes {

constexpr int64_t kBlockValues = 1024;  // of a packed block
constexpr int64_t kRowBytes = 128;  // one value of T bits in each of 1024 / T lanes
constexpr int kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};  // of the groups of 16 values, by row div 8

template <typename T>
inline T value_at(const uint8_t* block, int width, int64_t i) {
  constexpr int kBits = 8 * sizeof(T), kLanes = 1024 / kBits;
  if (width == 0) return 0;
  const int rest = static_cast<int>(i % 128), lane = rest % kLanes;
  const int row = 8 * kOrder[rest / kLanes * kLanes / 16] + static_cast<int>(i / 128);
  const int word = row * width / kBits, shift = row * width % kBits;
  const uint8_t* at = block + word * kRowBytes + lane * static_cast<int>(sizeof(T));
  T value = static_cast<T>(load<T>(at) >> shift);
  if (shift + width > kBits)
    value = static_cast<T>(value | static_cast<T>(load<T>(at + kRowBytes) << (kBits - shift)));
  return width == kBits ? value : static_cast<T>(value & ((T{1} << width) - 1));
}

// The same for a value width of 8, 16, 32 or 64 bits that is known at run time only.
inline uint64_t value_at(const uint8_t* block, int bits, int width, int64_t i) {
  return by_width(bits,
                  [=](auto word) -> uint64_t { return value_at<decltype(word)>(block, width, i); });
}

}  // namespace alance::fastlanes
