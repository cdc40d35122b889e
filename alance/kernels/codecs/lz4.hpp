// LZ4 decoding of raw blocks into exactly the announced number of bytes. A unit has this number in
// front of its block.
//
// A block is a series of sequences: a token (high half: number of literals, low half: length of the
// match minus 4; 15 means that bytes to add follow), the literals, a distance of two bytes, and the
// match at that distance before. The last sequence ends after its literals.
//
// Source: github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
#pragma once
#include <algorithm>

#include "base/bounds.hpp"
#include "codecs/spans.hpp"

namespace alance::lz4 {

constexpr int64_t kPrefix = 4;  // bytes of the size in front of a block
constexpr int64_t kBurst = 16;  // bytes of one copy, if both sides have room
constexpr int64_t kMaxRatio = 255;  // a byte of a length adds up to 255 bytes of match
constexpr int64_t kMaxExtra = 32;  // bytes that a tiny block may hold beyond its ratio

[[noreturn]] inline void damaged(const char* what) { corrupt("lz4: ", what); }

// Bytes of the content of a unit, which are at most `most`.
inline int64_t content_size(const uint8_t* unit, int64_t num_bytes, int64_t most) {
  const int64_t rest = num_bytes - kPrefix;
  if (rest < 1) corrupt("lz4: a unit of ", num_bytes, " bytes");
  const int64_t size = load<uint32_t>(unit), possible = std::min(most, rest * kMaxRatio + kMaxExtra);
  if (size > possible)
    corrupt("lz4: a unit of ", num_bytes, " bytes for ", size, ", at most ", possible,
            " are possible");
  return size;
}

// A length of 15 or more continues in further bytes, up to the first below 255.
inline int64_t length(int64_t nibble, const uint8_t*& in, const uint8_t* end) {
  if (nibble < 15) return nibble;
  int64_t total = nibble;
  while (true) {
    if (in == end) damaged("a block ends inside a length");
    uint8_t more = *in++;
    total += more;
    if (more < 255) return total;
  }
}

// Fill `size` bytes at `out`; at least kBurst more may be overwritten.
inline void decode(const uint8_t* in, const uint8_t* end, uint8_t* const out, int64_t size) {
  uint8_t* to = out;
  uint8_t* const stop = out + size;
  while (true) {
    if (in == end) damaged("a block ends without literals");
    const uint8_t token = *in++;
    const int64_t literals = length(token >> 4, in, end);
    if (literals > end - in || literals > stop - to) damaged("literals leave their buffer");
    if (literals <= kBurst && end - in >= kBurst)
      std::memcpy(to, in, kBurst);
    else
      std::memcpy(to, in, static_cast<size_t>(literals));
    in += literals;
    to += literals;
    if (in == end) break;
    if (end - in < 2) damaged("a block ends inside a distance");
    const int64_t distance = load<uint16_t>(in);
    in += 2;
    const int64_t match = length(token & 15, in, end) + 4;
    if (distance == 0 || distance > to - out) damaged("a match before the content");
    if (match > stop - to) damaged("a match behind the content");
    const uint8_t* from = to - distance;
    if (distance >= kBurst) {
      for (int64_t done = 0; done < match; done += kBurst)
        std::memcpy(to + done, from + done, kBurst);
    } else {
      // The match overlaps itself: each copy doubles what is there.
      for (int64_t done = 0; done < match;) {
        int64_t piece = std::min(distance + done, match - done);
        std::memcpy(to + done, from, static_cast<size_t>(piece));
        done += piece;
      }
    }
    to += match;
  }
  if (to != stop) damaged("a block holds less than its size says");
}

}  // namespace alance::lz4
