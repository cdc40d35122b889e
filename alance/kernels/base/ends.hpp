// Bounds checks of a range between two offsets, before anything is subtracted.
#pragma once
#include <utility>

#include "base/bounds.hpp"

namespace alance {

// Throw unless [start, stop) lies inside a buffer of `total` bytes.
inline void check_ends(int64_t start, int64_t stop, int64_t total, const char* what) {
  if (start < 0 || start > stop || stop > total)
    corrupt(std::string(what) + ": bytes " + std::to_string(start) + " to " +
            std::to_string(stop) + " of a buffer of " + std::to_string(total));
}

// Lists of numbers or keys, one a row; a single list stands for every row.
template <typename T>
struct Lists {
  const int64_t* ends;
  const T* values;
  bool is_single;

  Lists(const In<int64_t>& ends_, const In<T>& values_, int64_t rows)
      : ends(ends_.data()), values(values_.data()), is_single(ends_.size() == 2) {
    const auto count = static_cast<int64_t>(ends_.size()) - 1;
    if (count != rows && count != 1) corrupt("lists: one list for each");
    for (int64_t i = 0; i < count; ++i)
      check_ends(ends[i], ends[i + 1], static_cast<int64_t>(values_.size()), "items");
  }

  std::pair<int64_t, int64_t> at(int64_t row) const {
    const int64_t place = is_single ? 0 : row;
    return {ends[place], ends[place + 1]};
  }
};

}  // namespace alance
