// Positions of the chunks of a mini-block page in bytes, values and rows, from its chunk words and,
// with lists, its repetition index.
//
// Source: docs/format/file.md, "Chunk words" and "Repetition index".
#pragma once
#include <vector>

#include "rows/pages/cells.hpp"

namespace alance {

// All n chunks of a page; each list but `carries` and the levels has n + 1 numbers. Constant pages have their
// decoded levels here, cut into pieces that are the chunks. For runs of zipped rows `first_rows` has the first
// row of each run, `entries` its end row, `first_bytes` start and end of its bytes by turns.
struct ChunkTable {
  ChunkTable() = default;
  // `index` is null without lists. Both are checked against each other and the page's numbers.
  ChunkTable(cells::Part words, const cells::Part* index, bool large, uint64_t num_items,
             int64_t num_rows, int64_t chunk_bytes);

  std::vector<int64_t> first_bytes, first_values;
  std::vector<int64_t> first_rows;  // with lists; else rows are values
  std::vector<uint8_t> carries;  // with lists: 1 if a chunk begins inside a row
  std::vector<int64_t> entries;  // levels before each piece
  std::vector<uint16_t> reps, defs;

  const std::vector<int64_t>& rows() const { return first_rows.empty() ? first_values : first_rows; }
  size_t memory() const {
    return carries.capacity() + 2 * (reps.capacity() + defs.capacity()) +
           8 * (first_bytes.capacity() + first_values.capacity() + first_rows.capacity() + entries.capacity());
  }

 private:
  void read_index(cells::Part index, int64_t num_rows);
};

}  // namespace alance
