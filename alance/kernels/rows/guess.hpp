// Guesses of the positions of rows in a page of unknown state, so that a cold take needs one round
// instead of two.
//
// The rows of a page are spread over its bytes almost evenly: chunks of raw values have equal sizes,
// bit-packed chunks and text chunks nearly so. The offset of a row is the sum of the lengths of the
// rows before it. If lengths vary at random, with a standard deviation of c times their mean m, the
// offset of the row at the fraction p of a page of B bytes deviates by c * sqrt(B * m * p * (1 - p))
// from p * B. A guess includes this deviation and a margin on both sides of a row.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "io/coalesce.hpp"

namespace alance::guesses {

// Bytes: two chunks of the usual 8 KiB, the row's own and one more.
constexpr int64_t kMargin = 16 << 10;
// Chunks on each side of a row, which may be at either end of its chunk.
constexpr double kChunksBeside = 1.5;
// Bytes: to read more takes about as long as the round that the guess saves.
constexpr uint64_t kMostBytes = 1 << 20;
// Bytes: a page up to this size is read whole. At 100 MB/s that takes 2.5 ms, a round takes 30 ms.
constexpr int64_t kWholeBytes = 256 << 10;
// Deviation of row lengths: c above. It is 0.58 for lengths that are uniformly distributed from 0;
// only packing makes chunks of one width vary in size.
constexpr double kSpread = 1, kFixedSpread = 0.5;

// Buffer of a page whose rows are spread over it.
struct Buffer {
  int64_t size;
  double margin, spread;
};

// Byte ranges that probably hold `rows` of a page with `num_rows` rows, ascending and disjoint. Empty
// if they would have too many bytes, or if rows are too long for a good guess.
inline std::vector<ByteRange> spans(const Buffer& buffer, const int64_t* rows, size_t count, int64_t num_rows) {
  const auto size = static_cast<double>(buffer.size);
  const double row_bytes = size / static_cast<double>(std::max<int64_t>(1, num_rows));
  if (row_bytes > kMargin) return {};
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < count; ++i) {
    const auto row = static_cast<double>(rows[i]);
    const double part = row / static_cast<double>(num_rows);
    const double margin = buffer.margin + buffer.spread * std::sqrt(size * row_bytes * part * (1 - part));
    const auto stop = static_cast<int64_t>(std::min((row + 1) * row_bytes + margin, size));
    ranges.push_back({std::min(stop, static_cast<int64_t>(std::max(row * row_bytes - margin, 0.))), stop});
  }
  std::vector<ByteRange> joined = coalesce(ranges, {0}).spans;
  uint64_t num_bytes = 0;
  for (const auto& [start, stop] : joined) num_bytes += static_cast<uint64_t>(stop - start);
  return num_bytes <= kMostBytes ? joined : std::vector<ByteRange>();
}

}  // namespace alance::guesses
