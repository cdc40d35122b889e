// Bit-packing of blocks of 1024 values in the FastLanes unified transposed order; bitpacking.cpp is
// the inverse, describes the layout and names the paper.
#include <bit>

#include "base/bounds.hpp"
#include "encode/encode.hpp"
#include "codecs/fastlanes_loops.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

using fastlanes::kBlockValues;
using fastlanes::lanes;
using fastlanes::Loop;
using fastlanes::loops_of;
using fastlanes::kRowAt;
using fastlanes::kRowBytes;

// Add row R to the current output word, and store the word when it is full.
template <int T, int W, int R>
ALANCE_INLINE void pack_word(const uint8_t* in, uint8_t* out, uint64_t& word) {
  constexpr int kShift = R * W % T;
  constexpr int kHere = W < T - kShift ? W : T - kShift;  // bits of the code in this word
  const uint64_t code = load<uint64_t>(in + kRowAt<T, R>);
  const uint64_t part = (code & lanes<T>(kHere)) << kShift;
  word = kShift == 0 ? part : word | part;
  if constexpr (kShift + W >= T) {
    store(out + R * W / T * kRowBytes, word);
    if constexpr (kHere < W) word = (code >> kHere) & lanes<T>(W - kHere);
  }
}

template <int T, int W, int... R>
ALANCE_INLINE void pack_rows(const uint8_t* __restrict in, uint8_t* __restrict out,
                             std::integer_sequence<int, R...>) {
  for (int i = 0; i < kRowBytes / 8; ++i) {
    uint64_t word = 0;
    (pack_word<T, W, R>(in + 8 * i, out + 8 * i, word), ...);
  }
}

// Pack 1024 values of T bits into 128 * W bytes.
struct Pack {
  template <int T, int W>
  static ALANCE_INLINE void block(const uint8_t* __restrict in, uint8_t* __restrict out) {
    if constexpr (W > 0) pack_rows<T, W>(in, out, std::make_integer_sequence<int, T>());
  }
};

// Pack one block of `count` values, padded with zeros.
void pack_some(Loop pack, const uint8_t* in, uint8_t* out, int64_t count, int bits) {
  if (count == kBlockValues) return pack(in, out);
  alignas(64) uint8_t whole[kBlockValues * 8] = {};
  std::memcpy(whole, in, static_cast<size_t>(count * (bits / 8)));
  pack(whole, out);
}

}  // namespace

SizedChunks pack_inline(const Pieces& chunks) {
  const Loop* loops = loops_of<Pack>(chunks.bits, false);
  const int64_t value_bytes = chunks.value_bytes();
  Sizes sizes;
  std::vector<uint64_t> widths;
  const uint8_t* in = chunks.data;
  for (const int64_t count : chunks.counts) {
    const int width = std::bit_width(either(in, count * value_bytes, chunks.bits));
    widths.push_back(static_cast<uint64_t>(width));
    sizes.push_back(value_bytes + kRowBytes * width);
    in += count * value_bytes;
  }
  Owned<uint8_t> packed(sum(sizes));
  uint8_t* out = packed.data();
  in = chunks.data;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::memcpy(out, &widths[i], static_cast<size_t>(value_bytes));
    pack_some(loops[widths[i]], in, out + value_bytes, chunks.counts[i], chunks.bits);
    in += chunks.counts[i] * value_bytes;
    out += sizes[i];
  }
  return {std::move(packed), std::move(sizes)};
}

SizedChunks pack_blocks(const Pieces& chunks, int width, bool baseline) {
  const Loop* loops = loops_of<Pack>(chunks.bits, baseline);
  const int64_t value_bytes = chunks.value_bytes(), block_bytes = kRowBytes * int64_t{width};
  const uint8_t* in = chunks.data;
  const uint64_t all = either(in, chunks.total * value_bytes, chunks.bits);
  if (width < 1 || width > chunks.bits || static_cast<int>(std::bit_width(all)) > width)
    corrupt("bit-packing: values do not fit " + std::to_string(width) + " bits");
  Sizes sizes;
  for (const int64_t count : chunks.counts)
    sizes.push_back(count / kBlockValues * block_bytes +
                    std::min(count % kBlockValues * value_bytes, block_bytes));
  Owned<uint8_t> packed(sum(sizes));
  uint8_t* out = packed.data();
  for (size_t i = 0; i < sizes.size(); ++i) {
    uint8_t* const end = out + sizes[i];
    for (int64_t block = 0; block < chunks.counts[i] / kBlockValues; ++block) {
      loops[width](in, out);
      in += kBlockValues * value_bytes;
      out += block_bytes;
    }
    const int64_t tail = chunks.counts[i] % kBlockValues;
    if (tail * value_bytes <= block_bytes)
      std::memcpy(out, in, static_cast<size_t>(tail * value_bytes));
    else
      pack_some(loops[width], in, out, tail, chunks.bits);
    in += tail * value_bytes;
    out = end;
  }
  return {std::move(packed), std::move(sizes)};
}

namespace {

// Pack `count` values as one chunk.
Owned<uint8_t> packed_blocks(const Bytes& data, int64_t count, int bits, int width, bool baseline) {
  return pack_blocks({{&count, 1}, {bits, {data.data(), data.size()}}}, width, baseline).data;
}

}  // namespace
}  // namespace alance

void register_encode_bitpacking(nanobind::module_& m) {
  using namespace alance;
  m.def("pack_blocks", &packed_blocks, "data"_a, "count"_a, "bits"_a, "width"_a,
        "baseline"_a = false, NoGil());
}
