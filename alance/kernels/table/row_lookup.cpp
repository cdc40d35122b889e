// Membership of rows in a serialized roaring bitmap of 64 bits, without decoding it. roaring.hpp
// describes the layout and names the specification.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/owned.hpp"
#include "table/roaring.hpp"
#include "base/unlocked.hpp"

namespace alance {
namespace {

using namespace roaring;

constexpr int64_t kManyRows = 1024;  // rows of a container from which a bitset pays
enum Form : uint8_t { kArray, kBits, kRuns };

template <typename T>
T read(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

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

struct Container {
  uint64_t key;  // row without its lowest 16 bits
  const uint8_t* data;
  int32_t count;  // values, or runs
  Form form;
};

class RowLookup {
 public:
  explicit RowLookup(nb::bytes content) : content_(std::move(content)) {
    const auto* begin = reinterpret_cast<const uint8_t*>(content_.c_str());
    Source source{begin, begin + content_.size()};
    const auto parts = read<uint64_t>(source.take(8));
    for (uint64_t part = 0; part < parts; ++part) add_part(source);
    for (size_t i = 1; i < containers_.size(); ++i)
      if (containers_[i].key <= containers_[i - 1].key) corrupt("row set: keys do not ascend");
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
    const bool is_array = container.form == kArray;
    const int32_t width = is_array ? 2 : 4;
    const auto value_of = [&](int32_t i) { return read<uint16_t>(container.data + width * i); };
    const int32_t at = last_upto(value_of, value, cursor.at, container.count);
    if (at < 0) return false;
    cursor.at = at;
    if (is_array) return value_of(at) == value;
    return value - value_of(at) <= read<uint16_t>(container.data + 4 * at + 2);
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
    const auto count = static_cast<int32_t>(containers_.size());
    if (!count) return false;
    if (containers_[cursor.container].key == key) return true;
    int32_t& next = cursor.met[(key ^ key >> 16) % cursor.met.size()];
    if (containers_[next].key != key) {
      const auto key_of = [&](int32_t i) { return containers_[i].key; };
      const int32_t last = last_upto(key_of, key, cursor.container, count);
      if (last < 0 || containers_[last].key != key) return false;
      next = last;
    }
    cursor.container = next;
    cursor.at = 0;
    return true;
  }

  // Write an array or runs as a bitset; null is an empty container.
  static void spread(const Container* container, uint8_t* bits) {
    std::memset(bits, 0, kBitsBytes);
    for (int32_t i = 0; container && i < container->count; ++i) {
      const bool is_array = container->form == kArray;
      const uint8_t* at = container->data + (is_array ? 2 : 4) * i;
      int32_t value = read<uint16_t>(at);
      const int32_t last = std::min(value + (is_array ? 0 : read<uint16_t>(at + 2)), 0xFFFF);
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

  struct Source {
    const uint8_t* at;
    const uint8_t* end;

    const uint8_t* take(int64_t count) {
      if (end - at < count) corrupt("row set: it ends too early");
      at += count;
      return at - count;
    }
  };

  void add_part(Source& source) {
    const uint64_t upper = uint64_t{read<uint32_t>(source.take(4))} << 16;
    const auto cookie = read<uint32_t>(source.take(4));
    const bool has_runs = (cookie & 0xFFFF) == kRunCookie;
    if (!has_runs && cookie != kCookie) corrupt("row set: no roaring bitmap");
    const int64_t count =
        has_runs ? int64_t{cookie >> 16} + 1 : int64_t{read<uint32_t>(source.take(4))};
    if (count > 1 << 16) corrupt("row set: too many containers");
    const uint8_t* runs = has_runs ? source.take((count + 7) / 8) : nullptr;
    const uint8_t* heads = source.take(4 * count);
    // Offsets are skipped: containers follow each other.
    if (!has_runs || count >= kFewContainers) source.take(4 * count);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = upper | read<uint16_t>(heads + 4 * i);
      const int32_t values = read<uint16_t>(heads + 4 * i + 2) + 1;
      if (runs && runs[i >> 3] >> (i & 7) & 1) {
        const int32_t number = read<uint16_t>(source.take(2));
        if (number) containers_.push_back({key, source.take(4 * int64_t{number}), number, kRuns});
      } else if (values > kArrayMost) {
        containers_.push_back({key, source.take(kBitsBytes), values, kBits});
      } else {
        containers_.push_back({key, source.take(2 * int64_t{values}), values, kArray});
      }
    }
  }

  nb::bytes content_;
  std::vector<Container> containers_;
};

// Nonzero for each row that is in `rows`, not in `without`, and in one of the fragments; None
// restricts nothing. Fragments are upper halves of rows, ascending.
nb::object rows_mask(const In<uint64_t>& ids, const RowLookup* rows, const RowLookup* without,
                     const std::optional<In<int64_t>>& fragments) {
  const auto count = static_cast<int64_t>(ids.size());
  Owned<uint8_t> mask(count);
  {
    const Unlocked unlocked(8 * count);
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
      if (may_be && rows)
        rows->each(group, stop - i, at, [&](int64_t j, bool has) { own[j] = has; });
      if (may_be && without)
        without->each(group, stop - i, at_without, [&](int64_t j, bool has) { own[j] &= !has; });
    }
  }
  return nb::cast(mask.numpy());
}

}  // namespace
}  // namespace alance

void register_row_lookup(nanobind::module_& m) {
  namespace nb = nanobind;
  nb::class_<alance::RowLookup>(m, "RowLookup").def(nb::init<nb::bytes>(), nb::arg("content"));
  m.def("rows_mask", &alance::rows_mask, nb::arg("ids"), nb::arg("rows").none(),
        nb::arg("without").none() = nb::none(), nb::arg("fragments").none() = nb::none());
}
