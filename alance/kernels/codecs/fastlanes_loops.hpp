// Loops over packed blocks of 1024 values: one for each width T of a value and packed width W,
// compiled for any processor and for AVX2.
#pragma once
#include <array>
#include <string>
#include <utility>

#include "base/processor.hpp"
#include "codecs/fastlanes.hpp"

namespace alance::fastlanes {

// Mask of the lowest `width` bits of each T-bit lane of a 64-bit word.
template <int T>
constexpr uint64_t lanes(int width) {
  uint64_t low = width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1, all = 0;
  for (int lane = 0; lane < 64; lane += T) all |= low << lane;
  return all;
}

// Byte offset of the first lane of row R in an unpacked block.
template <int T, int R>
constexpr int kRowAt = (16 * kOrder[R / 8] + 128 * (R % 8)) * T / 8;

// Loop that reads one block and writes one block, without alignment.
using Loop = void (*)(const uint8_t*, uint8_t*);

// Versions of a loop, whose body `Work::block<T, W>(in, out)` must be ALANCE_INLINE. Not `Versions`,
// whose parameters lack `__restrict`.
template <class Work, int T, int W>
struct Block {
  static void any(const uint8_t* __restrict in, uint8_t* __restrict out) {
    Work::template block<T, W>(in, out);
  }
  ALANCE_AVX2 static void avx2(const uint8_t* __restrict in, uint8_t* __restrict out) {
    Work::template block<T, W>(in, out);
  }
};

// Loops by packed width, for any processor and for AVX2.
template <class Work, int T, int... W>
constexpr std::array<std::array<Loop, T + 1>, 2> tables_of(std::integer_sequence<int, W...>) {
  return {{{&Block<Work, T, W>::any...}, {&Block<Work, T, W>::avx2...}}};
}

// Loops for values of 8, 16, 32 or 64 bits, by packed width.
template <class Work>
const Loop* loops_of(int bits, bool baseline) {
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    corrupt("bit-packing: values of ", bits, " bits");
  return by_width(bits, [=](auto word) {
    constexpr int kBits = 8 * sizeof(word);
    static constexpr auto kTables =
        tables_of<Work, kBits>(std::make_integer_sequence<int, kBits + 1>());
    return kTables[!baseline && has_avx2()].data();
  });
}

}  // namespace alance::fastlanes
