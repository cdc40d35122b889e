// The pages of a column that are known so far, for finding rows in them. A page that is not known
// is a hole: whoever meets it learns the page, and sets it here for all later takes.
#pragma once
#include <algorithm>
#include <vector>

#include "nests.hpp"
#include "row_page.hpp"

namespace alance {

// The pages of a column whose rows can be taken, as far as they are known.
class RowTable {
 public:
  struct Entry {
    const RowPage* kernel = nullptr;
    nb::object page;
    nests::Layers layers = 0;
  };

  // `first_rows` has one number a page and the total behind them.
  explicit RowTable(const In<int64_t>& first_rows)
      : first_rows_(first_rows.data(), first_rows.data() + first_rows.size()) {
    if (first_rows_.empty() || first_rows_.front() != 0 ||
        !std::is_sorted(first_rows_.begin(), first_rows_.end()))
      corrupt("row table: first rows");
    entries_.resize(first_rows_.size() - 1);
  }

  // The same of the rows of each page, none negative.
  explicit RowTable(const std::vector<int64_t>& rows) : first_rows_{0}, entries_(rows.size()) {
    for (const int64_t count : rows) first_rows_.push_back(first_rows_.back() + count);
  }


  // Page `number` is known: `page` is what plans give for it, and keeps `kernel` alive;
  // `layers`: 0 where there are too many.
  void set(int64_t number, const RowPage* kernel, nb::object page, nests::Layers layers) {
    if (number < 0 || number >= static_cast<int64_t>(entries_.size()))
      corrupt("row table: no such page");
    entries_[static_cast<size_t>(number)] = {kernel, std::move(page), layers};
  }

  const std::vector<int64_t>& first_rows() const { return first_rows_; }
  const Entry& entry(size_t number) const { return entries_[number]; }

 private:
  std::vector<int64_t> first_rows_;
  std::vector<Entry> entries_;
};

}  // namespace alance
