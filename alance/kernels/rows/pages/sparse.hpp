// Structure of sparse pages (2.3): layers of slots, from the rows to the leaf.
//
//     validity          the next layer has the same slots
//     list              the slots with children, and the number of children of each; the slots of
//                       the next layer are the children
//     fixed-size list   the next layer has `dimension` times as many slots
//
// Each layer lists its null slots, or its valid ones. A set of slots is in memory as ascending numbers,
// counts as their running sums. Rows are translated to slots layer by layer, by rank in these arrays.
//
// Source: docs/format/file.md, "Sparse structure".
#pragma once
#include <atomic>

#include "rows/pages/sequences.hpp"
#include "rows/nests.hpp"
#include "rows/pages/row_page.hpp"

namespace alance::sparse {

using cells::Part;
using cells::text;

constexpr int64_t kMostSlots = int64_t{1} << 48;    // slots of a page; sums of slots fit into 64 bits
constexpr int64_t kMostRead = int64_t{1} << 28;     // slots that are decoded at once
constexpr int64_t kMostNumbers = int64_t{1} << 27;  // numbers of a set in memory: 1 GiB

// Slots [first, last) of a layer.
using Run = std::pair<int64_t, int64_t>;
using Runs = std::vector<Run>;

inline int64_t count_of(const Runs& runs) {
  int64_t count = 0;
  for (const auto& [first, last] : runs) count += last - first;
  if (count > kMostRead)
    throw std::overflow_error("sparse: " + text(count) + " slots at once, at most " + text(kMostRead));
  return count;
}

// Ascending numbers in an array, or start + step * i.
class Numbers {
 public:
  Numbers() = default;
  Numbers(int64_t start, int64_t step, int64_t count) : start_(start), step_(step), count_(count) {}
  explicit Numbers(std::vector<int64_t> values)
      : values_(std::move(values)), count_(static_cast<int64_t>(values_.size())) {}

  int64_t count() const { return count_; }
  int64_t operator[](int64_t i) const { return values_.empty() ? start_ + step_ * i : values_[static_cast<size_t>(i)]; }
  // Number of these numbers that are below a bound.
  int64_t rank(int64_t bound) const {
    if (!values_.empty()) return std::lower_bound(values_.begin(), values_.end(), bound) - values_.begin();
    return bound <= start_ ? 0 : std::min(count_, (bound - start_ - 1) / step_ + 1);
  }
  int64_t num_bytes() const { return static_cast<int64_t>(8 * values_.capacity()); }

 private:
  std::vector<int64_t> values_;
  int64_t start_ = 0, step_ = 1, count_ = 0;
};

// Encoding of a set of numbers, and their count.
struct SetForm {
  sequences::Sequence codec;
  int64_t count = 0;

  // Decode slot numbers, and check that they ascend and are below `num_slots`.
  Numbers slots(Part payload, int64_t num_slots) const {
    if (count > num_slots) corrupt("sparse: " + text(count) + " slots listed of " + text(num_slots));
    if (codec.is_arithmetic()) {
      codec.first.check(count);
      if (count == 0) return {};
      const auto start = static_cast<int64_t>(codec.first.start), step = static_cast<int64_t>(codec.first.step);
      if (count > 1 && step == 0) corrupt("sparse: slot " + text(start) + " listed " + text(count) + " times");
      const int64_t last = start + step * (count - 1);
      if (last >= num_slots) corrupt("sparse: slot " + text(last) + " of " + text(num_slots));
      return {start, std::max<int64_t>(step, 1), count};
    }
    std::vector<int64_t> numbers = decode(payload);
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] >= num_slots || (i != 0 && numbers[i] <= numbers[i - 1]))
        corrupt("sparse: slots that do not ascend from 0 to below " + text(num_slots));
    return Numbers(std::move(numbers));
  }

  // Decode positive counts as running sums, from 0 to `total`.
  Numbers ends(Part payload, int64_t total) const {
    if (codec.is_arithmetic() && codec.first.step == 0) {
      const auto size = static_cast<int64_t>(codec.first.start);
      int64_t sum = 0;
      codec.first.check(count);
      if (__builtin_mul_overflow(count, size, &sum) || sum != total || (count != 0 && size == 0))
        corrupt("sparse: " + text(count) + " lists of " + text(size) + " items, in all " + text(total));
      return {0, std::max<int64_t>(size, 1), count + 1};
    }
    std::vector<int64_t> sums = decode(payload);
    int64_t sum = 0;
    for (int64_t& at : sums) {
      const int64_t size = at;
      if (size <= 0) corrupt("sparse: a list of " + text(size) + " items among those that have some");
      at = sum;
      if (__builtin_add_overflow(sum, size, &sum)) sum = INT64_MAX;
    }
    sums.push_back(sum);
    if (sum != total) corrupt("sparse: lists of " + text(sum) + " items, expected " + text(total));
    return Numbers(std::move(sums));
  }

 private:
  std::vector<int64_t> decode(Part payload) const {
    if (count > kMostNumbers) corrupt("sparse: a set of " + text(count) + " numbers, at most " + text(kMostNumbers));
    return codec.decode(payload, count);
  }
};

struct LayerForm {
  bool means_valid;   // true: the listed slots are valid; false: they are null
  SetForm listed;
  int64_t dimension;  // length of fixed-size lists, else 1
  bool is_list;
  int64_t num_children;           // sum over all lists
  SetForm non_empty{}, counts{};  // slots with children, and how many each has
};

struct Layer {
  int64_t num_slots, dimension;
  bool means_valid, is_list;
  Numbers listed{}, non_empty{}, ends{};

  int64_t num_valid() const { return means_valid ? listed.count() : num_slots - listed.count(); }
  // Number of valid slots before a slot.
  int64_t valid_before(int64_t slot) const { return means_valid ? listed.rank(slot) : slot - listed.rank(slot); }
  // First slot of the next layer that belongs to this slot or to a later one.
  int64_t below(int64_t slot) const { return is_list ? ends[non_empty.rank(slot)] : slot * dimension; }
  Runs below(const Runs& runs) const {
    Runs next;
    next.reserve(runs.size());
    for (const auto& [first, last] : runs) next.emplace_back(below(first), below(last));
    return next;
  }

  // Call `of(ordinal, place)` for each number of a set that is a slot of the runs. `ordinal`: position
  // in the set; `place`: position among the slots of the runs.
  template <typename Of>
  static void each(const Numbers& numbers, const Runs& runs, const Of& of) {
    int64_t before = 0;
    for (const auto& [first, last] : runs) {
      if (first == last) continue;
      for (int64_t i = numbers.rank(first); i < numbers.count() && numbers[i] < last; ++i)
        of(i, before + (numbers[i] - first));
      before += last - first;
    }
  }

  // For each slot of the runs, `valid` or `null`. Empty if no slot of the layer is null.
  template <typename T>
  std::vector<T> marks(const Runs& runs, T valid, T null) const {
    std::vector<T> all;
    if (num_valid() == num_slots) return all;
    all.assign(static_cast<size_t>(count_of(runs)), means_valid ? null : valid);
    each(listed, runs, [&](int64_t, int64_t place) { all[static_cast<size_t>(place)] = means_valid ? valid : null; });
    return all;
  }

  int64_t num_bytes() const { return listed.num_bytes() + non_empty.num_bytes() + ends.num_bytes(); }
};

class Structure {
 public:
  // `payloads`: buffers of the sets that have one, layer by layer; for a list in the order: slots with
  // children, counts, validity.
  Structure(const std::vector<LayerForm>& forms, int64_t page_rows, const std::vector<Part>& payloads) {
    for (const LayerForm& form : forms)
      if (__builtin_mul_overflow(multiplier_, form.dimension, &multiplier_)) multiplier_ = 0;
    if (forms.empty() || multiplier_ < 1 || page_rows < 0 || page_rows % multiplier_)
      corrupt("sparse: lists of together " + text(multiplier_) + " items in " + text(page_rows) + " slots");
    int64_t num_slots = page_rows / multiplier_;
    num_rows_ = page_rows;
    size_t next = 0;
    const auto payload = [&](const SetForm& set) {
      if (!set.codec.has_payload()) return Part{};
      if (next == payloads.size()) corrupt("sparse: a set without a buffer");
      return payloads[next++];
    };
    for (const LayerForm& form : forms) {
      Layer layer{num_slots, form.dimension, form.means_valid, form.is_list};
      if (form.is_list) {
        layer.non_empty = form.non_empty.slots(payload(form.non_empty), num_slots);
        layer.ends = form.counts.ends(payload(form.counts), form.num_children);
      }
      layer.listed = form.listed.slots(payload(form.listed), num_slots);
      if (form.is_list ? (num_slots = form.num_children) > kMostSlots
                       : __builtin_mul_overflow(num_slots, form.dimension, &num_slots) || num_slots > kMostSlots)
        corrupt("sparse: " + text(num_slots) + " slots of a layer");
      layers_.push_back(std::move(layer));
    }
  }

  int64_t num_rows() const { return num_rows_; }
  // Number of rows of the page for each slot of the first layer.
  int64_t multiplier() const { return multiplier_; }
  const Layer& leaf() const { return layers_.back(); }
  int64_t num_bytes() const {
    int64_t sum = static_cast<int64_t>(sizeof(*this) + layers_.capacity() * sizeof(Layer));
    for (const Layer& layer : layers_) sum += layer.num_bytes();
    return sum;
  }

  // First slot of the leaf that belongs to a row or to a later one. `row`: first row of a slot of the
  // first layer.
  int64_t leaf_slot(int64_t row) const {
    int64_t slot = row / multiplier_;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) slot = layers_[i].below(slot);
    return slot;
  }

  // Slots of rows in the first layer; `leaf_slots`: in the leaf.
  Runs outer_slots(const Rows& rows) const {
    Runs runs;
    if (rows.numbers == nullptr) return {{rows.first / multiplier_, (rows.first + rows.count) / multiplier_}};
    for (int64_t i = 0; i < rows.count; i += multiplier_) {
      const int64_t slot = rows[i] / multiplier_;
      if (!runs.empty() && runs.back().second == slot)
        ++runs.back().second;
      else
        runs.emplace_back(slot, slot + 1);
    }
    return runs;
  }
  Runs leaf_slots(const Rows& rows) const {
    Runs runs = outer_slots(rows);
    for (size_t i = 0; i + 1 < layers_.size(); ++i) runs = layers_[i].below(runs);
    return runs;
  }

  // Validity of the rows' slots in the leaf, a byte each; empty if all slots of the page are valid.
  std::vector<uint8_t> valid(const Rows& rows) const { return leaf().marks<uint8_t>(leaf_slots(rows), 1, 0); }

  // Append the slots of rows to the depths of a leaf, innermost first. `all_null`: the leaf has no
  // values. A slot outside of lists is repeated for each item of the fixed-size lists at or below it,
  // as in dense pages.
  void add_to(const Rows& rows, std::vector<nests::Depth>& depths, bool all_null) const {
    if (depths.size() != layers_.size()) corrupt("pages of other layers than the schema has");
    std::vector<int64_t> repeats(layers_.size(), 1);
    size_t outside = 0;
    while (outside < layers_.size() && !layers_[outside].is_list) ++outside;
    for (size_t i = outside; i-- > 0;) repeats[i] = layers_[i].dimension * (i + 1 < outside ? repeats[i + 1] : 1);
    Runs runs = outer_slots(rows);
    for (size_t i = 0; i < layers_.size(); ++i) {
      nests::Depth& depth = depths[depths.size() - 1 - i];
      if (depth.is_list() != layers_[i].is_list) corrupt("pages of other layers than the schema has");
      add(layers_[i], runs, repeats[i], all_null && i + 1 == layers_.size(), depth);
      if (i + 1 < layers_.size()) runs = layers_[i].below(runs);
    }
  }

 private:
  static void add(const Layer& layer, const Runs& runs, int64_t repeats, bool all_null, nests::Depth& depth) {
    const auto count = static_cast<size_t>(count_of(runs));
    std::vector<uint8_t> valid = layer.marks<uint8_t>(runs, 1, 0);
    if (all_null) valid.assign(count, 0);
    if (!layer.is_list) return depth.add_slots(valid, count, static_cast<size_t>(repeats));
    std::vector<int64_t> sizes(count, 0);
    Layer::each(layer.non_empty, runs, [&](int64_t i, int64_t place) {
      const auto at = static_cast<size_t>(place);
      if (!valid.empty() && valid[at] == 0) corrupt("sparse: a null list has items");
      sizes[at] = layer.ends[i + 1] - layer.ends[i];
    });
    depth.add_sizes(sizes, valid);
  }

  std::vector<Layer> layers_;  // outermost first
  int64_t multiplier_ = 1, num_rows_ = 0;
};

// Slots of a sparse page, and which of them have values.
struct Slots {
  // The page has a value for each slot, for each valid slot, or for each distinct index.
  enum Values : int { kEach, kValid, kIndexed };

  Structure structure;
  Values values;
  std::vector<uint32_t> indices{};  // kIndexed: index of each slot

  Slots(Structure of_page, Values kind) : structure(std::move(of_page)), values(kind) {}
  ~Slots() { delete items_.load(); }
  Slots(const Slots&) = delete;

  // Set the index of each slot; check that those of valid slots are below `num_items`.
  void set_indices(std::vector<uint32_t> own, uint64_t num_items) {
    indices = std::move(own);
    const std::vector<uint8_t> valid = structure.leaf().marks<uint8_t>({{0, structure.leaf().num_slots}}, 1, 0);
    for (size_t i = 0; i < indices.size(); ++i)
      if (indices[i] >= num_items && (valid.empty() || valid[i] != 0))
        corrupt("index " + std::to_string(indices[i]) + " of " + std::to_string(num_items) + " items");
  }

  // Bytes of all items; null if they were not read yet.
  const std::vector<uint8_t>* items() const { return items_.load(std::memory_order_acquire); }
  // Keep the bytes of all items; returns their number, or 0 if they were kept before.
  int64_t keep_items(Part bytes) const {
    auto own = std::make_unique<const std::vector<uint8_t>>(bytes.data, bytes.data + bytes.size);
    const std::vector<uint8_t>* none = nullptr;
    if (!items_.compare_exchange_strong(none, own.get())) return 0;
    own.release();
    return bytes.size;
  }

  int64_t num_bytes() const {
    return structure.num_bytes() + static_cast<int64_t>(4 * indices.capacity() + (items() ? items()->size() : 0));
  }

 private:
  mutable std::atomic<const std::vector<uint8_t>*> items_{nullptr};
};

}  // namespace alance::sparse
