// Arrays that kernels return: uninitialised memory that numpy then owns, without a copy.
#pragma once
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "bounds.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace alance {

// `size` values of T, and at least `slack` bytes behind them that loops may scribble on.
// May be made and filled without the GIL; `numpy()` needs it and gives the memory away.
template <typename T>
class Owned {
 public:
  explicit Owned(int64_t size, size_t slack = 0) : size_(static_cast<size_t>(size)) {
    if (size < 0 || size_ > (SIZE_MAX / 2 - slack) / sizeof(T)) throw std::bad_alloc();
    size_t num_bytes = size_ * sizeof(T) + slack;
    data_.reset(static_cast<T*>(std::malloc(num_bytes ? num_bytes : 1)));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    // As numpy does: without huge pages, the page faults of fresh memory cost more than decoding.
    if (num_bytes >= (size_t{4} << 20)) {
      auto first = (reinterpret_cast<uintptr_t>(data_.get()) + 4095) & ~uintptr_t{4095};
      auto last = (reinterpret_cast<uintptr_t>(data_.get()) + num_bytes) & ~uintptr_t{4095};
      madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
    }
#endif
  }

  T* data() { return data_.get(); }
  int64_t size() const { return static_cast<int64_t>(size_); }
  T& operator[](int64_t i) { return data_.get()[i]; }

  nb::ndarray<nb::numpy, T, nb::ndim<1>> numpy() {
    T* data = data_.release();
    nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size_}, owner);
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

template <typename T>
using Numpy = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

}  // namespace alance
