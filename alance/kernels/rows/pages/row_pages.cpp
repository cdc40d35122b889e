// Python binding of `RowPage`; see row_page.hpp.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "rows/page_form.hpp"
#include "rows/pages/units.hpp"

namespace alance {
namespace {

// Levels: encoding, packed width if it is known, number, bytes.
using Levels = std::tuple<int, int, int64_t, Bytes>;

EncodedLevels encoded(const Levels& levels) {
  const auto& [kind, bits, count, bytes] = levels;
  if (kind < 0 || kind > static_cast<int>(Nulls::blocks) || bits < 0 || bits > 15 || count < 0)
    corrupt("levels of an unknown form");
  return {static_cast<Nulls>(kind), bits, count, {bytes.data(), static_cast<int64_t>(bytes.size())}};
}

// `maxima`: highest repetition level, definition level, and definition level of a value's slot.
std::unique_ptr<RowPage> constant_page(int64_t num_rows, const Levels& reps, const Levels& defs,
                                       const std::tuple<int, int, int>& maxima, int null_level,
                                       bool is_null) {
  const auto& [max_rep, max_level, max_visible] = maxima;
  PageKind kind{static_cast<int>(Values::constant), 8, 0, 0, max_level, false};
  kind.max_rep = max_rep;
  kind.max_visible = max_visible;
  return RowPage::constant(num_rows, encoded(reps), encoded(defs), kind, null_level, is_null);
}

// Page of zipped rows. `ends`: positions of rows of any length; `index`: instead, start and entry width
// of the index in the file. Without both, all rows have the same length.
std::unique_ptr<RowPage> zipped_page(const std::optional<In<int64_t>>& ends,
                                     std::pair<int64_t, int64_t> place, int64_t num_rows,
                                     const PageForm& form,
                                     const std::optional<std::pair<int64_t, int64_t>>& index) {
  const auto [start, size] = place;
  if (index && !ends && form.zipped)
    return RowPage::zipped(FileIndex{index->first, index->second}, start, size, num_rows, *form.zipped, form.kind, form.symbols);
  if (ends && form.zipped)
    return RowPage::zipped(Positions(*ends), start, size, num_rows, *form.zipped, form.kind, form.symbols);
  if (ends || index || form.kind.values != static_cast<int>(Values::zipped)) corrupt("zipped rows of another form");
  return std::make_unique<RowPage>(start, size, num_rows, form.kind);
}

}  // namespace
}  // namespace alance

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
      .def_static("constant", &constant_page, nb::arg("num_rows"), nb::arg("reps"), nb::arg("defs"),
                  nb::arg("maxima"), nb::arg("null_level"), nb::arg("is_null"))
      .def_static("zipped", &zipped_page, nb::arg("ends").none(), nb::arg("place"), nb::arg("num_rows"),
                  nb::arg("form"), nb::arg("index") = nb::none())
      .def("set_items", &RowPage::set_items)
      .def("set_strings_32", &RowPage::set_strings_32)
      .def("set_strings_64", &RowPage::set_strings_64)
      .def("set_blobs", &RowPage::set_blobs, nb::arg("max_level"))
      .def_prop_ro("width", &RowPage::width);
}
