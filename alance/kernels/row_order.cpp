// The order of row ids: a radix sort of numbers that lie within 32 bits of each other.
#include <algorithm>
#include <array>
#include <utility>

#include "owned.hpp"

namespace alance {
namespace {

constexpr int BITS = 11;
constexpr size_t BUCKETS = size_t{1} << BITS;
constexpr uint64_t LOW = 0xFFFFFFFF;

// The ids in ascending order, and the positions where they were; equal ones stay in their order.
nb::tuple order_of(In<uint64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  const uint64_t* id = ids.data();
  auto run = [&] {
    nb::gil_scoped_release release;
    if (static_cast<uint64_t>(count) > LOW) corrupt("row ids: more than 32 bits count");
    uint64_t least = UINT64_MAX, most = 0;
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, id[i]);
      most = std::max(most, id[i]);
    }
    if (count && most - least > LOW) corrupt("row ids: too far apart for a radix sort");
    Owned<uint64_t> one(count), other(count);
    for (int64_t i = 0; i < count; ++i)
      one[i] = (id[i] - least) << 32 | static_cast<uint64_t>(i);
    uint64_t *from = one.data(), *to = other.data();
    for (int shift = 32; count && ((most - least) >> (shift - 32)) != 0; shift += BITS) {
      std::array<int64_t, BUCKETS> starts{};
      for (int64_t i = 0; i < count; ++i) ++starts[(from[i] >> shift) & (BUCKETS - 1)];
      int64_t total = 0;
      for (auto& start : starts) total += std::exchange(start, total);
      for (int64_t i = 0; i < count; ++i) to[starts[(from[i] >> shift) & (BUCKETS - 1)]++] = from[i];
      std::swap(from, to);
      if (shift + BITS >= 64) break;
    }
    Owned<uint64_t> sorted(count);
    Owned<uint32_t> order(count);
    for (int64_t i = 0; i < count; ++i) {
      sorted[i] = (from[i] >> 32) + least;
      order[i] = static_cast<uint32_t>(from[i]);
    }
    return std::make_pair(std::move(sorted), std::move(order));
  };
  auto [sorted, order] = run();
  return nb::make_tuple(sorted.numpy(), order.numpy());
}

}  // namespace
}  // namespace alance

void register_row_order(nanobind::module_& m) {
  m.def("order_of", &alance::order_of, nanobind::arg("ids").noconvert());
}
