// Array types of arguments from Python, checks with error messages, and unaligned access, for all
// kernels.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace alance {
namespace nb = nanobind;
using namespace nb::literals;

// Views of a memoryview, bytes or numpy array, without a copy; `MutBytes` and `Out` are writable.
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Message of an error: texts and numbers, joined. A byte of a longer character becomes `?`, since
// Python takes messages for UTF-8.
template <typename... Parts>
[[gnu::cold]] std::string message_of(const Parts&... parts) {
  std::string message;
  const auto add = [&message](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_convertible_v<Part, std::string_view>)
      message += part;
    else if constexpr (std::is_same_v<Part, char>)
      message += static_cast<uint8_t>(part) < 0x80 ? part : '?';
    else
      message += std::to_string(part);
  };
  (add(parts), ...);
  return message;
}

// Throw for bytes that contradict the format: a ValueError, which Python turns into a
// CorruptFileError with the place.
template <typename... Parts>
[[noreturn, gnu::cold]] void corrupt(const Parts&... parts) {
  throw std::invalid_argument(message_of(parts...));
}

// Throw unless [start, start + size) lies inside a buffer of `total` bytes.
inline void check_span(int64_t start, int64_t size, int64_t total, const char* what) {
  if (start < 0 || size < 0 || start > total || size > total - start)
    corrupt(what, ": bytes ", start, " to ", start, " + ", size, " of a buffer of ", total);
}

// a * b of two sizes; throws on overflow, since no buffer is that large.
inline int64_t product(int64_t a, int64_t b, const char* what) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) corrupt(what, ": sizes overflow");
  return result;
}

// Unaligned little-endian access.
template <typename T>
inline T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
inline void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

inline std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace alance
