// Pages of one column as flat tables, and their states, kept as long as the file is open.
#pragma once
#include <string>

#include "rows/column_wire.hpp"
#include "rows/pages/sparse.hpp"
#include "rows/row_table.hpp"

namespace alance {

constexpr size_t kNear = 4;  // latest distinct descriptions, with which a page's is compared

// Pages of a column in row order, as its metadata describe them.
class ColumnTable {
 public:
  // Null if the metadata need the protobuf parser.
  static std::shared_ptr<ColumnTable> parse(std::string_view content, int64_t file_bytes,
                                            int64_t alignment) {
    auto column = std::make_shared<ColumnTable>();
    return column->read(content, file_bytes, alignment) ? column : nullptr;
  }

  // Add the pages of a column of a file that begins at `base`. With an alignment of more than 1,
  // columns have encodings. Returns false if the metadata need the protobuf parser; then the table
  // is of no use.
  bool read(std::string_view content, int64_t file_bytes, int64_t alignment, int64_t base = 0) {
    const size_t before = pages_.starts.size();
    auto describe = [&](std::string_view encoding) { this->describe(encoding); };
    if (!ColumnWire(pages_, file_bytes, alignment, describe).read(content)) return false;
    for (size_t i = before; i < pages_.starts.size(); ++i) pages_.starts[i] += base;
    std::optional<std::string_view>& own = pages_.column_encoding;
    const bool is_usual = alignment == 1 || (own && is_column_encoding(*own));
    own.reset();  // it views bytes that do not stay
    return is_usual;
  }

  // Add the pages of a column of a file that begins at `base`.
  void add(const ColumnTable& other, int64_t base) {
    const PageTable& pages = other.pages_;
    const int64_t before = pages_.ends.back();
    for (size_t page = 0; page < pages.rows.size(); ++page) {
      pages_.ends.push_back(before + pages.ends[page + 1]);
      describe(other.description(page));
    }
    pages_.rows.insert(pages_.rows.end(), pages.rows.begin(), pages.rows.end());
    pages_.sizes.insert(pages_.sizes.end(), pages.sizes.begin(), pages.sizes.end());
    for (const int64_t start : pages.starts) pages_.starts.push_back(base + start);
    pages_.buffer_bytes += pages.buffer_bytes;
  }

  // Add a page that the protobuf parser read.
  void add(const std::vector<std::pair<int64_t, int64_t>>& buffers, int64_t rows,
           std::string_view encoding) {
    for (const auto& [start, size] : buffers) {
      if (start < 0 || size < 0 ||
          __builtin_add_overflow(pages_.buffer_bytes, size, &pages_.buffer_bytes))
        corrupt("column metadata: a buffer outside of its file");
      pages_.starts.push_back(start);
      pages_.sizes.push_back(size);
    }
    pages_.rows.push_back(rows);
    pages_.ends.push_back(static_cast<int64_t>(pages_.starts.size()));
    describe(encoding);
  }

  const PageTable& pages() const { return pages_; }
  std::string_view description(size_t page) const {
    const Span& span = spans_[encodings_[page]];
    return {content_.data() + span.start, span.size};
  }
  // First row of each page, and the number of all rows.
  std::vector<int64_t> first_rows() const {
    std::vector<int64_t> first;
    first.reserve(pages_.rows.size() + 1);
    first.push_back(0);
    for (const int64_t rows : pages_.rows) {
      int64_t next = 0;
      if (__builtin_add_overflow(first.back(), rows, &next)) corrupt("column metadata: rows of a page");
      first.push_back(next);
    }
    return first;
  }
  size_t num_bytes() const {
    return sizeof(*this) + content_.capacity() +
           8 * (pages_.rows.capacity() + pages_.ends.capacity() + pages_.starts.capacity() +
                pages_.sizes.capacity()) +
           4 * encodings_.capacity() + sizeof(Span) * spans_.capacity();
  }

 private:
  struct Span {
    size_t start, size;
  };

  // Add a description: the number of an equal one among the latest, or a new number.
  void describe(std::string_view encoding) {
    for (size_t back = 1; back <= kNear && back <= spans_.size(); ++back) {
      const Span& span = spans_[spans_.size() - back];
      if (content_.compare(span.start, span.size, encoding) != 0) continue;
      encodings_.push_back(static_cast<uint32_t>(spans_.size() - back));
      return;
    }
    encodings_.push_back(static_cast<uint32_t>(spans_.size()));
    spans_.push_back({content_.size(), encoding.size()});
    content_ += encoding;
  }

  PageTable pages_;
  std::vector<uint32_t> encodings_;
  std::vector<Span> spans_;
  std::string content_;  // distinct descriptions, one after the other
};

// Pages of one column, and their states. States that are loaded later are not shared with a copy.
class ColumnPages : public RowTable {
 public:
  explicit ColumnPages(std::shared_ptr<const ColumnTable> table)
      : RowTable(table->first_rows()), table_(std::move(table)) {}

  const ColumnTable& source() const { return *table_; }
  const PageTable& table() const { return table_->pages(); }
  std::string_view description(size_t page) const { return table_->description(page); }

  // ((offset, size) of each buffer, rows, description) of a page.
  nb::tuple page(size_t number) const {
    check(number);
    const PageTable& pages = table();
    nb::list buffers;
    for (int64_t i = pages.ends[number]; i < pages.ends[number + 1]; ++i)
      buffers.append(nb::make_tuple(pages.starts[static_cast<size_t>(i)],
                                    pages.sizes[static_cast<size_t>(i)]));
    const std::string_view encoding = description(number);
    return nb::make_tuple(nb::tuple(buffers), pages.rows[number],
                          nb::bytes(encoding.data(), encoding.size()));
  }

  int64_t num_rows() const { return first_rows().back(); }
  int64_t buffer_bytes() const { return table().buffer_bytes; }
  // Approximate memory of the states of all pages: two numbers for each chunk word of two bytes. In pages of
  // zipped rows the second buffer is an index, and the smaller one.
  int64_t state_bytes() const {
    const PageTable& pages = table();
    int64_t sum = 0;
    for (size_t n = 0; n < count(); ++n) {
      const size_t first = static_cast<size_t>(pages.ends[n]);
      if (pages.ends[n + 1] - pages.ends[n] > 1)
        sum += 8 * std::min({pages.sizes[first], pages.sizes[first + 1], int64_t{1} << 40});
    }
    return sum;
  }
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof(*this) + 16 * count() + table_->num_bytes()) + learned_;
  }

  // Store a page that is now known; returns the bytes of memory that it takes.
  int64_t learn(size_t number, std::shared_ptr<const RowPage> kernel,
                nests::Layers layers) {
    check(number);
    const PageTable& pages = table();
    const size_t first = static_cast<size_t>(pages.ends[number]);
    const int64_t start = first < pages.starts.size() ? pages.starts[first] : 0;
    const int64_t num_bytes = static_cast<int64_t>(sizeof(Entry)) + kernel->num_bytes();
    if (!set(number, std::move(kernel), layers, start)) return 0;
    learned_ += num_bytes;
    return num_bytes;
  }

  // Keep all items of a known sparse page; returns the bytes of memory that they take.
  int64_t keep_items(size_t number, cells::Part bytes) {
    check(number);
    const Entry* known = entry(number);
    if (known == nullptr || !known->kernel->slots()) corrupt("column pages: a page without items");
    const int64_t num_bytes = known->kernel->slots()->keep_items(bytes);
    learned_ += num_bytes;
    return num_bytes;
  }

 private:
  void check(size_t number) const {
    if (number >= count()) throw nb::index_error("no such page");
  }

  std::shared_ptr<const ColumnTable> table_;
  int64_t learned_ = 0;  // bytes
};

}  // namespace alance
