// Where the chunks of a mini-block page lie, in bytes, values and rows: of its chunk words, and its
// repetition index where it has lists.
#pragma once
#include <vector>

#include "rows/cells.hpp"

namespace alance {

// All chunks of a page, n of them; each list but `carries` has a number behind the last one.
struct ChunkTable {
  // `index`: null without lists. Checked against each other and the page's numbers.
  ChunkTable(cells::Part words, const cells::Part* index, bool large, uint64_t num_items,
             int64_t num_rows, int64_t chunk_bytes);

  std::vector<int64_t> first_bytes, first_values;
  std::vector<int64_t> first_rows;  // with lists; else rows are values
  std::vector<uint8_t> carries;     // with lists: whether a chunk begins inside a row

  const std::vector<int64_t>& rows() const { return first_rows.empty() ? first_values : first_rows; }
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof(*this) + carries.capacity() +
                                8 * (first_bytes.capacity() + first_values.capacity() +
                                     first_rows.capacity()));
  }

 private:
  void read_index(cells::Part index, int64_t num_rows);
};

}  // namespace alance
