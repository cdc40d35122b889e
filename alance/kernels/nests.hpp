// Fields with others inside of them: what the levels of a leaf say of the lists and structs around
// it. Arithmetic as in `format/layouts/repdef.py`, which says how levels are numbered.
#pragma once
#include <cstdint>
#include <vector>

#include "bounds.hpp"

namespace alance::nests {

// The layers of a page in four bits each, numbered as `RepDefLayer`, the innermost lowest.
using Layers = uint64_t;
constexpr size_t kMostLayers = 16;
enum Layer : Layers { kAllValidItem = 1, kAllValidList, kNullableItem, kNullableList, kEmptyableList, kNullAndEmptyList };

inline Layers innermost(Layers layers) { return layers & 15; }
inline bool is_list(Layers layers) {
  return innermost(layers) != kAllValidItem && innermost(layers) != kNullableItem;
}
inline int num_levels(Layers layers) {
  const Layers layer = innermost(layers);
  return layer == kNullAndEmptyList ? 2 : layer != kAllValidItem && layer != kAllValidList;
}
// Levels of the layers up to the next list.
inline int item_levels(Layers layers) {
  int levels = 0;
  for (; layers != 0 && !is_list(layers); layers >>= 4) levels += num_levels(layers);
  return levels;
}
inline bool is_plain(Layers layers) { return layers == kAllValidItem || layers == kNullableItem; }

// The nodes of fields, depth-first: a leaf, a list, or a struct of as many members.
using Trees = std::vector<int>;
constexpr int kLeaf = 0, kList = -1, kLargeList = -2;

inline size_t num_children(int node) { return node < 0 ? 1 : static_cast<size_t>(node); }
// Behind the last node of the field that begins at one.
inline size_t end_of(const Trees& trees, size_t node) {
  for (size_t left = 1; left != 0; ++node) {
    if (node >= trees.size() || trees[node] < kLargeList) corrupt("fields of unknown nodes");
    left += num_children(trees[node]) - 1;
  }
  return node;
}
inline size_t num_leaves(const Trees& trees, size_t first, size_t last) {
  size_t count = 0;
  for (; first < last; ++first) count += trees[first] == kLeaf;
  return count;
}

// The slots at one depth of a leaf.
struct Depth {
  bool is_list;
  std::vector<int64_t> offsets{0};  // of lists: one more than slots
  std::vector<uint8_t> valid{};     // a byte a slot
  bool has_nulls = false;

  void add(bool is_valid) {
    valid.push_back(is_valid);
    has_nulls |= !is_valid;
  }
};

// Appends what the levels of whole rows say to the depths of a leaf, the innermost first. The levels
// are used up.
inline void unravel(Layers layers, std::vector<uint16_t>& rep, std::vector<uint16_t>& def,
                    std::vector<Depth>& depths) {
  size_t depth = 0;
  int base = 0;  // levels of the layers further in
  for (; layers != 0; layers >>= 4, ++depth) {
    if (depth == depths.size() || depths[depth].is_list != is_list(layers))
      corrupt("pages of other layers than the schema has");
    Depth& at = depths[depth];
    if (!at.is_list) {
      const int slot_max = base + item_levels(layers);
      for (const uint16_t level : def)
        if (level <= slot_max) at.add(level <= base);
    } else {
      if (rep.size() != def.size()) corrupt("lists without repetition levels");
      const int slot_max = base + num_levels(layers) + item_levels(layers >> 4);
      const int empty = innermost(layers) == kEmptyableList      ? base + 1
                        : innermost(layers) == kNullAndEmptyList ? base + 2
                                                                 : -1;
      int64_t children = at.offsets.back();
      at.offsets.pop_back();
      size_t left = 0;
      for (size_t i = 0; i < rep.size(); ++i) {
        const uint16_t level = def[i];
        if (rep[i] != 0) {
          if (level <= slot_max) {
            at.offsets.push_back(children);
            at.add(level <= base || level == empty);
          }
          rep[left] = static_cast<uint16_t>(rep[i] - 1);
          def[left++] = level;
        }
        children += level <= base;
      }
      at.offsets.push_back(children);
      rep.resize(left);
      def.resize(left);
    }
    base += num_levels(layers);
  }
  if (depth != depths.size()) corrupt("pages of fewer layers than the schema has");
  rep.clear();
  def.clear();
}

}  // namespace alance::nests
