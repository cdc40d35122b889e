// Least and greatest text of a zone, for statistics.
#include <algorithm>
#include <array>
#include <bit>

#include "encode/encode.hpp"
#include "encode/zones.hpp"

namespace alance {
namespace {

// String with its first 8 bytes as a number in the same order, and 16 more bytes that decide
// whether two strings of at most 24 bytes are equal: values that repeat are not compared in memory.
struct Text {
  const uint8_t* data;
  int64_t size;
  uint64_t head, middle, tail;

  bool operator<(const Text& other) const {
    if (head != other.head) return head < other.head;
    const int64_t shorter = std::min(size, other.size);
    if (shorter <= 8) return size < other.size;  // the shorter string lies in its head
    const int order = std::memcmp(data + 8, other.data + 8, static_cast<size_t>(shorter - 8));
    return order != 0 ? order < 0 : size < other.size;
  }

  bool is_same(const Text& other) const {
    return (size == other.size) & (size <= 24) & (head == other.head) &
           (middle == other.middle) & (tail == other.tail);
  }
};

// Mask of the first n bytes of a word loaded with the first byte on top.
constexpr auto kFirstBytes = [] {
  std::array<uint64_t, 9> masks{};
  for (size_t n = 1; n < masks.size(); ++n) masks[n] = ~uint64_t{0} << (64 - 8 * n);
  return masks;
}();

inline uint64_t word_at(const uint8_t* data) {
  const uint64_t word = load<uint64_t>(data);
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

inline Text text_at(const uint8_t* data, int64_t size, const uint8_t* end) {
  uint8_t last[16] = {};
  const uint8_t* from = data;
  if (end - data < 16) [[unlikely]] {
    if (end > data) std::memcpy(last, data, static_cast<size_t>(end - data));
    from = last;
  }
  const uint8_t* end_word = size > 16 ? data + size - 8 : from + 8;
  const uint64_t rest = kFirstBytes[static_cast<size_t>(std::clamp<int64_t>(size - 8, 0, 8))];
  const uint64_t head = word_at(from) & kFirstBytes[static_cast<size_t>(std::min<int64_t>(size, 8))];
  const uint64_t middle = word_at(from + 8) & rest, tail = word_at(end_word) & rest;
  return {data, size, head, middle, tail};
}

struct Places {
  int64_t least = -1, greatest = -1, present = 0;
};

// Strings of at most 8 bytes: head and size decide, without branches.
template <typename Offset>
Places short_strings(const Offset* offset, const uint8_t* data, const uint8_t* end,
                     const uint8_t* valid, int64_t first, int64_t stop) {
  Places places;
  uint64_t low = ~uint64_t{0}, high = 0;
  int64_t low_size = 9, high_size = -1;
  for (int64_t i = first; i < stop; ++i) {
    const uint8_t* at = data + offset[i];
    const int64_t size = offset[i + 1] - offset[i];
    uint64_t head;
    if (end - at >= 8) [[likely]] {
      head = word_at(at) & kFirstBytes[static_cast<size_t>(size)];
    } else {
      head = text_at(at, size, end).head;
    }
    const bool is_valid = !valid || valid[i];
    const bool is_less =
        is_valid & ((head < low) | ((head == low) & (size < low_size)));
    const bool is_more =
        is_valid & ((head > high) | ((head == high) & (size > high_size)));
    low = is_less ? head : low;
    low_size = is_less ? size : low_size;
    places.least = is_less ? i : places.least;
    high = is_more ? head : high;
    high_size = is_more ? size : high_size;
    places.greatest = is_more ? i : places.greatest;
    places.present += is_valid;
  }
  return places;
}

template <typename Offset>
Places long_strings(const Offset* offset, const uint8_t* data, const uint8_t* end,
                    const uint8_t* valid, int64_t first, int64_t stop) {
  Places places;
  Text low{}, high{};
  for (int64_t i = first; i < stop; ++i) {
    if (valid && !valid[i]) continue;
    const Text text = text_at(data + offset[i], offset[i + 1] - offset[i], end);
    if (++places.present == 1) {
      low = high = text;
      places.least = places.greatest = i;
      continue;
    }
    const bool is_inside = (text.head > low.head) & (text.head < high.head);
    if (is_inside | text.is_same(low) | text.is_same(high)) [[likely]] continue;
    if (text < low) low = text, places.least = i;
    if (high < text) high = text, places.greatest = i;
  }
  return places;
}

}  // namespace

template <typename Offset>
Zone scan_texts(const Offset* offsets, const uint8_t* data, const uint8_t* end,
                const uint8_t* valid, int64_t first, int64_t stop) {
  int64_t longest = 0;
  for (int64_t i = first; i < stop; ++i)
    longest = std::max<int64_t>(longest, offsets[i + 1] - offsets[i]);
  const Places places = longest <= 8 ? short_strings(offsets, data, end, valid, first, stop)
                                     : long_strings(offsets, data, end, valid, first, stop);
  const int64_t count = stop - first;
  const auto head = [&](int64_t row) {
    const size_t size = static_cast<size_t>(offsets[row + 1] - offsets[row]);
    return std::string(reinterpret_cast<const char*>(data + offsets[row]),
                       std::min(size, kHeadBytes));
  };
  if (!places.present) return {count, count, 0, false, {}, {}};
  return {count, count - places.present, 0, true, head(places.least), head(places.greatest)};
}

template Zone scan_texts(const int32_t*, const uint8_t*, const uint8_t*, const uint8_t*, int64_t,
                         int64_t);
template Zone scan_texts(const int64_t*, const uint8_t*, const uint8_t*, const uint8_t*, int64_t,
                         int64_t);

}  // namespace alance
