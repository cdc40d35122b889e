// Serialized roaring bitmaps of 64 bits, as sets of rows.
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
#include <cstdint>

namespace alance::roaring {

constexpr uint32_t kCookie = 12346, kRunCookie = 12347;
constexpr int64_t kArrayMost = 4096;  // values of an array container; with more it is a bitset
constexpr int64_t kBitsBytes = 8192;  // of a bitset
constexpr int64_t kFewContainers = 4;  // with fewer, and runs, offsets are absent

}  // namespace alance::roaring
