// Fixed-width values of many chunks to one array: concatenated bytes or bits, byte stream split,
// columns of zipped rows, and LZ4 units.
//
// Source: docs/format/encodings.md, "Flat", "ByteStreamSplit", "General" and "Packed structs".
#include <algorithm>

#include "base/bounds.hpp"
#include "codecs/lz4.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

// A loop that the compiler vectorises, in two versions of which the loader takes one.
#if defined(__x86_64__) && defined(__linux__)
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance {
namespace {

constexpr size_t BIT_SLACK = 16;  // append_bits stores whole words

// Writes the first `num_bits` of `in` from bit `at` of `out` on. Bits behind them in the last byte
// become 0; up to 9 bytes behind may be scribbled on.
void append_bits(uint8_t* out, int64_t at, const uint8_t* in, int64_t num_bits) {
  out += at / 8;
  const int shift = static_cast<int>(at % 8);
  uint64_t carried = shift ? *out & ((1u << shift) - 1) : 0;
  for (; num_bits > 0; num_bits -= 64, in += 8, out += 8) {
    uint64_t word = 0;
    if (num_bits >= 64) {
      word = load<uint64_t>(in);
    } else {
      std::memcpy(&word, in, static_cast<size_t>(bytes_of_bits(num_bits)));
      word &= (uint64_t{1} << num_bits) - 1;
    }
    store(out, carried | word << shift);
    carried = shift ? word >> (64 - shift) : 0;
    out[8] = static_cast<uint8_t>(carried);
  }
}

// The values of all chunks end to end; every chunk begins at a byte and is exactly as long as its
// values.
Numpy<uint8_t> concat_fixed(Bytes data, In<int64_t> starts, In<int64_t> sizes,
                            In<int64_t> counts_, int64_t bits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    if (bits < 1) corrupt("flat: values of " + std::to_string(bits) + " bits");
    Spans chunks(data, starts, sizes, "flat");
    Counts counts(counts_, chunks, "flat");
    int64_t total = product(counts.total, bits, "flat");
    for (int64_t i = 0; i < chunks.num; ++i)
      if (chunks.sizes[i] != bytes_of_bits(counts[i] * bits))
        corrupt("flat: " + std::to_string(chunks.sizes[i]) + " bytes for " +
                std::to_string(counts[i]) + " values of " + std::to_string(bits) + " bits");
    Owned<uint8_t> values(bytes_of_bits(total), BIT_SLACK);
    int64_t at = 0;
    for (int64_t i = 0; i < chunks.num; ++i) {
      if (bits % 8 == 0)
        std::memcpy(values.data() + at / 8, chunks.at(i), static_cast<size_t>(chunks.sizes[i]));
      else
        append_bits(values.data(), at, chunks.at(i), counts[i] * bits);
      at += counts[i] * bits;
    }
    return values;
  };
  return decode().numpy();
}

ALANCE_CLONES void unsplit_4(const uint8_t* in, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t value = in[i] | uint32_t{in[n + i]} << 8 | uint32_t{in[2 * n + i]} << 16 |
                     uint32_t{in[3 * n + i]} << 24;
    store(out + 4 * i, value);
  }
}

ALANCE_CLONES void unsplit_8(const uint8_t* in, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint64_t value = in[i] | uint64_t{in[n + i]} << 8 | uint64_t{in[2 * n + i]} << 16 |
                     uint64_t{in[3 * n + i]} << 24 | uint64_t{in[4 * n + i]} << 32 |
                     uint64_t{in[5 * n + i]} << 40 | uint64_t{in[6 * n + i]} << 48 |
                     uint64_t{in[7 * n + i]} << 56;
    store(out + 8 * i, value);
  }
}

// Every chunk: byte 0 of all its values, then byte 1 of all, and so on.
Numpy<uint8_t> unsplit_bytes(Bytes data, In<int64_t> starts, In<int64_t> sizes,
                             In<int64_t> counts_, int bits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    if (bits != 32 && bits != 64)
      corrupt("byte stream split: values of " + std::to_string(bits) + " bits");
    Spans chunks(data, starts, sizes, "byte stream split");
    Counts counts(counts_, chunks, "byte stream split");
    for (int64_t i = 0; i < chunks.num; ++i)
      if (chunks.sizes[i] != product(counts[i], bits / 8, "byte stream split"))
        corrupt("byte stream split: " + std::to_string(chunks.sizes[i]) + " bytes for " +
                std::to_string(counts[i]) + " values of " + std::to_string(bits) + " bits");
    Owned<uint8_t> values(chunks.total);
    uint8_t* out = values.data();
    for (int64_t i = 0; i < chunks.num; ++i) {
      (bits == 32 ? unsplit_4 : unsplit_8)(chunks.at(i), counts[i], out);
      out += chunks.sizes[i];
    }
    return values;
  };
  return decode().numpy();
}

template <int Bytes>
void copy_column(const uint8_t* in, int64_t row_bytes, int64_t num_rows, uint8_t* out) {
  for (int64_t row = 0; row < num_rows; ++row, in += row_bytes, out += Bytes)
    std::memcpy(out, in, Bytes);
}

// One column of zipped rows: `bits` bits from byte `start` of every row, end to end.
Numpy<uint8_t> unzip_column(Bytes rows, int64_t row_bytes, int64_t start, int64_t bits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    if (row_bytes < 1 || bits < 1) corrupt("rows of " + std::to_string(row_bytes) + " bytes");
    check_span(start, bytes_of_bits(bits), row_bytes, "a column of rows");
    int64_t num_rows = static_cast<int64_t>(rows.size()) / row_bytes;
    if (num_rows * row_bytes != static_cast<int64_t>(rows.size()))
      corrupt(std::to_string(rows.size()) + " bytes are no whole rows of " +
              std::to_string(row_bytes));
    Owned<uint8_t> column(bytes_of_bits(product(num_rows, bits, "rows")), BIT_SLACK);
    const uint8_t* in = rows.data() + start;
    uint8_t* out = column.data();
    switch (bits) {
      case 8: copy_column<1>(in, row_bytes, num_rows, out); break;
      case 16: copy_column<2>(in, row_bytes, num_rows, out); break;
      case 32: copy_column<4>(in, row_bytes, num_rows, out); break;
      case 64: copy_column<8>(in, row_bytes, num_rows, out); break;
      case 128: copy_column<16>(in, row_bytes, num_rows, out); break;
      default:
        for (int64_t row = 0; row < num_rows; ++row, in += row_bytes) {
          if (bits % 8 == 0)
            std::memcpy(out + row * (bits / 8), in, static_cast<size_t>(bits / 8));
          else
            append_bits(out, row * bits, in, bits);
        }
    }
    return column;
  };
  return decode().numpy();
}

// Units of a size of four bytes and one LZ4 block; none may hold more than its limit.
// Gives where the contents begin, and one more, and the contents.
nb::tuple decode_lz4(Bytes data, In<int64_t> starts, In<int64_t> sizes, In<int64_t> limits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t PREFIX = 4;
    Spans units(data, starts, sizes, "lz4");
    if (static_cast<int64_t>(limits.size()) != units.num) corrupt("lz4: one limit a unit");
    Owned<int64_t> offsets(units.num + 1);
    offsets[0] = 0;
    for (int64_t i = 0; i < units.num; ++i) {
      int64_t rest = units.sizes[i] - PREFIX;
      if (rest < 1) corrupt("lz4: a unit of " + std::to_string(units.sizes[i]) + " bytes");
      int64_t size = load<uint32_t>(units.at(i));
      int64_t possible = std::min(limits.data()[i], rest * lz4::MAX_RATIO + lz4::MAX_EXTRA);
      if (size > possible)
        corrupt("lz4: a unit of " + std::to_string(units.sizes[i]) + " bytes for " +
                std::to_string(size) + ", at most " + std::to_string(possible) + " are possible");
      offsets[i + 1] = offsets[i] + size;
    }
    Owned<uint8_t> contents(offsets[units.num], lz4::BURST);
    for (int64_t i = 0; i < units.num; ++i)
      lz4::decode(units.at(i) + PREFIX, units.at(i) + units.sizes[i], contents.data() + offsets[i],
                  offsets[i + 1] - offsets[i]);
    return std::make_pair(std::move(offsets), std::move(contents));
  };
  auto units = decode();
  return nb::make_tuple(units.first.numpy(), units.second.numpy());
}

}  // namespace
}  // namespace alance

void register_streams(nanobind::module_& m) {
  using namespace alance;
  m.def("concat_fixed", &concat_fixed, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"),
        nb::arg("counts"), nb::arg("bits"));
  m.def("unsplit_bytes", &unsplit_bytes, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"),
        nb::arg("counts"), nb::arg("bits"));
  m.def("unzip_column", &unzip_column, nb::arg("rows"), nb::arg("row_bytes"), nb::arg("start"),
        nb::arg("bits"));
  m.def("decode_lz4", &decode_lz4, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"),
        nb::arg("limits"));
}
