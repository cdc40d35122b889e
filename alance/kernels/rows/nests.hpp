// Nested fields: the lists and structs around a leaf, from its repetition and definition levels
// (Dremel; see encode/pages_levels.cpp). format/encode/levels.py explains the numbering of levels.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bounds.hpp"
#include "base/growing.hpp"
#include "codecs/spans.hpp"

namespace alance::nests {

constexpr size_t kMostLayers = 1024;  // of a field
enum Layer : uint64_t { kAllValidItem = 1, kAllValidList, kNullableItem, kNullableList, kEmptyableList, kNullAndEmptyList };

// Layers of a page, innermost first, numbered as `RepDefLayer`. The first sixteen are four bits each
// of an integer, the innermost lowest. Further layers are bytes of a string that pages share.
class Layers {
 public:
  Layers(uint64_t inner = 0) : inner_(inner) {}
  Layers(uint64_t inner, std::string outer) : inner_(inner) {
    if (!outer.empty()) outer_ = std::make_shared<const std::string>(std::move(outer));
  }

  uint64_t innermost() const { return inner_ & 15; }
  // All layers but the innermost.
  Layers around() const {
    Layers own = *this;
    own.inner_ >>= 4;
    if (outer_ && next_ < outer_->size()) own.inner_ |= static_cast<uint64_t>((*outer_)[own.next_++] & 15) << 60;
    return own;
  }
  bool none() const { return inner_ == 0; }
  // True if there is one layer.
  bool is(uint64_t layer) const { return inner_ == layer; }

 private:
  uint64_t inner_;
  size_t next_ = 0;  // first byte of `outer_` that is not in `inner_`
  std::shared_ptr<const std::string> outer_;
};

inline uint64_t innermost(const Layers& layers) { return layers.innermost(); }
inline bool is_list(const Layers& layers) {
  return innermost(layers) != kAllValidItem && innermost(layers) != kNullableItem;
}
inline int num_levels(const Layers& layers) {
  const uint64_t layer = innermost(layers);
  return layer == kNullAndEmptyList ? 2 : layer != kAllValidItem && layer != kAllValidList;
}
// Number of levels of the layers up to the next list.
inline int item_levels(Layers layers) {
  int levels = 0;
  for (; !layers.none() && !is_list(layers); layers = layers.around()) levels += num_levels(layers);
  return levels;
}
inline bool is_plain(const Layers& layers) { return layers.is(kAllValidItem) || layers.is(kNullableItem); }

// Nodes of fields, depth-first: `kLeaf`, `kList`, `kLargeList`, the number of members of a struct, or
// `kLargeList - length` for fixed-size lists of structs.
using Trees = std::vector<int>;
constexpr int kLeaf = 0, kList = -1, kLargeList = -2;

// Length of a node's fixed-size lists; 0 for other nodes.
inline int64_t length_of(int node) { return node < kLargeList ? int64_t{kLargeList} - node : 0; }
inline bool has_offsets(int node) { return node == kList || node == kLargeList; }
inline size_t num_children(int node) { return node < 0 ? 1 : static_cast<size_t>(node); }
// Node behind the field that begins at `node`.
inline size_t end_of(const Trees& trees, size_t node) {
  for (size_t num_open = 1; num_open != 0; ++node) {
    if (node >= trees.size()) corrupt("fields of unknown nodes");
    num_open += num_children(trees[node]) - 1;
  }
  return node;
}
inline size_t num_leaves(const Trees& trees, size_t first, size_t last) {
  size_t count = 0;
  for (; first < last; ++first) count += trees[first] == kLeaf;
  return count;
}

// Slots at one depth of a leaf.
class Depth {
 public:
  explicit Depth(bool is_list) : is_list_(is_list) { offsets_.push_back(0); }

  bool is_list() const { return is_list_; }
  int64_t count() const { return count_; }
  bool has_nulls() const { return has_nulls_; }
  // A byte a slot; null if all are valid.
  const uint8_t* valid() const { return has_nulls_ ? valid_.data() : nullptr; }
  // Offsets of lists, one more than slots.
  const Growing<int64_t>& offsets() const { return offsets_; }

  // Append slots of entries by their definition levels. Entries above `slot_max` have no slot;
  // entries of at most `base` are valid.
  void add_items(const Growing<uint16_t>& def, int slot_max, int base) {
    const auto num_up_to = [&](int most) {
      return static_cast<size_t>(std::count_if(def.data(), def.data() + def.size(), [=](uint16_t level) { return level <= most; }));
    };
    const size_t num_valid = num_up_to(base), num_slots = num_up_to(slot_max);
    if (num_valid == num_slots) return add_valid(num_slots);
    const size_t before = static_cast<size_t>(count_);
    uint8_t* valid = open(def.size());
    size_t slot = 0;
    for (size_t i = 0; i < def.size(); ++i) {
      valid[slot] = def[i] <= base;
      slot += def[i] <= slot_max;
    }
    close(before, slot, num_valid);
  }
  // The same if all entries are valid.
  void add_valid(size_t count) {
    if (is_open_) valid_.fill(count, 1);
    count_ += static_cast<int64_t>(count);
  }
  // Append slots of sparse pages, each `repeats` times. `valid`: a byte for each slot; empty: all are valid.
  void add_slots(const std::vector<uint8_t>& valid, size_t count, size_t repeats) {
    if (valid.empty()) return add_valid(count * repeats);
    const size_t before = static_cast<size_t>(count_);
    uint8_t* out = open(count * repeats);
    size_t num_valid = 0;
    for (const uint8_t own : valid) {
      out = std::fill_n(out, repeats, own);
      num_valid += own * repeats;
    }
    close(before, count * repeats, num_valid);
  }
  // Append slots of lists of sparse pages with these numbers of items. `valid`: as for `add_slots`.
  void add_sizes(const std::vector<int64_t>& sizes, const std::vector<uint8_t>& valid) {
    for (const int64_t size : sizes) offsets_.push_back(offsets_.back() + size);
    add_slots(valid, sizes.size(), 1);
  }
  // The same for lists. Keeps the levels of the entries that begin a list, for the layer around.
  // Entries without items begin a list, so the others of a list need not be looked at.
  void add_lists(Growing<uint16_t>& rep, Growing<uint16_t>& def, int slot_max, int base, int empty) {
    const size_t before = static_cast<size_t>(count_), size = def.size();
    const int64_t first = offsets_.back();
    offsets_.shrink(before);
    int64_t* offsets = offsets_.extend(size + 1);
    uint8_t* valid = open(size);
    uint16_t *reps = rep.data(), *defs = def.data();
    size_t slot = 0, begun = 0, num_valid = 0;
    int64_t num_without = 0;  // entries without items
    for (size_t at = 0; at < size; at += 64) {
      for (uint64_t bits = nonzero(reps + at, std::min<size_t>(size - at, 64)); bits != 0; bits &= bits - 1) {
        const size_t i = at + static_cast<size_t>(std::countr_zero(bits));
        const uint16_t level = defs[i];
        const bool has_slot = level <= slot_max, is_valid = level <= base || level == empty;
        offsets[slot] = first + static_cast<int64_t>(i) - num_without;
        valid[slot] = is_valid;
        slot += has_slot;
        num_valid += has_slot && is_valid;
        reps[begun] = static_cast<uint16_t>(reps[i] - 1);
        defs[begun++] = level;
        num_without += level > base;
      }
    }
    offsets[slot] = first + static_cast<int64_t>(size) - num_without;
    offsets_.shrink(before + slot + 1);
    rep.shrink(begun);
    def.shrink(begun);
    close(before, slot, num_valid);
  }

 private:
  // Bits of the first `count` (at most 64) levels that are not 0.
  static uint64_t nonzero(const uint16_t* levels, size_t count) {
    uint8_t flags[64] = {};
    if (count == 64)  // vectorized
      for (size_t i = 0; i < 64; ++i) flags[i] = levels[i] != 0;
    else
      for (size_t i = 0; i < count; ++i) flags[i] = levels[i] != 0;
    uint64_t bits = 0;
    for (size_t i = 0; i < 64; i += 8)  // gathers the lowest bits of eight bytes
      bits |= (load<uint64_t>(flags + i) * 0x0102040810204080u >> 56) << i;
    return bits;
  }
  // Room for the validity of more slots.
  uint8_t* open(size_t count) {
    if (!is_open_) valid_.fill(static_cast<size_t>(count_), 1);
    is_open_ = true;
    return valid_.extend(count + 1);  // the byte behind the last slot is written, too
  }
  void close(size_t before, size_t count, size_t num_valid) {
    valid_.shrink(before + count);
    count_ += static_cast<int64_t>(count);
    has_nulls_ |= num_valid != count;
  }

  bool is_list_, is_open_ = false, has_nulls_ = false;
  int64_t count_ = 0;
  Growing<int64_t> offsets_;
  Growing<uint8_t> valid_;
};

// Append the slots that levels describe to the depths of a leaf, innermost first. Consumes the
// levels. A page of structs without fields (`is_empty`) may have a single layer for all depths, and
// then none of them is null.
inline void unravel(Layers layers, Growing<uint16_t>& rep, Growing<uint16_t>& def,
                    std::vector<Depth>& depths, bool is_empty) {
  size_t depth = 0;
  if (is_empty && is_plain(layers)) {
    for (Depth& at : depths) {
      if (at.is_list()) corrupt("pages of fewer layers than the schema has");
      at.add_valid(def.size());
    }
    return def.clear();
  }
  int base = 0;  // levels of the inner layers
  const uint16_t top = def.empty() ? 0 : *std::max_element(def.data(), def.end());
  for (; !layers.none(); layers = layers.around(), ++depth) {
    if (depth == depths.size() || depths[depth].is_list() != is_list(layers))
      corrupt("pages of other layers than the schema has");
    Depth& at = depths[depth];
    if (is_list(layers)) {
      if (rep.size() != def.size()) corrupt("lists without repetition levels");
      const int slot_max = base + num_levels(layers) + item_levels(layers.around());
      const int empty = innermost(layers) == kEmptyableList      ? base + 1
                        : innermost(layers) == kNullAndEmptyList ? base + 2
                                                                 : -1;
      at.add_lists(rep, def, slot_max, base, empty);
    } else if (top <= base) {
      at.add_valid(def.size());
    } else {
      // Pages of structs without fields mark these as null, because they have no values.
      at.add_items(def, base + item_levels(layers), base + (is_empty && depth == 0 ? num_levels(layers) : 0));
    }
    base += num_levels(layers);
  }
  if (depth != depths.size()) corrupt("pages of fewer layers than the schema has");
  rep.clear();
  def.clear();
}

}  // namespace alance::nests
