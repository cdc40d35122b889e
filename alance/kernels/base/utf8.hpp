// Validation of UTF-8 in byte strings; see utf8.cpp.
#pragma once
#include <cstdint>

namespace alance {

bool is_utf8(const uint8_t* at, const uint8_t* end);

// True if all bytes are below 128. Branch-free: the compiler vectorises it.
inline bool is_ascii(const uint8_t* at, const uint8_t* end) {
  uint8_t all = 0;
  for (; at < end; ++at) all |= *at;
  return all < 0x80;
}

// True if each of `count` adjacent strings, whose offsets ascend, is UTF-8.
template <typename Offset>
bool are_utf8(const Offset* offsets, int64_t count, const uint8_t* bytes) {
  if (count == 0) return true;
  const int64_t last = offsets[count];
  if (is_ascii(bytes + offsets[0], bytes + last)) return true;
  if (!is_utf8(bytes + offsets[0], bytes + last)) return false;
  // Their concatenation is UTF-8: so is each string that does not begin inside a character.
  bool split = false;
  for (int64_t i = 1; i < count; ++i)
    split |= offsets[i] < last && (bytes[offsets[i]] & 0xC0) == 0x80;
  return !split;
}

}  // namespace alance
