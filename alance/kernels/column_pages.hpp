// The pages of one column as flat tables, kept for as long as the file is known.
#pragma once
#include <string>

#include "column_wire.hpp"

namespace alance {

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
  const std::optional<std::string>& own_encoding() const { return encoding_; }

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
    const std::string_view encoding = description(n);
    return nb::make_tuple(nb::tuple(buffers), pages_.rows[n],
                          nb::bytes(encoding.data(), encoding.size()));
  }

  int64_t num_rows() const {
    int64_t sum = 0;  // stays below 2^62: it was looked at
    for (const int64_t rows : pages_.rows) sum += rows;
    return sum;
  }
  int64_t buffer_bytes() const { return pages_.buffer_bytes; }
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof(*this) + content_.capacity() +
                                8 * (pages_.rows.capacity() + pages_.ends.capacity() +
                                     pages_.starts.capacity() + pages_.sizes.capacity()) +
                                4 * encodings_.capacity() + sizeof(Span) * spans_.capacity());
  }

  const PageTable& table() const { return pages_; }
  std::string_view description(size_t page) const {
    const Span& span = spans_[encodings_[page]];
    return {content_.data() + span.start, span.size};
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

}  // namespace alance
