// Arrays that kernels return: uninitialised memory that numpy then owns, without a copy.
//
// A kernel returns `Owned` arrays, or a tuple of them, and needs no GIL: it is registered with
// `NoGil()`.
#pragma once
#include <nanobind/stl/tuple.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/allowance.hpp"
#include "base/bounds.hpp"
#include "base/recycler.hpp"

namespace alance {

template <typename T>
using Numpy = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

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
  const T* data() const { return data_.get(); }
  int64_t size() const { return static_cast<int64_t>(size_); }
  T& operator[](int64_t i) { return data_.get()[i]; }
  // Leave out the values from number `size` on.
  void shrink(int64_t size) { size_ = static_cast<size_t>(size); }

  Numpy<T> numpy() { return numpy(0, size()); }

  // Array of `count` values from number `first` on.
  Numpy<T> numpy(int64_t first, int64_t count) {
    // A capsule has one pointer: a small record holds the block and its size.
    auto* block = new Memory{data_.get(), data_.get_deleter().num_bytes};
    T* data = data_.release() + first;
    nb::capsule owner(block, [](void* memory) noexcept {
      auto* block = static_cast<Memory*>(memory);
      give_memory(*block);
      delete block;
    });
    return Numpy<T>(data, {static_cast<size_t>(count)}, owner);
  }

 private:
  struct Free {
    size_t num_bytes = 0;
    void operator()(T* memory) const { give_memory({memory, num_bytes}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_;
};

// Argument of `def`: the function runs without the GIL.
using NoGil = nb::call_guard<nb::gil_scoped_release>;

}  // namespace alance

template <typename T>
struct nanobind::detail::type_caster<alance::Owned<T>> : type_caster<alance::Numpy<T>> {
  static handle from_cpp(alance::Owned<T>&& array, rv_policy policy, cleanup_list* cleanup) {
    return type_caster<alance::Numpy<T>>::from_cpp(array.numpy(), policy, cleanup);
  }
};
