// Bounds of what is between two offsets: nothing is subtracted before both are known to fit.
#pragma once

#include "bounds.hpp"

namespace alance {

// Checks that [start, stop) lies inside a buffer of `total` bytes.
inline void check_ends(int64_t start, int64_t stop, int64_t total, const char* what) {
  if (start < 0 || start > stop || stop > total)
    corrupt(std::string(what) + ": bytes " + std::to_string(start) + " to " +
            std::to_string(stop) + " of a buffer of " + std::to_string(total));
}

}  // namespace alance
