// Bytes of a file in memory, in buffers at any positions.
#pragma once
#include <algorithm>
#include <vector>

#include "base/bounds.hpp"

namespace alance {

class HeldFile {
 public:
  // Buffer i holds the file's bytes from `begins[i]` on; they may overlap.
  HeldFile(const std::vector<int64_t>& begins, std::vector<Bytes> buffers) {
    if (begins.size() != buffers.size()) corrupt("held bytes: a beginning for each buffer");
    for (size_t i = 0; i < begins.size(); ++i) put(begins[i], buffers[i].data(), size(buffers[i]));
    buffers_ = std::move(buffers);
    settle();
  }

  // Bytes from `begin` on.
  void add(int64_t begin, const Bytes& buffer) {
    put(begin, buffer.data(), size(buffer));
    buffers_.push_back(buffer);
    settle();
  }

  // Pieces of the file; the buffer has their bytes, one behind the other.
  void add_pieces(const In<int64_t>& starts, const In<int64_t>& stops, const Bytes& buffer) {
    if (starts.size() != stops.size()) corrupt("held bytes: starts and stops differ");
    int64_t left = size(buffer);
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t start = starts.data()[i], stop = stops.data()[i];
      if (start < 0 || stop < start || stop - start > left)
        corrupt("held bytes: a piece that is none");
      left -= stop - start;
    }
    if (left != 0) corrupt("held bytes: a buffer of other pieces");
    const uint8_t* data = buffer.data();
    for (size_t i = 0; i < starts.size(); ++i) {
      put(starts.data()[i], data, stops.data()[i] - starts.data()[i]);
      data += stops.data()[i] - starts.data()[i];
    }
    buffers_.push_back(buffer);
    settle();
  }

  // False: a byte is not held.
  bool copy(int64_t start, int64_t stop, uint8_t* out) const {
    return walk(start, stop, [&](const uint8_t* bytes, int64_t count) {
      std::memcpy(out, bytes, static_cast<size_t>(count));
      out += count;
    });
  }

  bool holds(int64_t start, int64_t stop) const {
    return walk(start, stop, [](const uint8_t*, int64_t) {});
  }

  // Where the bytes are; null: not in one buffer.
  const uint8_t* view(int64_t start, int64_t stop) const {
    const auto span = reaching(start);
    if (span == spans_.end() || span->end < stop) return nullptr;
    return span->data + (start - span->begin);
  }

 private:
  struct Span {
    int64_t begin, end;
    const uint8_t* data;
  };

  static int64_t size(const Bytes& buffer) { return static_cast<int64_t>(buffer.size()); }

  void put(int64_t begin, const uint8_t* data, int64_t size) {
    int64_t end;
    if (begin < 0 || __builtin_add_overflow(begin, size, &end)) corrupt("held bytes: beginning");
    spans_.push_back({begin, end, data});
  }

  // Put in order what was added: what lies in another span is left out.
  void settle() {
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> kept;
    for (const Span& span : spans_)
      if (kept.empty() || span.end > kept.back().end) kept.push_back(span);
    spans_ = std::move(kept);
  }

  // The span that has a byte, and of those the most behind it; the end: none.
  std::vector<Span>::const_iterator reaching(int64_t start) const {
    auto span = std::upper_bound(spans_.begin(), spans_.end(), start,
                                 [](int64_t at, const Span& other) { return at < other.begin; });
    if (span == spans_.begin()) return spans_.end();
    --span;  // of those that begin before it, this one reaches farthest
    return span->end <= start ? spans_.end() : span;
  }

  // Tell all runs of bytes in order; false: a byte is not held.
  template <typename Tell>
  bool walk(int64_t start, int64_t stop, Tell tell) const {
    while (start < stop) {
      const auto span = reaching(start);
      if (span == spans_.end()) return false;
      const int64_t end = std::min(stop, span->end);
      tell(span->data + (start - span->begin), end - start);
      start = end;
    }
    return true;
  }

  std::vector<Bytes> buffers_;  // what the spans point into
  std::vector<Span> spans_;     // both begins and ends ascend
};

}  // namespace alance
