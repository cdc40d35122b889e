// Pages of one column as flat tables, and their states, kept as long as the file is open.
//
// The tables are read from a column's metadata in wire form (file2.proto, message ColumnMetadata). Unusual
// metadata are left to the protobuf parser, which reports the errors. Unusual are: fields of another wire
// type, a second value of a single field, encodings that are not direct, and positions outside of the file.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/proto_wire.hpp"
#include "rows/pages/sparse.hpp"

namespace alance {

constexpr int64_t kMaxRows = int64_t{1} << 62;
constexpr size_t kNear = 4;  // latest distinct descriptions, with which a page's is compared
constexpr std::string_view kColumnEncoding = "/lance.encodings.ColumnEncoding";

// The only field of a message with this number; null if there is none, or several.
inline const char* only(std::string_view message, uint32_t field, std::string_view& part) {
  ProtoWire wire(message);
  int count = 0;
  while (wire.next()) {
    if (wire.field != field) {
      wire.skip();
      continue;
    }
    if (wire.wire != 2) return nullptr;
    part = wire.bytes();
    ++count;
  }
  return wire.ok && count == 1 ? part.data() : nullptr;
}

// Pages of a column in row order, as its metadata describe them.
class PageTable {
 public:
  // Add the pages of a column of a file that begins at `base`. With an alignment of more than 1,
  // columns have encodings. Returns false if the metadata need the protobuf parser; then the table
  // is of no use.
  bool read(std::string_view content, int64_t file_bytes, int64_t alignment, int64_t base = 0) {
    ProtoWire message(content);
    std::optional<std::string_view> encoding;
    const size_t before = starts.size();
    int64_t num_rows = 0;
    while (message.next()) {
      switch (message.field) {
        case 1:  // encoding
          if (encoding || !direct(message, encoding)) return false;
          break;
        case 2:  // pages
          if (message.wire != 2 || !read_page(message.bytes(), file_bytes, alignment, num_rows)) return false;
          break;
        case 3:  // buffer_offsets
        case 4:  // buffer_sizes
          message.numbers([](uint64_t) {});
          break;
        default: message.skip();
      }
    }
    for (size_t i = before; i < starts.size(); ++i) starts[i] += base;
    std::string_view url;  // of a google.protobuf.Any
    return message.ok && (alignment == 1 || (encoding && only(*encoding, 1, url) && url.ends_with(kColumnEncoding)));
  }

  // Add the pages of a column of a file that begins at `base`.
  void add(const PageTable& other, int64_t base) {
    const int64_t before = ends.back();
    for (size_t page = 0; page < other.rows.size(); ++page) {
      ends.push_back(before + other.ends[page + 1]);
      describe(other.description(page));
    }
    rows.insert(rows.end(), other.rows.begin(), other.rows.end());
    sizes.insert(sizes.end(), other.sizes.begin(), other.sizes.end());
    for (const int64_t start : other.starts) starts.push_back(base + start);
    buffer_bytes += other.buffer_bytes;
  }

  // Add a page that the protobuf parser read.
  void add(const std::vector<std::pair<int64_t, int64_t>>& buffers, int64_t num_rows, std::string_view encoding) {
    for (const auto& [start, size] : buffers) {
      if (start < 0 || size < 0 || __builtin_add_overflow(buffer_bytes, size, &buffer_bytes))
        corrupt("column metadata: a buffer outside of its file");
      starts.push_back(start);
      sizes.push_back(size);
    }
    add_page(num_rows, encoding);
  }

  std::vector<int64_t> rows;           // of each page
  std::vector<int64_t> ends{0};        // buffers before each page, and of all
  std::vector<int64_t> starts, sizes;  // of buffers, in bytes
  int64_t buffer_bytes = 0;

  std::string_view description(size_t page) const {
    const Span& span = spans_[encodings_[page]];
    return {content_.data() + span.start, span.size};
  }
  // First row of each page, and the number of all rows.
  std::vector<int64_t> first_rows() const {
    std::vector<int64_t> first;
    first.reserve(rows.size() + 1);
    first.push_back(0);
    for (const int64_t own : rows) {
      int64_t next = 0;
      if (own < 0 || __builtin_add_overflow(first.back(), own, &next)) corrupt("column metadata: rows of a page");
      first.push_back(next);
    }
    return first;
  }
  size_t num_bytes() const {
    return sizeof(*this) + content_.capacity() +
           8 * (rows.capacity() + ends.capacity() + starts.capacity() + sizes.capacity()) +
           4 * encodings_.capacity() + sizeof(Span) * spans_.capacity();
  }

 private:
  struct Span {
    size_t start, size;
  };

  // Content of an encoding that is direct and nothing else.
  static bool direct(ProtoWire& message, std::optional<std::string_view>& content) {
    if (message.wire != 2) return false;
    ProtoWire outer(message.bytes());
    if (!message.ok || !outer.next() || outer.field != 2 || outer.wire != 2) return false;
    ProtoWire inner(outer.bytes());
    if (!outer.ok || !outer.done()) return false;
    content.emplace();
    if (inner.done()) return true;
    if (!inner.next() || inner.field != 1 || inner.wire != 2) return false;
    content = inner.bytes();
    return inner.ok && inner.done();
  }

  bool read_page(std::string_view content, int64_t file_bytes, int64_t alignment, int64_t& num_rows) {
    ProtoWire message(content);
    std::optional<std::string_view> encoding;
    uint64_t length = 0;
    const size_t first = starts.size();
    // Numbers that are no position in a file are refused below: they are negative, or too large.
    const auto append_to = [&](std::vector<int64_t>& list) {
      message.numbers([&](uint64_t value) { list.push_back(static_cast<int64_t>(value)); });
    };
    while (message.next()) {
      switch (message.field) {
        case 1: append_to(starts); break;
        case 2: append_to(sizes); break;
        case 3:    // length
        case 5: {  // priority
          if (message.wire != 0) return false;
          const uint64_t value = message.varint();
          if (message.field == 3) length = value;
          break;
        }
        case 4:
          if (encoding || !direct(message, encoding)) return false;
          break;
        default: message.skip();
      }
    }
    if (!message.ok || !encoding || starts.size() != sizes.size()) return false;
    for (size_t i = first; i < starts.size(); ++i) {
      if (starts[i] < 0 || starts[i] > file_bytes || sizes[i] < 0 || sizes[i] > file_bytes - starts[i] ||
          starts[i] % alignment)
        return false;
      buffer_bytes += sizes[i];
      if (buffer_bytes >= kMaxRows) return false;
    }
    if (length >= static_cast<uint64_t>(kMaxRows - num_rows)) return false;
    num_rows += static_cast<int64_t>(length);
    add_page(static_cast<int64_t>(length), *encoding);
    return true;
  }

  // Add a page whose buffers were added. Its description gets the number of an equal one among the
  // latest, or a new number.
  void add_page(int64_t num_rows, std::string_view encoding) {
    rows.push_back(num_rows);
    ends.push_back(static_cast<int64_t>(starts.size()));
    describe(encoding);
  }
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

  std::vector<uint32_t> encodings_;
  std::vector<Span> spans_;
  std::string content_;  // distinct descriptions, one after the other
};

// Pages of one column whose rows can be taken, as far as they are known. A reader that needs an unknown
// page loads its state, and stores the page here for all later takes. Writers hold the GIL; readers need
// not: a known page stays as it is.
class ColumnPages {
 public:
  explicit ColumnPages(std::shared_ptr<const PageTable> table)
      : table_(std::move(table)),
        first_rows_(std::make_shared<const std::vector<int64_t>>(table_->first_rows())),
        known_(std::make_unique<std::atomic<const RowPage*>[]>(count())),
        owned_(count()) {}
  // Copies the known pages; pages that become known later are not shared.
  ColumnPages(const ColumnPages& other)
      : table_(other.table_),
        times_(other.times_),
        learned_(other.learned_),
        first_rows_(other.first_rows_),
        known_(std::make_unique<std::atomic<const RowPage*>[]>(count())),
        owned_(other.owned_) {
    for (size_t i = 0; i < count(); ++i) known_[i] = owned_[i].get();
  }
  ColumnPages& operator=(const ColumnPages&) = delete;

  const PageTable& table() const { return *table_; }

  // ((offset, size) of each buffer, rows, description) of a page.
  nb::tuple page(size_t number) const {
    check(number);
    const PageTable& pages = table();
    nb::list buffers;
    for (int64_t i = pages.ends[number]; i < pages.ends[number + 1]; ++i)
      buffers.append(nb::make_tuple(pages.starts[static_cast<size_t>(i)], pages.sizes[static_cast<size_t>(i)]));
    const std::string_view encoding = pages.description(number);
    return nb::make_tuple(nb::tuple(buffers), pages.rows[number], nb::bytes(encoding.data(), encoding.size()));
  }

  size_t count() const { return first_rows_->size() - 1; }
  const std::vector<int64_t>& first_rows() const { return *first_rows_; }
  int64_t num_rows() const { return first_rows().back(); }
  // Rows of the column for each row of the field: more than one if fixed-size lists are around the leaf.
  int64_t times() const { return times_; }
  void set_times(int64_t times) {
    if (times < 1) corrupt("a column without rows");
    if (times_ != times) times_ = times;
  }
  // Page of this number, with this table as its owner; null if it is not known.
  const RowPage* known(size_t number) const { return known_[number].load(std::memory_order_acquire); }

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
    return static_cast<int64_t>(sizeof(*this) + 32 * count() + table().num_bytes()) + learned_;
  }

  // Store a page that is now known; returns the bytes of memory that it takes, or 0 if it was known.
  int64_t learn(size_t number, std::shared_ptr<RowPage> page) {
    check(number);
    if (known(number) != nullptr) return 0;
    const auto first = static_cast<size_t>(table().ends[number]);
    page->page_start = first < table().starts.size() ? table().starts[first] : 0;
    const int64_t num_bytes = page->num_bytes();
    owned_[number] = std::move(page);
    known_[number].store(owned_[number].get(), std::memory_order_release);
    learned_ += num_bytes;
    return num_bytes;
  }

  // Store a page of 2.0 whose rows are values of `bits` bits, in one of its buffers; none is null.
  void set_plain(size_t number, size_t buffer, int bits) {
    check(number);
    const size_t at = static_cast<size_t>(table().ends[number]) + buffer;
    if (at >= static_cast<size_t>(table().ends[number + 1])) corrupt("pages of a column: no such buffer");
    auto kind = std::make_shared<PageKind>(Values::zipped, bits);
    kind->layers = nests::kAllValidItem;
    const PageTable& pages = table();
    learn(number, std::make_shared<RowPage>(std::move(kind), pages.starts[at], pages.sizes[at], pages.rows[number]));
  }

  // Keep all items of a known sparse page; returns the bytes of memory that they take.
  int64_t keep_items(size_t number, cells::Part bytes) {
    check(number);
    const RowPage* page = known(number);
    if (page == nullptr || !page->slots()) corrupt("column pages: a page without items");
    const int64_t num_bytes = page->slots()->keep_items(bytes);
    learned_ += num_bytes;
    return num_bytes;
  }

 private:
  void check(size_t number) const {
    if (number >= count()) throw nb::index_error("no such page");
  }

  std::shared_ptr<const PageTable> table_;
  int64_t times_ = 1, learned_ = 0;  // bytes
  std::shared_ptr<const std::vector<int64_t>> first_rows_;
  std::unique_ptr<std::atomic<const RowPage*>[]> known_;  // of `owned_`, for readers without the GIL
  std::vector<std::shared_ptr<const RowPage>> owned_;
};

}  // namespace alance
