// Arrays that kernels return: uninitialised memory that numpy then owns, without a copy.
#pragma once
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/allowance.hpp"
#include "base/bounds.hpp"
#include "base/recycler.hpp"


namespace alance {

// Uninitialised array of `size` values, with at least `slack` bytes behind them that loops may
// overwrite. It can be created and filled without the GIL; `numpy()` needs it and gives the memory
// away.
template <typename T>
class Owned {
 public:
  explicit Owned(int64_t size, size_t slack = 0) : size_(static_cast<size_t>(size)) {
    if (size < 0 || size_ > (SIZE_MAX / 4 - slack) / sizeof(T)) throw std::bad_alloc();
    spend(size * static_cast<int64_t>(sizeof(T)));
    const Memory block = take_memory(size_ * sizeof(T) + slack);
    data_ = {static_cast<T*>(block.data), Free{block.num_bytes}};
  }

  T* data() { return data_.get(); }
  int64_t size() const { return static_cast<int64_t>(size_); }
  T& operator[](int64_t i) { return data_.get()[i]; }

  nb::ndarray<nb::numpy, T, nb::ndim<1>> numpy() { return numpy(size()); }

  // Array of the first `count` values, at most `size()`.
  nb::ndarray<nb::numpy, T, nb::ndim<1>> numpy(int64_t count) {
    // A capsule has one pointer: a small record holds the block and its size.
    auto* block = new Memory{data_.get(), data_.get_deleter().num_bytes};
    T* data = data_.release();
    nb::capsule owner(block, [](void* memory) noexcept {
      auto* block = static_cast<Memory*>(memory);
      give_memory(*block);
      delete block;
    });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {static_cast<size_t>(count)}, owner);
  }

 private:
  struct Free {
    size_t num_bytes = 0;
    void operator()(T* memory) const { give_memory({memory, num_bytes}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

template <typename T>
using Numpy = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

}  // namespace alance
