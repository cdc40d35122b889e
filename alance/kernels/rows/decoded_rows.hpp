// Decoded rows of a column in Arrow's layout, in the requested order.
#pragma once
#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "rows/nests.hpp"
#include "rows/pages/range_sink.hpp"
#include "rows/pages/row_page.hpp"
#include "base/utf8.hpp"

namespace alance {

// Rows of a batch, as numbers of decoded rows: all of these in their order, or some in the
// requested order, with repetition.
class Order {
 public:
  Order(const std::optional<In<int64_t>>& rows, int64_t num_decoded)
      : rows_(rows ? rows->data() : nullptr),
        size_(rows ? static_cast<int64_t>(rows->size()) : num_decoded) {
    for (int64_t i = 0; rows && i < size_; ++i)
      if (rows_[i] < 0 || rows_[i] >= num_decoded) corrupt("row batch: order of other rows");
  }
  // Items of lists in the order of `lists`. Item `first_of(i)` is the first of list i; there are `num_items`.
  template <typename First>
  Order(const Order& lists, int64_t num_items, const First& first_of) : size_(num_items) {
    if (lists.is_as_decoded()) return;
    for (int64_t i = 0; i < lists.size(); ++i)
      for (int64_t at = first_of(lists[i]); at < first_of(lists[i] + 1); ++at) own_.push_back(at);
    rows_ = own_.empty() ? &kNone : own_.data();
    size_ = std::ssize(own_);
  }
  Order(const Order&) = delete;

  int64_t size() const { return size_; }
  bool is_as_decoded() const { return rows_ == nullptr; }
  size_t operator[](int64_t i) const { return static_cast<size_t>(rows_ ? rows_[i] : i); }

 private:
  static constexpr int64_t kNone = 0;  // pointer for no rows: null means all, as decoded

  const int64_t* rows_ = nullptr;
  int64_t size_;
  std::vector<int64_t> own_;
};

// Bits of bytes: 0 for a byte 0, else 1.
inline Owned<uint8_t> packed(const uint8_t* bytes, int64_t count) {
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  Owned<uint8_t> bits((count + 7) / 8);
  const int64_t whole = count / 8;
  for (int64_t i = 0; i < whole; ++i) {
    const uint64_t eight = load<uint64_t>(bytes + 8 * i);
    const uint64_t flags = (((eight & kLow) + kLow) | eight) >> 7 & 0x0101010101010101;
    bits[i] = static_cast<uint8_t>(flags * 0x0102040810204080 >> 56);
  }
  for (int64_t i = 8 * whole; i < count; ++i)
    bits[i / 8] = static_cast<uint8_t>((i % 8 ? bits[i / 8] : 0) | (bytes[i] != 0) << (i % 8));
  return bits;
}

// Decoded rows of a column: the rows of some sinks, concatenated.
class Decoded {
 public:
  // `rows`: expected number of rows.
  Decoded(const std::vector<Sink*>& sinks, int64_t rows) {
    size_t first = 0;
    for (Sink* sink : sinks) {
      parts_.push_back({sink, sink->has_nulls ? sink->valid.data() : nullptr, first});
      first += sink->valid.size();
    }
    if (static_cast<int64_t>(first) != rows) corrupt("a column of ", first, " rows");
    size_ = rows;
  }
  // Values of slots.
  Decoded(Sink& sink, const nests::Depth& slots)
      : parts_{{&sink, slots.valid(), 0}}, size_(slots.count()) {}

  bool has_nulls() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.valid != nullptr; });
  }
  uint8_t is_valid(size_t row) const {
    const Part& part = part_of(row);
    return part.valid == nullptr || part.valid[row - part.first];
  }
  // Value of `width` bytes.
  const uint8_t* value(size_t row, size_t width) const {
    const Part& part = part_of(row);
    return part.sink->bytes.data() + (row - part.first) * width;
  }
  std::pair<const uint8_t*, const uint8_t*> string(size_t row) const {
    const Part& part = part_of(row);
    const int64_t* offset = part.sink->offsets.data() + (row - part.first);
    return {part.sink->bytes.data() + offset[0], part.sink->bytes.data() + offset[1]};
  }
  // Validity of the items of a list; null if all are valid.
  const uint8_t* mask(size_t row, size_t depth) const {
    const Part& part = part_of(row);
    const Sink::Mask& mask = part.sink->masks[depth];
    const size_t at = (row - part.first) * mask.step();
    return at < mask.bytes.size() ? mask.bytes.data() + at : nullptr;
  }
  bool has_mask(size_t depth) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [=](const Part& part) { return !part.sink->masks[depth].bytes.empty(); });
  }
  // The only sink; null if there are several.
  Sink* single() const { return parts_.size() == 1 ? parts_[0].sink : nullptr; }
  const uint8_t* validity() const { return parts_[0].valid; }
  // Values of all rows, one after the other; gives their memory away.
  Owned<uint8_t> bytes() {
    if (Sink* sink = single()) return sink->bytes.release();
    size_t size = 0;
    for (const Part& part : parts_) size += part.sink->bytes.size();
    Owned<uint8_t> copy(static_cast<int64_t>(size));
    uint8_t* to = copy.data();
    for (const Part& part : parts_)
      to = std::copy_n(part.sink->bytes.data(), part.sink->bytes.size(), to);
    return copy;
  }
  void check_text() const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const size_t last = i + 1 < parts_.size() ? parts_[i + 1].first : static_cast<size_t>(size_);
      if (are_utf8(part.sink->offsets.data(), static_cast<int64_t>(last - part.first),
                   part.sink->bytes.data()))
        continue;
      for (size_t row = part.first; row < last; ++row)
        if (const auto [begin, end] = string(row); is_valid(row) && !is_utf8(begin, end))
          corrupt("value ", row, " of the rows read is no UTF-8");
    }
  }

 private:
  struct Part {
    Sink* sink;
    const uint8_t* valid;  // a byte a row; null: all are valid
    size_t first;  // its first row
  };

  const Part& part_of(size_t row) const {
    const Part* part = &parts_.back();  // there are few
    while (part->first > row) --part;
    return *part;
  }

  std::vector<Part> parts_;
  int64_t size_;
};

// Column in Arrow's layout, from the values and validity of decoded rows.
class Column {
 public:
  Column(Decoded rows, const RangeForm& form, const Order& order, arrow::Batch& batch)
      : rows_(std::move(rows)), form_(form), order_(order), batch_(batch) {}

  arrow::Column finish() {
    arrow::Column column{order_.size(), 0, {nullptr}};
    if (rows_.has_nulls()) {
      for (int64_t i = 0; i < order_.size(); ++i) column.num_nulls += !rows_.is_valid(order_[i]);
      column.buffers[0] =
          bits(rows_.validity(), [this](size_t row) { return rows_.is_valid(row); });
    }
    if (form_.is_empty) return column;
    if (form_.index != 0) {
      add_numbers(column);
    } else if (!form_.members.empty()) {
      add_members(column);
    } else if (form_.is_list()) {
      add_items(column);
    } else if (form_.width == 0) {
      const uint8_t* bytes = rows_.single() ? rows_.single()->bytes.data() : nullptr;
      column.buffers.push_back(bits(bytes, [this](size_t row) { return *rows_.value(row, 1); }));
    } else if (!form_.is_string()) {
      column.buffers.push_back(values());
    } else {
      if (form_.is_text) rows_.check_text();
      column.buffers.push_back(form_.width == -4 ? offsets<int32_t>() : offsets<int64_t>());
      column.buffers.push_back(strings());
    }
    return column;
  }

 private:
  // `whole`: bytes of all rows if there is one sink; `at` returns the byte of one row.
  template <typename At>
  const void* bits(const uint8_t* whole, const At& at) {
    if (order_.is_as_decoded() && rows_.single()) return batch_.keep(packed(whole, order_.size()));
    Owned<uint8_t> bytes(order_.size());
    for (int64_t i = 0; i < order_.size(); ++i) bytes[i] = at(order_[i]);
    return batch_.keep(packed(bytes.data(), order_.size()));
  }

  // Indices of a width, and the dictionary of their values.
  void add_numbers(arrow::Column& column) {
    Distinct& distinct = *rows_.single()->distinct;
    const int64_t size = std::abs(form_.index), count = distinct.count();
    const int bits = static_cast<int>(8 * size) - (form_.index < 0);
    if (bits < 32 && count > int64_t{1} << bits)
      throw std::overflow_error(
          message_of(count, " distinct values with indices of ", size, " bytes"));
    Owned<uint8_t> indices(product(order_.size(), size, "row batch"));
    for (int64_t i = 0; i < order_.size(); ++i) {  // little-endian
      const uint64_t number = load<uint32_t>(rows_.value(order_[i], 4));  // least bytes first
      std::memcpy(indices.data() + i * size, &number, static_cast<size_t>(size));
    }
    column.buffers.push_back(batch_.keep(std::move(indices)));
    Sink values;
    values.width = distinct.width;
    values.bytes = std::move(distinct.bytes);
    values.offsets = std::move(distinct.offsets);
    values.valid.fill(static_cast<size_t>(count), 1);
    RangeForm form = form_;
    form.index = 0;
    const Order all(std::nullopt, count);
    column.dictionary.push_back(Column(Decoded({&values}, count), form, all, batch_).finish());
  }

  // Members of packed structs; they have no nulls of their own, except items of lists.
  void add_members(arrow::Column& column) {
    if (form_.is_string()) {
      for (size_t i = 0; i < form_.members.size(); ++i) {
        Sink& member = rows_.single()->members[i];
        member.has_nulls = false;
        const int64_t count = std::ssize(member.valid);
        Column own(Decoded({&member}, count), form_.members[i], order_, batch_);
        column.children.push_back(own.finish());
      }
      return;
    }
    size_t start = 0;
    for (const RangeForm& member : form_.members) {
      const auto size = static_cast<size_t>(std::max<int64_t>(member.width, 1));
      Owned<uint8_t> values(product(order_.size(), static_cast<int64_t>(size), "row batch"));
      for (int64_t i = 0; i < order_.size(); ++i)
        std::memcpy(values.data() + static_cast<size_t>(i) * size,
                    rows_.value(order_[i], static_cast<size_t>(form_.width)) + start, size);
      const void* own = member.width == 0 ? batch_.keep(packed(values.data(), order_.size())) : batch_.keep(std::move(values));
      column.children.push_back({order_.size(), 0, {nullptr, own}});
      start += size;
    }
  }

  // Items of fixed-size lists, and their validity.
  void add_items(arrow::Column& column) {
    std::vector<const void*> valid;
    for (size_t depth = 0; depth < form_.dims.size(); ++depth)
      valid.push_back(rows_.has_mask(depth)
                          ? joined(form_.num_items(depth), [=, this](size_t row) { return rows_.mask(row, depth); })
                          : nullptr);
    const int64_t bits = form_.item_bits * form_.num_items(form_.dims.size() - 1);
    const auto width = static_cast<size_t>(form_.width);
    add_lists(form_, column, valid,
              bits % 8 ? joined(bits, [=, this](size_t row) { return rows_.value(row, width); }) : values());
  }

  // Bits of all rows, concatenated. `at` returns the start of a row's bits; null: all are set.
  template <typename At>
  const void* joined(int64_t bits, const At& at) {
    Owned<uint8_t> out(bytes_of_bits(product(order_.size(), bits, "row batch")));
    std::fill_n(out.data(), out.size(), uint8_t{0});
    for (int64_t i = 0, to = 0; i < order_.size(); ++i) {
      const uint8_t* from = at(order_[i]);
      if (bits % 8 == 0 && from != nullptr) {
        std::memcpy(out.data() + to / 8, from, static_cast<size_t>(bits / 8));
        to += bits;
        continue;
      }
      for (int64_t bit = 0; bit < bits; ++bit, ++to)
        out[to / 8] |= static_cast<uint8_t>((from ? from[bit / 8] >> (bit % 8) & 1 : 1) << (to % 8));
    }
    return batch_.keep(std::move(out));
  }

  const void* values() {
    if (order_.is_as_decoded()) return batch_.keep(rows_.bytes());
    Owned<uint8_t> copy(product(order_.size(), form_.width, "row batch"));
    with_size(form_.width, [&](auto width) {
      const auto size = static_cast<size_t>(width);
      uint8_t* to = copy.data();
      for (int64_t i = 0; i < order_.size(); ++i, to += size)
        std::memcpy(to, rows_.value(order_[i], size), size);
    });
    return batch_.keep(std::move(copy));
  }

  const void* strings() {
    if (order_.is_as_decoded()) return batch_.keep(rows_.bytes());
    Owned<uint8_t> copy(num_bytes_);
    uint8_t* to = copy.data();
    for (int64_t i = 0; i < order_.size(); ++i) {
      const auto [begin, end] = rows_.string(order_[i]);
      to = std::copy(begin, end, to);
    }
    return batch_.keep(std::move(copy));
  }

  // Offsets of the strings; stores their total size in `num_bytes_`.
  template <typename Offset>
  const void* offsets() {
    const Sink* whole = order_.is_as_decoded() ? rows_.single() : nullptr;
    num_bytes_ = whole ? whole->offsets.back() : 0;
    if (!whole)
      for (int64_t i = 0; i < order_.size(); ++i) num_bytes_ += size(i);
    if (num_bytes_ > std::numeric_limits<Offset>::max())
      throw std::overflow_error("strings of too many bytes for their offsets");
    Owned<Offset> ends(order_.size() + 1);
    ends[0] = 0;
    if (whole)
      for (int64_t i = 1; i <= order_.size(); ++i)
        ends[i] = static_cast<Offset>(whole->offsets[static_cast<size_t>(i)]);
    else
      for (int64_t i = 0; i < order_.size(); ++i) ends[i + 1] = static_cast<Offset>(ends[i] + size(i));
    return batch_.keep(std::move(ends));
  }

  // Bytes of a string.
  int64_t size(int64_t i) const {
    const auto [begin, end] = rows_.string(order_[i]);
    return end - begin;
  }

  Decoded rows_;
  const RangeForm& form_;
  const Order& order_;
  int64_t num_bytes_ = 0;
  arrow::Batch& batch_;
};

}  // namespace alance
