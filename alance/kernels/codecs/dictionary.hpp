// Dictionary decoding: items copied by index.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance::dictionary {

struct AllValid {
  constexpr bool operator()(int64_t) const { return true; }
};

// True if all indices are below `num_items`. Branch-free: the compiler vectorises it.
template <typename Index>
bool are_inside(const Index* indices, int64_t count, int64_t num_items) {
  Index most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, indices[i]);
  return count == 0 || uint64_t{most} < static_cast<uint64_t>(num_items);
}

// Set out-of-range indices of nulls, which are arbitrary, to 0; throws if a valid value has one.
template <typename Index, typename Valid>
void settle(Index* indices, int64_t count, int64_t num_items, const Valid& is_valid) {
  if (are_inside(indices, count, num_items)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (uint64_t{indices[i]} < static_cast<uint64_t>(num_items)) continue;
    if (is_valid(i))
      corrupt("dictionary index ", indices[i], ", the dictionary has ", num_items, " items");
    indices[i] = 0;
  }
}

// Copy items of `width` bytes; all indices are in range.
template <typename Index>
void gather(const uint8_t* items, int64_t width, const Index* indices, int64_t count,
            uint8_t* out) {
  with_size(width, [&](auto size) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out + i * size, items + static_cast<int64_t>(indices[i]) * size,
                  static_cast<size_t>(size));
  });
}

// Dictionary of strings, whose `num_items + 1` offsets ascend and stay inside the bytes.
template <typename Item>
class Strings {
 public:
  Strings(const Item* offsets, int64_t num_items, const uint8_t* bytes, int64_t num_bytes)
      : offsets_(offsets), num_items_(num_items), bytes_(bytes), bytes_end_(bytes + num_bytes) {}

  // Strings of indices that are all in range, concatenated, with offsets from 0; nulls are empty.
  template <typename Offset, typename Index, typename Valid>
  std::pair<Owned<Offset>, Owned<uint8_t>> expand(const Index* indices, int64_t count,
                                                  const Valid& is_valid) const {
    const int64_t slot = slot_size(count);
    if (slot == 0) {
      Owned<Offset> offsets = offsets_of<Offset>(count, [&](int64_t i) {
        return is_valid(i) ? size(static_cast<int64_t>(indices[i])) : 0;
      });
      return {std::move(offsets), copied(indices, count, offsets.data())};
    }
    std::vector<uint8_t> sizes(static_cast<size_t>(num_items_));
    std::vector<uint8_t> slots(static_cast<size_t>(num_items_ * slot));
    for (int64_t item = 0; item < num_items_; ++item) {
      sizes[static_cast<size_t>(item)] = static_cast<uint8_t>(size(item));
      if (size(item))
        std::memcpy(slots.data() + item * slot, bytes_ + offsets_[item],
                    static_cast<size_t>(size(item)));
    }
    const uint8_t* const size_of = sizes.data();
    Owned<Offset> offsets = offsets_of<Offset>(
        count, [&](int64_t i) { return is_valid(i) ? int64_t{size_of[indices[i]]} : 0; });
    return {std::move(offsets), slotted(slots.data(), slot, indices, count, offsets.data())};
  }

 private:
  static constexpr std::array<int64_t, 3> kSlots{8, 16, 32};  // bytes of one fixed-size copy
  static constexpr int64_t kMaxSlots = 1 << 14;  // half a MiB of slots: more would leave the cache

  int64_t size(int64_t item) const { return offsets_[item + 1] - offsets_[item]; }

  // Bytes of a slot that fits every item; 0 if items are too many or too long for slots.
  int64_t slot_size(int64_t count) const {
    if (num_items_ == 0 || num_items_ > std::min(count, kMaxSlots)) return 0;
    int64_t longest = 0;
    for (int64_t item = 0; item < num_items_; ++item) longest = std::max(longest, size(item));
    for (int64_t slot : kSlots)
      if (longest <= slot) return slot;
    return 0;
  }

  template <typename Offset, typename Size>
  Owned<Offset> offsets_of(int64_t count, const Size& size_at) const {
    Owned<Offset> offsets(count + 1);
    Offset* const out = offsets.data();
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<Offset>(total);
      const int64_t size = num_items_ ? size_at(i) : 0;
      if (__builtin_add_overflow(total, size, &total) || total > std::numeric_limits<Offset>::max())
        throw std::overflow_error("strings of too many bytes for their offsets");
    }
    out[count] = static_cast<Offset>(total);
    return offsets;
  }

  // Copy whole slots to the strings' offsets: the next string, or slack, takes the excess bytes.
  template <typename Offset, typename Index>
  static Owned<uint8_t> slotted(const uint8_t* slots, int64_t slot, const Index* indices,
                                int64_t count, const Offset* offsets) {
    Owned<uint8_t> bytes(offsets[count], kSlots.back());
    uint8_t* const out = bytes.data();
    with_size(slot, [&](auto size) {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(out + offsets[i], slots + static_cast<int64_t>(indices[i]) * size,
                    static_cast<size_t>(size));
    });
    return bytes;
  }

  template <typename Offset, typename Index>
  Owned<uint8_t> copied(const Index* indices, int64_t count, const Offset* offsets) const {
    constexpr int64_t kBurst = kSlots.back();  // bytes of one fixed-size copy, if there is room
    Owned<uint8_t> bytes(offsets[count], kBurst);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t num_bytes = int64_t{offsets[i + 1]} - offsets[i];
      if (num_bytes == 0) continue;
      const uint8_t* from = bytes_ + offsets_[indices[i]];
      const bool is_short = num_bytes <= kBurst && bytes_end_ - from >= kBurst;
      std::memcpy(bytes.data() + offsets[i], from,
                  is_short ? size_t{kBurst} : static_cast<size_t>(num_bytes));
    }
    return bytes;
  }

  const Item* offsets_;
  int64_t num_items_;
  const uint8_t* bytes_;
  const uint8_t* bytes_end_;
};

}  // namespace alance::dictionary
