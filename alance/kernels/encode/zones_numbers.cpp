// Least and greatest number of a zone, for statistics.
#include <bit>
#include <limits>
#include <type_traits>

#include "encode/container.hpp"
#include "encode/encode.hpp"
#include "encode/zones.hpp"

namespace alance {
namespace {

constexpr int kLanes = 16;  // independent comparisons, which the compiler vectorises

using Int128 = __int128;

template <typename T>
struct Range {
  T low, high;
  int64_t present = 0, nans = 0;  // values that are not null; NaNs among them
};

template <typename T>
constexpr T least() {
  if constexpr (std::is_same_v<T, Int128>)
    return static_cast<Int128>(static_cast<unsigned __int128>(1) << 127);
  else if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::min();
}

template <typename T>
constexpr T most() {
  if constexpr (std::is_same_v<T, Int128>)
    return ~least<Int128>();
  else if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::max();
}

// NaN is neither less nor greater, so it never becomes a bound.
template <typename T, bool HasNulls>
ALANCE_INLINE Range<T> bounds(const uint8_t* data, const uint8_t* valid, int64_t count) {
  T low[kLanes], high[kLanes];
  for (int j = 0; j < kLanes; ++j) low[j] = most<T>(), high[j] = least<T>();
  int64_t present = HasNulls ? 0 : count, nans = 0;
  auto step = [&](int64_t i, int j) {
    const T value = load<T>(data + i * static_cast<int64_t>(sizeof(T)));
    if constexpr (HasNulls) {
      const T below = valid[i] ? value : most<T>(), above = valid[i] ? value : least<T>();
      low[j] = below < low[j] ? below : low[j];
      high[j] = above > high[j] ? above : high[j];
    } else {
      low[j] = value < low[j] ? value : low[j];
      high[j] = value > high[j] ? value : high[j];
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) step(i + j, j);
  for (; i < count; ++i) step(i, 0);
  if constexpr (HasNulls)
    for (int64_t k = 0; k < count; ++k) present += valid[k] != 0;
  if constexpr (std::is_floating_point_v<T>)
    for (int64_t k = 0; k < count; ++k) {
      const T value = load<T>(data + k * static_cast<int64_t>(sizeof(T)));
      nans += (value != value) & (!HasNulls || valid[k] != 0);
    }
  for (int j = 1; j < kLanes; ++j) {
    low[0] = low[j] < low[0] ? low[j] : low[0];
    high[0] = high[j] > high[0] ? high[j] : high[0];
  }
  if constexpr (std::is_floating_point_v<T>) {
    // -0.0 equals 0.0 here, but not for every reader: the bounds include both.
    if (low[0] == 0) low[0] = -T{0};
    if (high[0] == 0) high[0] = T{0};
  }
  return {low[0], high[0], present, nans};
}

template <typename T>
Zone scan(const uint8_t* data, const uint8_t* valid, int64_t count) {
  const auto bounds_of =
      valid ? Versions<bounds<T, true>>::best() : Versions<bounds<T, false>>::best();
  const Range<T> range = bounds_of(data, valid, count);
  Zone zone{count, count - range.present, range.nans, range.present > range.nans, {}, {}};
  if (zone.has_bounds) {
    append(zone.low, range.low);
    append(zone.high, range.high);
  }
  return zone;
}

// Mask of the bytes that are not 0, of 64.
uint64_t packed(const uint8_t* bytes) {
  constexpr uint64_t kLowest = 0x0101010101010101, kOthers = 0x7F * kLowest;
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    const auto eight = load<uint64_t>(bytes + 8 * i);
    const uint64_t is_set = (((eight & kOthers) + kOthers) | eight) >> 7 & kLowest;
    bits |= (is_set * 0x0102040810204080 >> 56) << (8 * i);  // the lowest bits, side by side
  }
  return bits;
}

template <typename T>
bool is_less(const std::string& a, const std::string& b) {
  return load<T>(reinterpret_cast<const uint8_t*>(a.data())) <
         load<T>(reinterpret_cast<const uint8_t*>(b.data()));
}

template <typename T>
constexpr NumberKind kind_of(std::string_view name, int bits = 8 * sizeof(T)) {
  return {name, bits, sizeof(T), &scan<T>, &is_less<T>};
}

}  // namespace

const NumberKind kNumberKinds[kNumNumberKinds] = {
    kind_of<int8_t>("i1"),   kind_of<int16_t>("i2"),  kind_of<int32_t>("i4"),
    kind_of<int64_t>("i8"),  kind_of<Int128>("i16"),  kind_of<uint8_t>("u1"),
    kind_of<uint16_t>("u2"), kind_of<uint32_t>("u4"), kind_of<uint64_t>("u8"),
    kind_of<float>("f2", 16), kind_of<float>("f4"),   kind_of<double>("f8"),
    kind_of<uint8_t>("b", 1),
};

Zone scan_bits(const uint8_t* data, const uint8_t* valid, int64_t first, int64_t stop) {
  uint64_t zeros = 0, ones = 0;
  int64_t present = 0;
  const auto step = [&](uint64_t bits, uint64_t present_rows) {
    zeros |= ~bits & present_rows;
    ones |= bits & present_rows;
    present += std::popcount(present_rows);
  };
  int64_t row = first;
  const auto until = [&](int64_t last) {
    for (; row < last; ++row) step(data[row / 8] >> (row % 8) & 1, valid == nullptr || valid[row]);
  };
  until(std::min(stop, (first + 7) / 8 * 8));
  for (; row + 64 <= stop; row += 64)
    step(load<uint64_t>(data + row / 8), valid == nullptr ? UINT64_MAX : packed(valid + row));
  until(stop);
  Zone zone{stop - first, stop - first - present, 0, present > 0, {}, {}};
  if (zone.has_bounds) {
    append(zone.low, static_cast<uint8_t>(zeros == 0));
    append(zone.high, static_cast<uint8_t>(ones != 0));
  }
  return zone;
}

}  // namespace alance
