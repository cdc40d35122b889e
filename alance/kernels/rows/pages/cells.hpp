// Single values and levels of a chunk, checked as far as they are read.
#pragma once
#include <string>

#include "codecs/fastlanes.hpp"

namespace alance::cells {

using fastlanes::kBlockValues;
using fastlanes::kRowBytes;

// Encoding of levels in a chunk.
enum class Nulls : int { none, flat, packed, runs, blocks };

struct Part {
  const uint8_t* data = nullptr;
  int64_t size = 0;
};

inline std::string text(int64_t number) { return std::to_string(number); }

inline uint64_t load_bits(const uint8_t* from, int bits) {
  return by_width(bits, [=](auto word) -> uint64_t { return load<decltype(word)>(from); });
}

inline bool is_word(int bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

// Width in front of a packed block, whose size is checked.
inline int width_of(Part part, int bits, int64_t count) {
  if (part.size < bits / 8 || count > kBlockValues)
    corrupt("bit-packing: ", count, " values in a block of ", part.size, " bytes");
  const uint64_t width = load_bits(part.data, bits);
  if (width > static_cast<uint64_t>(bits) ||
      part.size != bits / 8 + kRowBytes * static_cast<int64_t>(width))
    corrupt("bit-packing: a block of ", part.size, " bytes, width ", width);
  return static_cast<int>(width);
}

// One value of a packed block.
inline uint64_t packed_at(Part part, int bits, int64_t count, int64_t i) {
  return fastlanes::value_at(part.data + bits / 8, bits, width_of(part, bits, count), i);
}

// One level of packed blocks of a known width, with raw or packed levels behind them.
inline uint64_t level_in_blocks(Part part, int width, int64_t count, int64_t i) {
  const int64_t whole = count / kBlockValues, tail = count % kBlockValues;
  const int64_t block = kRowBytes * width;
  const bool raw = part.size == whole * block + 2 * tail;
  if (!raw && (tail == 0 || part.size != (whole + 1) * block))
    corrupt("bit-packing: ", part.size, " bytes for ", count, " levels of width ", width);
  if (raw && i >= whole * kBlockValues)
    return load<uint16_t>(part.data + whole * block + 2 * (i - whole * kBlockValues));
  return fastlanes::value_at<uint16_t>(part.data + i / kBlockValues * block, width,
                                       i % kBlockValues);
}

// Position of a walk over runs, which only moves forward.
struct Walk {
  int64_t run = 0, end = 0;  // the next run, and the values before it

  // Number of the run that holds value i.
  int64_t find(Part lengths, int64_t i) {
    while (end <= i) {
      if (run >= lengths.size) corrupt("rle: runs of ", end, " values");
      if (lengths.data[run] == 0) corrupt("rle: a run of length 0");
      end += lengths.data[run++];
    }
    return run - 1;
  }
};

// Split a payload into its two parts: a u64 size of the first part, then both parts.
inline std::pair<Part, Part> two_parts(Part payload, const char* what) {
  const int64_t rest = payload.size - 8;
  if (rest < 0) corrupt(std::string(what) + ": a block of " + text(payload.size) + " bytes");
  const uint64_t size = load<uint64_t>(payload.data);
  if (size > static_cast<uint64_t>(rest))
    corrupt(std::string(what) + ": " + std::to_string(size) + " bytes of values in a block with " + text(rest));
  const auto first = static_cast<int64_t>(size);
  return {{payload.data + 8, first}, {payload.data + 8 + first, rest - first}};
}

// Level i of `count`; the walk continues from call to call.
inline uint64_t level_at(Nulls kind, int bits, Part levels, int64_t count, int64_t i, Walk& walk) {
  switch (kind) {
    case Nulls::none: return 0;
    case Nulls::packed: return packed_at(levels, 16, count, i);
    case Nulls::blocks: return level_in_blocks(levels, bits, count, i);
    case Nulls::runs: {
      const auto [values, lengths] = two_parts(levels, "rle");
      if (values.size != 2 * lengths.size)
        corrupt("rle: ", values.size, " bytes of values in a block of ", levels.size);
      return load<uint16_t>(values.data + 2 * walk.find(lengths, i));
    }
    default:
      if (levels.size != 2 * count) corrupt(levels.size, " bytes of ", count, " levels");
      return load<uint16_t>(levels.data + 2 * i);
  }
}

}  // namespace alance::cells
