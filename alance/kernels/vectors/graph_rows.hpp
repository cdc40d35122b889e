// Distances between stored rows of a partition, for the construction of its graph.
#pragma once
#include "vectors/nearest.hpp"

namespace alance::vectors {

class GraphRows {
 public:
  virtual ~GraphRows() = default;
  int64_t count() const { return count_; }

  // Select the row that others are compared with: `many` of them, or a few.
  virtual void ask(uint32_t row, bool many) = 0;
  // Distance of a row from the selected one.
  virtual float at(uint32_t row) const = 0;

  void prefetch(uint32_t row) const {
    constexpr int64_t kMost = 1024;  // bytes: the processor prefetches what follows
    const uint8_t* first = stored(row);
    for (int64_t byte = 0; byte < row_bytes_ && byte < kMost; byte += 64)
      __builtin_prefetch(first + byte);
  }

 protected:
  // Holds the values, row after row; throws if they are not whole rows.
  GraphRows(Bytes values, int64_t row_bytes) : values_(values), row_bytes_(row_bytes) {
    const int64_t size = static_cast<int64_t>(values.size());
    if (row_bytes < 1 || size % row_bytes)
      corrupt("graph: " + std::to_string(size) + " bytes of rows of " + std::to_string(row_bytes));
    count_ = size / row_bytes;
  }

  const uint8_t* stored(uint32_t row) const { return values_.data() + int64_t{row} * row_bytes_; }

 private:
  Bytes values_;
  int64_t row_bytes_, count_;
};

}  // namespace alance::vectors
