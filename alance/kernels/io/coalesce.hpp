// Coalescing of byte ranges: ranges are merged to one read if the gap and the merged size are
// within limits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace alance {

// Bytes of one object; `stop` is exclusive.
struct ByteRange {
  int64_t start, stop;
  // Unsigned: no two places are too far apart for it.
  uint64_t size() const { return static_cast<uint64_t>(stop) - static_cast<uint64_t>(start); }
};

// When a range is read together with those before it.
struct Coalescing {
  uint64_t max_gap_bytes;           // between ranges: read in vain, to save a read
  uint64_t max_bytes = UINT64_MAX;  // of what merging makes; a single range may be larger

  // `range` begins no earlier than `span`.
  bool joins(const ByteRange& span, const ByteRange& range) const {
    if (range.start > span.stop && ByteRange{span.stop, range.start}.size() > max_gap_bytes)
      return false;
    return range.stop <= span.stop || ByteRange{span.start, range.stop}.size() <= max_bytes;
  }
};

struct Coalesced {
  std::vector<ByteRange> spans;  // ascend by start; apart, unless `max_bytes` has cut them
  std::vector<size_t> owners;    // of each range, in the order given: the span that covers it
};

// Spans that cover ranges of one object, which may come in any order and overlap.
inline Coalesced coalesce(const std::vector<ByteRange>& ranges, const Coalescing& rule) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  // The longest of those with one start comes first: it covers the others.
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
