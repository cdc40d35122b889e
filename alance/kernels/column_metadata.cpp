// Column metadata of 2.x files, from the wire format of their protobuf to flat tables.
//
// What is unusual is left to a parser that knows more and says what is wrong: fields of another
// wire type, twice where one is meant, encodings that are not direct, places outside of the file.
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>

#include "proto_wire.hpp"

namespace alance {
namespace {

constexpr int64_t MAX_ROWS = int64_t{1} << 62;
constexpr size_t NEAR = 4;  // distinct descriptions that a page's is compared with
constexpr int PAGE_OFFSETS = 1, PAGE_SIZES = 2, PAGE_LENGTH = 3, PAGE_ENCODING = 4,
              PAGE_PRIORITY = 5;
constexpr int COLUMN_ENCODING = 1, COLUMN_PAGES = 2, COLUMN_OFFSETS = 3, COLUMN_SIZES = 4;

// The pages of one column, in row order.
class ColumnPages {
 public:
  bool parse(std::string_view content, int64_t file_bytes, int64_t alignment) {
    ProtoWire message(content);
    first_rows_.push_back(0);
    first_buffers_.push_back(0);
    std::vector<uint64_t> unused;
    while (message.next()) {
      switch (message.field) {
        case COLUMN_ENCODING:
          if (encoding_ || !direct(message, encoding_)) return false;
          break;
        case COLUMN_PAGES:
          if (message.wire != 2 || !add_page(message.bytes(), file_bytes, alignment)) return false;
          break;
        case COLUMN_OFFSETS:
        case COLUMN_SIZES:
          unused.clear();
          message.numbers([&](uint64_t value) { unused.push_back(value); });
          break;
        default: skip(message);
      }
    }
    return message.ok;
  }

  int64_t count() const { return static_cast<int64_t>(first_rows_.size()) - 1; }
  nb::object encoding() const {
    if (!encoding_) return nb::none();
    return nb::bytes(encoding_->data(), encoding_->size());
  }

  // int64 numbers.
  nb::bytes first_rows() const {
    return nb::bytes(reinterpret_cast<const char*>(first_rows_.data()),
                     first_rows_.size() * sizeof(int64_t));
  }

  // ((offset, size) of each buffer, rows, description) of a page.
  nb::tuple page(int64_t number) const {
    if (number < 0 || number >= count()) throw nb::index_error("no such page");
    const size_t n = static_cast<size_t>(number);
    nb::list buffers;
    for (size_t i = first_buffers_[n]; i < first_buffers_[n + 1]; ++i)
      buffers.append(nb::make_tuple(offsets_[i], sizes_[i]));
    const Span& span = spans_[encodings_[n]];
    return nb::make_tuple(nb::tuple(buffers), first_rows_[n + 1] - first_rows_[n],
                          nb::bytes(content_.data() + span.start, span.size));
  }

  int64_t buffer_bytes() const { return buffer_bytes_; }
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof(*this) + content_.capacity() +
                                16 * first_rows_.capacity() + 8 * offsets_.capacity() +
                                8 * sizes_.capacity() + 4 * encodings_.capacity() +
                                sizeof(Span) * spans_.capacity());
  }

 private:
  struct Span {
    size_t start, size;
  };

  // The bytes of an encoding that is direct, and nothing else.
  static bool direct(ProtoWire& message, std::optional<std::string>& found) {
    if (message.wire != 2) return false;
    ProtoWire outer(message.bytes());
    if (!message.ok || !outer.next() || outer.field != 2 || outer.wire != 2) return false;
    ProtoWire inner(outer.bytes());
    if (!outer.ok || !outer.done()) return false;
    found.emplace();
    if (inner.done()) return true;
    if (!inner.next() || inner.field != 1 || inner.wire != 2) return false;
    found = inner.bytes();
    return inner.ok && inner.done();
  }

  static void skip(ProtoWire& message) {
    if (message.wire == 0)
      message.varint();
    else
      message.bytes();
  }

  bool add_page(std::string_view content, int64_t file_bytes, int64_t alignment) {
    ProtoWire message(content);
    std::optional<std::string> encoding;
    uint64_t length = 0;
    while (message.next()) {
      switch (message.field) {
        case PAGE_OFFSETS:
          message.numbers([&](uint64_t value) { offsets_.push_back(value); });
          break;
        case PAGE_SIZES:
          message.numbers([&](uint64_t value) { sizes_.push_back(value); });
          break;
        case PAGE_LENGTH:
        case PAGE_PRIORITY: {
          if (message.wire != 0) return false;
          const uint64_t value = message.varint();
          if (message.field == PAGE_LENGTH) length = value;
          break;
        }
        case PAGE_ENCODING:
          if (encoding || !direct(message, encoding)) return false;
          break;
        default: skip(message);
      }
    }
    if (!message.ok || !encoding || offsets_.size() != sizes_.size()) return false;
    const uint64_t limit = static_cast<uint64_t>(file_bytes);
    for (size_t i = first_buffers_.back(); i < offsets_.size(); ++i) {
      if (offsets_[i] > limit || sizes_[i] > limit - offsets_[i] ||
          offsets_[i] % static_cast<uint64_t>(alignment))
        return false;
      buffer_bytes_ += static_cast<int64_t>(sizes_[i]);
      if (buffer_bytes_ >= MAX_ROWS) return false;
    }
    if (length >= static_cast<uint64_t>(MAX_ROWS - first_rows_.back())) return false;
    first_rows_.push_back(first_rows_.back() + static_cast<int64_t>(length));
    first_buffers_.push_back(offsets_.size());
    encodings_.push_back(shared(*encoding));
    return true;
  }

  // The number of a description: that of an equal one among the last, or a new one.
  uint32_t shared(const std::string& encoding) {
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
  std::vector<int64_t> first_rows_;
  std::vector<size_t> first_buffers_;
  std::vector<uint64_t> offsets_, sizes_;
  std::vector<uint32_t> encodings_;
  std::vector<Span> spans_;
  std::string content_;  // distinct descriptions, one behind the other
  int64_t buffer_bytes_ = 0;
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
