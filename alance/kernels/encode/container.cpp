// Container of a file around its pages: page descriptions, column metadata, tables of contents,
// footer.
//
// Source: docs/format/file.md, "Container".
#include "encode/container.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/bounds.hpp"

namespace alance {
namespace {

// Limit of one page's bytes in the search-cache buffer; a larger repetition index stays with its
// page.
constexpr uint64_t kPageSearchBytes = 32 << 10;

// Description of a page in column metadata: an Encoding, direct, of an Any.
std::string encoding_of(std::string_view url, std::string_view layout) {
  ProtoOut any, direct, encoding;
  any.bytes(1, url).bytes(2, layout);
  direct.message(1, any);
  encoding.message(2, direct);
  return std::move(encoding).text();
}

std::string_view view(const nb::bytes& content) { return {content.c_str(), content.size()}; }

}  // namespace

uint64_t Container::place(uint64_t size) {
  const uint64_t start = num_bytes_;
  num_bytes_ += size + -size % kAlignment;
  return start;
}

std::vector<int64_t> Container::add_page(size_t column, std::string_view url,
                                         std::string_view layout,
                                         const std::vector<std::string_view>& buffers,
                                         const std::vector<size_t>& search, uint64_t num_rows,
                                         uint64_t priority) {
  if (column >= columns_.size()) corrupt("container: no column " + std::to_string(column));
  uint64_t num_search = 0;
  for (const size_t number : search) {
    if (number >= buffers.size()) corrupt("container: no buffer " + std::to_string(number));
    num_search += buffers[number].size();
  }
  const bool defers =
      num_search <= kPageSearchBytes && deferred_bytes_ + num_search <= search_bytes_;
  Page page{encoding_of(url, layout), num_rows, priority, {}, {}, {}, 0};
  std::vector<int64_t> starts;
  starts.reserve(buffers.size());
  page.starts.reserve(buffers.size());
  page.sizes.reserve(buffers.size());
  for (size_t number = 0; number < buffers.size(); ++number) {
    const uint64_t size = buffers[number].size();
    page.sizes.push_back(size);
    if (defers && size && std::count(search.begin(), search.end(), number)) {
      page.deferred.push_back({number, std::string(buffers[number])});
      page.deferred_bytes += size;
      page.starts.push_back(0);  // until the end
      starts.push_back(kDeferred);
    } else {
      page.starts.push_back(place(size));
      starts.push_back(static_cast<int64_t>(page.starts.back()));
    }
  }
  deferred_bytes_ += page.deferred_bytes;
  if (page.deferred_bytes) deferring_.emplace_back(column, columns_[column].size());
  columns_[column].push_back(std::move(page));
  return starts;
}

size_t Container::add_buffer(uint64_t size) {
  buffers_.push_back({place(size), size});
  return buffers_.size() - 1;
}

// Small pages come last, so that as many as possible lie within a read of the file's end.
std::string Container::end_search() {
  std::vector<Page*> pages;
  for (const auto& [column, number] : deferring_) pages.push_back(&columns_[column][number]);
  if (pages.empty()) return {};
  std::stable_sort(pages.begin(), pages.end(), [](const Page* a, const Page* b) {
    return a->deferred_bytes > b->deferred_bytes;
  });
  const uint64_t start = num_bytes_;
  std::string out, table;
  uint32_t count = 0;
  for (Page* page : pages)
    for (const Deferred& buffer : page->deferred) {
      page->starts[buffer.number] = place(buffer.content.size());
      append(table, page->starts[buffer.number]);
      append(table, static_cast<uint32_t>(buffer.content.size()));
      append(table, crc_of(buffer.content));
      append_padded(out, buffer.content);
      ++count;
    }
  append(table, count);
  append(table, uint16_t{1});
  append(table, uint16_t{0});
  table += "alancesc";
  buffers_.push_back({start, place(table.size()) + table.size() - start});
  append_padded(out, table);
  return out;
}

ProtoOut Container::message_of(const Page& page) {
  ProtoOut message;
  message.numbers(1, page.starts).numbers(2, page.sizes);
  if (page.num_rows) message.number(3, page.num_rows);
  message.bytes(4, page.encoding);
  if (page.priority) message.number(5, page.priority);
  return message;
}

void Container::add_table(std::string& out, const std::vector<Place>& places) {
  for (const Place& at : places) {
    append(out, at.start);
    append(out, at.size);
  }
}

std::string Container::end(std::string_view descriptor) {
  const uint64_t first = num_bytes_;
  std::string out = end_search();
  buffers_[0] = {num_bytes_, descriptor.size()};
  out += descriptor;
  const uint64_t metadata_start = first + out.size();
  std::vector<Place> columns;
  for (size_t column = 0; column < columns_.size(); ++column) {
    const size_t start = out.size();
    out += ProtoOut().bytes(1, (*encodings_)[column]).text();
    for (const Page& page : columns_[column])
      out += ProtoOut().message(2, message_of(page)).text();
    columns.push_back({first + start, out.size() - start});
  }
  const uint64_t columns_start = first + out.size();
  add_table(out, columns);
  const uint64_t buffers_start = first + out.size();
  add_table(out, buffers_);
  append(out, metadata_start);
  append(out, columns_start);
  append(out, buffers_start);
  append(out, static_cast<uint32_t>(buffers_.size()));
  append(out, static_cast<uint32_t>(columns.size()));
  append(out, version_.major);
  append(out, version_.minor);
  out += "LANC";
  num_bytes_ = first + out.size();
  return out;
}

}  // namespace alance

void register_container(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Container>(m, "Container")
      .def("__init__",
           [](Container* self, const std::vector<nb::bytes>& encodings, uint16_t major,
              uint16_t minor, uint64_t search_bytes) {
             std::vector<std::string> texts;
             for (const nb::bytes& encoding : encodings) texts.emplace_back(view(encoding));
             const auto shared = std::make_shared<const std::vector<std::string>>(std::move(texts));
             new (self) Container(shared, {major, minor}, search_bytes);
           },
           nb::arg("encodings"), nb::arg("major"), nb::arg("minor"), nb::arg("search_bytes"))
      .def_prop_ro("num_bytes", &Container::num_bytes)
      .def("place", &Container::place, nb::arg("size"))
      .def("add_page",
           [](Container& self, size_t column, const std::string& url, const nb::bytes& layout,
              const std::vector<Bytes>& buffers, const std::vector<size_t>& search,
              uint64_t num_rows, uint64_t priority) {
             std::vector<std::string_view> views;
             for (const Bytes& buffer : buffers)
               views.emplace_back(reinterpret_cast<const char*>(buffer.data()), buffer.size());
             return self.add_page(column, url, view(layout), views, search, num_rows, priority);
           },
           nb::arg("column"), nb::arg("url"), nb::arg("layout"), nb::arg("buffers"),
           nb::arg("search"), nb::arg("num_rows"), nb::arg("priority"))
      .def("add_buffer", &Container::add_buffer, nb::arg("size"))
      .def("end",
           [](Container& self, const nb::bytes& descriptor) {
             const std::string content = self.end(view(descriptor));
             return nb::bytes(content.data(), content.size());
           },
           nb::arg("descriptor"));
}
