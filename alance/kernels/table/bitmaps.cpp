// Roaring bitmaps of 32 bits from untrusted bytes, and sets of rows as roaring bitmaps. roaring.hpp
// describes the layout.
//
// A run of four bytes may stand for 65 536 values, so all containers are checked before any value
// is created.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/owned.hpp"
#include "base/processor.hpp"
#include "base/unlocked.hpp"
#include "table/roaring.hpp"

namespace alance {
namespace {

using namespace roaring;

constexpr int64_t kAll = int64_t{1} << 32;  // limit of values of 32 bits

// Number of values in a bitset container.
ALANCE_INLINE int64_t count_bits(const uint8_t* data) {
  int64_t count = 0;
  for (int64_t i = 0; i < kBitsBytes / 8; ++i)
    count += __builtin_popcountll(load<uint64_t>(data + 8 * i));
  return count;
}

// Bitmap at the beginning of bytes, with all its containers checked.
class Bitmap {
 public:
  // Throws for bytes that do not begin with a bitmap, and for values from `limit` on.
  Bitmap(const uint8_t* data, int64_t size, int64_t limit) {
    const auto take = [&](int64_t count, const char* what) {
      if (count > size - end_) corrupt("it ends in ", what, ", at byte ", size);
      end_ += count;
      return data + end_ - count;
    };
    each_container(take, [this](const Container& own) { add(own); });
    if (count_ && last() >= limit) corrupt("value ", last(), ", expected smaller than ", limit);
  }

  int64_t end() const { return end_; }
  int64_t count() const { return count_; }

  void values(int64_t* out) const {
    for (const Container& container : containers_) {
      const int64_t base = int64_t{container.key} << 16;
      if (container.form == kBits) {
        for (int64_t i = 0; i < kBitsBytes / 8; ++i)
          for (uint64_t bits = load<uint64_t>(container.data + 8 * i); bits; bits &= bits - 1)
            *out++ = base + 64 * i + __builtin_ctzll(bits);
      } else if (container.form == kArray) {
        for (int64_t i = 0; i < container.count; ++i) *out++ = base + container.first(i);
      } else {
        for (int64_t i = 0; i < container.num_items; ++i)
          for (int64_t step = 0; step <= container.more(i); ++step)
            *out++ = base + container.first(i) + step;
      }
    }
  }

 private:
  void add(const Container& own) {
    if (!containers_.empty() && own.key <= containers_.back().key) corrupt("keys do not ascend");
    int64_t held = own.count, stop = 0;
    bool ascend = true;
    if (own.form == kBits) {
      held = Versions<count_bits>::best()(own.data);
    } else if (own.form == kArray) {
      const uint8_t* data = own.data;
      uint16_t descents = 0;  // a word: the compiler vectorises the loop
      for (int64_t i = 1; i < held; ++i)
        descents |= load<uint16_t>(data + 2 * i - 2) >= load<uint16_t>(data + 2 * i);
      ascend = descents == 0;
    } else {
      held = 0;
      for (int64_t i = 0; i < own.num_items; ++i) {
        ascend &= own.first(i) >= stop;
        stop = own.first(i) + own.more(i) + 1;
        held += own.more(i) + 1;
      }
    }
    if (!ascend || stop > 1 << 16)
      corrupt("container ", own.key, ": values do not ascend, or leave it");
    if (held != own.count) corrupt("container ", own.key, ": ", held, " values, told ", own.count);
    count_ += own.count;
    containers_.push_back(own);
  }

  // Largest value; there is at least one.
  int64_t last() const {
    const Container& own = containers_.back();
    const int64_t base = int64_t{own.key} << 16;
    if (own.form != kBits) return base + own.first(own.num_items - 1) + own.more(own.num_items - 1);
    for (int64_t i = kBitsBytes / 8 - 1;; --i)
      if (const uint64_t bits = load<uint64_t>(own.data + 8 * i))
        return base + 64 * i + 63 - __builtin_clzll(bits);
  }

  int64_t end_ = 0, count_ = 0;
  std::vector<Container> containers_;
};

Owned<int64_t> bitmap_values(const Bytes& content, int64_t limit) {
  const Bitmap bitmap(content.data(), std::ssize(content), limit);
  const Unlocked unlocked(bitmap.count());
  Owned<int64_t> values(bitmap.count());
  bitmap.values(values.data());
  return values;
}

int64_t bitmap_end(const Bytes& content) {
  return Bitmap(content.data(), std::ssize(content), kAll).end();
}

std::vector<std::tuple<uint32_t, int64_t, int64_t>> address_parts(const Bytes& content) {
  const int64_t size = std::ssize(content);
  int64_t at = 4, last = -1;
  if (size < at) corrupt("it ends in the head");
  std::vector<std::tuple<uint32_t, int64_t, int64_t>> parts;
  for (uint32_t remaining = load<uint32_t>(content.data()); remaining; --remaining) {
    if (size - at < 8) corrupt("it ends in the head of a part, at byte ", at);
    const auto high = load<uint32_t>(content.data() + at);
    const int64_t own = load<uint32_t>(content.data() + at + 4);
    at += 8;
    const std::string where = "part " + std::to_string(high) + " of " + std::to_string(own) +
                              " bytes at " + std::to_string(at);
    if (high <= last || own > size - at) corrupt(where);
    if (own) {
      const int64_t end = Bitmap(content.data() + at, own, kAll).end();
      if (end != own) corrupt(where, ": its bitmap ends at ", end);
    }
    parts.emplace_back(high, at, own);
    at += own;
    last = high;
  }
  if (at != size) corrupt("it ends at ", at);
  return parts;
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// First position from `i` on whose value differs above its lowest `bits` bits; or `count`.
int64_t end_of(const int64_t* rows, int64_t i, int64_t count, int bits) {
  const int64_t key = rows[i] >> bits;
  if (rows[count - 1] >> bits == key) return count;
  return std::upper_bound(rows + i, rows + count, key,
                          [bits](int64_t low, int64_t row) { return low < row >> bits; }) -
         rows;
}

// Append a bitmap of 32 bits: head, key and size of each container, offsets, containers.
void put_part(std::string& out, const int64_t* rows, int64_t count) {
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < count;) ends.push_back(i = end_of(rows, i, count, 16));
  put(out, kCookie);
  put(out, static_cast<uint32_t>(ends.size()));
  int64_t first = 0;
  for (const int64_t end : ends) {
    put(out, static_cast<uint16_t>(rows[first] >> 16));
    put(out, static_cast<uint16_t>(end - first - 1));
    first = end;
  }
  uint32_t place = static_cast<uint32_t>(8 + 8 * ends.size());
  first = 0;
  for (const int64_t end : ends) {
    put(out, place);
    const int64_t held = end - first;
    place += static_cast<uint32_t>(held > kArrayMost ? kBitsBytes : 2 * held);
    first = end;
  }
  first = 0;
  for (const int64_t end : ends) {
    const size_t begin = out.size();
    if (end - first > kArrayMost) {
      out.resize(begin + kBitsBytes);
      auto* bits = reinterpret_cast<uint8_t*>(out.data() + begin);
      for (; first < end; ++first)
        bits[(rows[first] & 0xFFFF) >> 3] |= static_cast<uint8_t>(1 << (rows[first] & 7));
    } else {
      out.resize(begin + 2 * static_cast<size_t>(end - first));
      char* lows = out.data() + begin;
      for (; first < end; ++first, lows += 2) {
        const auto low = static_cast<uint16_t>(rows[first]);
        std::memcpy(lows, &low, 2);
      }
    }
  }
}

enum class Set { kWide, kSized, kNarrow };  // see `row_set`, `address_set`, `roaring_bitmap`

std::string stored(const int64_t* rows, int64_t count, Set form) {
  std::vector<int64_t> own;
  if (std::adjacent_find(rows, rows + count, std::greater_equal<>()) != rows + count) {
    own.assign(rows, rows + count);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    rows = own.data();
    count = std::ssize(own);
  }
  if (count && rows[0] < 0) corrupt("row set: a negative row");
  std::string out;
  if (form == Set::kNarrow) {
    if (count && rows[count - 1] >> 32) corrupt("roaring bitmap: a value of more than 32 bits");
    put_part(out, rows, count);
    return out;
  }
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < count;) ends.push_back(i = end_of(rows, i, count, 32));
  if (form == Set::kSized)
    put(out, static_cast<uint32_t>(ends.size()));
  else
    put(out, static_cast<uint64_t>(ends.size()));
  int64_t first = 0;
  for (const int64_t end : ends) {
    put(out, static_cast<uint32_t>(rows[first] >> 32));
    const size_t begin = out.size();
    if (form == Set::kSized) put(out, uint32_t{0});
    put_part(out, rows + first, end - first);
    if (form == Set::kSized) {
      const auto size = static_cast<uint32_t>(out.size() - begin - 4);
      std::memcpy(out.data() + begin, &size, 4);
    }
    first = end;
  }
  return out;
}

nb::bytes bytes_of(const In<int64_t>& rows, Set form) {
  const std::string out = [&] {
    const Unlocked unlocked(std::ssize(rows) << 6);
    return stored(rows.data(), std::ssize(rows), form);
  }();
  return nb::bytes(out.data(), out.size());
}

nb::bytes row_set(const In<int64_t>& rows) { return bytes_of(rows, Set::kWide); }
nb::bytes address_set(const In<int64_t>& rows) { return bytes_of(rows, Set::kSized); }
nb::bytes roaring_bitmap(const In<int64_t>& values) { return bytes_of(values, Set::kNarrow); }

}  // namespace
}  // namespace alance

void register_bitmaps(nanobind::module_& m) {
  using namespace alance;
  m.def("address_parts", &address_parts, "content"_a);
  m.def("bitmap_values", &bitmap_values, "content"_a, "limit"_a);
  m.def("bitmap_end", &bitmap_end, "content"_a);
  m.def("row_set", &row_set, "rows"_a);
  m.def("address_set", &address_set, "rows"_a);
  m.def("roaring_bitmap", &roaring_bitmap, "values"_a);
}
