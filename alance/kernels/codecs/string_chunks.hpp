// Chunks of strings: count + 1 offsets, measured from the start of the chunk, then the bytes.
#pragma once
#include "codecs/spans.hpp"

namespace alance {

// Where the bytes of a chunk begin and end, from its start.
template <typename Offset>
struct StringSpan {
  Offset first = 0, last = 0;
};

// Checks all of a chunk but that its offsets rise.
template <typename Offset>
inline StringSpan<Offset> string_span(const uint8_t* chunk, int64_t size, int64_t count) {
  constexpr int64_t WIDTH = sizeof(Offset);
  if (count == 0 && size == 0) return {};
  if (size % WIDTH != 0 || count >= size / WIDTH)
    corrupt("variable: a chunk of " + std::to_string(size) + " bytes for " +
            std::to_string(count) + " values with offsets of " + std::to_string(WIDTH));
  const Offset first = load<Offset>(chunk), last = load<Offset>(chunk + WIDTH * count);
  if (first < WIDTH * (count + 1) || last < first || last > size)
    corrupt("variable: values from " + std::to_string(first) + " to " + std::to_string(last) +
            " in a chunk of " + std::to_string(size) + " bytes");
  return {first, last};
}

// Whether count + 1 offsets rise. No branch, and a mark of an offset's width: the compiler makes
// vectors of it.
template <typename Offset>
inline bool rises(const uint8_t* offsets, int64_t count) {
  Offset falls = 0;
  for (int64_t i = 0; i < count; ++i)
    falls |= load<Offset>(offsets + sizeof(Offset) * i) >
             load<Offset>(offsets + sizeof(Offset) * (i + 1));
  return falls == 0;
}

}  // namespace alance
