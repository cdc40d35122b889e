// Packs blocks of 1024 values in the FastLanes unified transposed order; bitpacking.cpp undoes it
// and says how a row is laid out over words of 64 bits.
#include <array>
#include <bit>

#include "bounds.hpp"
#include "encode.hpp"
#include "owned.hpp"
#include "spans.hpp"

#define ALANCE_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define ALANCE_HAS_AVX2 1
#define ALANCE_AVX2 __attribute__((target("avx2")))
#endif

namespace alance {
namespace {

constexpr int64_t BLOCK = 1024;  // values of a packed block
constexpr int ROW_BYTES = 128;   // bytes of a row: one value of T bits in each of 1024 / T lanes
constexpr int ORDER[8] = {0, 4, 2, 6, 1, 5, 3, 7};  // of the groups of 16 values, by row div 8

// The lowest `width` bits of each T-bit lane of a word.
template <int T>
constexpr uint64_t lanes(int width) {
  uint64_t one = width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1, all = 0;
  for (int lane = 0; lane < 64; lane += T) all |= one << lane;
  return all;
}

// Adds row R to the word of the output that is under way; stores it when it is full.
template <int T, int W, int R>
ALANCE_INLINE void pack_word(const uint8_t* in, uint8_t* out, uint64_t& word) {
  constexpr int shift = R * W % T;
  constexpr int here = W < T - shift ? W : T - shift;  // bits of the code in this word
  constexpr int position = 16 * ORDER[R / 8] + 128 * (R % 8);
  const uint64_t code = load<uint64_t>(in + position * T / 8);
  const uint64_t part = (code & lanes<T>(here)) << shift;
  word = shift == 0 ? part : word | part;
  if constexpr (shift + W >= T) {
    store(out + R * W / T * ROW_BYTES, word);
    if constexpr (here < W) word = (code >> here) & lanes<T>(W - here);
  }
}

template <int T, int W, int... R>
ALANCE_INLINE void pack_rows(const uint8_t* __restrict in, uint8_t* __restrict out,
                             std::integer_sequence<int, R...>) {
  for (int i = 0; i < ROW_BYTES / 8; ++i) {
    uint64_t word = 0;
    (pack_word<T, W, R>(in + 8 * i, out + 8 * i, word), ...);
  }
}

// Reads 1024 values of T bits, writes 128 * W bytes; neither needs alignment.
using Pack = void (*)(const uint8_t*, uint8_t*);

template <int T, int W>
void pack_baseline(const uint8_t* __restrict in, uint8_t* __restrict out) {
  if constexpr (W > 0) pack_rows<T, W>(in, out, std::make_integer_sequence<int, T>());
}

template <int T, int... W>
constexpr std::array<Pack, T + 1> baseline_table(std::integer_sequence<int, W...>) {
  return {&pack_baseline<T, W>...};
}

#if ALANCE_HAS_AVX2
template <int T, int W>
ALANCE_AVX2 void pack_avx2(const uint8_t* __restrict in, uint8_t* __restrict out) {
  if constexpr (W > 0) pack_rows<T, W>(in, out, std::make_integer_sequence<int, T>());
}

template <int T, int... W>
constexpr std::array<Pack, T + 1> avx2_table(std::integer_sequence<int, W...>) {
  return {&pack_avx2<T, W>...};
}
#endif

// The loops for values of T bits, by packed width.
template <int T>
const Pack* packers(bool baseline) {
  using Widths = std::make_integer_sequence<int, T + 1>;
  static constexpr auto portable = baseline_table<T>(Widths());
#if ALANCE_HAS_AVX2
  static constexpr auto avx2 = avx2_table<T>(Widths());
  if (!baseline && __builtin_cpu_supports("avx2")) return avx2.data();
#endif
  (void)baseline;
  return portable.data();
}

const Pack* packers(int bits, bool baseline) {
  switch (bits) {
    case 8: return packers<8>(baseline);
    case 16: return packers<16>(baseline);
    case 32: return packers<32>(baseline);
    case 64: return packers<64>(baseline);
    default: corrupt("bit-packing: values of " + std::to_string(bits) + " bits");
  }
}

// One block of the first `count` values; zeros stand for the others.
void pack_some(Pack pack, const uint8_t* in, uint8_t* out, int64_t count, int bits) {
  if (count == BLOCK) return pack(in, out);
  alignas(64) uint8_t whole[BLOCK * 8] = {};
  std::memcpy(whole, in, static_cast<size_t>(count * (bits / 8)));
  pack(whole, out);
}

// Every chunk: its width as one value, then one block. At most 1024 values a chunk. Gives the
// bytes and the size of each chunk.
nb::tuple pack_inline(Bytes data, In<int64_t> counts_, int bits, bool baseline) {
  auto encode = [&] {
    nb::gil_scoped_release release;
    const Pack* loops = packers(bits, baseline);
    Pieces counts(counts_, data, bits, "bit-packing");
    const int64_t value_bytes = bits / 8;
    Owned<int64_t> sizes(counts.num);
    Owned<uint8_t> widths(counts.num);
    const uint8_t* in = data.data();
    int64_t total = 0;
    for (int64_t i = 0; i < counts.num; ++i) {
      if (counts[i] > BLOCK)
        corrupt("bit-packing: " + std::to_string(counts[i]) + " values in one block of 1024");
      widths[i] = static_cast<uint8_t>(std::bit_width(either(in, counts[i] * value_bytes, bits)));
      sizes[i] = value_bytes + ROW_BYTES * int64_t{widths[i]};
      total += sizes[i];
      in += counts[i] * value_bytes;
    }
    Owned<uint8_t> packed(total);
    uint8_t* out = packed.data();
    in = data.data();
    for (int64_t i = 0; i < counts.num; ++i) {
      const uint64_t width = widths[i];
      std::memcpy(out, &width, static_cast<size_t>(value_bytes));
      pack_some(loops[width], in, out + value_bytes, counts[i], bits);
      in += counts[i] * value_bytes;
      out += sizes[i];
    }
    return std::make_pair(std::move(packed), std::move(sizes));
  };
  auto chunks = encode();
  return nb::make_tuple(chunks.first.numpy(), chunks.second.numpy());
}

// Every chunk: blocks of one width for all, then the rest: raw, unless a block is smaller.
nb::tuple pack_blocks(Bytes data, In<int64_t> counts_, int bits, int width, bool baseline) {
  auto encode = [&] {
    nb::gil_scoped_release release;
    const Pack* loops = packers(bits, baseline);
    Pieces counts(counts_, data, bits, "bit-packing");
    const int64_t value_bytes = bits / 8, block_bytes = ROW_BYTES * int64_t{width};
    const int64_t num_bytes = counts.total * value_bytes;
    const int needed = static_cast<int>(std::bit_width(either(data.data(), num_bytes, bits)));
    if (width < 1 || width > bits || needed > width)
      corrupt("bit-packing: values do not fit " + std::to_string(width) + " bits");
    Owned<int64_t> sizes(counts.num);
    int64_t total = 0;
    for (int64_t i = 0; i < counts.num; ++i) {
      sizes[i] = counts[i] / BLOCK * block_bytes +
                 std::min(counts[i] % BLOCK * value_bytes, block_bytes);
      total += sizes[i];
    }
    Owned<uint8_t> packed(total);
    uint8_t* out = packed.data();
    const uint8_t* in = data.data();
    for (int64_t i = 0; i < counts.num; ++i) {
      uint8_t* const end = out + sizes[i];
      for (int64_t block = 0; block < counts[i] / BLOCK; ++block) {
        loops[width](in, out);
        in += BLOCK * value_bytes;
        out += block_bytes;
      }
      const int64_t tail = counts[i] % BLOCK;
      if (tail * value_bytes <= block_bytes)
        std::memcpy(out, in, static_cast<size_t>(tail * value_bytes));
      else
        pack_some(loops[width], in, out, tail, bits);
      in += tail * value_bytes;
      out = end;
    }
    return std::make_pair(std::move(packed), std::move(sizes));
  };
  auto chunks = encode();
  return nb::make_tuple(chunks.first.numpy(), chunks.second.numpy());
}

}  // namespace
}  // namespace alance

void register_encode_bitpacking(nanobind::module_& m) {
  using namespace alance;
  m.def("pack_inline", &pack_inline, nb::arg("data"), nb::arg("counts"), nb::arg("bits"),
        nb::arg("baseline") = false);
  m.def("pack_blocks", &pack_blocks, nb::arg("data"), nb::arg("counts"), nb::arg("bits"),
        nb::arg("width"), nb::arg("baseline") = false);
}
