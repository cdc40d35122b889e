// Limit of the memory that decoding in this thread may take. The event loop decodes under a small
// limit; a larger result is decoded again by a thread of the pool.
#pragma once
#include <cstdint>
#include <exception>

namespace alance {

constexpr int64_t kNoAllowance = -1;

struct OverAllowance : std::exception {
  const char* what() const noexcept override { return "more memory than the thread is allowed"; }
};

// Bytes that this thread may still take; `kNoAllowance`: any number.
inline int64_t& allowance() {
  static thread_local int64_t bytes = kNoAllowance;
  return bytes;
}

// Count bytes that the thread is about to take.
inline void spend(int64_t num_bytes) {
  int64_t& rest = allowance();
  if (rest == kNoAllowance) return;
  if (num_bytes > rest) throw OverAllowance();
  rest -= num_bytes;
}

}  // namespace alance
