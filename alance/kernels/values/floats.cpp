// Canonical floats: one zero and one NaN, so that equal values have equal bits.
#include <algorithm>

#include "encode/container.hpp"
#include "encode/encode.hpp"
#include "base/owned.hpp"

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
inline bool all_canonical(const uint8_t* values, int64_t count) {
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
inline void make_canonical(const uint8_t* values, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count * static_cast<int64_t>(sizeof(T)); i += sizeof(T)) {
    const T bits = Bits<T>::canonical(load<T>(values + i));
    std::memcpy(out + i, &bits, sizeof(T));
  }
}

#define ALANCE_CANONICAL(T, NAME)                                                      \
  ALANCE_CLONES bool NAME##_are(const uint8_t* values, int64_t count) {                \
    return all_canonical<T>(values, count);                                            \
  }                                                                                    \
  ALANCE_CLONES void NAME##_make(const uint8_t* values, int64_t count, uint8_t* out) { \
    make_canonical<T>(values, count, out);                                             \
  }

ALANCE_CANONICAL(uint16_t, half)
ALANCE_CANONICAL(uint32_t, single)
ALANCE_CANONICAL(uint64_t, whole)

// Bytes of floats with one zero and one NaN; None if they are canonical already.
nb::object canonical_floats(const Bytes& values, int bits) {
  const auto size = static_cast<int64_t>(values.size());
  if (bits != 16 && bits != 32 && bits != 64) corrupt("floats: expected 16, 32 or 64 bits per value");
  if (size % (bits / 8)) corrupt("floats: the bytes are no whole number of values");
  const int64_t count = size / (bits / 8);
  const uint8_t* data = values.data();
  Owned<uint8_t> out(0);
  {
    nb::gil_scoped_release release;
    const auto are = bits == 16 ? half_are : bits == 32 ? single_are : whole_are;
    const auto make = bits == 16 ? half_make : bits == 32 ? single_make : whole_make;
    if (!are(data, count)) {
      out = Owned<uint8_t>(size);
      make(data, count, out.data());
    }
  }
  return out.size() ? nb::cast(out.numpy()) : nb::none();
}

}  // namespace
}  // namespace alance

void register_floats(nanobind::module_& m) {
  m.def("canonical_floats", &alance::canonical_floats, nanobind::arg("values").noconvert(),
        nanobind::arg("bits"));
}
