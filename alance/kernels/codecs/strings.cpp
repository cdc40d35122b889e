// Values of fixed and variable width, by their places in bytes or by index.
#include <limits>

#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

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
  m.def("concat_spans", &concat_spans, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"));
  m.def("gather_fixed", &gather_fixed, nb::arg("data"), nb::arg("bytes_per_value"),
        nb::arg("indices"));
  m.def("gather_bits", &gather_bits, nb::arg("data"), nb::arg("indices"));
  m.def("gather_strings", &gather_strings<int32_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
  m.def("gather_strings", &gather_strings<int64_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
}
