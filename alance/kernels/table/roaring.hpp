// Serialized roaring bitmaps of 64 bits, as sets of rows, and a reader of their parts.
//
//   u64 number of parts; for each: u32 upper half of the rows, then a bitmap of 32 bits
//   bitmap: u32 cookie 12346, u32 number of containers
//           or u16 cookie 12347, u16 number - 1, a bit for each container: 1 if it has runs
//           for each container: u16 key, u16 number of values - 1
//           for each container: u32 offset; absent with runs and less than 4 containers
//           for each container its values: ascending u16; or a bitset of 8 192 bytes, if more than
//           4 096 values; or u16 number of runs, and for each: u16 first value, u16 length - 1
//
// Source: github.com/RoaringBitmap/RoaringFormatSpec
#pragma once
#include "base/bounds.hpp"

namespace alance::roaring {

constexpr uint32_t kCookie = 12346, kRunCookie = 12347;
constexpr int64_t kArrayMost = 4096;  // values of an array container; with more it is a bitset
constexpr int64_t kBitsBytes = 8192;  // of a bitset
constexpr int64_t kFewContainers = 4;  // with fewer, and runs, offsets are absent

enum Form : uint8_t { kArray, kBits, kRuns };

struct Container {
  Form form;
  uint16_t key;
  int32_t count;      // values, as stated
  int32_t num_items;  // values of an array, or runs
  const uint8_t* data;

  // Value number `i` of an array, or the first value of run `i`.
  uint16_t first(int64_t i) const { return load<uint16_t>(data + (form == kRuns ? 4 : 2) * i); }
  // Values of run `i` behind its first.
  uint16_t more(int64_t i) const {
    return form == kRuns ? load<uint16_t>(data + 4 * i + 2) : uint16_t{0};
  }
};

// Pass the containers of a bitmap of 32 bits to `visit`; their values are not checked. `take(count,
// what)` returns the next bytes, or throws.
template <typename Take, typename Visit>
void each_container(Take take, Visit visit) {
  const auto cookie = load<uint32_t>(take(4, "the head"));
  const bool has_runs = (cookie & 0xFFFF) == kRunCookie;
  if (!has_runs && cookie != kCookie)
    corrupt("cookie ", cookie, ", expected ", kCookie, " or ", kRunCookie);
  const int64_t count = has_runs ? (cookie >> 16) + 1 : load<uint32_t>(take(4, "the head"));
  if (count > 1 << 16) corrupt(count, " containers, at most 65536 are possible");
  const uint8_t* flags = has_runs ? take((count + 7) / 8, "the head") : nullptr;
  const uint8_t* heads = take(4 * count, "the head");
  // Offsets are skipped: containers follow each other anyway.
  if (!has_runs || count >= kFewContainers) take(4 * count, "places");
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* head = heads + 4 * i;
    Container own{kArray, load<uint16_t>(head), load<uint16_t>(head + 2) + 1, 0, nullptr};
    own.num_items = own.count;
    int64_t num_bytes = 2 * int64_t{own.count};
    if (flags && (flags[i / 8] >> (i % 8) & 1)) {
      own.form = kRuns;
      own.num_items = load<uint16_t>(take(2, "a container"));
      num_bytes = 4 * int64_t{own.num_items};
    } else if (own.count > kArrayMost) {
      own.form = kBits;
      num_bytes = kBitsBytes;
    }
    own.data = take(num_bytes, "a container");
    visit(own);
  }
}

}  // namespace alance::roaring
