// Array types of arguments from Python, and bounds checks with error messages, for all kernels.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace alance {
namespace nb = nanobind;

// Views of a memoryview, bytes or numpy array, without a copy; `MutBytes` and `Out` are writable.
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Throw for bytes that contradict the format: a ValueError, which Python turns into a
// CorruptFileError with the place.
[[noreturn]] inline void corrupt(const std::string& what) { throw std::invalid_argument(what); }

// Throw unless [start, start + size) lies inside a buffer of `total` bytes.
inline void check_span(int64_t start, int64_t size, int64_t total, const char* what) {
  if (start < 0 || size < 0 || start > total || size > total - start)
    corrupt(std::string(what) + ": bytes " + std::to_string(start) + " to " +
            std::to_string(start) + " + " + std::to_string(size) + " of a buffer of " +
            std::to_string(total));
}

}  // namespace alance
