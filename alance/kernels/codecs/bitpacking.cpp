// Bit-unpacking of blocks of 1024 values in the FastLanes unified transposed order.
//
// A row of a block holds one value of every lane; these values are adjacent in the output. For any
// width T of a value, a row has 1024 bits. So a row is 16 words of 64 bits, and reading it takes at
// most two shifts and two masks on whole words. The masks clear bits that a shift brought in from
// the next lane of the same word. T and the packed width W are template arguments: all shifts and
// masks are constants, and the compiler vectorises the 16 words.
//
// Source: A. Afroozeh, P. Boncz, "The FastLanes Compression Layout: Decoding >100 Billion Integers
// per Second with Scalar Code", PVLDB 16, 2023; docs/format/encodings.md, "The packed block of 1024
// values".
#include "codecs/fastlanes_loops.hpp"
#include "base/owned.hpp"
#include "codecs/unpack.hpp"

namespace alance {
namespace {

using fastlanes::kBlockValues;
using fastlanes::kRowAt;
using fastlanes::kRowBytes;
using fastlanes::lanes;
using fastlanes::Loop;
using fastlanes::loops_of;
using fastlanes::Packed;

template <int T, int W, int R>
ALANCE_INLINE void unpack_word(const uint8_t* in, uint8_t* out) {
  constexpr int kWord = R * W / T, kShift = R * W % T;
  constexpr int kHere = W < T - kShift ? W : T - kShift;  // bits of the code in this word
  uint64_t code = (load<uint64_t>(in + kWord * kRowBytes) >> kShift) & lanes<T>(kHere);
  if constexpr (kHere < W)
    code |= (load<uint64_t>(in + (kWord + 1) * kRowBytes) << kHere) &
            (lanes<T>(W) ^ lanes<T>(kHere));
  store(out + kRowAt<T, R>, code);
}

template <int T, int W, int... R>
ALANCE_INLINE void unpack_rows(const uint8_t* __restrict in, uint8_t* __restrict out,
                               std::integer_sequence<int, R...>) {
  for (int word = 0; word < kRowBytes / 8; ++word)
    (unpack_word<T, W, R>(in + 8 * word, out + 8 * word), ...);
}

// Unpack 128 * W bytes into 1024 values of T bits.
struct Unpack {
  template <int T, int W>
  static ALANCE_INLINE void block(const uint8_t* __restrict in, uint8_t* __restrict out) {
    if constexpr (W == 0)
      std::memset(out, 0, kBlockValues * T / 8);
    else
      unpack_rows<T, W>(in, out, std::make_integer_sequence<int, T>());
  }
};

// Unpack values of one width: blocks, then the rest, raw or packed as one more block.
Owned<uint8_t> unpack_blocks(const Bytes& data, int64_t count, int bits, int width, bool baseline) {
  const Loop* loops = loops_of<Unpack>(bits, baseline);
  if (width < 0 || width > bits) corrupt("bit-packing: width ", width);
  if (count < 0) corrupt("bit-packing: ", count, " values");
  const Packed blocks{loops[width], bits, kRowBytes * width, count};
  blocks.check(std::ssize(data));
  Owned<uint8_t> values(product(count, bits / 8, "bit-packing"));
  blocks.unpack(data.data(), std::ssize(data), values.data());
  return values;
}

}  // namespace

const fastlanes::Unpacker* fastlanes::unpackers(int bits) { return loops_of<Unpack>(bits, false); }

}  // namespace alance

void register_bitpacking(nanobind::module_& m) {
  using namespace alance;
  m.def("unpack_blocks", &unpack_blocks, "data"_a, "count"_a, "bits"_a, "width"_a,
        "baseline"_a = false, NoGil());
}
