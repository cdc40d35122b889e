// Canonical floats: one zero and one NaN, so that equal values have equal bits.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>

#include "base/owned.hpp"
#include "base/processor.hpp"

namespace alance {
namespace {

constexpr int64_t kBlock = 4096;  // values between two checks for an early end

// Bits of a float; T is the unsigned type of its width.
template <typename T>
struct Bits {
  static constexpr int kMantissa = sizeof(T) == 2 ? 10 : sizeof(T) == 4 ? 23 : 52;
  static constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  static constexpr T kInfinity = static_cast<T>((kSign - 1) >> kMantissa << kMantissa);
  static constexpr T kNan = static_cast<T>(kInfinity | T{1} << (kMantissa - 1));

  static T canonical(T bits) {
    const T magnitude = static_cast<T>(bits & ~kSign);
    return magnitude > kInfinity ? kNan : magnitude == 0 ? T{0} : bits;
  }
};

template <typename T>
ALANCE_INLINE bool are_canonical(const uint8_t* values, int64_t count) {
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t stop = std::min(count, start + kBlock);
    T others = 0;
    for (int64_t i = start; i < stop; ++i) {
      const T bits = load<T>(values + i * static_cast<int64_t>(sizeof(T)));
      others |= static_cast<T>(bits ^ Bits<T>::canonical(bits));
    }
    if (others) return false;
  }
  return true;
}

template <typename T>
ALANCE_INLINE void make_canonical(const uint8_t* values, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count * static_cast<int64_t>(sizeof(T)); i += sizeof(T))
    store(out + i, Bits<T>::canonical(load<T>(values + i)));
}

template <typename T>
std::optional<Owned<uint8_t>> canonical_of(const Bytes& values) {
  if (values.size() % sizeof(T)) corrupt("floats: the bytes are no whole number of values");
  const auto count = static_cast<int64_t>(values.size() / sizeof(T));
  if (Versions<are_canonical<T>>::best()(values.data(), count)) return std::nullopt;
  Owned<uint8_t> out(std::ssize(values));
  Versions<make_canonical<T>>::best()(values.data(), count, out.data());
  return out;
}

std::optional<Owned<uint8_t>> canonical_floats(const Bytes& values, int bits) {
  switch (bits) {
    case 16: return canonical_of<uint16_t>(values);
    case 32: return canonical_of<uint32_t>(values);
    case 64: return canonical_of<uint64_t>(values);
    default: corrupt("floats: expected 16, 32 or 64 bits per value");
  }
}

}  // namespace
}  // namespace alance

void register_floats(nanobind::module_& m) {
  using namespace alance;
  m.def("canonical_floats", &canonical_floats, "values"_a.noconvert(), "bits"_a, NoGil());
}
