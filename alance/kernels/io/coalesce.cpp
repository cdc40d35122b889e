// Python binding of `coalesce`, for ranges in a list (a few) or in an array (many).
#include "io/coalesce.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "base/unlocked.hpp"

namespace alance {
namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;
using Array = nb::ndarray<const int64_t, nb::shape<-1, 2>, nb::device::cpu>;

nb::tuple merged(const std::vector<ByteRange>& ranges, uint64_t max_gap_bytes, uint64_t max_bytes) {
  const Coalesced result = [&] {
    const Unlocked unlocked(std::ssize(ranges) << 4);
    return coalesce(ranges, {max_gap_bytes, max_bytes});
  }();
  nb::list spans;
  for (const auto& [start, stop] : result.spans) spans.append(nb::make_tuple(start, stop));
  return nb::make_tuple(spans, result.owners);
}

nb::tuple of_array(const Array& array, uint64_t max_gap_bytes, uint64_t max_bytes) {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < array.shape(0); ++i) ranges.push_back({array(i, 0), array(i, 1)});
  return merged(ranges, max_gap_bytes, max_bytes);
}

nb::tuple of_pairs(const Pairs& pairs, uint64_t max_gap_bytes, uint64_t max_bytes) {
  std::vector<ByteRange> ranges;
  for (const auto& [start, stop] : pairs) ranges.push_back({start, stop});
  return merged(ranges, max_gap_bytes, max_bytes);
}

}  // namespace
}  // namespace alance

void register_coalesce(nanobind::module_& m) {
  m.def("coalesce", &alance::of_array);
  m.def("coalesce", &alance::of_pairs);
}
