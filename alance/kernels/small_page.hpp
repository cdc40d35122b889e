// Pages of few rows, of columns without lists and structs: what the encoder writes of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "arrow_c.hpp"
#include "spans.hpp"

namespace alance::small {

constexpr int64_t MAX_ROWS = 99;  // from 100 on pages may have dictionaries

// What a column is, by its field.
struct Kind {
  int bits;          // of a value; 0: byte strings
  int offset_bytes;  // of byte strings: 4 or 8
  std::string zones;  // the kind of its bounds in statistics; empty: it has none
  bool is_nullable;
};

// The rows of one column, as views of its array.
struct Rows {
  Kind kind;
  int64_t count;
  std::vector<uint8_t> valid;   // a byte each; none: all are
  int64_t num_valid;
  std::string values;           // of fixed width, as they stand in the array
  std::vector<int64_t> ends;    // of byte strings: `count` + 1; those of nulls are empty
  std::string data;             // of byte strings

  bool is_null(int64_t row) const { return !valid.empty() && !valid[static_cast<size_t>(row)]; }

  const uint8_t* mask() const { return valid.empty() ? nullptr : valid.data(); }
};

// The rows of an array; nothing where they are not small and plain.
std::optional<Rows> rows_of(const ArrowArray& array, const Kind& kind);

// A page as it goes into a file.
struct Page {
  std::string layout;                // a PageLayout
  std::vector<std::string> buffers;
  size_t num_search;                 // of the buffers: the first ones, which readers need first
};

// The page of these rows; files of 2.1 say less.
Page page_of(const Rows& rows, bool is_2_1);

}  // namespace alance::small
