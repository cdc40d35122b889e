// Single rows of many columns as one record batch, in one call, whatever the number of columns.
#include <nanobind/stl/vector.h>

#include <algorithm>

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

// A column as Arrow lays it out, of the values and validity of decoded rows.
class Column {
 public:
  Column(Sink& sink, const RangeForm& form, int64_t num_rows, arrow::Batch& batch)
      : sink_(sink), form_(form), num_rows_(num_rows), batch_(batch) {}

  arrow::Column finish() {
    if (static_cast<int64_t>(sink_.valid.size()) != num_rows_)
      corrupt("a column of " + std::to_string(sink_.valid.size()) + " rows");
    arrow::Column column{num_rows_, 0, {nullptr}};
    if (sink_.has_nulls) {
      column.num_nulls = std::count(sink_.valid.begin(), sink_.valid.end(), uint8_t{0});
      column.buffers[0] = bits(sink_.valid);
    }
    if (form_.width == 0) {
      column.buffers.push_back(bits(sink_.bytes));
    } else if (!form_.is_string()) {
      column.buffers.push_back(bytes());
    } else {
      if (form_.is_text) check_text();
      column.buffers.push_back(form_.width == -4 ? offsets<int32_t>() : offsets<int64_t>());
      column.buffers.push_back(bytes());
    }
    return column;
  }

 private:
  const void* bits(const std::vector<uint8_t>& values) {
    Owned<uint8_t> packed((num_rows_ + 7) / 8);
    std::fill_n(packed.data(), packed.size(), uint8_t{0});
    for (int64_t i = 0; i < num_rows_; ++i)
      packed[i / 8] |= static_cast<uint8_t>((values[static_cast<size_t>(i)] != 0) << (i % 8));
    return batch_.keep(std::move(packed));
  }

  const void* bytes() {
    Owned<uint8_t> copy(static_cast<int64_t>(sink_.bytes.size()));
    if (!sink_.bytes.empty()) std::memcpy(copy.data(), sink_.bytes.data(), sink_.bytes.size());
    return batch_.keep(std::move(copy));
  }

  template <typename Offset>
  const void* offsets() {
    if (sink_.offsets.back() > std::numeric_limits<Offset>::max())
      throw std::overflow_error("strings of too many bytes for their offsets");
    Owned<Offset> narrow(num_rows_ + 1);
    std::copy(sink_.offsets.begin(), sink_.offsets.end(), narrow.data());
    return batch_.keep(std::move(narrow));
  }

  void check_text() const {
    const int64_t* offsets = sink_.offsets.data();
    const uint8_t* bytes = sink_.bytes.data();
    if (are_utf8(offsets, num_rows_, bytes)) return;
    for (int64_t i = 0; i < num_rows_; ++i)
      if (sink_.valid[static_cast<size_t>(i)] && !is_utf8(bytes + offsets[i], bytes + offsets[i + 1]))
        corrupt("value " + std::to_string(i) + " of the rows read is no UTF-8");
  }

  Sink& sink_;
  const RangeForm& form_;
  const int64_t num_rows_;
  arrow::Batch& batch_;
};

// Columns of a plan as one struct array, for `RecordBatch._import_from_c`.
class RowBatch {
 public:
  // `columns`: of the plan, which fit (`RowPlan.fitting`) these widths; `texts`: are they UTF-8?
  RowBatch(std::vector<size_t> columns, const std::vector<int64_t>& widths,
           const std::vector<bool>& texts)
      : columns_(std::move(columns)) {
    if (widths.size() != columns_.size() || texts.size() != columns_.size())
      corrupt("row batch: forms of other columns");
    for (size_t i = 0; i < widths.size(); ++i) forms_.push_back({widths[i], texts[i]});
  }
  RowBatch(const RowBatch&) = delete;
  ~RowBatch() {
    if (array_.release != nullptr) array_.release(&array_);
  }

  // Where the array is; 0: there is none, or it has been imported.
  uintptr_t address() const {
    return array_.release == nullptr ? 0 : reinterpret_cast<uintptr_t>(&array_);
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
    auto batch = std::make_unique<arrow::Batch>(plan.num_rows);
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
      batch->add(Column(sink, form, plan.num_rows, *batch).finish());
    }
    array_ = arrow::Batch::exported(std::move(batch));
    return true;
  }

  std::vector<size_t> columns_;
  std::vector<RangeForm> forms_;
  ArrowArray array_{};
  size_t page_ = 0, column_ = 0;
};

}  // namespace
}  // namespace alance

void register_row_batch(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowBatch>(m, "RowBatch")
      .def(nb::init<std::vector<size_t>, const std::vector<int64_t>&, const std::vector<bool>&>(),
           nb::arg("columns"), nb::arg("widths"), nb::arg("texts"))
      .def_prop_ro("address", &RowBatch::address)
      .def_prop_ro("page", &RowBatch::page)
      .def_prop_ro("column", &RowBatch::column)
      .def("decode", &RowBatch::decode, nb::arg("plan"), nb::arg("content"))
      .def("read", &RowBatch::read, nb::arg("plan"), nb::arg("source"));
}
