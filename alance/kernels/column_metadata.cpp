// Column metadata of 2.x files as flat tables, one a column.
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "column_wire.hpp"

namespace alance {
namespace {

constexpr size_t NEAR = 4;  // distinct descriptions that a page's is compared with

// The pages of one column, in row order.
class ColumnPages {
 public:
  // False where the metadata must be parsed with more care.
  bool parse(std::string_view content, int64_t file_bytes, int64_t alignment) {
    auto describe = [this](std::string_view encoding) { encodings_.push_back(shared(encoding)); };
    if (!ColumnWire(pages_, file_bytes, alignment, describe).read(content)) return false;
    if (pages_.column_encoding) encoding_.emplace(*pages_.column_encoding);
    pages_.column_encoding.reset();  // a view of what does not stay
    return true;
  }

  int64_t count() const { return static_cast<int64_t>(pages_.rows.size()); }
  nb::object encoding() const {
    if (!encoding_) return nb::none();
    return nb::bytes(encoding_->data(), encoding_->size());
  }

  // int64 numbers: the first row of each page, and all.
  nb::bytes first_rows() const {
    std::vector<int64_t> first{0};
    first.reserve(pages_.rows.size() + 1);
    for (const int64_t rows : pages_.rows) first.push_back(first.back() + rows);
    return nb::bytes(reinterpret_cast<const char*>(first.data()), first.size() * sizeof(int64_t));
  }

  // ((offset, size) of each buffer, rows, description) of a page.
  nb::tuple page(int64_t number) const {
    if (number < 0 || number >= count()) throw nb::index_error("no such page");
    const size_t n = static_cast<size_t>(number);
    nb::list buffers;
    for (int64_t i = pages_.ends[n]; i < pages_.ends[n + 1]; ++i)
      buffers.append(nb::make_tuple(pages_.starts[static_cast<size_t>(i)],
                                    pages_.sizes[static_cast<size_t>(i)]));
    const Span& span = spans_[encodings_[n]];
    return nb::make_tuple(nb::tuple(buffers), pages_.rows[n],
                          nb::bytes(content_.data() + span.start, span.size));
  }

  int64_t buffer_bytes() const { return pages_.buffer_bytes; }
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof(*this) + content_.capacity() +
                                8 * (pages_.rows.capacity() + pages_.ends.capacity() +
                                     pages_.starts.capacity() + pages_.sizes.capacity()) +
                                4 * encodings_.capacity() + sizeof(Span) * spans_.capacity());
  }

 private:
  struct Span {
    size_t start, size;
  };

  // The number of a description: that of an equal one among the last, or a new one.
  uint32_t shared(std::string_view encoding) {
    const size_t size = encoding.size();
    for (size_t back = 1; back <= NEAR && back <= spans_.size(); ++back) {
      const Span& span = spans_[spans_.size() - back];
      if (content_.compare(span.start, span.size, encoding) == 0)
        return static_cast<uint32_t>(spans_.size() - back);
    }
    spans_.push_back({content_.size(), size});
    content_ += encoding;
    return static_cast<uint32_t>(spans_.size() - 1);
  }

  std::optional<std::string> encoding_;  // of the column itself
  PageTable pages_;
  std::vector<uint32_t> encodings_;
  std::vector<Span> spans_;
  std::string content_;  // distinct descriptions, one behind the other
};

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
      .def_prop_ro("buffer_bytes", &ColumnPages::buffer_bytes)
      .def_prop_ro("num_bytes", &ColumnPages::num_bytes);
  m.def("column_pages", &column_pages, nb::arg("contents"), nb::arg("file_bytes"),
        nb::arg("alignment"));
}
