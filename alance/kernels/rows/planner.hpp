// Construction of a row plan from tables of pages.
#pragma once
#include <algorithm>
#include <utility>

#include "io/held.hpp"
#include "rows/row_needs.hpp"
#include "rows/row_plan.hpp"
#include "rows/sparse_rows.hpp"

namespace alance {

// Builder of a plan, column by column, and in a column table by table. The caller adds the tables to the plan.
class Planner {
 public:
  // Rows [first, last).
  using Span = std::pair<int64_t, int64_t>;

  // Bytes of the file of each table that were read so far, including entries of pages' indices.
  using Files = std::vector<const HeldFile*>;

  // Plan of single rows, column by column. `held`: empty if nothing was read. `is_partial`: also plan
  // the rows of known pages that follow an unknown page.
  Planner(int64_t count, size_t num_column_rows, Files held, bool is_partial)
      : held_(std::move(held)), is_partial_(is_partial) {
    plan.num_rows = count;
    plan.rows.reserve(num_column_rows);
  }
  // Plan of `count` rows in ranges.
  explicit Planner(int64_t count, Files held = {}) : held_(std::move(held)) {
    plan.num_rows = count;
    plan.is_ranges = true;
  }

  // Reserve memory for a part of each table: to grow it would take longer than to fill it.
  void reserve(size_t num_tables) {
    plan.parts.reserve(num_tables);
    plan.pieces.reserve(num_tables);
  }

  // Add the rows of a span of a table of the current column. The bytes of a page are read at once;
  // all pages of a column are one group.
  void add(const ColumnPages& table, size_t number, const Span& span) {
    const std::vector<int64_t>& bounds = table.first_rows();
    if (span.second > bounds.back()) corrupt("plan_spans: rows of no page");
    auto above = std::upper_bound(bounds.begin(), bounds.end(), span.first);
    for (int64_t row = span.first; row < span.second; ++above) {
      const size_t page = static_cast<size_t>(above - bounds.begin()) - 1;
      const int64_t last = std::min(span.second, *above);
      if (last == row) continue;  // a page without rows
      const RowPage* known = table.known(page);
      if (known == nullptr || sparse::wants_items(*known, {nullptr, row - bounds[page], last - row})) {
        const RowPlan::Unknown hole{number, page};  // the previous span may have added it
        if (plan.unknown.empty() || plan.unknown.back() != hole) plan.unknown.push_back(hole);
      } else {
        add_page(number, *known, row - bounds[page], last - bounds[page]);
      }
      row = last;
    }
  }

  // Begin a column of single rows. `rows`: those of all tables.
  void begin_column(const int64_t* rows, int64_t count) {
    rows_ = rows;
    base_ = static_cast<int64_t>(plan.rows.size());
    plan.rows.resize(plan.rows.size() + static_cast<size_t>(count));
  }

  // Add rows `first` to `last` of a table of the current column.
  void add(const ColumnPages& table, size_t number, int64_t first, int64_t last) {
    const std::vector<int64_t>& bounds = table.first_rows();
    const int64_t base = base_;
    int64_t* in_page = plan.rows.data() + base;
    for (int64_t i = first; i < last;) {
      const auto above = std::upper_bound(bounds.begin(), bounds.end(), rows_[i]);
      if (above == bounds.begin() || above == bounds.end()) corrupt("plan_rows: a row of no page");
      const size_t page = static_cast<size_t>(above - bounds.begin()) - 1;
      const RowPage* known = table.known(page);
      int64_t next = i;
      for (; next < last && rows_[next] < *above; ++next) in_page[next] = rows_[next] - bounds[page];
      if (known == nullptr || sparse::wants_items(*known, {in_page + i, 0, next - i})) {
        plan.unknown.push_back({number, page, base + i, base + next});
      } else {
        known->check_rows(in_page + i, next - i);  // ascending, and rows of the page
        const RowPage& of_rows = placed(number, *known, {in_page + i, 0, next - i});
        if (plan.places.empty() && (is_partial_ || plan.unknown.empty())) {  // else the rows are planned again
          add_pieces(number, of_rows, base + i, base + next);
        }
      }
      i = next;
    }
  }

  void end_column() { plan.columns.push_back(plan.groups.size()); }

  RowPlan plan;

 private:
  // Page whose rows are planned: if the index of `page` stays in the file, a page of these rows alone. Index
  // entries that were not read are added to the plan's `places`.
  const RowPage& placed(size_t number, const RowPage& page, const Rows& rows) {
    if (page.file_index() == nullptr) return page;
    std::vector<int64_t> firsts, lasts, bytes;
    for (int64_t i = 0, end = 0; i < rows.count; i = end) {
      end = rows.run_end(i);
      firsts.push_back(rows[i]);
      lasts.push_back(rows[end - 1] + 1);
      for (const int64_t row : {firsts.back(), lasts.back()}) bytes.push_back(place_of(number, page, row));
    }
    if (!plan.places.empty()) return page;
    plan.pages_of_runs.push_back(page.of_runs(std::move(firsts), std::move(lasts), std::move(bytes)));
    return *plan.pages_of_runs.back();
  }

  // Position of a row (or the end of the last row), from the entries of the index that were read.
  int64_t place_of(size_t number, const RowPage& page, int64_t row) {
    const auto& [start, width] = *page.file_index();
    if (row == 0) return 0;
    if (row == page.num_rows()) return page.size();
    const Piece piece{number, start + row * width, start + (row + 1) * width};
    uint8_t bytes[8] = {};  // little-endian; the page refuses negative positions
    if (number < held_.size() && held_[number]->copy(piece.start, piece.stop, bytes)) return load<int64_t>(bytes);
    if (!plan.places.empty() && plan.places.back().table == number && piece.start >= plan.places.back().start &&
        piece.start <= plan.places.back().stop + kPlaceGap)
      plan.places.back().stop = std::max(plan.places.back().stop, piece.stop);
    else
      plan.places.push_back(piece);
    return 0;
  }

  void add_page(size_t number, const RowPage& of_table, int64_t first, int64_t last) {
    const RowPage& page = placed(number, of_table, {nullptr, first, last - first});
    if (page.file_index() != nullptr) return;  // the rows are planned again
    if (plan.groups.size() == plan.first_group(plan.columns.size())) begin_group();
    plan.parts.push_back({number, &page, first, last});
    if (page.slots() != nullptr) {
      for (const auto& [begin, end, bytes] : sparse::runs_of(page, {nullptr, first, last - first}, INT64_MAX))
        add_piece({number, page.start() + bytes.start, page.start() + bytes.stop}, end - begin);
      return;
    }
    const auto [begin, end] = page.bytes_of(first, last);
    add_piece({number, page.start() + begin, page.start() + end}, last - first);
  }

  void begin_group() {
    plan.groups.push_back(
        {plan.parts.size(), plan.pieces.size(), plan.first_byte(plan.groups.size()), 0});
  }

  // Add a piece to the last group, with rows of its last part.
  void add_piece(const Piece& piece, int64_t num_rows) {
    RowPlan::Part& part = plan.parts.back();
    part.num_bytes += piece.stop - piece.start;
    if (piece.stop > piece.start) {  // pages of one value have none
      plan.pieces.push_back(piece);
      ++part.num_pieces;
    }
    RowPlan::Group& group = plan.groups.back();
    group.parts_end = plan.parts.size();
    group.pieces_end = plan.pieces.size();
    group.bytes_end += piece.stop - piece.start;
    group.num_rows += num_rows;
  }

  void add_pieces(size_t number, const RowPage& page, int64_t first, int64_t last) {
    const bool by_value = (last - first) * RowPlan::kValueBytes <= page.size();
    const Rows rows{plan.rows.data() + first, 0, last - first, nullptr, by_value};
    std::vector<needs::Run>& runs = runs_;
    if (page.slots() != nullptr) {
      runs = sparse::runs_of(page, rows, kGroupBytes);
    } else if (page.is_constant()) {
      runs = {{0, last - first, {0, 0}}};
    } else {
      needs::find_needs(page, rows, needs_);
      needs::find_runs(needs_, {0, kGroupBytes}, runs);
    }
    const size_t before = plan.parts.size();
    for (const needs::Run& run : runs) {
      const int64_t start = page.start() + run.bytes.start, stop = page.start() + run.bytes.stop;
      if (run.first == run.last) {
        add_piece({number, start, stop}, 0);
        continue;
      }
      if (!joins(number, start, stop - start)) begin_group();
      if (plan.parts.size() > std::max(before, plan.first_part(plan.groups.size() - 1)))
        plan.parts.back().last = first + run.last;
      else
        plan.parts.push_back({number, &page, first + run.first, first + run.last, 0, 0, by_value});
      add_piece({number, start, stop}, run.last - run.first);
    }
  }

  // True if a piece belongs to the last group: that is of this column, stays small in bytes and pieces,
  // and ascends in each of its files.
  bool joins(size_t number, int64_t start, int64_t num_bytes) const {
    const size_t last_group = plan.groups.size();
    if (last_group == plan.first_group(plan.columns.size())) return false;
    const RowPlan::Group& group = plan.groups.back();
    const int64_t size = group.bytes_end - plan.first_byte(last_group - 1);
    const size_t num_pieces = plan.pieces.size() - plan.first_piece(last_group - 1);
    if (size + num_bytes > kGroupBytes || num_pieces >= kGroupPieces) return false;
    if (num_bytes == 0 || size == 0) return true;
    return plan.pieces.back().table != number || start >= plan.pieces.back().stop;
  }

  // Approximate bytes of a group: they are decoded while they are in the processor's cache.
  static constexpr int64_t kGroupBytes = 160 << 10;
  static constexpr size_t kGroupPieces = 256;  // so that threads share a take of many single values
  static constexpr int64_t kPlaceGap = 4 << 10;  // bytes between index entries that are read together

  Files held_;
  const int64_t* rows_ = nullptr;  // rows of the current column
  int64_t base_ = 0;               // position of these rows in `plan.rows`
  std::vector<needs::Need> needs_;  // memory that is reused
  std::vector<needs::Run> runs_;
  bool is_partial_ = false;
};

}  // namespace alance
