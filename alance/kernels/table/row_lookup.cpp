// Rows of a table: membership in a serialized roaring bitmap of 64 bits, without decoding it;
// addresses by stable row id; places in fragments. roaring.hpp describes the layout of bitmaps.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/owned.hpp"
#include "base/unlocked.hpp"
#include "table/roaring.hpp"

namespace alance {
namespace {

using namespace roaring;

constexpr int64_t kManyRows = 1024;  // rows of a container from which a bitset pays
// Position of the last of ascending values that is at most `sought`, or -1. Galloping search from
// `hint` on; binary search of all values if `hint` is 0 or its value is greater.
template <typename Of, typename T>
int32_t last_upto(const Of& of, T sought, int32_t hint, int32_t count) {
  int32_t low = hint, high = count;
  if (low && of(low) > sought) low = 0;
  if (of(low) > sought) return -1;
  if (low) {
    for (int32_t step = 1; low + step < count; step *= 2) {
      if (of(low + step) > sought) {
        high = low + step;
        break;
      }
      low += step;
    }
  }
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    (of(middle) <= sought ? low : high) = middle;
  }
  return low;
}

class RowLookup {
 public:
  explicit RowLookup(nb::bytes content) : content_(std::move(content)) {
    const auto* at = reinterpret_cast<const uint8_t*>(content_.c_str());
    const uint8_t* end = at + content_.size();
    const auto take = [&](int64_t count, const char* what = "parts") {
      if (end - at < count) corrupt("row set: it ends too early, in ", what);
      at += count;
      return at - count;
    };
    const auto parts = load<uint64_t>(take(8));
    for (uint64_t part = 0; part < parts; ++part) {
      const uint64_t upper = uint64_t{load<uint32_t>(take(4))} << 16;
      each_container(take, [&](const Container& container) {
        if (container.num_items == 0) return;
        keys_.push_back(upper | container.key);
        containers_.push_back(container);
      });
    }
    for (size_t i = 1; i < keys_.size(); ++i)
      if (keys_[i] <= keys_[i - 1]) corrupt("row set: keys do not ascend");
  }

  // Position of the last search, where the next begins: rows are found fastest in ascending order.
  struct Cursor {
    int32_t container = 0;
    int32_t at = 0;  // in that container
    std::array<int32_t, 64> met{};  // containers by some bits of their keys: for rows in no order
  };

  bool has(uint64_t row, Cursor& cursor) const {
    if (!move_to(row >> 16, cursor)) return false;
    const Container& container = containers_[cursor.container];
    const auto value = static_cast<uint16_t>(row);
    if (container.form == kBits) return container.data[value >> 3] >> (value & 7) & 1;
    const auto value_of = [&](int32_t i) { return container.first(i); };
    const int32_t at = last_upto(value_of, value, cursor.at, container.num_items);
    if (at < 0) return false;
    cursor.at = at;
    return value - container.first(at) <= container.more(at);
  }

  // Call `visit(i, has)` for each of some rows of one container; `has`: the set has row i.
  template <typename Visit>
  void each(const uint64_t* rows, int64_t count, Cursor& cursor, Visit visit) const {
    if (count < kManyRows) {
      for (int64_t i = 0; i < count; ++i) visit(i, has(rows[i], cursor));
      return;
    }
    uint8_t own[kBitsBytes];
    const uint8_t* bits = own;
    const bool has_container = move_to(rows[0] >> 16, cursor);
    if (has_container && containers_[cursor.container].form == kBits)
      bits = containers_[cursor.container].data;
    else
      spread(has_container ? &containers_[cursor.container] : nullptr, own);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<uint16_t>(rows[i]);
      visit(i, bits[value >> 3] >> (value & 7) & 1);
    }
  }

 private:
  bool move_to(uint64_t key, Cursor& cursor) const {
    const auto count = static_cast<int32_t>(keys_.size());
    if (!count) return false;
    if (keys_[cursor.container] == key) return true;
    int32_t& next = cursor.met[(key ^ key >> 16) % cursor.met.size()];
    if (keys_[next] != key) {
      const auto key_of = [&](int32_t i) { return keys_[i]; };
      const int32_t last = last_upto(key_of, key, cursor.container, count);
      if (last < 0 || keys_[last] != key) return false;
      next = last;
    }
    cursor.container = next;
    cursor.at = 0;
    return true;
  }

  // Write an array or runs as a bitset; null is an empty container.
  static void spread(const Container* container, uint8_t* bits) {
    std::memset(bits, 0, kBitsBytes);
    const Container own = container ? *container : Container{};  // a copy: `bits` may alias it
    for (int32_t i = 0; i < own.num_items; ++i) {
      int32_t value = own.first(i);
      const int32_t last = std::min(value + own.more(i), 0xFFFF);
      for (; value <= last; ++value) {
        if (value % 8 == 0 && last - value >= 7) {
          const int32_t bytes = (last - value + 1) / 8;
          std::memset(bits + value / 8, 0xFF, static_cast<size_t>(bytes));
          value += 8 * bytes - 1;
        } else {
          bits[value >> 3] |= static_cast<uint8_t>(1 << (value & 7));
        }
      }
    }
  }

  nb::bytes content_;
  std::vector<uint64_t> keys_;  // rows of each container, without their lowest 16 bits
  std::vector<Container> containers_;
};

// `fragments`: upper halves of rows, ascending.
Owned<uint8_t> rows_mask(const In<uint64_t>& ids, const RowLookup* rows, const RowLookup* without,
                         const std::optional<In<int64_t>>& fragments) {
  const int64_t count = std::ssize(ids);
  const Unlocked unlocked(8 * count);
  Owned<uint8_t> mask(count);
  RowLookup::Cursor at, at_without;
  const int64_t* counted = fragments ? fragments->data() : nullptr;
  const auto num_fragments = static_cast<int32_t>(fragments ? fragments->size() : 0);
  int64_t fragment = -1;  // of the previous row; then its position, and if it counts
  int32_t place = 0;
  bool is_in = false;
  for (int64_t i = 0, stop = 0; i < count; i = stop) {
    const uint64_t id = ids.data()[i];
    while (stop < count && ids.data()[stop] >> 16 == id >> 16) ++stop;
    if (num_fragments && static_cast<int64_t>(id >> 32) != fragment) {
      fragment = static_cast<int64_t>(id >> 32);
      const auto fragment_at = [&](int32_t at) { return counted[at]; };
      const int32_t last = last_upto(fragment_at, fragment, place, num_fragments);
      is_in = last >= 0 && counted[last] == fragment;
      place = std::max(last, 0);
    }
    const bool may_be = !fragments || is_in;
    uint8_t* own = mask.data() + i;
    std::memset(own, may_be, static_cast<size_t>(stop - i));
    const uint64_t* group = ids.data() + i;
    if (may_be && rows) rows->each(group, stop - i, at, [&](int64_t j, bool has) { own[j] = has; });
    if (may_be && without)
      without->each(group, stop - i, at_without, [&](int64_t j, bool has) { own[j] &= !has; });
  }
  return mask;
}

// Runs of row ids by the upper half of their first id, ascending; see `RowIdIndex`.
class Runs {
 public:
  Runs(const In<uint64_t>& highs, const In<int64_t>& bounds, const In<uint32_t>& lows,
       const In<uint64_t>& addresses, const In<uint32_t>& lengths)
      : highs_(highs.data()), bounds_(bounds.data()), lows_(lows.data()),
        addresses_(addresses.data()), lengths_(lengths.size() ? lengths.data() : nullptr) {
    const size_t count = lows.size();
    if (addresses.size() != count || (lengths_ && lengths.size() != count))
      corrupt("row ids: arrays of unequal length");
    if (count && (bounds.size() != highs.size() + 1 || bounds_[0] != 0 ||
                  bounds_[highs.size()] != static_cast<int64_t>(count)))
      corrupt("row ids: bounds of other runs");
    for (size_t high = 0; count && high < highs.size(); ++high) {
      if (bounds_[high + 1] <= bounds_[high]) corrupt("row ids: bounds do not ascend");
      firsts_.push_back(start(high, bounds_[high]));
    }
  }

  // Address of an id, or -1. The position is kept: ascending ids are found without a search.
  int64_t find(uint64_t id) {
    if (firsts_.empty() || id < firsts_[0]) return -1;
    if (!(id >= firsts_[high_] && (high_ + 1 == firsts_.size() || id < firsts_[high_ + 1]))) {
      high_ = static_cast<size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), id) -
                                  firsts_.begin()) -
              1;
      run_ = bounds_[high_];
    }
    const int64_t stop = bounds_[high_ + 1];
    const uint64_t step_of_high = id - (highs_[high_] << 32);
    const auto low = static_cast<uint32_t>(std::min<uint64_t>(step_of_high, UINT32_MAX));
    if (lows_[run_] > low || (run_ + 1 < stop && lows_[run_ + 1] <= low)) {
      const int64_t from = lows_[run_] > low ? bounds_[high_] : run_ + 1;
      run_ = std::upper_bound(lows_ + from, lows_ + stop, low) - lows_ - 1;
    }
    const uint64_t step = id - start(high_, run_);
    if (step >= (lengths_ ? lengths_[run_] : 1)) return -1;
    return static_cast<int64_t>(addresses_[run_] + step);
  }

 private:
  uint64_t start(size_t high, int64_t run) const { return highs_[high] << 32 | lows_[run]; }

  const uint64_t* highs_;
  const int64_t* bounds_;
  const uint32_t* lows_;
  const uint64_t* addresses_;
  const uint32_t* lengths_;
  std::vector<uint64_t> firsts_;  // first id of each upper half
  size_t high_ = 0;
  int64_t run_ = 0;
};

Owned<int64_t> find_row_ids(const In<uint64_t>& ids, const In<uint64_t>& highs,
                            const In<int64_t>& bounds, const In<uint32_t>& lows,
                            const In<uint64_t>& addresses, const In<uint32_t>& lengths) {
  Runs runs(highs, bounds, lows, addresses, lengths);
  Owned<int64_t> row_addresses(std::ssize(ids));
  for (int64_t i = 0; i < row_addresses.size(); ++i) row_addresses[i] = runs.find(ids.data()[i]);
  return row_addresses;
}

constexpr int64_t kMost = 1 << 10;

// `firsts` are the first rows of the fragments, and the total; `targets` are at most 1024 rows,
// each below the total. Returns the fragments that are hit (ascending); the rows, counted from the
// first of their fragment (ascending, distinct); the offsets of each fragment's rows among these;
// and the position of each wanted row among these (None: they are in this order already).
nb::tuple place_rows(const In<int64_t>& targets, const In<int64_t>& firsts) {
  const int64_t count = std::ssize(targets);
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
  return nb::make_tuple(fragments, rows.numpy(0, unique), cuts,
                        in_order ? nb::none() : nb::cast(places.numpy()));
}

}  // namespace
}  // namespace alance

void register_row_lookup(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowLookup>(m, "RowLookup").def(nb::init<nb::bytes>(), "content"_a);
  m.def("rows_mask", &rows_mask, "ids"_a, "rows"_a.none(), "without"_a.none() = nb::none(),
        "fragments"_a.none() = nb::none());
  m.def("find_row_ids", &find_row_ids, "ids"_a, "highs"_a, "bounds"_a, "lows"_a, "addresses"_a,
        "lengths"_a, NoGil());
  m.def("place_rows", &place_rows, "targets"_a, "firsts"_a);
}
