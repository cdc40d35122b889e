// Cache of large memory blocks; see recycler.hpp.
#include "base/recycler.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace alance {
namespace {

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

// Smaller blocks are malloc's own business.
constexpr size_t kLarge = kSanitized ? SIZE_MAX : size_t{256} << 10;
constexpr size_t kMapped = size_t{1} << 20;  // of the system, to which they go back whole
constexpr size_t kWaste = 4;  // a fourth of what is asked for may be given beyond it

void* checked(void* data) {
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// Not from malloc: between its small blocks large ones leave holes that stay with the process.
void* fresh(size_t num_bytes) {
#if defined(__linux__)
  if (num_bytes >= kMapped) {
    void* data =
        mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    // As numpy does: one fault for 2 MiB in place of 512.
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
  // The smallest kept block that is large enough, and not much larger, of these the one that was
  // given back last; of no data where there is none.
  Memory take(size_t num_bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto fit = blocks_.lower_bound(num_bytes);
    if (fit == blocks_.end() || fit->first - num_bytes > num_bytes / kWaste) return {nullptr, 0};
    return remove(std::prev(blocks_.upper_bound(fit->first)));
  }

  // Blocks that were not asked for in the meantime make room: they are of sizes of the past.
  // False: the block is not kept.
  bool store(Memory memory) noexcept {
    std::lock_guard<std::mutex> guard(mutex_);
    if (memory.num_bytes > limit_) return false;
    while (kept_ > limit_ - memory.num_bytes) release(remove(oldest()));
    try {
      blocks_.emplace(memory.num_bytes, Kept{memory.data, ++now_});
    } catch (const std::bad_alloc&) {
      return false;
    }
    kept_ += memory.num_bytes;
    return true;
  }

  void keep(size_t num_bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    limit_ = num_bytes;
    while (kept_ > limit_) release(remove(oldest()));
  }

  // Never destroyed: arrays may outlive everything else at exit.
  static Recycler& instance() {
    static Recycler* self = new Recycler();
    return *self;
  }

 private:
  struct Kept {
    void* data;
    uint64_t age;  // numbers rise with time
  };
  using Blocks = std::multimap<size_t, Kept>;  // by their sizes, of each the oldest first

  Blocks::iterator oldest() {
    return std::min_element(blocks_.begin(), blocks_.end(), [](const auto& one, const auto& other) {
      return one.second.age < other.second.age;
    });
  }

  Memory remove(Blocks::iterator place) noexcept {
    const Memory memory{place->second.data, place->first};
    kept_ -= memory.num_bytes;
    blocks_.erase(place);
    return memory;
  }

  std::mutex mutex_;
  Blocks blocks_;
  uint64_t now_ = 0;
  size_t kept_ = 0;
  size_t limit_ = kKeptBytes;
};

// Sizes in steps of an eighth, so that blocks of nearly equal size are interchangeable.
size_t round_up(size_t num_bytes) {
  size_t step = kLarge / 8;
  while (step * 16 <= num_bytes) step *= 2;
  return (num_bytes + step - 1) / step * step;
}

}  // namespace

Memory take_memory(size_t num_bytes) {
  if (num_bytes < kLarge) return {checked(std::malloc(num_bytes ? num_bytes : 1)), num_bytes};
  num_bytes = round_up(num_bytes);
  const Memory kept = Recycler::instance().take(num_bytes);
  return kept.data == nullptr ? Memory{fresh(num_bytes), num_bytes} : kept;
}

void give_memory(Memory memory) noexcept {
  if (memory.num_bytes < kLarge) {
    std::free(memory.data);
  } else if (memory.data != nullptr && !Recycler::instance().store(memory)) {
    release(memory);
  }
}

void keep_memory(size_t num_bytes) { Recycler::instance().keep(num_bytes); }

}  // namespace alance
