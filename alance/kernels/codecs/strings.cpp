// Copies of byte strings, by position or by index.
#include <limits>

#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kBurst = 32;  // bytes of one copy, if there is room: most strings are short

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

// Copy a string; may overwrite up to kBurst bytes behind it, and reads only before `in_end`.
inline void copy_string(uint8_t* out, const uint8_t* in, int64_t size, const uint8_t* in_end) {
  if (size <= kBurst && in_end - in >= kBurst)
    std::memcpy(out, in, kBurst);
  else
    std::memcpy(out, in, static_cast<size_t>(size));
}

// Concatenate values by their positions in `data`, in any order.
nb::tuple concat_spans(Bytes data, In<int64_t> starts, In<int64_t> sizes) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    Spans values(data, starts, sizes, "values");
    Strings<int64_t> strings{Owned<int64_t>(values.num + 1), Owned<uint8_t>(values.total, kBurst)};
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
    Strings<Offset> strings{Owned<Offset>(num + 1), Owned<uint8_t>(total, kBurst)};
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
  m.def("gather_strings", &gather_strings<int32_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
  m.def("gather_strings", &gather_strings<int64_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("indices"));
}
