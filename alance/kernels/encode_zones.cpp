// The least and the greatest value of each zone of rows, for statistics.
#include <limits>
#include <string>
#include <type_traits>

#include "encode_zones.hpp"
#include "owned.hpp"

namespace alance {
namespace {

constexpr int LANES = 16;  // independent comparisons, which the compiler puts into vectors

using Int128 = __int128;

template <typename T>
struct Found {
  T low, high;
  int64_t present = 0, nans = 0;  // values that are not null; of them those that are NaN
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

// NaNs are neither less nor greater, so they never become a bound.
template <typename T, bool NULLS>
inline Found<T> bounds(const uint8_t* data, const uint8_t* valid, int64_t count) {
  T low[LANES], high[LANES];
  for (int j = 0; j < LANES; ++j) low[j] = most<T>(), high[j] = least<T>();
  int64_t present = NULLS ? 0 : count, nans = 0;
  auto step = [&](int64_t i, int j) {
    const T value = load<T>(data + i * static_cast<int64_t>(sizeof(T)));
    if constexpr (NULLS) {
      const T below = valid[i] ? value : most<T>(), above = valid[i] ? value : least<T>();
      low[j] = below < low[j] ? below : low[j];
      high[j] = above > high[j] ? above : high[j];
    } else {
      low[j] = value < low[j] ? value : low[j];
      high[j] = value > high[j] ? value : high[j];
    }
  };
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int j = 0; j < LANES; ++j) step(i + j, j);
  for (; i < count; ++i) step(i, 0);
  if constexpr (NULLS)
    for (int64_t k = 0; k < count; ++k) present += valid[k] != 0;
  if constexpr (std::is_floating_point_v<T>)
    for (int64_t k = 0; k < count; ++k) {
      const T value = load<T>(data + k * static_cast<int64_t>(sizeof(T)));
      nans += (value != value) & (!NULLS || valid[k] != 0);
    }
  for (int j = 1; j < LANES; ++j) {
    low[0] = low[j] < low[0] ? low[j] : low[0];
    high[0] = high[j] > high[0] ? high[j] : high[0];
  }
  if constexpr (std::is_floating_point_v<T>) {
    // The two zeros are equal here and not everywhere: the bounds hold both.
    if (low[0] == 0) low[0] = -T{0};
    if (high[0] == 0) high[0] = T{0};
  }
  return {low[0], high[0], present, nans};
}

#define ALANCE_BOUNDS(T, NAME)                                                               \
  ALANCE_CLONES Found<T> NAME##_all(const uint8_t* data, const uint8_t* valid, int64_t n) {  \
    return bounds<T, false>(data, valid, n);                                                 \
  }                                                                                          \
  ALANCE_CLONES Found<T> NAME##_some(const uint8_t* data, const uint8_t* valid, int64_t n) { \
    return bounds<T, true>(data, valid, n);                                                  \
  }                                                                                          \
  Found<T> bounds_of(T, const uint8_t* data, const uint8_t* valid, int64_t n) {              \
    return valid ? NAME##_some(data, valid, n) : NAME##_all(data, valid, n);                 \
  }

ALANCE_BOUNDS(int8_t, int8)
ALANCE_BOUNDS(int16_t, int16)
ALANCE_BOUNDS(int32_t, int32)
ALANCE_BOUNDS(int64_t, int64)
ALANCE_BOUNDS(Int128, int128)
ALANCE_BOUNDS(uint8_t, uint8)
ALANCE_BOUNDS(uint16_t, uint16)
ALANCE_BOUNDS(uint32_t, uint32)
ALANCE_BOUNDS(uint64_t, uint64)
ALANCE_BOUNDS(float, float32)
ALANCE_BOUNDS(double, float64)

// For each zone the bounds, the values that are not null, and of them those that are NaN.
template <typename T>
nb::tuple zones_of(const Bytes& data, const Bytes& valid, const In<int64_t>& cuts) {
  auto scan = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t width = sizeof(T);
    const Cuts cut(cuts, valid, static_cast<int64_t>(data.size()) / width);
    Owned<uint8_t> lows(cut.zones * width), highs(cut.zones * width);
    Owned<int64_t> present(cut.zones), nans(cut.zones);
    for (int64_t z = 0; z < cut.zones; ++z) {
      const uint8_t* mask = valid.size() ? valid.data() + cut.at[z] : nullptr;
      const Found<T> found =
          bounds_of(T{}, data.data() + cut.at[z] * width, mask, cut.at[z + 1] - cut.at[z]);
      store(lows.data() + z * width, found.low);
      store(highs.data() + z * width, found.high);
      present[z] = found.present;
      nans[z] = found.nans;
    }
    return std::make_tuple(std::move(lows), std::move(highs), std::move(present), std::move(nans));
  };
  auto [lows, highs, present, nans] = scan();
  return nb::make_tuple(lows.numpy(), highs.numpy(), present.numpy(), nans.numpy());
}

nb::tuple zone_bounds(Bytes data, const char* name, Bytes valid, In<int64_t> cuts) {
  const std::string kind = name;
  if (kind == "i1") return zones_of<int8_t>(data, valid, cuts);
  if (kind == "i2") return zones_of<int16_t>(data, valid, cuts);
  if (kind == "i4") return zones_of<int32_t>(data, valid, cuts);
  if (kind == "i8") return zones_of<int64_t>(data, valid, cuts);
  if (kind == "i16") return zones_of<Int128>(data, valid, cuts);
  if (kind == "u1") return zones_of<uint8_t>(data, valid, cuts);
  if (kind == "u2") return zones_of<uint16_t>(data, valid, cuts);
  if (kind == "u4") return zones_of<uint32_t>(data, valid, cuts);
  if (kind == "u8") return zones_of<uint64_t>(data, valid, cuts);
  if (kind == "f4") return zones_of<float>(data, valid, cuts);
  if (kind == "f8") return zones_of<double>(data, valid, cuts);
  corrupt("zones of values of kind " + kind);
}

}  // namespace
}  // namespace alance

void register_encode_zones(nanobind::module_& m) {
  using namespace alance;
  m.def("zone_bounds", &zone_bounds, nb::arg("data"), nb::arg("kind"), nb::arg("valid"),
        nb::arg("cuts"));
}
