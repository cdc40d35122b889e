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
#include "base/bounds.hpp"
#include "codecs/fastlanes_loops.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"
#include "base/unlocked.hpp"
#include "codecs/unpack.hpp"

namespace alance {
namespace {

using fastlanes::kBlockValues;
using fastlanes::lanes;
using fastlanes::Loop;
using fastlanes::loops_of;
using fastlanes::kRowAt;
using fastlanes::kRowBytes;

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

// Unpack the first `count` values of one block.
void unpack_some(Loop unpack, const uint8_t* in, uint8_t* out, int64_t count, int bits) {
  if (count == kBlockValues) return unpack(in, out);
  alignas(64) uint8_t whole[kBlockValues * 8];
  unpack(in, whole);
  std::memcpy(out, whole, static_cast<size_t>(count) * bits / 8);
}

// Unpack chunks: whole blocks of one width, then the rest, raw or packed as one more block.
Numpy<uint8_t> unpack_blocks(Bytes data, In<int64_t> starts, In<int64_t> sizes,
                             In<int64_t> counts_, int bits, int width, bool baseline) {
  auto decode = [&] {
    const Loop* loops = loops_of<Unpack>(bits, baseline);
    if (width < 0 || width > bits) corrupt("bit-packing: width " + std::to_string(width));
    Spans chunks(data, starts, sizes, "bit-packing");
    Counts counts(counts_, chunks, "bit-packing");
    const Unlocked unlocked(counts.total);
    const int64_t value_bytes = bits / 8, block_bytes = kRowBytes * int64_t{width};
    auto raw_size = [&](int64_t count) {
      return product(count / kBlockValues, block_bytes, "bit-packing") +
             count % kBlockValues * value_bytes;
    };
    for (int64_t i = 0; i < chunks.num; ++i) {
      int64_t tail = counts[i] % kBlockValues, raw = raw_size(counts[i]);
      int64_t packed = raw - tail * value_bytes + block_bytes;
      if (chunks.sizes[i] != raw && (tail == 0 || chunks.sizes[i] != packed))
        corrupt("bit-packing: " + std::to_string(chunks.sizes[i]) + " bytes for " +
                std::to_string(counts[i]) + " values of width " + std::to_string(width));
    }
    Owned<uint8_t> values(product(counts.total, value_bytes, "bit-packing"));
    uint8_t* out = values.data();
    for (int64_t i = 0; i < chunks.num; ++i) {
      const uint8_t* in = chunks.at(i);
      for (int64_t block = 0; block < counts[i] / kBlockValues; ++block) {
        loops[width](in, out);
        in += block_bytes;
        out += kBlockValues * value_bytes;
      }
      int64_t tail = counts[i] % kBlockValues;
      if (tail == 0) continue;
      if (chunks.sizes[i] == raw_size(counts[i]))
        std::memcpy(out, in, static_cast<size_t>(tail * value_bytes));
      else
        unpack_some(loops[width], in, out, tail, bits);
      out += tail * value_bytes;
    }
    return values;
  };
  return decode().numpy();
}

}  // namespace

const fastlanes::Unpacker* fastlanes::unpackers(int bits) { return loops_of<Unpack>(bits, false); }

}  // namespace alance

void register_bitpacking(nanobind::module_& m) {
  using namespace alance;
  m.def("unpack_blocks", &unpack_blocks, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"),
        nb::arg("counts"), nb::arg("bits"), nb::arg("width"), nb::arg("baseline") = false);
}
