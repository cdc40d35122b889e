// Single rows of many pages of one column, decoded from the bytes of the chunks that hold them, in
// few calls without the GIL.
#include <nanobind/stl/shared_ptr.h>

#include "lists.hpp"
#include "row_take.hpp"

namespace alance {
namespace {

// The values of rows that were decoded so far, group by group.
class RowSink {
 public:
  // `width`: bytes of a value; 0: strings. `levels`: give repetition and definition levels.
  RowSink(int64_t width, bool levels, int64_t num_rows) {
    if (width < 0 || num_rows < 0) corrupt("row sink: negative size");
    sink_.width = width;
    sink_.with_levels = levels;
    sink_.bytes.reserve(static_cast<size_t>(product(num_rows, width, "row sink")));
    if (width == 0) sink_.offsets.push_back(0);
  }

  // Appends the rows of some groups; `content` has the bytes of all groups of the plan.
  void add(const RowPlan& plan, size_t first, size_t last, const Bytes& content) {
    plan.check_groups(first, last);
    const int64_t begin = plan.first_byte(first), size = plan.first_byte(last) - begin;
    check_span(begin, size, static_cast<int64_t>(content.size()), "row sink");
    const uint8_t* bytes = content.data() + begin;
    nb::gil_scoped_release release;
    for (size_t group = first; group < last; ++group) take_group(plan, group, bytes, sink_, page_, [](const RowPlan::Part&) {});
  }

  // Appends the rows of some groups, each of which a source brings when it is decoded: while the
  // processor's cache holds it. False: the source failed.
  bool add_from(const RowPlan& plan, size_t first, size_t last, Source& source) {
    plan.check_groups(first, last);
    nb::gil_scoped_release release;
    for (size_t group = first; group < last; ++group) {
      const size_t piece = plan.first_piece(group);
      const uint8_t* bytes =
          source.read(plan.pieces.data() + piece, plan.groups[group].pieces_end - piece,
                      plan.groups[group].bytes_end - plan.first_byte(group));
      if (bytes == nullptr) return false;
      take_group(plan, group, bytes, sink_, page_, [](const RowPlan::Part&) {});
    }
    return true;
  }

  // The number of the page, in the plan's list, that was decoded last: an error is in it.
  size_t page() const { return page_; }

  // Values (bytes), offsets (None: values of one width), and with levels repetition and definition
  // levels, else None and validity (a byte a row; None: all valid).
  nb::tuple finish() {
    const nb::object none = nb::none();
    const nb::object bytes = given(sink_.bytes);
    const nb::object offsets = sink_.width != 0 ? none : given(sink_.offsets);
    if (sink_.with_levels) return nb::make_tuple(bytes, offsets, given(sink_.rep), given(sink_.def));
    return nb::make_tuple(bytes, offsets, none, sink_.has_nulls ? given(sink_.valid) : none);
  }

 private:
  template <typename T>
  static nb::object given(Growing<T>& values) {
    const auto size = static_cast<int64_t>(values.size());
    return nb::cast(values.release().numpy(size));
  }

  Sink sink_;
  size_t page_ = 0;
};

}  // namespace
}  // namespace alance

void register_take(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowPage>(m, "RowPage")
      .def(nb::init<In<int64_t>, In<int64_t>, int64_t, int64_t, int64_t, int, int, int, int, int,
                    bool>(),
           nb::arg("first_rows"), nb::arg("first_bytes"), nb::arg("start"), nb::arg("size"),
           nb::arg("num_rows"), nb::arg("values"), nb::arg("bits"), nb::arg("nulls"),
           nb::arg("level_bits"), nb::arg("max_level"), nb::arg("large"))
      .def("set_items", &RowPage::set_items)
      .def("set_strings_32", &RowPage::set_strings_32)
      .def("set_strings_64", &RowPage::set_strings_64)
      .def_prop_ro("chunks", &RowPage::table)
      .def_prop_ro("width", &RowPage::width);
  nb::class_<RowSink>(m, "RowSink")
      .def(nb::init<int64_t, bool, int64_t>(), nb::arg("width"), nb::arg("levels"),
           nb::arg("num_rows"))
      .def("add", &RowSink::add, nb::arg("plan"), nb::arg("first"), nb::arg("last"),
           nb::arg("content"))
      .def("add_from", &RowSink::add_from, nb::arg("plan"), nb::arg("first"), nb::arg("last"),
           nb::arg("source"))
      .def_prop_ro("page", &RowSink::page)
      .def("finish", &RowSink::finish);
}
