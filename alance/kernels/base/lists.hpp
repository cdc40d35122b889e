// Conversions of vectors to arrays, and of Python lists to buffers.
#pragma once
#include <algorithm>
#include <vector>

#include "base/owned.hpp"

namespace alance {

template <typename T>
Owned<T> owned_of(const std::vector<T>& values) {
  Owned<T> array(std::ssize(values));
  std::copy(values.begin(), values.end(), array.data());
  return array;
}

inline Owned<uint8_t> owned_of(std::string_view content) {
  Owned<uint8_t> array(std::ssize(content));
  std::copy(content.begin(), content.end(), array.data());
  return array;
}

template <typename T>
Numpy<T> numpy_of(const std::vector<T>& values) {
  return owned_of(values).numpy();
}

inline std::vector<Bytes> buffers_of(const nb::list& list) {
  std::vector<Bytes> buffers;
  buffers.reserve(list.size());
  for (nb::handle buffer : list) buffers.push_back(nb::cast<Bytes>(buffer));
  return buffers;
}

}  // namespace alance
