// Distinct values in order of first appearance: of a column of indices in the rows of a batch, or
// tokens of texts. A hash table with linear probing.
#pragma once
#include <bit>
#include <limits>
#include <string_view>
#include <vector>

#include "base/growing.hpp"
#include "base/hashes.hpp"

namespace alance {

class Distinct {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Values of a width; 0: strings.
  explicit Distinct(int64_t width) : width(width) {
    if (width == 0) offsets.push_back(0);
  }

  const int64_t width;
  Growing<uint8_t> bytes;
  Growing<int64_t> offsets;  // of strings

  uint32_t count() const { return count_; }
  std::string_view at(uint32_t number) const {
    const auto* from = reinterpret_cast<const char*>(bytes.data());
    if (width != 0) return {from + number * static_cast<size_t>(width), static_cast<size_t>(width)};
    const auto start = static_cast<size_t>(offsets[number]);
    return {from + start, static_cast<size_t>(offsets[size_t{number} + 1]) - start};
  }
  // Approximate memory.
  int64_t num_bytes() const {
    return static_cast<int64_t>(bytes.size() + 8 * offsets.size() + 4 * slots_.capacity());
  }
  // Slots of other values that were looked at.
  int64_t num_probes() const { return num_probes_; }

  // Begin a page, whose items are numbered next, for about `num_rows` rows. `ends`: offsets of
  // strings, one more than items.
  template <typename Offset>
  void enter(const void* page, const uint8_t* items, const Offset* ends, int64_t num_items,
             int64_t num_rows) {
    if (page == page_) return;
    page_ = page;
    numbers_.assign(static_cast<size_t>(num_items), kNone);
    if (num_rows < num_items || num_items == 0 || num_items >= int64_t{kNone}) return;
    // Adopt all items at once: to look each up would take longer than to decode the rows.
    const auto num_bytes = static_cast<size_t>(width != 0 ? num_items * width : ends[num_items] - ends[0]);
    const uint8_t* from = items + (width != 0 ? 0 : ends[0]);
    if (count_ == 0) {
      bytes.append(from, num_bytes);
      for (int64_t i = 0; width == 0 && i < num_items; ++i)
        offsets.push_back(int64_t{ends[i + 1]} - ends[0]);
      count_ = adopted_ = static_cast<uint32_t>(num_items);
    } else if (!are_adopted(from, ends, num_items, num_bytes)) {
      return;
    }
    for (uint32_t i = 0; i < adopted_; ++i) numbers_[i] = i;
  }
  // Number of an item of that page; `item` returns its bytes.
  template <typename Item>
  uint32_t of_item(uint64_t index, const Item& item) {
    uint32_t& number = numbers_[index];
    if (number == kNone) number = of(item());
    return number;
  }

  // Number of a value, which is added if it is new.
  uint32_t of(std::string_view value) {
    if (2 * (size_t{count_} + 1) > slots_.size()) grow();
    uint32_t& slot = slot_of(value);
    if (slot == kNone) {
      if (count_ + 1 == kNone) throw std::overflow_error("too many distinct values");
      bytes.append(reinterpret_cast<const uint8_t*>(value.data()), value.size());
      if (width == 0) offsets.push_back(static_cast<int64_t>(bytes.size()));
      slot = count_++;
    }
    return slot;
  }

 private:
  // True if items are those of the first page, which were adopted.
  template <typename Offset>
  bool are_adopted(const uint8_t* from, const Offset* ends, int64_t num_items, size_t num_bytes) const {
    if (num_items != int64_t{adopted_} || bytes.size() < num_bytes) return false;
    for (int64_t i = 0; width == 0 && i <= num_items; ++i)
      if (offsets[static_cast<size_t>(i)] != int64_t{ends[i]} - ends[0]) return false;
    return num_bytes == 0 || std::memcmp(bytes.data(), from, num_bytes) == 0;
  }

  // Slot of a value, or the free slot where it would be.
  uint32_t& slot_of(std::string_view value) {
    const size_t mask = slots_.size() - 1;
    size_t slot = hashes::Secret::own().of(value) & mask;
    for (; slots_[slot] != kNone && at(slots_[slot]) != value; ++num_probes_) slot = (slot + 1) & mask;
    return slots_[slot];
  }

  void grow() {
    slots_.assign(std::bit_ceil(std::max(size_t{64}, 4 * (size_t{count_} + 1))), kNone);
    for (uint32_t number = 0; number < count_; ++number) slot_of(at(number)) = number;
  }

  uint32_t count_ = 0, adopted_ = 0;  // adopted: items of the first page, in its order
  std::vector<uint32_t> slots_;  // numbers of values; the size is a power of two
  std::vector<uint32_t> numbers_;  // of the items of the current page
  const void* page_ = nullptr;
  int64_t num_probes_ = 0;
};

}  // namespace alance
