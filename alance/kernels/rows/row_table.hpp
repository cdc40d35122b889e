// Table of the known pages of a column, to locate rows. A reader that needs an unknown page loads
// its state, and stores the page here for all later takes.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "rows/nests.hpp"
#include "rows/pages/row_page.hpp"

namespace alance {

// Pages of a column whose rows can be taken, as far as they are known. Writers hold the GIL;
// readers need not: a known page stays as it is.
class RowTable {
 public:
  struct Entry {
    std::shared_ptr<const RowPage> kernel;
    nests::Layers layers{};
    int64_t start = 0;         // of the page in its file
  };

  // `first_rows` has the first row of each page, and the number of all rows.
  explicit RowTable(std::vector<int64_t> first_rows)
      : first_rows_(std::make_shared<const std::vector<int64_t>>(std::move(first_rows))) {
    const std::vector<int64_t>& bounds = *first_rows_;
    if (bounds.empty() || bounds.front() != 0 || !std::is_sorted(bounds.begin(), bounds.end()))
      corrupt("row table: first rows");
    entries_ = std::make_unique<std::atomic<const Entry*>[]>(count());
  }
  // Copies the known pages; pages that become known later are not shared.
  RowTable(const RowTable& other)
      : times_(other.times_),
        first_rows_(other.first_rows_),
        entries_(std::make_unique<std::atomic<const Entry*>[]>(count())) {
    for (size_t i = 0; i < count(); ++i)
      if (const Entry* known = other.entries_[i].load()) entries_[i] = new Entry(*known);
  }
  RowTable& operator=(const RowTable&) = delete;
  virtual ~RowTable() {
    for (size_t i = 0; entries_ && i < count(); ++i) delete entries_[i].load();
  }

  // Store page `number`, which begins at byte `start` of its file; false if it was known.
  bool set(size_t number, std::shared_ptr<const RowPage> kernel, nests::Layers layers, int64_t start) {
    if (number >= count()) corrupt("row table: no such page");
    if (entries_[number].load() != nullptr) return false;
    entries_[number].store(new Entry{std::move(kernel), std::move(layers), start},
                           std::memory_order_release);
    return true;
  }

  size_t count() const { return first_rows_->size() - 1; }
  const std::vector<int64_t>& first_rows() const { return *first_rows_; }
  // Rows of the column for each row of the field: more than one if fixed-size lists are around the leaf.
  int64_t times() const { return times_; }
  void set_times(int64_t times) {
    if (times < 1) corrupt("row table: a column without rows");
    if (times_ != times) times_ = times;
  }
  // Null if the page is not known.
  const Entry* entry(size_t number) const {
    return entries_[number].load(std::memory_order_acquire);
  }

 private:
  int64_t times_ = 1;
  std::shared_ptr<const std::vector<int64_t>> first_rows_;
  std::unique_ptr<std::atomic<const Entry*>[]> entries_;
};

}  // namespace alance
