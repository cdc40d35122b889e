// Cache of large memory blocks: the system zeroes each fresh page, which takes longer than decoding
// into it.
#pragma once
#include <cstddef>

namespace alance {

struct Memory {
  void* data;
  size_t num_bytes;
};

constexpr size_t kCachedBytes = size_t{80} << 20;  // initial limit of the cache

// Block of at least `num_bytes` bytes, cached or fresh. Throws std::bad_alloc.
Memory take_memory(size_t num_bytes);

void give_memory(Memory memory) noexcept;

// Set the limit of the cache; frees the oldest blocks beyond it.
void limit_memory(size_t num_bytes);

// Free the oldest cached blocks until at most `num_bytes` remain; the limit stays as it is.
void trim_memory(size_t num_bytes);

}  // namespace alance
