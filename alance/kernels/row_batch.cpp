// Single rows of many columns as one record batch, in one call, whatever the number of columns.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "arrow_c.hpp"
#include "range_sink.hpp"
#include "row_take.hpp"
#include "source.hpp"
#include "utf8.hpp"

namespace alance {
namespace {

// Where the bytes of groups come from.
class Groups {
 public:
  virtual ~Groups() = default;
  // Null: they cannot be read.
  virtual const uint8_t* bring(const RowPlan& plan, size_t group) = 0;
};

// All are in memory, one behind the other.
class Held : public Groups {
 public:
  explicit Held(const Bytes& content) : content_(content) {}

  const uint8_t* bring(const RowPlan& plan, size_t group) override {
    const int64_t begin = plan.first_byte(group);
    check_span(begin, plan.groups[group].bytes_end - begin, static_cast<int64_t>(content_.size()),
               "row batch");
    return content_.data() + begin;
  }

 private:
  const Bytes& content_;
};

// A source reads them, just before they are decoded.
class Read : public Groups {
 public:
  explicit Read(Source& source) : source_(source) {}

  const uint8_t* bring(const RowPlan& plan, size_t group) override {
    const size_t piece = plan.first_piece(group);
    return source_.read(plan.pieces.data() + piece, plan.groups[group].pieces_end - piece,
                        plan.groups[group].bytes_end - plan.first_byte(group));
  }

 private:
  Source& source_;
};

// The rows of a batch, by their numbers among those that are decoded: all of these as they come, or
// some in the order asked for, a row as often as it was asked for.
class Order {
 public:
  Order(const std::optional<In<int64_t>>& rows, int64_t num_decoded)
      : rows_(rows ? rows->data() : nullptr),
        size_(rows ? static_cast<int64_t>(rows->size()) : num_decoded) {
    for (int64_t i = 0; rows && i < size_; ++i)
      if (rows_[i] < 0 || rows_[i] >= num_decoded) corrupt("row batch: order of other rows");
  }

  int64_t size() const { return size_; }
  bool is_as_decoded() const { return rows_ == nullptr; }
  size_t operator[](int64_t i) const { return static_cast<size_t>(rows_ ? rows_[i] : i); }

 private:
  const int64_t* rows_;
  int64_t size_;
};

// A column as Arrow lays it out, of the values and validity of decoded rows.
class Column {
 public:
  Column(Sink& sink, const RangeForm& form, int64_t num_decoded, const Order& order,
         arrow::Batch& batch)
      : sink_(sink), form_(form), num_decoded_(num_decoded), order_(order), batch_(batch) {}

  arrow::Column finish() {
    if (static_cast<int64_t>(sink_.valid.size()) != num_decoded_)
      corrupt("a column of " + std::to_string(sink_.valid.size()) + " rows");
    arrow::Column column{order_.size(), 0, {nullptr}};
    if (sink_.has_nulls) {
      for (int64_t i = 0; i < order_.size(); ++i) column.num_nulls += sink_.valid[order_[i]] == 0;
      column.buffers[0] = bits(sink_.valid);
    }
    if (form_.width == 0) {
      column.buffers.push_back(bits(sink_.bytes));
    } else if (!form_.is_string()) {
      column.buffers.push_back(values());
    } else {
      if (form_.is_text) check_text();
      column.buffers.push_back(form_.width == -4 ? offsets<int32_t>() : offsets<int64_t>());
      column.buffers.push_back(strings());
    }
    return column;
  }

 private:
  const void* bits(const std::vector<uint8_t>& values) {
    Owned<uint8_t> packed((order_.size() + 7) / 8);
    std::fill_n(packed.data(), packed.size(), uint8_t{0});
    for (int64_t i = 0; i < order_.size(); ++i)
      packed[i / 8] |= static_cast<uint8_t>((values[order_[i]] != 0) << (i % 8));
    return batch_.keep(std::move(packed));
  }

  const void* values() {
    if (order_.is_as_decoded()) return all_bytes();
    Owned<uint8_t> copy(product(order_.size(), form_.width, "row batch"));
    switch (form_.width) {
      case 4:
        gather<4>(copy.data());
        break;
      case 8:
        gather<8>(copy.data());
        break;
      default:
        for (int64_t i = 0; i < order_.size(); ++i)
          std::memcpy(copy.data() + i * form_.width, value(i), static_cast<size_t>(form_.width));
    }
    return batch_.keep(std::move(copy));
  }

  // Copies values whose width the compiler knows: an instruction each.
  template <size_t Width>
  void gather(uint8_t* to) const {
    for (int64_t i = 0; i < order_.size(); ++i, to += Width) std::memcpy(to, value(i), Width);
  }

  const uint8_t* value(int64_t i) const {
    return sink_.bytes.data() + order_[i] * static_cast<size_t>(form_.width);
  }

  const void* strings() {
    if (order_.is_as_decoded()) return all_bytes();
    Owned<uint8_t> copy(num_bytes_);
    uint8_t* to = copy.data();
    for (int64_t i = 0; i < order_.size(); ++i)
      to = std::copy_n(sink_.bytes.data() + sink_.offsets[order_[i]], size(i), to);
    return batch_.keep(std::move(copy));
  }

  // Offsets of the strings; notes how many bytes they are.
  template <typename Offset>
  const void* offsets() {
    num_bytes_ = 0;
    for (int64_t i = 0; i < order_.size(); ++i) num_bytes_ += size(i);
    if (num_bytes_ > std::numeric_limits<Offset>::max())
      throw std::overflow_error("strings of too many bytes for their offsets");
    Owned<Offset> ends(order_.size() + 1);
    ends[0] = 0;
    for (int64_t i = 0; i < order_.size(); ++i) ends[i + 1] = static_cast<Offset>(ends[i] + size(i));
    return batch_.keep(std::move(ends));
  }

  // Bytes of a string.
  int64_t size(int64_t i) const {
    return sink_.offsets[order_[i] + 1] - sink_.offsets[order_[i]];
  }

  const void* all_bytes() {
    Owned<uint8_t> copy(static_cast<int64_t>(sink_.bytes.size()));
    if (!sink_.bytes.empty()) std::memcpy(copy.data(), sink_.bytes.data(), sink_.bytes.size());
    return batch_.keep(std::move(copy));
  }

  void check_text() const {
    const int64_t* offsets = sink_.offsets.data();
    const uint8_t* bytes = sink_.bytes.data();
    if (are_utf8(offsets, num_decoded_, bytes)) return;
    for (int64_t i = 0; i < num_decoded_; ++i)
      if (sink_.valid[static_cast<size_t>(i)] && !is_utf8(bytes + offsets[i], bytes + offsets[i + 1]))
        corrupt("value " + std::to_string(i) + " of the rows read is no UTF-8");
  }

  Sink& sink_;
  const RangeForm& form_;
  const int64_t num_decoded_;
  const Order& order_;
  int64_t num_bytes_ = 0;
  arrow::Batch& batch_;
};

// Columns of a plan as one struct array, for `RecordBatch._import_from_c`.
class RowBatch : public arrow::Exported {
 public:
  // `columns`: of the plan, which fit (`RowPlan.fitting`) these widths; `texts`: are they UTF-8?
  // `order`: the plan's rows that are wanted, by number; without it all, in the order of the plan.
  RowBatch(std::vector<size_t> columns, const std::vector<int64_t>& widths,
           const std::vector<bool>& texts, std::optional<In<int64_t>> order)
      : columns_(std::move(columns)), order_(std::move(order)) {
    if (widths.size() != columns_.size() || texts.size() != columns_.size())
      corrupt("row batch: forms of other columns");
    for (size_t i = 0; i < widths.size(); ++i) forms_.push_back({widths[i], texts[i]});
  }
  // The number of the page, in the plan's list, that was decoded last: an error is in it.
  size_t page() const { return page_; }
  // The place of its column among those that were asked for.
  size_t column() const { return column_; }

  // `content` has the bytes of all groups of the plan.
  void decode(const RowPlan& plan, const Bytes& content) {
    Held held(content);
    run(plan, held);
  }

  // False: the source failed.
  bool read(const RowPlan& plan, Source& source) {
    Read reading(source);
    return run(plan, reading);
  }

 private:
  bool run(const RowPlan& plan, Groups& groups) {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (!plan.fits(columns_[i], forms_[i].width)) corrupt("row batch: rows of another form");
    nb::gil_scoped_release release;
    const Order order(order_, plan.num_rows);
    auto batch = std::make_unique<arrow::Batch>(order.size());
    Sink sink;
    for (column_ = 0; column_ < columns_.size(); ++column_) {
      const RangeForm& form = forms_[column_];
      const size_t column = columns_[column_];
      sink.clear(form.is_string() ? 0 : std::max<int64_t>(form.width, 1), plan.num_rows);
      for (size_t group = plan.first_group(column); group < plan.columns[column]; ++group) {
        const uint8_t* bytes = groups.bring(plan, group);
        if (bytes == nullptr) return false;
        take_group(plan, group, bytes, sink, page_);
      }
      batch->add(Column(sink, form, plan.num_rows, order, *batch).finish());
    }
    give(std::move(batch));
    return true;
  }

  std::vector<size_t> columns_;
  std::vector<RangeForm> forms_;
  std::optional<In<int64_t>> order_;
  size_t page_ = 0, column_ = 0;
};

}  // namespace
}  // namespace alance

void register_row_batch(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowBatch>(m, "RowBatch")
      .def(nb::init<std::vector<size_t>, const std::vector<int64_t>&, const std::vector<bool>&,
                    std::optional<In<int64_t>>>(),
           nb::arg("columns"), nb::arg("widths"), nb::arg("texts"), nb::arg("order") = nb::none())
      .def_prop_ro("address", &RowBatch::address)
      .def_prop_ro("page", &RowBatch::page)
      .def_prop_ro("column", &RowBatch::column)
      .def("decode", &RowBatch::decode, nb::arg("plan"), nb::arg("content"))
      .def("read", &RowBatch::read, nb::arg("plan"), nb::arg("source"));
}
