// Column metadata of 2.x files as flat tables, one a column.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <unordered_set>

#include "base/text_hash.hpp"
#include "rows/column_pages.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

// Pages of columns from their metadata, and the columns whose own encoding no column before has. A
// column is None if its metadata need the protobuf parser. Metadata i are a span of
// `contents[numbers[i]]`, of a file of `file_bytes[i]` bytes whose buffers lie at multiples of
// `alignments[i]`; if that is more than 1, columns must have encodings.
nb::tuple column_pages(const nb::list& contents, const In<int64_t>& numbers,
                       const In<int64_t>& starts, const In<int64_t>& sizes,
                       const In<int64_t>& file_bytes, const In<int64_t>& alignments) {
  std::vector<Bytes> buffers;
  buffers.reserve(contents.size());
  for (nb::handle content : contents) buffers.push_back(nb::cast<Bytes>(content));
  const size_t count = numbers.size();
  for (const In<int64_t>* other : {&starts, &sizes, &file_bytes, &alignments})
    if (other->size() != count) corrupt("column metadata: arrays of unequal length");
  std::vector<std::shared_ptr<ColumnTable>> parsed(count);
  std::vector<size_t> first;  // columns with encodings that no column before has
  {
    nb::gil_scoped_release release;
    std::unordered_set<std::string_view, TextHash> seen;
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = numbers.data()[i], alignment = alignments.data()[i];
      if (number < 0 || static_cast<size_t>(number) >= buffers.size() || alignment < 1 ||
          file_bytes.data()[i] < 0)
        corrupt("column metadata of no file");
      const Bytes& buffer = buffers[static_cast<size_t>(number)];
      const int64_t start = starts.data()[i], size = sizes.data()[i];
      check_span(start, size, static_cast<int64_t>(buffer.size()), "column metadata");
      const std::string_view content(reinterpret_cast<const char*>(buffer.data()) + start,
                                     static_cast<size_t>(size));
      auto pages = ColumnTable::parse(content, file_bytes.data()[i], alignment);
      if (!pages) continue;
      if (alignment > 1) {
        if (!pages->own_encoding()) continue;
        if (seen.insert(*pages->own_encoding()).second) first.push_back(i);
      }
      parsed[i] = std::move(pages);
    }
  }
  nb::list columns, distinct;
  for (const size_t i : first) {
    const std::string& encoding = *parsed[i]->own_encoding();
    distinct.append(nb::make_tuple(i, nb::bytes(encoding.data(), encoding.size())));
  }
  for (auto& pages : parsed)
    if (pages)
      columns.append(nb::cast(std::make_shared<ColumnPages>(std::move(pages))));
    else
      columns.append(nb::none());
  return nb::make_tuple(columns, distinct);
}

// Pages that the protobuf parser read, in the form of `ColumnPages::page`.
std::shared_ptr<ColumnPages> listed(const nb::list& pages) {
  auto table = std::make_shared<ColumnTable>();
  for (nb::handle page : pages) {
    const auto encoding = nb::cast<nb::bytes>(page[2]);
    table->add(nb::cast<std::vector<std::pair<int64_t, int64_t>>>(page[0]),
               nb::cast<int64_t>(page[1]), {encoding.c_str(), encoding.size()});
  }
  return std::make_shared<ColumnPages>(std::move(table));
}

std::vector<std::shared_ptr<ColumnPages>> copied(
    const std::vector<std::shared_ptr<ColumnPages>>& columns) {
  std::vector<std::shared_ptr<ColumnPages>> copies;
  for (const auto& column : columns) copies.push_back(std::make_shared<ColumnPages>(*column));
  return copies;
}

nb::bytes first_rows(const ColumnPages& pages) {
  const std::vector<int64_t>& rows = pages.first_rows();
  return nb::bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t));
}

}  // namespace
}  // namespace alance

void register_column_metadata(nanobind::module_& m) {
  using namespace alance;
  nb::class_<ColumnPages, RowTable>(m, "ColumnPages")
      .def(nb::new_(&listed), nb::arg("pages"))
      .def("__len__", &ColumnPages::count)
      .def("page", &ColumnPages::page, nb::arg("number"))
      .def("first_rows", &first_rows)
      .def("state", &ColumnPages::state, nb::arg("number"))
      .def("set_state", &ColumnPages::set_state, nb::arg("number"), nb::arg("state"),
           nb::arg("num_bytes"))
      .def("chunks", &ColumnPages::chunks, nb::arg("number"))
      .def_prop_ro("num_rows", &ColumnPages::num_rows)
      .def_prop_ro("state_bytes", &ColumnPages::state_bytes)
      .def_prop_ro("buffer_bytes", &ColumnPages::buffer_bytes)
      .def_prop_ro("num_bytes", &ColumnPages::num_bytes);
  m.def("copied_pages", &copied, nb::arg("columns"));
  m.def("column_pages", &column_pages, nb::arg("contents"), nb::arg("numbers").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("sizes").noconvert(),
        nb::arg("file_bytes").noconvert(), nb::arg("alignments").noconvert());
}
