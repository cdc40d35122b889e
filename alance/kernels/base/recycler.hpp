// Cache of large memory blocks. The system clears each fresh page, which takes longer than decoding
// into it.
#pragma once
#include <cstddef>

namespace alance {

struct Memory {
  void* data;
  size_t num_bytes;
};

constexpr size_t kKeptBytes = size_t{80} << 20;  // kept for later, unless told

// A block of at least `num_bytes`. Throws std::bad_alloc.
Memory take_memory(size_t num_bytes);

void give_memory(Memory memory) noexcept;

// Keep no more than some bytes for later, from now on.
void keep_memory(size_t num_bytes);

}  // namespace alance
