// Bytes of a file in memory, in buffers at any positions.
#pragma once
#include <algorithm>
#include <vector>

#include "io/source.hpp"

namespace alance {

class HeldFile {
 public:
  // Buffer i holds the file's bytes from `begins[i]` on; buffers may overlap.
  HeldFile(const std::vector<int64_t>& begins, std::vector<Bytes> buffers) {
    if (begins.size() != buffers.size()) corrupt("held bytes: a beginning for each buffer");
    for (size_t i = 0; i < begins.size(); ++i) {
      buffers_.push_back({buffers[i], size(buffers[i])});
      put(begins[i], buffers[i].data(), size(buffers[i]));
    }
    settle();
  }

  // Add the file's bytes from `begin` on. `block_bytes`: size of the memory block that they are a part of.
  void add(int64_t begin, const Bytes& buffer, int64_t block_bytes = 0) {
    buffers_.push_back({buffer, std::max(block_bytes, size(buffer))});
    put(begin, buffer.data(), size(buffer));
    settle();
  }

  // Add pieces of the file, whose bytes `buffer` holds one after the other.
  void add_pieces(const In<int64_t>& starts, const In<int64_t>& stops, const Bytes& buffer) {
    if (starts.size() != stops.size()) corrupt("held bytes: starts and stops differ");
    int64_t remaining = size(buffer);
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t start = starts.data()[i], stop = stops.data()[i];
      if (start < 0 || stop < start || stop - start > remaining)
        corrupt("held bytes: a piece that is none");
      remaining -= stop - start;
    }
    if (remaining != 0) corrupt("held bytes: a buffer of other pieces");
    buffers_.push_back({buffer, size(buffer)});
    const uint8_t* data = buffer.data();
    for (size_t i = 0; i < starts.size(); ++i) {
      put(starts.data()[i], data, stops.data()[i] - starts.data()[i]);
      data += stops.data()[i] - starts.data()[i];
    }
    settle();
  }

  // Copy bytes [start, stop); false if a byte is not held.
  bool copy(int64_t start, int64_t stop, uint8_t* out) const {
    return walk(start, stop, [&](const uint8_t* bytes, int64_t count) {
      std::memcpy(out, bytes, static_cast<size_t>(count));
      out += count;
    });
  }

  bool holds(int64_t start, int64_t stop) const {
    return walk(start, stop, [](const uint8_t*, int64_t) {});
  }

  // Pointer to bytes [start, stop); null if no single buffer holds them.
  const uint8_t* view(int64_t start, int64_t stop) const {
    const auto span = reaching(start);
    if (span == spans_.end() || span->end < stop) return nullptr;
    return span->data + (start - span->begin);
  }
  // Bytes [start, stop) with their owner; null also if the owner keeps over `kMaxBlockRatio` times as many bytes.
  HeldBytes hold(int64_t start, int64_t stop) const {
    const auto span = reaching(start);
    if (span == spans_.end() || span->end < stop) return {};
    const Buffer& buffer = buffers_[span->buffer];
    if (buffer.block_bytes / kMaxBlockRatio > stop - start) return {};
    return {span->data + (start - span->begin), std::make_shared<const Bytes>(buffer.bytes)};
  }

 private:
  static constexpr int64_t kMaxBlockRatio = 4;  // bytes that may be kept in memory for each byte in use

  struct Buffer {
    Bytes bytes;
    int64_t block_bytes;
  };
  struct Span {
    int64_t begin, end;
    const uint8_t* data;
    size_t buffer;
  };

  static int64_t size(const Bytes& buffer) { return std::ssize(buffer); }

  void put(int64_t begin, const uint8_t* data, int64_t size) {
    int64_t end;
    if (begin < 0 || __builtin_add_overflow(begin, size, &end)) corrupt("held bytes: beginning");
    spans_.push_back({begin, end, data, buffers_.size() - 1});
  }

  // Sort the spans and drop each that an earlier one covers.
  void settle() {
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> uncovered;
    for (const Span& span : spans_)
      if (uncovered.empty() || span.end > uncovered.back().end) uncovered.push_back(span);
    spans_ = std::move(uncovered);
  }

  // The span that holds most bytes from `start` on; end() if byte `start` is not held.
  std::vector<Span>::const_iterator reaching(int64_t start) const {
    auto span = std::upper_bound(spans_.begin(), spans_.end(), start,
                                 [](int64_t at, const Span& other) { return at < other.begin; });
    if (span == spans_.begin()) return spans_.end();
    --span;  // the last span that begins at or before `start` reaches farthest
    return span->end <= start ? spans_.end() : span;
  }

  // Pass all runs of bytes, in order, to `visit`; false if a byte is not held.
  template <typename Visit>
  bool walk(int64_t start, int64_t stop, Visit visit) const {
    while (start < stop) {
      const auto span = reaching(start);
      if (span == spans_.end()) return false;
      const int64_t end = std::min(stop, span->end);
      visit(span->data + (start - span->begin), end - start);
      start = end;
    }
    return true;
  }

  std::vector<Buffer> buffers_;  // memory of the spans
  std::vector<Span> spans_;  // begins and ends ascend
};

}  // namespace alance
