// Opened columns of a file, and the page tables of a fragment's leaves.
#pragma once
#include <optional>
#include <unordered_map>

#include "io/coalesce.hpp"
#include "io/held.hpp"
#include "rows/column_pages.hpp"

namespace alance {

// Columns of a file by their numbers. Callers hold the GIL.
class FileColumns {
 public:
  // The metadata of column c are bytes [spans[2 * c], spans[2 * c + 1]) of the file, whose buffers
  // begin at multiples of `alignment`. If that is more than 1, columns have encodings.
  FileColumns(std::vector<int64_t> spans, int64_t file_bytes, int64_t alignment)
      : spans_(std::move(spans)), file_bytes_(file_bytes), alignment_(alignment) {
    if (spans_.size() % 2 || file_bytes < 0 || alignment < 1) corrupt("column metadata of no file");
    for (size_t i = 0; i < spans_.size(); i += 2)
      check_span(spans_[i], spans_[i + 1] - spans_[i], file_bytes, "column metadata");
  }

  size_t count() const { return spans_.size() / 2; }
  int64_t file_bytes() const { return file_bytes_; }
  int64_t alignment() const { return alignment_; }
  ByteRange span(int64_t column) const {
    const size_t at = 2 * checked(column);
    return {spans_[at], spans_[at + 1]};
  }

  // Columns that are not open, each once.
  std::vector<int64_t> absent(const std::vector<int64_t>& columns) const {
    std::vector<int64_t> missing;
    std::unordered_map<int64_t, bool> seen;
    for (const int64_t column : columns)
      if (!columns_.contains(static_cast<int64_t>(checked(column))) && seen.emplace(column, true).second)
        missing.push_back(column);
    return missing;
  }

  // Metadata of columns that begin before byte `stop` of the file, coalesced.
  nb::list far(const std::vector<int64_t>& columns, int64_t stop) const {
    std::vector<ByteRange> ranges;
    for (const int64_t column : columns)
      if (const ByteRange own = span(column); own.start < stop) ranges.push_back(own);
    nb::list spans;
    for (const auto& [start, end] : coalesce(ranges, {0}).spans) spans.append(nb::make_tuple(start, end));
    return spans;
  }

  // Add a column; one that is open stays.
  void add(int64_t column, std::shared_ptr<ColumnPages> pages) {
    const int64_t num_bytes = kEntryBytes + pages->num_bytes();
    if (columns_.emplace(checked(column), std::move(pages)).second) num_bytes_ += num_bytes;
  }

  const std::shared_ptr<ColumnPages>& column(int64_t number) const {
    const auto place = columns_.find(number);
    if (place == columns_.end()) throw nb::index_error("a column that is not open");
    return place->second;
  }
  std::vector<int64_t> open() const {
    std::vector<int64_t> numbers;
    for (const auto& [number, pages] : columns_) numbers.push_back(number);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  std::shared_ptr<FileColumns> copy() const {  // which does not share later page states
    auto copied = std::make_shared<FileColumns>(*this);
    for (auto& [number, pages] : copied->columns_) pages = std::make_shared<ColumnPages>(*pages);
    return copied;
  }

  int64_t num_bytes() const { return num_bytes_ + static_cast<int64_t>(8 * spans_.size()); }
  // Count memory of pages that were learned.
  void grow(int64_t num_bytes) { num_bytes_ += num_bytes; }

 private:
  static constexpr int64_t kEntryBytes = 80;  // of the map, beside the pages

  size_t checked(int64_t column) const {
    if (column < 0 || static_cast<size_t>(column) >= count()) throw nb::index_error("no such column");
    return static_cast<size_t>(column);
  }

  std::vector<int64_t> spans_;
  int64_t file_bytes_, alignment_;
  int64_t num_bytes_ = sizeof(FileColumns);
  std::unordered_map<int64_t, std::shared_ptr<ColumnPages>> columns_;
};

// Page tables of the leaves of a fragment. A leaf of whose pages the kernel cannot take rows has none.
class LeafTables {
 public:
  // Column of each leaf in a file; none: the file has no such leaf.
  using Columns = std::vector<std::optional<int64_t>>;
  // A table; or null, bytes of pages whose rows the kernel cannot take, and memory.
  using Listed = std::tuple<std::shared_ptr<ColumnPages>, int64_t, int64_t>;

  // Take each leaf from the last file that has it; leaves without a file are left out. For each row
  // of the fragment, the column of leaf i has `times[i]` rows.
  LeafTables(const std::vector<std::shared_ptr<FileColumns>>& files, const std::vector<Columns>& columns,
             const std::vector<int64_t>& times) {
    if (files.size() != columns.size()) corrupt("leaf tables: columns of other files");
    leaves_.reserve(times.size());
    for (size_t i = 0; i < times.size(); ++i)
      for (size_t file = files.size(); file-- > 0;) {
        if (columns[file].size() != times.size()) corrupt("leaf tables: columns of other leaves");
        if (!columns[file][i]) continue;
        const int64_t column = *columns[file][i];
        leaves_.push_back({files[file]->column(column), i, file, column});
        leaves_.back().table->set_times(times[i]);
        break;
      }
  }
  explicit LeafTables(const std::vector<Listed>& tables) {
    for (const auto& [table, size, num_bytes] : tables)
      leaves_.push_back({table, leaves_.size(), 0, -1, size, num_bytes});
  }

  // Table of a column that has `times` rows for each row of the fragment.
  static Listed listed(std::shared_ptr<const PageTable> table, int64_t times) {
    auto pages = std::make_shared<ColumnPages>(std::move(table));
    pages->set_times(times);
    return {std::move(pages), 0, 0};
  }

  size_t count() const { return leaves_.size(); }
  // Numbers of the leaves that have a file, and the number of the file of each.
  std::vector<size_t> leaves() const { return those<size_t>([](const Leaf& own) { return own.number; }); }
  std::vector<size_t> files() const { return those<size_t>([](const Leaf& own) { return own.file; }); }
  // Places of the leaves with tables.
  std::vector<size_t> placed() const {
    std::vector<size_t> places;
    for (size_t at = 0; at < count(); ++at)
      if (leaves_[at].table != nullptr) places.push_back(at);
    return places;
  }
  const std::shared_ptr<ColumnPages>& column(size_t at) const { return leaf(at).table; }
  int64_t number(size_t at) const { return leaf(at).column; }

  std::shared_ptr<LeafTables> copy() const {  // which does not share later page states
    auto copied = std::make_shared<LeafTables>(*this);
    for (Leaf& leaf : copied->leaves_)
      if (leaf.table) leaf.table = std::make_shared<ColumnPages>(*leaf.table);
    return copied;
  }

  // First leaf whose column does not have `num_rows * times` rows: the leaf's place, and the rows of
  // its column.
  std::optional<std::pair<size_t, int64_t>> misfit(int64_t num_rows) const {
    for (size_t at = 0; at < count(); ++at) {
      const ColumnPages* pages = leaves_[at].table.get();
      int64_t expected = 0;
      if (pages != nullptr && (__builtin_mul_overflow(num_rows, pages->times(), &expected) ||
                               pages->num_rows() != expected))
        return std::pair{at, pages->num_rows()};
    }
    return std::nullopt;
  }

  // Bytes of the pages of each leaf.
  std::vector<int64_t> sizes() const {
    return those<int64_t>([](const Leaf& leaf) { return leaf.table ? leaf.table->buffer_bytes() : leaf.size; });
  }
  // Memory of a decoded row: of each leaf the larger of its encoded bytes and `fixed`.
  double row_bytes(int64_t num_rows, const std::vector<double>& fixed) const {
    const std::vector<int64_t> own = sizes();
    if (fixed.size() != own.size()) corrupt("leaf tables: other leaves");
    double sum = 0;
    for (size_t at = 0; at < own.size(); ++at)
      sum += std::max(static_cast<double>(own[at]) / static_cast<double>(std::max<int64_t>(1, num_rows)), fixed[at]);
    return sum;
  }
  // Approximate memory of the states of all pages.
  int64_t state_bytes() const {
    int64_t sum = 0;
    for (const Leaf& leaf : leaves_)
      if (leaf.table) sum += leaf.table->state_bytes();
    return sum;
  }
  // Memory of the pages and their states.
  int64_t num_bytes() const {
    int64_t sum = static_cast<int64_t>(sizeof(*this) + leaves_.capacity() * sizeof(Leaf));
    for (const Leaf& leaf : leaves_) sum += leaf.table ? leaf.table->num_bytes() : leaf.num_bytes;
    return sum;
  }

 private:
  struct Leaf {
    std::shared_ptr<ColumnPages> table;
    size_t number, file;
    int64_t column;  // its number in the file
    int64_t size = 0, num_bytes = 0;  // if there is no table
  };

  const Leaf& leaf(size_t at) const {
    if (at >= count()) throw nb::index_error("no such leaf");
    return leaves_[at];
  }
  template <typename Value, typename Of>
  std::vector<Value> those(const Of& of) const {
    std::vector<Value> all;
    all.reserve(count());
    for (const Leaf& leaf : leaves_) all.push_back(of(leaf));
    return all;
  }

  std::vector<Leaf> leaves_;
};

}  // namespace alance
