// Decoding of many LZ4 units; see lz4.hpp.
#include <algorithm>

#include "base/owned.hpp"
#include "codecs/lz4.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

// Decode units of a 4-byte size and one LZ4 block; no unit may exceed its limit. Returns the
// offsets of the contents, and the contents.
nb::tuple decode_lz4(Bytes data, In<int64_t> starts, In<int64_t> sizes, In<int64_t> limits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t kPrefix = 4;
    Spans units(data, starts, sizes, "lz4");
    if (static_cast<int64_t>(limits.size()) != units.num) corrupt("lz4: one limit a unit");
    Owned<int64_t> offsets(units.num + 1);
    offsets[0] = 0;
    for (int64_t i = 0; i < units.num; ++i) {
      int64_t rest = units.sizes[i] - kPrefix;
      if (rest < 1) corrupt("lz4: a unit of " + std::to_string(units.sizes[i]) + " bytes");
      int64_t size = load<uint32_t>(units.at(i));
      int64_t possible = std::min(limits.data()[i], rest * lz4::kMaxRatio + lz4::kMaxExtra);
      if (size > possible)
        corrupt("lz4: a unit of " + std::to_string(units.sizes[i]) + " bytes for " +
                std::to_string(size) + ", at most " + std::to_string(possible) + " are possible");
      offsets[i + 1] = offsets[i] + size;
    }
    Owned<uint8_t> contents(offsets[units.num], lz4::kBurst);
    for (int64_t i = 0; i < units.num; ++i)
      lz4::decode(units.at(i) + kPrefix, units.at(i) + units.sizes[i], contents.data() + offsets[i],
                  offsets[i + 1] - offsets[i]);
    return std::make_pair(std::move(offsets), std::move(contents));
  };
  auto units = decode();
  return nb::make_tuple(units.first.numpy(), units.second.numpy());
}

}  // namespace
}  // namespace alance

void register_lz4(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_lz4", &decode_lz4, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"),
        nb::arg("limits"));
}
