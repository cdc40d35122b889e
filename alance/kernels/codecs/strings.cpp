// Copies of byte strings by position.
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kBurst = 32;  // bytes of one copy, if there is room: most strings are short

// Concatenate values by their positions in `data`, in any order.
std::tuple<Owned<int64_t>, Owned<uint8_t>> concat_spans(const Bytes& data,
                                                        const In<int64_t>& starts,
                                                        const In<int64_t>& sizes) {
  const Spans values(data, starts, sizes, "values");
  Owned<int64_t> offsets(values.num + 1);
  Owned<uint8_t> bytes(values.total, kBurst);
  const uint8_t* const end = data.data() + data.size();
  uint8_t* out = bytes.data();
  for (int64_t i = 0; i < values.num; ++i) {
    const int64_t size = values.sizes[i];
    offsets[i] = out - bytes.data();
    if (size <= kBurst && end - values.at(i) >= kBurst)
      std::memcpy(out, values.at(i), kBurst);
    else
      std::memcpy(out, values.at(i), static_cast<size_t>(size));
    out += size;
  }
  offsets[values.num] = values.total;
  return {std::move(offsets), std::move(bytes)};
}

}  // namespace
}  // namespace alance

void register_strings(nanobind::module_& m) {
  using namespace alance;
  m.def("concat_spans", &concat_spans, "data"_a, "starts"_a, "sizes"_a, NoGil());
}
