// Variable-width values: offsets and bytes of all chunks concatenated, zipped rows split, and
// values selected by index.
//
// Source: docs/format/encodings.md, "Variable".
#include <limits>
#include <type_traits>

#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "codecs/string_chunks.hpp"

namespace alance {
namespace {

constexpr int64_t BURST = 32;  // bytes copied at once where there is room: most strings are short

template <typename Offset>
struct Strings {
  Owned<Offset> offsets;
  Owned<uint8_t> bytes;

  nb::tuple numpy() { return nb::make_tuple(offsets.numpy(), bytes.numpy()); }
};

template <typename Offset>
void check_total(int64_t total) {
  if (total > std::numeric_limits<Offset>::max())
    throw std::overflow_error("strings: " + std::to_string(total) +
                              " bytes are too many for the offsets of this type");
}

// Copies; may scribble up to BURST bytes behind the copy, and reads only before `in_end`.
inline void copy_string(uint8_t* out, const uint8_t* in, int64_t size, const uint8_t* in_end) {
  if (size <= BURST && in_end - in >= BURST)
    std::memcpy(out, in, BURST);
  else
    std::memcpy(out, in, static_cast<size_t>(size));
}

// Every chunk: count + 1 offsets from the start of the chunk, then the bytes.
template <typename Offset>
nb::tuple concat_strings(Bytes data, In<int64_t> starts, In<int64_t> sizes, In<int64_t> counts_) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t WIDTH = sizeof(Offset);
    using Word = std::make_unsigned_t<Offset>;
    Spans chunks(data, starts, sizes, "variable");
    Counts counts(counts_, chunks, "variable");
    int64_t total = 0;
    for (int64_t i = 0; i < chunks.num; ++i) {
      const auto span = string_span<Offset>(chunks.at(i), chunks.sizes[i], counts[i]);
      total += span.last - span.first;
    }
    check_total<Offset>(total);
    Strings<Offset> strings{Owned<Offset>(counts.total + 1), Owned<uint8_t>(total)};
    Offset* offset = strings.offsets.data();
    *offset++ = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < chunks.num; ++i) {
      if (counts[i] == 0) continue;
      const uint8_t* in = chunks.at(i);
      Offset first = load<Offset>(in), previous = first;
      bool decreasing = false;
      for (int64_t v = 0; v < counts[i]; ++v) {
        Offset stop = load<Offset>(in + WIDTH * (v + 1));
        decreasing |= stop < previous;
        previous = stop;
        // Unsigned: whether they rise is known at the end.
        offset[v] = static_cast<Offset>(static_cast<Word>(at) + static_cast<Word>(stop) -
                                        static_cast<Word>(first));
      }
      if (decreasing) corrupt("variable: offsets decrease");
      std::memcpy(strings.bytes.data() + at, in + first, static_cast<size_t>(previous - first));
      offset += counts[i];
      at += previous - first;
    }
    return strings;
  };
  return decode().numpy();
}

// Values by their places in `data`, in any order.
nb::tuple concat_spans(Bytes data, In<int64_t> starts, In<int64_t> sizes) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    Spans values(data, starts, sizes, "values");
    Strings<int64_t> strings{Owned<int64_t>(values.num + 1), Owned<uint8_t>(values.total, BURST)};
    int64_t at = 0;
    for (int64_t i = 0; i < values.num; ++i) {
      strings.offsets[i] = at;
      copy_string(strings.bytes.data() + at, values.at(i), values.sizes[i],
                  data.data() + data.size());
      at += values.sizes[i];
    }
    strings.offsets[values.num] = at;
    return strings;
  };
  return decode().numpy();
}

// Where the parts of packed rows stand. `parts`: for each part its bytes, or minus the bytes of
// the length before it. Gives starts, then sizes: shape (num_parts * num_rows,), part by part.
template <typename Offset>
nb::tuple split_rows(In<Offset> offsets, Bytes data, In<int64_t> parts) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    if (offsets.size() == 0) corrupt("packed rows: no offsets");
    int64_t num_rows = static_cast<int64_t>(offsets.size()) - 1;
    int64_t num_parts = static_cast<int64_t>(parts.size());
    for (int64_t p = 0; p < num_parts; ++p)
      if (int64_t part = parts.data()[p]; part < 0 && part != -4 && part != -8)
        corrupt("packed rows: a length of " + std::to_string(-part) + " bytes");
    int64_t num_spans = product(num_rows, num_parts, "packed rows");
    Owned<int64_t> starts(num_spans), sizes(num_spans);
    for (int64_t row = 0; row < num_rows; ++row) {
      int64_t at = offsets.data()[row], end = offsets.data()[row + 1];
      if (at < 0 || end < at || end > static_cast<int64_t>(data.size()))
        corrupt("packed rows: offsets decrease or leave the buffer");
      for (int64_t p = 0; p < num_parts; ++p) {
        int64_t size = parts.data()[p];
        if (size < 0) {
          int64_t width = -size;
          if (end - at < width) corrupt("packed rows: a row ends inside a length");
          uint64_t length = width == 4 ? load<uint32_t>(data.data() + at)
                                       : load<uint64_t>(data.data() + at);
          at += width;
          if (length > static_cast<uint64_t>(end - at))
            corrupt("packed rows: a value of " + std::to_string(length) + " bytes where the row has " +
                    std::to_string(end - at));
          size = static_cast<int64_t>(length);
        } else if (end - at < size) {
          corrupt("packed rows: a row ends inside a value");
        }
        starts[p * num_rows + row] = at;
        sizes[p * num_rows + row] = size;
        at += size;
      }
      if (at != end)
        corrupt("packed rows: " + std::to_string(end - at) + " bytes are left in a row");
    }
    return std::make_pair(std::move(starts), std::move(sizes));
  };
  auto spans = decode();
  return nb::make_tuple(spans.first.numpy(), spans.second.numpy());
}

void check_indices(const In<int64_t>& indices, int64_t num_values) {
  uint64_t limit = static_cast<uint64_t>(num_values);
  bool outside = false;
  for (size_t i = 0; i < indices.size(); ++i)
    outside |= static_cast<uint64_t>(indices.data()[i]) >= limit;
  if (outside) corrupt("an index is not in [0, " + std::to_string(num_values) + ")");
}

template <int Bytes>
void gather(const uint8_t* in, const In<int64_t>& indices, uint8_t* out) {
  for (size_t i = 0; i < indices.size(); ++i, out += Bytes)
    std::memcpy(out, in + indices.data()[i] * Bytes, Bytes);
}

Numpy<uint8_t> gather_fixed(Bytes data, int64_t bytes_per_value, In<int64_t> indices) {
  auto run = [&] {
    nb::gil_scoped_release release;
    if (bytes_per_value < 1) corrupt("values of " + std::to_string(bytes_per_value) + " bytes");
    check_indices(indices, static_cast<int64_t>(data.size()) / bytes_per_value);
    int64_t num = static_cast<int64_t>(indices.size());
    Owned<uint8_t> values(product(num, bytes_per_value, "values"));
    uint8_t* out = values.data();
    switch (bytes_per_value) {
      case 1: gather<1>(data.data(), indices, out); break;
      case 2: gather<2>(data.data(), indices, out); break;
      case 4: gather<4>(data.data(), indices, out); break;
      case 8: gather<8>(data.data(), indices, out); break;
      case 16: gather<16>(data.data(), indices, out); break;
      default:
        for (int64_t i = 0; i < num; ++i, out += bytes_per_value)
          std::memcpy(out, data.data() + indices.data()[i] * bytes_per_value,
                      static_cast<size_t>(bytes_per_value));
    }
    return values;
  };
  return run().numpy();
}

Numpy<uint8_t> gather_bits(Bytes data, In<int64_t> indices) {
  auto run = [&] {
    nb::gil_scoped_release release;
    check_indices(indices, product(static_cast<int64_t>(data.size()), 8, "bits"));
    int64_t num = static_cast<int64_t>(indices.size());
    Owned<uint8_t> bits(bytes_of_bits(num));
    for (int64_t first = 0; first < num; first += 8) {
      int byte = 0;
      for (int64_t i = first; i < num && i < first + 8; ++i) {
        int64_t index = indices.data()[i];
        byte |= (data.data()[index / 8] >> (index % 8) & 1) << (i - first);
      }
      bits[first / 8] = static_cast<uint8_t>(byte);
    }
    return bits;
  };
  return run().numpy();
}

template <typename Offset>
nb::tuple gather_strings(In<Offset> offsets, Bytes data, In<int64_t> indices) {
  auto run = [&] {
    nb::gil_scoped_release release;
    if (offsets.size() == 0) corrupt("strings: no offsets");
    check_indices(indices, static_cast<int64_t>(offsets.size()) - 1);
    const Offset* offset = offsets.data();
    int64_t num = static_cast<int64_t>(indices.size()), num_bytes = data.size(), total = 0;
    for (int64_t i = 0; i < num; ++i) {
      int64_t start = offset[indices.data()[i]], stop = offset[indices.data()[i] + 1];
      if (start < 0 || stop < start || stop > num_bytes)
        corrupt("strings: offsets decrease or leave the buffer");
      if (__builtin_add_overflow(total, stop - start, &total)) corrupt("strings: sizes overflow");
    }
    check_total<Offset>(total);
    Strings<Offset> strings{Owned<Offset>(num + 1), Owned<uint8_t>(total, BURST)};
    int64_t at = 0;
    for (int64_t i = 0; i < num; ++i) {
      int64_t start = offset[indices.data()[i]], size = offset[indices.data()[i] + 1] - start;
      strings.offsets[i] = static_cast<Offset>(at);
      copy_string(strings.bytes.data() + at, data.data() + start, size, data.data() + num_bytes);
      at += size;
    }
    strings.offsets[num] = static_cast<Offset>(at);
    return strings;
  };
  return run().numpy();
}

}  // namespace
}  // namespace alance

void register_strings(nanobind::module_& m) {
  using namespace alance;
  m.def("concat_strings_32", &concat_strings<int32_t>, nb::arg("data"), nb::arg("starts"),
        nb::arg("sizes"), nb::arg("counts"));
  m.def("concat_strings_64", &concat_strings<int64_t>, nb::arg("data"), nb::arg("starts"),
        nb::arg("sizes"), nb::arg("counts"));
  m.def("concat_spans", &concat_spans, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"));
  m.def("split_rows", &split_rows<int32_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("parts"));
  m.def("split_rows", &split_rows<int64_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("parts"));
  m.def("gather_fixed", &gather_fixed, nb::arg("data"), nb::arg("bytes_per_value"),
        nb::arg("indices"));
  m.def("gather_bits", &gather_bits, nb::arg("data"), nb::arg("indices"));
  m.def("gather_strings", &gather_strings<int32_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
  m.def("gather_strings", &gather_strings<int64_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
}
