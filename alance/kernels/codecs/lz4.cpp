// Decoding of many LZ4 units; see lz4.hpp.
#include <algorithm>

#include "base/owned.hpp"
#include "codecs/lz4.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kPrefix = 4;  // bytes of the size in front of a block

// Decode units of a size and one LZ4 block; no unit may exceed its limit. Returns the offsets of the
// contents, and the contents.
std::tuple<Owned<int64_t>, Owned<uint8_t>> decode_lz4(const Bytes& data, const In<int64_t>& starts,
                                                      const In<int64_t>& sizes,
                                                      const In<int64_t>& limits) {
  const Spans units(data, starts, sizes, "lz4");
  if (std::ssize(limits) != units.num) corrupt("lz4: one limit a unit");
  Owned<int64_t> offsets(units.num + 1);
  offsets[0] = 0;
  for (int64_t i = 0; i < units.num; ++i) {
    const int64_t rest = units.sizes[i] - kPrefix;
    if (rest < 1) corrupt("lz4: a unit of ", units.sizes[i], " bytes");
    const int64_t size = load<uint32_t>(units.at(i));
    const int64_t possible = std::min(limits.data()[i], rest * lz4::kMaxRatio + lz4::kMaxExtra);
    if (size > possible)
      corrupt("lz4: a unit of ", units.sizes[i], " bytes for ", size, ", at most ", possible,
              " are possible");
    offsets[i + 1] = offsets[i] + size;
  }
  Owned<uint8_t> contents(offsets[units.num], lz4::kBurst);
  for (int64_t i = 0; i < units.num; ++i)
    lz4::decode(units.at(i) + kPrefix, units.at(i) + units.sizes[i], contents.data() + offsets[i],
                offsets[i + 1] - offsets[i]);
  return {std::move(offsets), std::move(contents)};
}

}  // namespace
}  // namespace alance

void register_lz4(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_lz4", &decode_lz4, "data"_a, "starts"_a, "sizes"_a, "limits"_a, NoGil());
}
