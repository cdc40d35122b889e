// Conversions of vectors to numpy arrays, and of Python lists to buffers.
#pragma once
#include <vector>

#include "base/owned.hpp"

namespace alance {

template <typename T>
Numpy<T> numpy_of(const std::vector<T>& values) {
  Owned<T> array(static_cast<int64_t>(values.size()));
  if (!values.empty()) std::memcpy(array.data(), values.data(), values.size() * sizeof(T));
  return array.numpy();
}

inline std::vector<Bytes> buffers_of(const nb::list& list) {
  std::vector<Bytes> buffers;
  buffers.reserve(list.size());
  for (nb::handle buffer : list) buffers.push_back(nb::cast<Bytes>(buffer));
  return buffers;
}

}  // namespace alance
