// Counts of repetition and definition levels.
#pragma once
#include <algorithm>
#include <cstdint>

namespace alance {

// How many of `count` entries `holds` is true of; sums of blocks keep the lanes 16 bits wide.
template <typename Holds>
inline int64_t count_if(int64_t count, const Holds& holds) {
  int64_t result = 0;
  for (int64_t begin = 0; begin < count; begin += 32768) {
    const int64_t end = std::min<int64_t>(count, begin + 32768);
    uint16_t block = 0;
    for (int64_t i = begin; i < end; ++i) block = static_cast<uint16_t>(block + (holds(i) ? 1 : 0));
    result += block;
  }
  return result;
}

}  // namespace alance
