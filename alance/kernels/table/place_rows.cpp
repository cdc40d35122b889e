// Rows of a table, in any order and repeated, located in fragments.
#include <algorithm>
#include <array>
#include <utility>

#include "base/owned.hpp"

namespace alance {
namespace {

constexpr int64_t kMost = 1 << 10;

// `firsts` are the first rows of the fragments, and the total; `targets` are at most 1024 rows,
// each below the total. Returns the fragments that are hit (ascending); the rows, counted from the
// first of their fragment (ascending, distinct); the offsets of each fragment's rows among these;
// and the position of each wanted row among these (None: they are in this order already).
nb::tuple place_rows(const In<int64_t>& targets, const In<int64_t>& firsts) {
  const int64_t count = static_cast<int64_t>(targets.size());
  const int64_t* first = firsts.data();
  const int64_t* behind = first + firsts.size();
  if (count > kMost) corrupt("place_rows: too many rows");
  if (firsts.size() == 0 || first[0] != 0) corrupt("place_rows: first rows");
  std::array<std::pair<int64_t, int64_t>, kMost> sorted;
  bool in_order = true;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = targets.data()[i];
    if (row < 0 || row >= behind[-1]) corrupt("place_rows: no such row");
    sorted[static_cast<size_t>(i)] = {row, i};
    in_order = in_order && (i == 0 || row > sorted[static_cast<size_t>(i) - 1].first);
  }
  if (!in_order) std::sort(sorted.begin(), sorted.begin() + count);
  Owned<int64_t> rows(count), places(in_order ? 0 : count);
  nb::list fragments, cuts;
  int64_t unique = 0, previous = -1;
  const int64_t* next = first;  // first row of the fragment behind the previous row's
  for (int64_t i = 0; i < count; ++i) {
    const auto [row, at] = sorted[static_cast<size_t>(i)];
    if (row != previous) {
      if (row >= *next) {
        next = std::upper_bound(next, behind, row);
        if (next == first || next == behind) corrupt("place_rows: first rows");
        fragments.append(next - first - 1);
        cuts.append(unique);
      }
      rows[unique++] = row - next[-1];
      previous = row;
    }
    if (!in_order) places[at] = unique - 1;
  }
  cuts.append(unique);
  return nb::make_tuple(fragments, rows.numpy(unique), cuts,
                        in_order ? nb::none() : nb::cast(places.numpy()));
}

}  // namespace
}  // namespace alance

void register_place_rows(nanobind::module_& m) {
  using namespace alance;
  m.def("place_rows", &place_rows, nb::arg("targets"), nb::arg("firsts"));
}
