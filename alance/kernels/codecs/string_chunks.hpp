// Chunks of strings: count + 1 offsets, measured from the start of the chunk, then the bytes.
#pragma once
#include "codecs/spans.hpp"

namespace alance {

// Begin and end of the bytes of a chunk's strings, from the chunk's start.
template <typename Offset>
struct StringSpan {
  Offset first = 0, last = 0;
};

// Check everything of a chunk except that its offsets ascend.
template <typename Offset>
inline StringSpan<Offset> string_span(const uint8_t* chunk, int64_t size, int64_t count) {
  constexpr int64_t kWidth = sizeof(Offset);
  if (count == 0 && size == 0) return {};
  if (size % kWidth != 0 || count >= size / kWidth)
    corrupt("variable: a chunk of ", size, " bytes for ", count, " values with offsets of ",
            kWidth);
  const Offset first = load<Offset>(chunk), last = load<Offset>(chunk + kWidth * count);
  if (first < kWidth * (count + 1) || last < first || last > size)
    corrupt("variable: values from ", first, " to ", last, " in a chunk of ", size, " bytes");
  return {first, last};
}

// True if `count` + 1 offsets ascend. Branch-free, with a flag as wide as an offset: the compiler
// vectorises it.
template <typename Offset>
inline bool rises(const uint8_t* offsets, int64_t count) {
  Offset falls = 0;
  for (int64_t i = 0; i < count; ++i)
    falls |= load<Offset>(offsets + sizeof(Offset) * i) >
             load<Offset>(offsets + sizeof(Offset) * (i + 1));
  return falls == 0;
}

}  // namespace alance
