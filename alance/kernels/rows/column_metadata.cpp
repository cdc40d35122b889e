// Column metadata of 2.x files as flat tables, one a column.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "rows/file_columns.hpp"

namespace alance {
namespace {

// Open columns of files, whose metadata are held. Returns (number of the file, column) of each
// column that is left to the protobuf parser.
std::vector<std::pair<size_t, int64_t>> open_columns(
    const std::vector<std::shared_ptr<FileColumns>>& files,
    const std::vector<std::vector<int64_t>>& columns, const std::vector<const HeldFile*>& held) {
  if (columns.size() != files.size() || held.size() != files.size())
    corrupt("column metadata: lists of unequal length");
  std::vector<std::shared_ptr<PageTable>> parsed;  // null: unusual
  {
    const nb::gil_scoped_release release;
    for (size_t file = 0; file < files.size(); ++file)
      for (const int64_t column : columns[file]) {
        const auto [start, stop] = files[file]->span(column);
        const uint8_t* content = held[file]->view(start, stop);
        if (content == nullptr && start < stop) corrupt("column metadata that are not held");
        const std::string_view text(reinterpret_cast<const char*>(content), static_cast<size_t>(stop - start));
        auto table = std::make_shared<PageTable>();
        const bool is_usual = table->read(text, files[file]->file_bytes(), files[file]->alignment());
        parsed.push_back(is_usual ? std::move(table) : nullptr);
      }
  }
  std::vector<std::pair<size_t, int64_t>> unusual;
  auto table = parsed.begin();
  for (size_t file = 0; file < files.size(); ++file)
    for (const int64_t column : columns[file]) {
      if (*table)
        files[file]->add(column, std::make_shared<ColumnPages>(std::move(*table)));
      else
        unusual.emplace_back(file, column);
      ++table;
    }
  return unusual;
}

// Pages that the protobuf parser read, in the form of `ColumnPages::page`.
std::shared_ptr<ColumnPages> listed(const nb::list& pages) {
  auto table = std::make_shared<PageTable>();
  for (nb::handle page : pages) {
    const auto encoding = nb::cast<nb::bytes>(page[2]);
    table->add(nb::cast<std::vector<std::pair<int64_t, int64_t>>>(page[0]),
               nb::cast<int64_t>(page[1]), {encoding.c_str(), encoding.size()});
  }
  return std::make_shared<ColumnPages>(std::move(table));
}

nb::bytes first_rows(const ColumnPages& pages) {
  const std::vector<int64_t>& rows = pages.first_rows();
  return nb::bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t));
}

}  // namespace
}  // namespace alance

void register_column_metadata(nanobind::module_& m) {
  using namespace alance;
  nb::class_<ColumnPages>(m, "ColumnPages")
      .def(nb::new_(&listed), nb::arg("pages"))
      .def("set_plain", &ColumnPages::set_plain, nb::arg("number"), nb::arg("buffer"), nb::arg("bits"))
      .def("__len__", &ColumnPages::count)
      .def("page", &ColumnPages::page, nb::arg("number"))
      .def("first_rows", &first_rows)
      .def("set_times", &ColumnPages::set_times, nb::arg("times"))
      .def_prop_ro("num_rows", &ColumnPages::num_rows)
      .def_prop_ro("buffer_bytes", &ColumnPages::buffer_bytes)
      .def_prop_ro("num_bytes", &ColumnPages::num_bytes);
  nb::class_<FileColumns>(m, "FileColumns")
      .def(nb::init<std::vector<int64_t>, int64_t, int64_t>(), nb::arg("spans"), nb::arg("file_bytes"),
           nb::arg("alignment"))
      .def("__len__", &FileColumns::count)
      .def_prop_ro("open", &FileColumns::open)
      .def_prop_ro("num_bytes", &FileColumns::num_bytes)
      .def("absent", &FileColumns::absent, nb::arg("columns"))
      .def("far", &FileColumns::far, nb::arg("columns"), nb::arg("stop"))
      .def("span", [](const FileColumns& own, int64_t column) {
        return nb::make_tuple(own.span(column).start, own.span(column).stop);
      }, nb::arg("column"))
      .def("add", &FileColumns::add, nb::arg("column"), nb::arg("pages"))
      .def("column", &FileColumns::column, nb::arg("number"))
      .def("copy", &FileColumns::copy)
      .def("grow", &FileColumns::grow, nb::arg("num_bytes"));
  m.def("open_columns", &open_columns, nb::arg("files"), nb::arg("columns"), nb::arg("held"));
  nb::class_<LeafTables>(m, "LeafTables")
      .def(nb::init<const std::vector<std::shared_ptr<FileColumns>>&,
                    const std::vector<LeafTables::Columns>&, const std::vector<int64_t>&>(),
           nb::arg("files"), nb::arg("columns"), nb::arg("times"))
      .def(nb::init<const std::vector<LeafTables::Listed>&>(), nb::arg("tables"))
      .def("__len__", &LeafTables::count)
      .def_prop_ro("leaves", &LeafTables::leaves)
      .def_prop_ro("files", &LeafTables::files)
      .def_prop_ro("placed", &LeafTables::placed)
      .def_prop_ro("sizes", &LeafTables::sizes)
      .def_prop_ro("state_bytes", &LeafTables::state_bytes)
      .def_prop_ro("num_bytes", &LeafTables::num_bytes)
      .def("column", &LeafTables::column, nb::arg("at"))
      .def("number", &LeafTables::number, nb::arg("at"))
      .def("copy", &LeafTables::copy)
      .def("misfit", &LeafTables::misfit, nb::arg("num_rows"))
      .def("row_bytes", &LeafTables::row_bytes, nb::arg("num_rows"), nb::arg("fixed"));
}
