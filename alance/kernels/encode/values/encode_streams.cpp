// Fixed-width values as chunks and rows: bit slices, byte stream split, zipped columns.
//
// Source: docs/format/encodings.md, "Flat", "ByteStreamSplit" and "Packed structs".
#include <vector>

#include "encode/encode.hpp"
#include "base/ends.hpp"

namespace alance {
namespace {

// Copy bits from `start` on to the beginning of `out`; zero bits fill the last byte.
void copy_bits(const uint8_t* in, int64_t start, int64_t num_bits, uint8_t* out) {
  if (num_bits == 0) return;
  const int64_t num_bytes = bytes_of_bits(num_bits);
  const int shift = static_cast<int>(start % 8);
  in += start / 8;
  if (shift == 0) {
    std::memcpy(out, in, static_cast<size_t>(num_bytes));
  } else {
    const int64_t last = (shift + num_bits - 1) / 8;  // last byte that is read
    for (int64_t i = 0; i < num_bytes; ++i) {
      const unsigned high = i < last ? in[i + 1] : 0;
      out[i] = static_cast<uint8_t>(in[i] >> shift | high << (8 - shift));
    }
  }
  if (num_bits % 8) out[num_bytes - 1] &= static_cast<uint8_t>((1u << num_bits % 8) - 1);
}

}  // namespace

SizedChunks cut_bits(const uint8_t* data, const Pieces& counts, int64_t bits) {
  Owned<int64_t> sizes(counts.num);
  int64_t total = 0, at = 0;
  for (int64_t i = 0; i < counts.num; ++i) {
    sizes[i] = bytes_of_bits(counts[i] * bits);
    total += sizes[i];
  }
  Owned<uint8_t> out(total);
  uint8_t* to = out.data();
  for (int64_t i = 0; i < counts.num; ++i) {
    copy_bits(data, at, counts[i] * bits, to);
    at += counts[i] * bits;
    to += sizes[i];
  }
  return {std::move(out), std::move(sizes)};
}

namespace {

ALANCE_CLONES void split_4(const uint8_t* in, int64_t n, uint8_t* __restrict out) {
  for (int b = 0; b < 4; ++b)
    for (int64_t i = 0; i < n; ++i) out[b * n + i] = in[4 * i + b];
}

ALANCE_CLONES void split_8(const uint8_t* in, int64_t n, uint8_t* __restrict out) {
  for (int b = 0; b < 8; ++b)
    for (int64_t i = 0; i < n; ++i) out[b * n + i] = in[8 * i + b];
}

}  // namespace

Owned<uint8_t> split_bytes(const uint8_t* data, const Pieces& counts, int bits) {
  if (bits != 32 && bits != 64)
    corrupt("byte stream split: values of " + std::to_string(bits) + " bits");
  Owned<uint8_t> out(counts.total * (bits / 8));
  int64_t at = 0;
  for (int64_t i = 0; i < counts.num; ++i) {
    (bits == 32 ? split_4 : split_8)(data + at, counts[i], out.data() + at);
    at += counts[i] * (bits / 8);
  }
  return out;
}

namespace {

template <int Size>
void place_column(const uint8_t* in, int64_t num_rows, int64_t row_bytes, uint8_t* out) {
  for (int64_t row = 0; row < num_rows; ++row, in += Size, out += row_bytes)
    std::memcpy(out, in, Size);
}

// Zip columns of fixed width into rows; each value takes whole bytes.
Numpy<uint8_t> zip_columns(const nb::list& list, const In<int64_t>& bits_, int64_t num_rows) {
  std::vector<Bytes> columns;
  for (nb::handle column : list) columns.push_back(nb::cast<Bytes>(column));
  if (bits_.size() != columns.size()) corrupt("rows: one width a column");
  auto encode = [&] {
    nb::gil_scoped_release release;
    const int64_t* bits = bits_.data();
    int64_t row_bytes = 0;
    if (num_rows < 0) corrupt("rows: a negative number");
    for (size_t c = 0; c < columns.size(); ++c) {
      if (bits[c] < 1) corrupt("rows: values of " + std::to_string(bits[c]) + " bits");
      const int64_t expected = bytes_of_bits(product(num_rows, bits[c], "rows"));
      if (static_cast<int64_t>(columns[c].size()) != expected)
        corrupt("rows: " + std::to_string(columns[c].size()) + " bytes of a column, expected " +
                std::to_string(expected));
      if (__builtin_add_overflow(row_bytes, bytes_of_bits(bits[c]), &row_bytes))
        corrupt("rows: sizes overflow");
    }
    Owned<uint8_t> rows(product(num_rows, row_bytes, "rows"));
    uint8_t* out = rows.data();
    for (size_t c = 0; c < columns.size(); out += bytes_of_bits(bits[c]), ++c) {
      const uint8_t* in = columns[c].data();
      const int64_t width = bits[c] / 8;
      switch (bits[c]) {
        case 8: place_column<1>(in, num_rows, row_bytes, out); break;
        case 16: place_column<2>(in, num_rows, row_bytes, out); break;
        case 32: place_column<4>(in, num_rows, row_bytes, out); break;
        case 64: place_column<8>(in, num_rows, row_bytes, out); break;
        case 128: place_column<16>(in, num_rows, row_bytes, out); break;
        default:
          for (int64_t row = 0; row < num_rows; ++row) {
            if (bits[c] % 8 == 0)
              std::memcpy(out + row * row_bytes, in + row * width, static_cast<size_t>(width));
            else
              copy_bits(in, row * bits[c], bits[c], out + row * row_bytes);
          }
      }
    }
    return rows;
  };
  return encode().numpy();
}

// Zip columns, some of them byte strings, into rows. `wire` has the bytes of each fixed-width
// column, or minus the bytes of the length in front of each string; `offsets` has an array a
// column, empty for fixed-width ones. Returns the offsets of the rows, and the rows.
nb::tuple zip_rows(const nb::list& datas_, const nb::list& offsets_, const In<int64_t>& wire_,
                   int64_t num_rows) {
  std::vector<Bytes> datas;
  std::vector<In<int64_t>> offsets;
  for (nb::handle array : datas_) datas.push_back(nb::cast<Bytes>(array));
  for (nb::handle array : offsets_) offsets.push_back(nb::cast<In<int64_t>>(array));
  const size_t num = datas.size();
  if (offsets.size() != num || wire_.size() != num || num_rows < 0)
    corrupt("rows: one width and one array of offsets a column");
  auto encode = [&] {
    nb::gil_scoped_release release;
    const int64_t* wire = wire_.data();
    int64_t total = 0;
    for (size_t c = 0; c < num; ++c) {
      const int64_t size = static_cast<int64_t>(datas[c].size());
      if (wire[c] >= 0) {
        if (size != product(num_rows, wire[c], "rows")) corrupt("rows: a column of another size");
        total += size;
        continue;
      }
      if (wire[c] != -4 && wire[c] != -8) corrupt("rows: lengths of 4 or 8 bytes");
      if (static_cast<int64_t>(offsets[c].size()) != num_rows + 1) corrupt("rows: offsets missing");
      const int64_t* offset = offsets[c].data();
      const int64_t longest = wire[c] == -4 ? INT64_C(0xFFFFFFFF) : INT64_MAX;
      check_ends(offset[0], offset[num_rows], size, "rows");
      for (int64_t row = 0; row < num_rows; ++row) {
        if (offset[row] < offset[0] || offset[row] > offset[row + 1] ||
            offset[row + 1] - offset[row] > longest)
          corrupt("rows: offsets decrease");
      }
      total += offset[num_rows] - offset[0] - num_rows * wire[c];
    }
    Owned<int64_t> ends(num_rows + 1);
    Owned<uint8_t> rows(total);
    uint8_t* out = rows.data();
    ends[0] = 0;
    for (int64_t row = 0; row < num_rows; ++row) {
      for (size_t c = 0; c < num; ++c) {
        int64_t size = wire[c], start = row * wire[c];
        if (wire[c] < 0) {
          start = offsets[c].data()[row];
          size = offsets[c].data()[row + 1] - start;
          std::memcpy(out, &size, static_cast<size_t>(-wire[c]));
          out -= wire[c];
        }
        if (size) std::memcpy(out, datas[c].data() + start, static_cast<size_t>(size));
        out += size;
      }
      ends[row + 1] = out - rows.data();
    }
    return std::make_pair(std::move(ends), std::move(rows));
  };
  auto zipped = encode();
  return nb::make_tuple(zipped.first.numpy(), zipped.second.numpy());
}

}  // namespace
}  // namespace alance

void register_encode_streams(nanobind::module_& m) {
  using namespace alance;
  m.def("zip_columns", &zip_columns, nb::arg("columns"), nb::arg("bits"), nb::arg("num_rows"));
  m.def("zip_rows", &zip_rows, nb::arg("columns"), nb::arg("offsets"), nb::arg("wire"),
        nb::arg("num_rows"));
}
