// Column metadata of 2.x files as flat tables, one a column.
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "column_pages.hpp"
#include "row_table.hpp"

namespace alance {
namespace {

// The pages of columns from their metadata; None for what must be parsed with more care.
nb::list column_pages(const std::vector<Bytes>& contents, int64_t file_bytes, int64_t alignment) {
  if (file_bytes < 0 || alignment < 1) corrupt("column metadata of no file");
  std::vector<std::unique_ptr<ColumnPages>> parsed(contents.size());
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < contents.size(); ++i) {
      auto pages = std::make_unique<ColumnPages>();
      const std::string_view content(reinterpret_cast<const char*>(contents[i].data()),
                                     contents[i].size());
      if (!pages->parse(content, file_bytes, alignment)) continue;
      parsed[i] = std::move(pages);
    }
  }
  nb::list found;
  for (auto& pages : parsed)
    if (pages)
      found.append(nb::cast(std::move(pages)));
    else
      found.append(nb::none());
  return found;
}

}  // namespace
}  // namespace alance

void register_column_metadata(nanobind::module_& m) {
  using namespace alance;
  nb::class_<ColumnPages>(m, "ColumnPages")
      .def("__len__", &ColumnPages::count)
      .def("page", &ColumnPages::page, nb::arg("number"))
      .def_prop_ro("encoding", &ColumnPages::encoding)
      .def("first_rows", &ColumnPages::first_rows)
      .def_prop_ro("num_rows", &ColumnPages::num_rows)
      .def("row_table", [](const ColumnPages& pages) { return RowTable(pages.table().rows); })
      .def_prop_ro("buffer_bytes", &ColumnPages::buffer_bytes)
      .def_prop_ro("num_bytes", &ColumnPages::num_bytes);
  m.def("column_pages", &column_pages, nb::arg("contents"), nb::arg("file_bytes"),
        nb::arg("alignment"));
}
