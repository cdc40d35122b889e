// Stable sort order of numbers: a few presorted runs are merged, other inputs take an LSD radix
// sort (D. Knuth, "The Art of Computer Programming", volume 3, 5.2.4 and 5.2.5).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/owned.hpp"

namespace alance {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kBuckets = size_t{1} << kDigitBits;
// Runs that are merged in three rounds, which takes no longer than a radix sort.
constexpr size_t kFewRuns = 8;

// Number less the smallest of all, and its position.
template <typename Key>
struct Item {
  Key key;
  uint32_t place;
};

// Sort by the digits of keys up to `span`, the lowest first; `other` is as long as `items`.
template <typename E>
void sort_digits(Owned<E>& items, Owned<E>& other, uint64_t span) {
  for (int shift = 0; shift < 64 && span >> shift; shift += kDigitBits) {
    std::array<int64_t, kBuckets> starts{};
    const E* source = items.data();
    for (int64_t i = 0; i < items.size(); ++i) ++starts[source[i].key >> shift & (kBuckets - 1)];
    int64_t total = 0;
    for (auto& bucket : starts) total += std::exchange(bucket, total);
    E* target = other.data();
    for (int64_t i = 0; i < items.size(); ++i)
      target[starts[source[i].key >> shift & (kBuckets - 1)]++] = source[i];
    std::swap(items, other);
  }
}

// Merge adjacent runs, which begin at `starts`, until a single run remains.
template <typename E>
void merge_runs(Owned<E>& items, Owned<E>& other, std::vector<int64_t> starts) {
  const auto is_less = [](const E& left, const E& right) { return left.key < right.key; };
  for (; starts.size() > 1; std::swap(items, other)) {
    std::vector<int64_t> joined;
    for (size_t i = 0; i < starts.size(); i += 2) {
      const auto end_of = [&](size_t run) { return run < starts.size() ? starts[run] : items.size(); };
      const E* from = items.data();
      std::merge(from + starts[i], from + end_of(i + 1), from + end_of(i + 1), from + end_of(i + 2),
                 other.data() + starts[i], is_less);
      joined.push_back(starts[i]);
    }
    starts = std::move(joined);
  }
}

// Starts of ascending runs; not all of them if there are more than kFewRuns.
std::vector<int64_t> runs_of(const uint64_t* keys, int64_t count) {
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count && starts.size() <= kFewRuns; ++i)
    if (i == 0 || keys[i] < keys[i - 1]) starts.push_back(i);
  return starts;
}

using Sorted = std::tuple<Owned<uint64_t>, Owned<uint32_t>>;

template <typename E>
Sorted sorted(const uint64_t* keys, int64_t count, uint64_t least, uint64_t span) {
  Owned<E> items(count), other(count);
  for (int64_t i = 0; i < count; ++i)
    items[i] = {static_cast<decltype(E::key)>(keys[i] - least), static_cast<uint32_t>(i)};
  const auto runs = runs_of(keys, count);
  if (runs.size() <= kFewRuns)
    merge_runs(items, other, runs);
  else
    sort_digits(items, other, span);
  Owned<uint64_t> ordered(count);
  Owned<uint32_t> places(count);
  for (int64_t i = 0; i < count; ++i) {
    ordered[i] = items[i].key + least;
    places[i] = items[i].place;
  }
  return {std::move(ordered), std::move(places)};
}

Sorted order_of(const In<uint64_t>& numbers) {
  const int64_t count = std::ssize(numbers);
  const uint64_t* keys = numbers.data();
  if (count > UINT32_MAX) corrupt("order: more than 32 bits count");
  uint64_t least = UINT64_MAX, most = 0;
  for (int64_t i = 0; i < count; ++i) {
    least = std::min(least, keys[i]);
    most = std::max(most, keys[i]);
  }
  const uint64_t span = count ? most - least : 0;
  return span > UINT32_MAX ? sorted<Item<uint64_t>>(keys, count, least, span)
                           : sorted<Item<uint32_t>>(keys, count, least, span);
}

}  // namespace
}  // namespace alance

void register_row_order(nanobind::module_& m) {
  using namespace alance;
  m.def("order_of", &order_of, "keys"_a.noconvert(), NoGil());
}
