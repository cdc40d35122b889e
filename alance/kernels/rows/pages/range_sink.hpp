// Sink for neighbouring rows of one column: memory in Arrow's layout.
#pragma once
#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/arrow_c.hpp"
#include "rows/pages/cells.hpp"

namespace alance {

// Values of a column: of `width` bytes; 0: bits; -4 or -8: strings with offsets of 4 or 8 bytes, or
// packed structs of any length.
struct RangeForm {
  int64_t width;
  bool is_text = false;  // UTF-8
  int64_t index = 0;  // bytes of an index into the distinct values; negative: signed
  int64_t item_bits = 0;  // bits of an item of fixed-size lists
  std::vector<int64_t> dims{};  // lengths of fixed-size lists, outermost first; empty: no lists
  bool is_empty = false;  // structs without fields: their values are not used
  std::vector<RangeForm> members{};  // of packed structs, side by side in a value

  // `shape`: empty for plain values; `index` for dictionaries; `item_bits` and `dims` for fixed-size
  // lists. For structs 0, then for each member its width and 1 if it is UTF-8, else 0; or, if the member
  // has a shape, its width, 2 plus the size of the shape, and the shape.
  static RangeForm of(int64_t width, bool is_text, const std::vector<int64_t>& shape) {
    RangeForm form{width, is_text};
    if (shape.empty()) return form;
    if (shape[0] == 0) {
      form.set_members(shape);
      return form;
    }
    if (shape.size() == 1) {
      form.index = shape[0];
      const int64_t size = std::abs(form.index);
      if (size != 1 && size != 2 && size != 4 && size != 8) corrupt("row batch: indices of no width");
      return form;
    }
    form.item_bits = shape[0];
    form.dims.assign(shape.begin() + 1, shape.end());
    int64_t bits = form.item_bits;
    for (const int64_t dim : form.dims) {
      if (dim < 1) corrupt("row batch: lists of no length");
      bits = product(bits, dim, "row batch: lists");
    }
    if (bits < 1 || bytes_of_bits(bits) != width) corrupt("row batch: lists of another width");
    return form;
  }

  bool is_string() const { return width < 0; }
  // True for packed structs of any length.
  bool is_packed_string() const { return width < 0 && !members.empty(); }
  bool is_list() const { return !dims.empty(); }
  // True if values lie in memory as in pages of the simplest kinds.
  bool is_simple() const { return index == 0 && item_bits % 8 == 0 && !is_empty && members.empty(); }
  // Items of a value, in the lists down to a depth.
  int64_t num_items(size_t depth) const {
    int64_t count = 1;
    for (size_t i = 0; i <= depth; ++i) count *= dims[i];
    return count;
  }

 private:
  void set_members(const std::vector<int64_t>& shape) {
    is_empty = shape.size() == 1;
    int64_t num_bytes = is_empty ? 1 : 0;
    size_t i = 1;
    while (i + 1 < shape.size()) {
      const int64_t own = shape[i], kind = shape[i + 1];
      i += 2;
      if (own > INT32_MAX || (own < 0 && own != -4 && own != -8)) corrupt("row batch: members of no width");
      if (kind > 1) {
        const auto size = static_cast<uint64_t>(kind - 2);
        if (size == 0 || size > shape.size() - i) corrupt("row batch: members of no shape");
        const auto from = shape.begin() + static_cast<int64_t>(i);
        members.push_back(of(own, false, {from, from + static_cast<int64_t>(size)}));
        // A row with a list or a struct inside begins with its length, even if its width is fixed.
        if ((own < 0 && members.back().members.empty()) || members.back().index != 0) corrupt("row batch: members of another shape");
        i += size;
      } else {
        members.push_back({own, kind != 0});
      }
      num_bytes = own < 0 || kind > 1 || num_bytes < 0 ? -8 : num_bytes + std::max<int64_t>(own, 1);
    }
    if (i != shape.size() || width != num_bytes) corrupt("row batch: structs of another width");
  }
};

// Make a column that has only its validity a column of lists: `valid` has the validity of items at
// each depth (null: all are valid).
inline void add_lists(const RangeForm& form, arrow::Column& column,
                      const std::vector<const void*>& valid, const void* items) {
  const auto nulls = [](const void* validity) { return int64_t{validity ? -1 : 0}; };  // -1: not counted
  const int64_t num_rows = column.num_rows;
  size_t depth = form.dims.size() - 1;
  arrow::Column inner{num_rows * form.num_items(depth), nulls(valid[depth]), {valid[depth], items}};
  for (; depth-- > 0;) {
    arrow::Column outer{num_rows * form.num_items(depth), nulls(valid[depth]), {valid[depth]}};
    outer.children.push_back(std::move(inner));
    inner = std::move(outer);
  }
  column.children.push_back(std::move(inner));
}

// Strings of some rows, with offsets from 0.
template <typename Offset>
struct RangeStrings {
  Owned<Offset> offsets;
  Owned<uint8_t> bytes;
  int64_t count, size;
};

class RangeSink {
 public:
  // `values` has room for all rows of fixed width, `validity` for a bit a row.
  RangeSink(RangeForm form, int64_t num_rows, uint8_t* values, uint8_t* validity)
      : form(form), num_rows_(num_rows), values_(values), validity_(validity) {}

  const RangeForm form;

  // Row at which the next decoded rows begin.
  int64_t row() const { return row_; }
  uint8_t* values() const { return values_ + row_ * form.width; }
  bool has_nulls() const { return num_nulls_ != 0; }
  bool is_valid(int64_t row) const {
    return num_nulls_ == 0 || (validity_[row / 8] >> (row % 8) & 1) != 0;
  }
  void advance(int64_t count) { row_ += count; }

  // Mark rows from `row` on as null where their level is not 0.
  void levels(const uint16_t* levels, int64_t count, int64_t row) {
    int64_t absent = 0;
    for (int64_t i = 0; i < count; ++i) absent += levels[i] != 0;
    if (absent == 0) return;
    if (num_nulls_ == 0) std::memset(validity_, 0xFF, static_cast<size_t>((num_rows_ + 7) / 8));
    num_nulls_ += absent;
    for (int64_t i = 0; i < count; ++i)
      validity_[(row + i) / 8] &= static_cast<uint8_t>(~((levels[i] != 0) << ((row + i) % 8)));
  }

  // Write single bits, from bit `first` of `bits` on.
  void bits(const uint8_t* bits, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count;) {
      const int64_t at = row_ + i, from = first + i;
      if (at % 8 == 0 && from % 8 == 0 && count - i >= 8) {
        const int64_t whole = (count - i) / 8;
        std::memcpy(values_ + at / 8, bits + from / 8, static_cast<size_t>(whole));
        i += 8 * whole;
        continue;
      }
      const uint8_t bit = bits[from / 8] >> (from % 8) & 1;
      if (at % 8 == 0) values_[at / 8] = 0;
      values_[at / 8] = static_cast<uint8_t>(values_[at / 8] | bit << (at % 8));
      ++i;
    }
  }

  template <typename Offset>
  std::vector<RangeStrings<Offset>>& strings() {
    if constexpr (std::is_same_v<Offset, int32_t>)
      return short_;
    else
      return long_;
  }

  // Column, whose strings the batch keeps.
  arrow::Column finish(arrow::Batch& batch) {
    if (row_ != num_rows_) corrupt("a column of " + std::to_string(row_) + " rows");
    arrow::Column column{num_rows_, num_nulls_, {num_nulls_ ? validity_ : nullptr}};
    if (form.is_list())
      add_lists(form, column, std::vector<const void*>(form.dims.size(), nullptr), values_);
    else if (!form.is_string())
      column.buffers.push_back(values_);
    else if (form.width == -4)
      joined<int32_t>(batch, column);
    else
      joined<int64_t>(batch, column);
    return column;
  }

 private:
  template <typename Offset>
  void joined(arrow::Batch& batch, arrow::Column& column) {
    std::vector<RangeStrings<Offset>>& parts = strings<Offset>();
    if (parts.size() == 1) {
      column.buffers.push_back(batch.keep(std::move(parts[0].offsets)));
      column.buffers.push_back(batch.keep(std::move(parts[0].bytes)));
      return;
    }
    int64_t total = 0;
    for (const auto& part : parts) total += part.size;
    if (total > std::numeric_limits<Offset>::max()) 
      throw std::overflow_error("strings of too many bytes for their offsets");
    Owned<Offset> offsets(num_rows_ + 1);
    Owned<uint8_t> bytes(total);
    Offset before = 0;
    Offset* to = offsets.data();
    for (auto& part : parts) {
      for (int64_t i = 0; i < part.count; ++i) *to++ = part.offsets[i] + before;
      if (part.size)
        std::memcpy(bytes.data() + before, part.bytes.data(), static_cast<size_t>(part.size));
      before = static_cast<Offset>(before + part.size);
    }
    *to = before;
    column.buffers.push_back(batch.keep(std::move(offsets)));
    column.buffers.push_back(batch.keep(std::move(bytes)));
  }

  int64_t num_rows_, row_ = 0, num_nulls_ = 0;
  uint8_t* values_;
  uint8_t* validity_;
  std::vector<RangeStrings<int32_t>> short_;
  std::vector<RangeStrings<int64_t>> long_;
};

// Columns of a batch, one after the other. Fixed-width values and validity of all columns lie in
// one block, which is freed, and reused, as a whole.
class RangeColumns {
 public:
  explicit RangeColumns(int64_t num_rows)
      : num_rows_(num_rows), batch_(std::make_unique<arrow::Batch>(num_rows)) {}

  // Reserve room for the next column.
  void place(RangeForm form, bool has_nulls) {
    const int64_t bits = bytes_of_bits(num_rows_);
    Place at{form, size_, 0};
    if (form.width >= 0)
      size_ += aligned(form.width ? product(num_rows_, form.width, "row range") : bits);
    at.validity = size_;
    if (has_nulls) size_ += aligned(bits);
    places_.push_back(at);
  }
  // Allocate the block once all columns have room.
  void allocate() {
    block_ = batch_->keep(Owned<uint8_t>(size_, kAlign));
    block_ += (kAlign - reinterpret_cast<uintptr_t>(block_) % kAlign) % kAlign;
  }
  // Sink of the next column.
  RangeSink next() {
    const Place& at = places_[next_++];
    return {at.form, num_rows_, block_ + at.values, block_ + at.validity};
  }
  void add(RangeSink& column) { batch_->add(column.finish(*batch_)); }

  // Batch, for columns that are made elsewhere; they are added in column order.
  arrow::Batch& memory() { return *batch_; }
  std::unique_ptr<arrow::Batch> batch() { return std::move(batch_); }

 private:
  static constexpr int64_t kAlign = 64;  // of columns in memory

  struct Place {
    RangeForm form;
    int64_t values, validity;  // in the block
  };

  static int64_t aligned(int64_t size) { return (size + kAlign - 1) / kAlign * kAlign; }

  int64_t num_rows_, size_ = 0;
  size_t next_ = 0;
  std::vector<Place> places_;
  std::unique_ptr<arrow::Batch> batch_;
  uint8_t* block_ = nullptr;
};

}  // namespace alance
