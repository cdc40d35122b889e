// Python binding of `RowPage`; see row_page.hpp.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "rows/page_form.hpp"
#include "rows/pages/units.hpp"

void register_row_page(nanobind::module_& m) {
  using namespace alance;
  m.def("set_zstd", [](nb::object decoder) { units::zstd() = std::move(decoder); }, nb::arg("decoder"));
  nb::class_<RowPage>(m, "RowPage")
      .def(nb::init<In<int64_t>, In<int64_t>, int64_t, int64_t, int64_t, int, int, int, int, int,
                    bool, std::vector<int64_t>>(),
           nb::arg("first_rows"), nb::arg("first_bytes"), nb::arg("start"), nb::arg("size"),
           nb::arg("num_rows"), nb::arg("values"), nb::arg("bits"), nb::arg("nulls"),
           nb::arg("level_bits"), nb::arg("max_level"), nb::arg("large"),
           nb::arg("masks") = std::vector<int64_t>())
      .def_prop_ro("width", &RowPage::width);
}
