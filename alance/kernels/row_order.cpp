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
    const uint64_t span = count ? most - least : 0;
    const int passes = span == 0 ? 0 : span >> (2 * BITS) ? 3 : span >> BITS ? 2 : 1;
    std::array<std::array<int64_t, BUCKETS>, 3> starts{};
    Owned<uint64_t> one(count), other(count);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = id[i] - least;
      one[i] = key << 32 | static_cast<uint64_t>(i);
      for (int pass = 0; pass < 3; ++pass) ++starts[pass][key >> (pass * BITS) & (BUCKETS - 1)];
    }
    Owned<uint64_t>*from = &one, *to = &other;
    for (int pass = 0; pass < passes; ++pass) {
      auto& start = starts[pass];
      int64_t total = 0;
      for (auto& bucket : start) total += std::exchange(bucket, total);
      const uint64_t* source = from->data();
      uint64_t* target = to->data();
      const int shift = 32 + pass * BITS;
      for (int64_t i = 0; i < count; ++i)
        target[start[source[i] >> shift & (BUCKETS - 1)]++] = source[i];
      std::swap(from, to);
    }
    Owned<uint32_t> order(count);
    uint64_t* sorted = from->data();
    for (int64_t i = 0; i < count; ++i) {
      order[i] = static_cast<uint32_t>(sorted[i]);
      sorted[i] = (sorted[i] >> 32) + least;
    }
    return std::make_pair(std::move(*from), std::move(order));
  };
  auto [sorted, order] = run();
  return nb::make_tuple(sorted.numpy(), order.numpy());
}

}  // namespace
}  // namespace alance

void register_row_order(nanobind::module_& m) {
  m.def("order_of", &alance::order_of, nanobind::arg("ids").noconvert());
}
