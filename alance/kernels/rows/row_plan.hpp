// Plan to read rows of the columns of many files: single rows, or ranges of rows. A group of the
// plan has pieces of files that are read together and decoded in one go, with their pages and rows.
// The plan consists of a few flat arrays: with an object for each page, a take of many fragments
// would make too many objects.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rows/pages/range_sink.hpp"
#include "rows/column_pages.hpp"
#include "io/source.hpp"

namespace alance {

class RowPlan {
 public:
  // Rows of a page: for single rows, positions in the list of all rows; for ranges, neighbours in
  // the page. The next `num_pieces` pieces of the group, of `num_bytes` bytes in all, are their values.
  struct Part {
    size_t table;
    const RowPage* page;
    int64_t first, last;
    size_t num_pieces = 0;
    int64_t num_bytes = 0;
    bool by_value = false;  // as in `Rows`
  };
  // Unit of reading and decoding; its pages are of one column.
  struct Group {
    size_t parts_end, pieces_end;  // behind its last part, and piece
    int64_t bytes_end, num_rows;  // end in the bytes of all groups
  };
  // Unknown page; `first` to `last`: its rows in the list of single rows.
  struct Unknown {
    size_t table, page;
    int64_t first = 0, last = 0;
    bool operator==(const Unknown&) const = default;
  };

  // Bytes of a page for each row from which bare values are read without their chunks: with fewer, nearly
  // all of the file's pages in memory are touched, and whole chunks cost less calls and buffers. To read
  // a single value costs about as much as to copy and decode so many bytes.
  static constexpr int64_t kValueBytes = 4 << 10;

  bool is_ranges = false;
  int64_t num_rows = 0;
  std::vector<int64_t> rows;  // counted from the first row of their page; by column
  // Owners of the pages: tables, and pages of some runs of rows.
  std::vector<std::shared_ptr<ColumnPages>> tables;
  std::vector<std::shared_ptr<const RowPage>> pages_of_runs;
  std::vector<Part> parts;
  std::vector<Piece> pieces;
  std::vector<Group> groups;
  std::vector<size_t> columns;  // end of each column's groups
  // Unknown pages, whose rows are in no group. In a plan of single rows that is not partial, groups end
  // before the first unknown page.
  std::vector<Unknown> unknown;
  // Entries to read of pages' indices that stay in the files; then the rows are planned again.
  std::vector<Piece> places;

  size_t first_group(size_t column) const { return column ? columns[column - 1] : 0; }
  size_t first_part(size_t group) const { return group ? groups[group - 1].parts_end : 0; }
  size_t first_piece(size_t group) const { return group ? groups[group - 1].pieces_end : 0; }
  int64_t first_byte(size_t group) const { return group ? groups[group - 1].bytes_end : 0; }
  // Rows of a part, counted from the first row of their page.
  Rows rows_of(const Part& part) const {
    return {is_ranges ? nullptr : rows.data() + part.first, part.first, part.last - part.first, nullptr, part.by_value};
  }
  // First part of a column whose page has values of another form: its number, and a text that says what is
  // wrong; nothing if all pages have the form. `is_nested`: pages may have lists or structs.
  std::optional<std::pair<size_t, std::string>> misfit(size_t column, const RangeForm& form, bool is_nested) const {
    if (column >= columns.size()) corrupt("row plan: no such column");
    for (size_t i = first_part(first_group(column)); i < first_part(columns[column]); ++i) {
      const RowPage& page = *parts[i].page;
      const auto wrong = [&](std::string what) { return std::pair{i, std::move(what)}; };
      if (page.layers().none()) return wrong("more than " + std::to_string(nests::kMostLayers) + " layers");
      if (!page.holds(form)) return wrong("a page of " + page.values_text());
      if (!is_nested && !nests::is_plain(page.layers())) return wrong("a page of lists or structs");
    }
    return std::nullopt;
  }
  // True if neighbouring rows of a column are decoded without a `Sink`.
  bool is_simple(size_t column, const RangeForm& form) const {
    if (!form.is_simple()) return false;
    for (size_t i = first_part(first_group(column)); i < first_part(columns[column]); ++i)
      if (!parts[i].page->is_simple(form.width)) return false;
    return true;
  }
  void check_groups(size_t first, size_t last) const {
    if (first > last || last > groups.size()) corrupt("row plan: no such groups");
  }
};

}  // namespace alance
