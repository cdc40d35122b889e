// Coalescing of byte ranges: neighbours become one read if the gap between them and the size of the
// merged read are within limits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace alance {

// Bytes [start, stop) of one object.
struct ByteRange {
  int64_t start, stop;
  // Unsigned: the distance between any two int64 positions fits.
  uint64_t size() const { return static_cast<uint64_t>(stop) - static_cast<uint64_t>(start); }
};

// Rule for reading a range together with the ranges before it.
struct Coalescing {
  uint64_t max_gap_bytes;  // between ranges: bytes read and dropped to save a read
  uint64_t max_bytes = UINT64_MAX;  // of a merged span; a single range may be larger

  // True if `range`, which does not begin before `span`, is read with it.
  bool joins(const ByteRange& span, const ByteRange& range) const {
    if (range.start > span.stop && ByteRange{span.stop, range.start}.size() > max_gap_bytes)
      return false;
    return range.stop <= span.stop || ByteRange{span.start, range.stop}.size() <= max_bytes;
  }
};

struct Coalesced {
  std::vector<ByteRange> spans;  // ascending by start; disjoint unless `max_bytes` cut them
  std::vector<size_t> owners;  // for each range, in input order, the number of its span
};

// Cover ranges of one object, in any order and overlapping, with spans.
inline Coalesced coalesce(const std::vector<ByteRange>& ranges, const Coalescing& rule) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  // Of ranges with the same start the longest comes first: it covers the others.
  const auto before = [&](size_t a, size_t b) {
    return std::pair(ranges[a].start, ranges[b].stop) < std::pair(ranges[b].start, ranges[a].stop);
  };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  Coalesced result{{}, std::vector<size_t>(ranges.size())};
  for (const size_t number : order) {
    if (result.spans.empty() || !rule.joins(result.spans.back(), ranges[number]))
      result.spans.push_back(ranges[number]);
    result.spans.back().stop = std::max(result.spans.back().stop, ranges[number].stop);
    result.owners[number] = result.spans.size() - 1;
  }
  return result;
}

}  // namespace alance
