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

// The loop body is `Work::block<T, W>(in, out)`, which must be ALANCE_INLINE.
template <class Work, int T, int W>
void baseline_loop(const uint8_t* __restrict in, uint8_t* __restrict out) {
  Work::template block<T, W>(in, out);
}

template <class Work, int T, int... W>
constexpr std::array<Loop, T + 1> baseline_table(std::integer_sequence<int, W...>) {
  return {&baseline_loop<Work, T, W>...};
}

#if defined(__x86_64__)
template <class Work, int T, int W>
ALANCE_AVX2 void avx2_loop(const uint8_t* __restrict in, uint8_t* __restrict out) {
  Work::template block<T, W>(in, out);
}

template <class Work, int T, int... W>
constexpr std::array<Loop, T + 1> avx2_table(std::integer_sequence<int, W...>) {
  return {&avx2_loop<Work, T, W>...};
}
#endif

// Loops for values of T bits, by packed width.
template <class Work, int T>
const Loop* loops_of(bool baseline) {
  using Widths = std::make_integer_sequence<int, T + 1>;
  static constexpr auto kPortable = baseline_table<Work, T>(Widths());
#if defined(__x86_64__)
  static constexpr auto kAvx2 = avx2_table<Work, T>(Widths());
  if (!baseline && has_avx2()) return kAvx2.data();
#endif
  (void)baseline;
  return kPortable.data();
}

template <class Work>
const Loop* loops_of(int bits, bool baseline) {
  switch (bits) {
    case 8: return loops_of<Work, 8>(baseline);
    case 16: return loops_of<Work, 16>(baseline);
    case 32: return loops_of<Work, 32>(baseline);
    case 64: return loops_of<Work, 64>(baseline);
    default: corrupt("bit-packing: values of " + std::to_string(bits) + " bits");
  }
}

}  // namespace alance::fastlanes
