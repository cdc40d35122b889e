// Keeps large blocks of memory for later use: the system clears each fresh page, which takes longer
// than to decode into it.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace alance {

// Under a sanitizer no block is used again: that would hide accesses beyond the ends of blocks.
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

class Recycler {
 public:
  // Smaller blocks are malloc's own business.
  static constexpr size_t kLarge = kSanitized ? SIZE_MAX : size_t{256} << 10;
  static constexpr size_t kMapped = size_t{1} << 20;   // of the system, to which they go back whole
  static constexpr size_t kKept = size_t{80} << 20;    // bytes kept for later, unless told

  // A block of at least `size` bytes; give it back with the same size.
  static void* take(size_t size) {
    if (size < kLarge) return check(std::malloc(size ? size : 1));
    const size_t room = round_up(size);
    {
      Recycler& self = instance();
      std::lock_guard<std::mutex> guard(self.mutex_);
      auto found = self.blocks_.find(room);
      if (found != self.blocks_.end() && !found->second.empty()) {
        void* block = found->second.back().data;
        found->second.pop_back();
        self.kept_ -= room;
        return block;
      }
    }
    return fresh(room);
  }

  static void give(void* block, size_t size) noexcept {
    if (block == nullptr) return;
    if (size >= kLarge) {
      const size_t room = round_up(size);
      if (!instance().store(block, room)) release(block, room);
      return;
    }
    std::free(block);
  }

  // Keep no more than some bytes for later, from now on.
  static void keep(size_t num_bytes) {
    Recycler& self = instance();
    std::lock_guard<std::mutex> guard(self.mutex_);
    self.limit_ = num_bytes;
    while (self.kept_ > self.limit_) self.drop_oldest();
  }

 private:
  struct Block {
    void* data;
    uint64_t age;  // numbers rise with time
  };

  // Blocks that were not asked for in the meantime make room: they are of sizes of the past.
  bool store(void* block, size_t room) noexcept {
    std::lock_guard<std::mutex> guard(mutex_);
    if (room > limit_) return false;
    while (kept_ > limit_ - room) drop_oldest();
    try {
      blocks_[room].push_back({block, ++now_});
    } catch (const std::bad_alloc&) {
      return false;
    }
    kept_ += room;
    return true;
  }

  // Needs at least one kept block.
  void drop_oldest() noexcept {
    auto oldest = blocks_.end();
    for (auto one = blocks_.begin(); one != blocks_.end(); ++one)
      if (!one->second.empty() &&
          (oldest == blocks_.end() || one->second.front().age < oldest->second.front().age))
        oldest = one;
    release(oldest->second.front().data, oldest->first);
    kept_ -= oldest->first;
    oldest->second.pop_front();
  }

  // Sizes in steps of an eighth, so that blocks of nearly equal size are interchangeable.
  static size_t round_up(size_t size) {
    size_t step = kLarge / 8;
    while (step * 16 <= size) step *= 2;
    return (size + step - 1) / step * step;
  }

  // Not from malloc: between its small blocks large ones leave holes that stay with the process.
  static void* fresh(size_t room) {
#if defined(__linux__)
    if (room >= kMapped) {
      void* block =
          mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED) throw std::bad_alloc();
      // As numpy does: one fault for 2 MiB in place of 512.
      if (room >= (size_t{4} << 20)) madvise(block, room, MADV_HUGEPAGE);
      return block;
    }
#endif
    return check(std::malloc(room));
  }

  static void release(void* block, size_t room) noexcept {
#if defined(__linux__)
    if (room >= kMapped) {
      munmap(block, room);
      return;
    }
#endif
    (void)room;
    std::free(block);
  }

  static void* check(void* block) {
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }

  // Never destroyed: arrays may outlive everything else at exit.
  static Recycler& instance() {
    static Recycler* self = new Recycler();
    return *self;
  }

  std::mutex mutex_;
  std::map<size_t, std::deque<Block>> blocks_;
  uint64_t now_ = 0;
  size_t kept_ = 0;
  size_t limit_ = kKept;
};

}  // namespace alance
