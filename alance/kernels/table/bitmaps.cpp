// Roaring bitmaps of 32 bits from untrusted bytes. roaring.hpp describes the layout.
//
// A run of four bytes may stand for 65 536 values, so the stated counts are summed before any value
// is created.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/owned.hpp"
#include "table/roaring.hpp"
#include "codecs/spans.hpp"
#include "base/unlocked.hpp"

// Loop that counts bits, in two versions; the loader takes one.
#if defined(__x86_64__) && defined(__linux__)
#define ALANCE_CLONES __attribute__((target_clones("popcnt", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance {
namespace {

using namespace roaring;

// Number of values in a bitset container.
ALANCE_CLONES int64_t count_bits(const uint8_t* data) {
  int64_t count = 0;
  for (int64_t i = 0; i < kBitsBytes / 8; ++i)
    count += __builtin_popcountll(load<uint64_t>(data + 8 * i));
  return count;
}

struct Container {
  enum Form { kArray, kBits, kRuns } form;
  int64_t key, count, runs;
  const uint8_t* data;
};

// Bitmap at the beginning of bytes, with all its containers checked.
class Bitmap {
 public:
  // Throws for bytes that do not begin with a bitmap, and for values from `limit` on.
  Bitmap(const uint8_t* data, int64_t size, int64_t limit) : data_(data), size_(size) {
    const auto cookie = load<uint32_t>(next(4, "the head"));
    const bool has_runs = (cookie & 0xFFFF) == kRunCookie;
    if (!has_runs && cookie != kCookie)
      corrupt("cookie " + std::to_string(cookie) + ", expected " + std::to_string(kCookie) +
              " or " + std::to_string(kRunCookie));
    int64_t number = has_runs ? (cookie >> 16) + 1 : load<uint32_t>(next(4, "the head"));
    if (number > 1 << 16)
      corrupt(std::to_string(number) + " containers, at most 65536 are possible");
    const uint8_t* flags = has_runs ? next((number + 7) / 8, "the head") : nullptr;
    const uint8_t* heads = next(4 * number, "the head");
    check_heads(heads, number, limit);
    // Offsets are skipped: containers follow each other anyway.
    if (!has_runs || number >= kFewContainers) next(4 * number, "places");
    containers_.reserve(static_cast<size_t>(number));
    for (int64_t i = 0; i < number; ++i)
      add(heads + 4 * i, flags != nullptr && (flags[i / 8] >> (i % 8) & 1));
    if (count_ && last() >= limit)
      corrupt("value " + std::to_string(last()) + ", expected smaller than " +
              std::to_string(limit));
  }

  int64_t end() const { return at_; }
  int64_t count() const { return count_; }

  void values(int64_t* out) const {
    for (const Container& container : containers_) {
      const int64_t base = container.key << 16;
      if (container.form == Container::kArray) {
        for (int64_t i = 0; i < container.count; ++i)
          *out++ = base + load<uint16_t>(container.data + 2 * i);
      } else if (container.form == Container::kRuns) {
        for (int64_t i = 0; i < container.runs; ++i) {
          const int64_t first = base + load<uint16_t>(container.data + 4 * i);
          const int64_t most = load<uint16_t>(container.data + 4 * i + 2);
          for (int64_t step = 0; step <= most; ++step) *out++ = first + step;
        }
      } else {
        for (int64_t i = 0; i < kBitsBytes / 8; ++i)
          for (uint64_t bits = load<uint64_t>(container.data + 8 * i); bits; bits &= bits - 1)
            *out++ = base + 64 * i + __builtin_ctzll(bits);
      }
    }
  }

 private:
  const uint8_t* next(int64_t count, const char* what) {
    if (count > size_ - at_)
      corrupt("it ends in " + std::string(what) + ", at byte " + std::to_string(size_));
    const uint8_t* here = data_ + at_;
    at_ += count;
    return here;
  }

  // Check keys and counts of all containers against `limit`, before any value is read.
  static void check_heads(const uint8_t* heads, int64_t number, int64_t limit) {
    int64_t stated = 0, before = -1;
    for (int64_t i = 0; i < number; ++i) {
      const int64_t key = load<uint16_t>(heads + 4 * i);
      if (key <= before) corrupt("keys do not ascend");
      before = key;
      stated += load<uint16_t>(heads + 4 * i + 2) + 1;
    }
    if (stated > limit)
      corrupt(std::to_string(stated) + " values, all of them smaller than " +
              std::to_string(limit));
    if (number && before << 16 >= limit)
      corrupt("values from " + std::to_string(before << 16) + ", expected smaller than " +
              std::to_string(limit));
  }

  void add(const uint8_t* head, bool is_runs) {
    Container own{Container::kArray, load<uint16_t>(head), load<uint16_t>(head + 2) + 1, 0, nullptr};
    const std::string where = "container " + std::to_string(own.key);
    int64_t held = own.count;
    if (is_runs) {
      own.form = Container::kRuns;
      own.runs = load<uint16_t>(next(2, where.c_str()));
      own.data = next(4 * own.runs, where.c_str());
      held = count_of_runs(own);
    } else if (own.count <= kArrayMost) {
      own.data = next(2 * own.count, where.c_str());
      for (int64_t i = 1; i < own.count; ++i)
        if (load<uint16_t>(own.data + 2 * i) <= load<uint16_t>(own.data + 2 * i - 2))
          corrupt(where + ": values do not ascend");
    } else {
      own.form = Container::kBits;
      own.data = next(kBitsBytes, where.c_str());
      held = count_bits(own.data);
    }
    if (held != own.count)
      corrupt(where + ": " + std::to_string(held) + " values, told " + std::to_string(own.count));
    count_ += own.count;
    containers_.push_back(own);
  }

  static int64_t count_of_runs(const Container& own) {
    int64_t held = 0, stop = 0;
    for (int64_t i = 0; i < own.runs; ++i) {
      const int64_t first = load<uint16_t>(own.data + 4 * i);
      const int64_t count = load<uint16_t>(own.data + 4 * i + 2) + 1;
      if (first < stop || first + count > 1 << 16)
        corrupt("runs overlap or leave their container");
      stop = first + count;
      held += count;
    }
    return held;
  }

  // Largest value; there is at least one.
  int64_t last() const {
    const Container& own = containers_.back();
    const int64_t base = own.key << 16;
    if (own.form == Container::kArray) return base + load<uint16_t>(own.data + 2 * (own.count - 1));
    if (own.form == Container::kRuns) {
      const uint8_t* run = own.data + 4 * (own.runs - 1);
      return base + load<uint16_t>(run) + load<uint16_t>(run + 2);
    }
    for (int64_t i = kBitsBytes / 8 - 1;; --i)
      if (const uint64_t bits = load<uint64_t>(own.data + 8 * i))
        return base + 64 * i + 63 - __builtin_clzll(bits);
  }

  const uint8_t* data_;
  int64_t size_, at_ = 0, count_ = 0;
  std::vector<Container> containers_;
};

int64_t size_of(const Bytes& content) { return static_cast<int64_t>(content.size()); }

// Values of a bitmap, ascending.
nb::object bitmap_values(const Bytes& content, int64_t limit) {
  const Bitmap bitmap(content.data(), size_of(content), limit);
  Owned<int64_t> values(bitmap.count());
  {
    const Unlocked unlocked(bitmap.count());
    bitmap.values(values.data());
  }
  return nb::cast(values.numpy());
}

// Number of bytes of the bitmap at the beginning of bytes.
int64_t bitmap_end(const Bytes& content) {
  return Bitmap(content.data(), size_of(content), int64_t{1} << 32).end();
}

// The bitmaps of a row set of an index, each checked: upper half, place, size. A size of 0 stands for
// all rows.
std::vector<std::tuple<uint32_t, int64_t, int64_t>> address_parts(const Bytes& content) {
  const int64_t size = size_of(content);
  int64_t at = 4, last = -1;
  if (size < at) corrupt("it ends in the head");
  std::vector<std::tuple<uint32_t, int64_t, int64_t>> parts;
  for (uint32_t remaining = load<uint32_t>(content.data()); remaining; --remaining) {
    if (size - at < 8) corrupt("it ends in the head of a part, at byte " + std::to_string(at));
    const auto high = load<uint32_t>(content.data() + at);
    const int64_t own = load<uint32_t>(content.data() + at + 4);
    at += 8;
    const std::string where = "part " + std::to_string(high) + " of " + std::to_string(own) +
                              " bytes at " + std::to_string(at);
    if (high <= last || own > size - at) corrupt(where);
    if (own) {
      const int64_t end = Bitmap(content.data() + at, own, int64_t{1} << 32).end();
      if (end != own) corrupt(where + ": its bitmap ends at " + std::to_string(end));
    }
    parts.emplace_back(high, at, own);
    at += own;
    last = high;
  }
  if (at != size) corrupt("it ends at " + std::to_string(at));
  return parts;
}

}  // namespace
}  // namespace alance

void register_bitmaps(nanobind::module_& m) {
  m.def("address_parts", &alance::address_parts, nanobind::arg("content"));
  m.def("bitmap_values", &alance::bitmap_values, nanobind::arg("content"), nanobind::arg("limit"));
  m.def("bitmap_end", &alance::bitmap_end, nanobind::arg("content"));
}
