// Growing array of uninitialised memory, handed to numpy without a copy.
#pragma once
#include <algorithm>
#include <optional>

#include "base/owned.hpp"

namespace alance {

template <typename T>
class Growing {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* end() { return data_ + size_; }
  T operator[](size_t i) const { return data_[i]; }
  T back() const { return data_[size_ - 1]; }

  void clear() { size_ = 0; }
  // Drop the values from number `size` on.
  void shrink(size_t size) { size_ = size; }
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  // Append `count` uninitialised values; returns the first.
  T* extend(size_t count) {
    if (count > capacity_ - size_) grow(std::max(size_ + count, 2 * capacity_));
    T* room = data_ + size_;
    size_ += count;
    return room;
  }
  void push_back(T value) { *extend(1) = value; }
  void append(const T* values, size_t count) {
    T* room = extend(count);
    if (count != 0) std::memcpy(room, values, count * sizeof(T));
  }
  void fill(size_t count, T value) { std::fill_n(extend(count), count, value); }

  // Give the memory away; it may hold more than `size()` values.
  Owned<T> release() {
    if (!memory_) memory_.emplace(0);
    Owned<T> memory = *std::move(memory_);
    memory_.reset();
    data_ = nullptr;
    size_ = capacity_ = 0;
    return memory;
  }

 private:
  void grow(size_t capacity) {
    if (capacity > SIZE_MAX / 8 / sizeof(T)) throw std::bad_alloc();
    Owned<T> memory(static_cast<int64_t>(capacity));
    if (size_ != 0) std::memcpy(memory.data(), data_, size_ * sizeof(T));
    memory_.emplace(std::move(memory));
    data_ = memory_->data();
    capacity_ = capacity;
  }

  std::optional<Owned<T>> memory_;
  T* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace alance
