// Fixed-width values as chunks and rows: bit slices, byte stream split, zipped columns.
//
// Source: docs/format/encodings.md, "Flat", "ByteStreamSplit" and "Packed structs".
#include <vector>

#include "base/lists.hpp"
#include "encode/encode.hpp"

namespace alance {

SizedChunks cut_bits(const Pieces& chunks) {
  Sizes sizes;
  for (const int64_t count : chunks.counts) sizes.push_back(bytes_of_bits(count * chunks.bits));
  Owned<uint8_t> out(sum(sizes));
  uint8_t* to = out.data();
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    copy_bits(chunks.data, at, chunks.counts[i] * chunks.bits, to);
    at += chunks.counts[i] * chunks.bits;
    to += sizes[i];
  }
  return {std::move(out), std::move(sizes)};
}

namespace {

template <int Width>
ALANCE_INLINE void split(const uint8_t* in, int64_t n, uint8_t* __restrict out) {
  for (int b = 0; b < Width; ++b)
    for (int64_t i = 0; i < n; ++i) out[b * n + i] = in[Width * i + b];
}

}  // namespace

Owned<uint8_t> split_bytes(const Pieces& chunks) {
  const auto split_chunk =
      chunks.bits == 32 ? Versions<split<4>>::best() : Versions<split<8>>::best();
  Owned<uint8_t> out(chunks.total * chunks.value_bytes());
  int64_t at = 0;
  for (const int64_t count : chunks.counts) {
    split_chunk(chunks.data + at, count, out.data() + at);
    at += count * chunks.value_bytes();
  }
  return out;
}

Owned<uint8_t> zip_columns(std::span<const FixedIn> columns, int64_t num_rows) {
  int64_t row_bytes = 0;
  if (num_rows < 0) corrupt("rows: a negative number");
  for (const FixedIn& column : columns) {
    if (column.bits < 1) corrupt("rows: values of ", column.bits, " bits");
    const int64_t expected = bytes_of_bits(product(num_rows, column.bits, "rows"));
    if (std::ssize(column.data) != expected)
      corrupt("rows: ", column.data.size(), " bytes of a column, expected ", expected);
    if (__builtin_add_overflow(row_bytes, bytes_of_bits(column.bits), &row_bytes))
      corrupt("rows: sizes overflow");
  }
  Owned<uint8_t> rows(product(num_rows, row_bytes, "rows"));
  uint8_t* out = rows.data();
  for (const FixedIn& column : columns) {
    const uint8_t* in = column.data.data();
    if (column.bits % 8 == 0)
      with_size(column.bits / 8, [&](auto width) {
        for (int64_t row = 0; row < num_rows; ++row)
          std::memcpy(out + row * row_bytes, in + row * width, static_cast<size_t>(width));
      });
    else
      for (int64_t row = 0; row < num_rows; ++row)
        copy_bits(in, row * column.bits, column.bits, out + row * row_bytes);
    out += bytes_of_bits(column.bits);
  }
  return rows;
}

namespace {

// Zip columns of fixed width into rows; each value takes whole bytes.
Owned<uint8_t> zipped_columns(const nb::list& list, const In<int64_t>& bits, int64_t num_rows) {
  const std::vector<Bytes> arrays = buffers_of(list);
  std::vector<FixedIn> columns;
  if (bits.size() != arrays.size()) corrupt("rows: one width a column");
  for (size_t c = 0; c < arrays.size(); ++c)
    columns.push_back({bits.data()[c], {arrays[c].data(), arrays[c].size()}});
  nb::gil_scoped_release release;
  return zip_columns(columns, num_rows);
}

}  // namespace
}  // namespace alance

void register_encode_streams(nanobind::module_& m) {
  using namespace alance;
  m.def("zip_columns", &zipped_columns, "columns"_a, "bits"_a, "num_rows"_a);
}
