// Cache of large memory blocks; see recycler.hpp.
#include "base/recycler.hpp"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace alance {
namespace {

// Under a sanitizer no block is reused: reuse would hide accesses beyond the ends of blocks.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// Size from which blocks are cached; malloc keeps smaller ones itself.
constexpr size_t kLarge = kSanitized ? SIZE_MAX : size_t{256} << 10;
// Size from which blocks are mapped; they return to the system whole.
constexpr size_t kMapped = size_t{1} << 20;
constexpr size_t kExcess = 4;  // a cached block may exceed the request by a fourth

void* checked(void* data) {
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// Large blocks do not come from malloc: freed, they would leave holes between its small blocks.
void* fresh(size_t num_bytes) {
#if defined(__linux__)
  if (num_bytes >= kMapped) {
    void* data =
        mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    // As numpy does: one page fault for 2 MiB instead of 512.
    if (num_bytes >= (size_t{4} << 20)) madvise(data, num_bytes, MADV_HUGEPAGE);
    return data;
  }
#endif
  return checked(std::malloc(num_bytes));
}

void release(Memory memory) noexcept {
#if defined(__linux__)
  if (memory.num_bytes >= kMapped) {
    munmap(memory.data, memory.num_bytes);
    return;
  }
#endif
  std::free(memory.data);
}

class Recycler {
 public:
  // Smallest cached block that holds `num_bytes` and is at most a fourth larger; of equal sizes the
  // one stored last. `data` is null if there is none.
  Memory take(size_t num_bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto best = blocks_.end();
    size_t most = num_bytes + num_bytes / kExcess;
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
      if (block->num_bytes >= num_bytes && block->num_bytes <= most)
        most = block->num_bytes, best = block;
    return best == blocks_.end() ? Memory{nullptr, 0} : remove(best);
  }

  // Cache a block; the oldest blocks make room, because their sizes are no longer asked for. False
  // if the block is larger than the limit or memory is exhausted.
  bool store(Memory memory) noexcept {
    std::lock_guard<std::mutex> guard(mutex_);
    if (memory.num_bytes > limit_) return false;
    shrink(limit_ - memory.num_bytes);
    try {
      blocks_.push_back(memory);
    } catch (const std::bad_alloc&) {
      return false;
    }
    num_bytes_ += memory.num_bytes;
    return true;
  }

  void trim(size_t num_bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    shrink(num_bytes);
  }

  void limit(size_t num_bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    limit_ = num_bytes;
    shrink(num_bytes);
  }

  // Never destroyed: at exit, arrays may outlive all static objects.
  static Recycler& instance() {
    static Recycler* self = new Recycler();
    return *self;
  }

 private:
  // Free the oldest blocks until at most `num_bytes` remain.
  void shrink(size_t num_bytes) noexcept {
    while (num_bytes_ > num_bytes) release(remove(blocks_.begin()));
  }

  Memory remove(std::vector<Memory>::iterator place) noexcept {
    const Memory memory = *place;
    num_bytes_ -= memory.num_bytes;
    blocks_.erase(place);
    return memory;
  }

  std::mutex mutex_;
  std::vector<Memory> blocks_;  // the oldest first; some hundred at the usual limit
  size_t num_bytes_ = 0;
  size_t limit_ = kCachedBytes;
};

// Round up in steps of at most an eighth, so that blocks of nearly equal size are interchangeable.
size_t round_up(size_t num_bytes) {
  const size_t step = std::bit_floor(num_bytes) / 8;
  return (num_bytes + step - 1) / step * step;
}

}  // namespace

Memory take_memory(size_t num_bytes) {
  if (num_bytes < kLarge) return {checked(std::malloc(num_bytes ? num_bytes : 1)), num_bytes};
  num_bytes = round_up(num_bytes);
  const Memory cached = Recycler::instance().take(num_bytes);
  return cached.data == nullptr ? Memory{fresh(num_bytes), num_bytes} : cached;
}

void give_memory(Memory memory) noexcept {
  if (memory.num_bytes < kLarge) {
    std::free(memory.data);
  } else if (memory.data != nullptr && !Recycler::instance().store(memory)) {
    release(memory);
  }
}

void limit_memory(size_t num_bytes) { Recycler::instance().limit(num_bytes); }

void trim_memory(size_t num_bytes) { Recycler::instance().trim(num_bytes); }

}  // namespace alance
