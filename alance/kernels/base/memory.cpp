// Memory for bytes read from files.
#include "base/owned.hpp"

#include <atomic>
#include <stdexcept>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace alance {
namespace {

// Bytes without content; large ones are blocks that were used before.
Numpy<uint8_t> blank(int64_t num_bytes) { return Owned<uint8_t>(num_bytes).numpy(); }

std::atomic<size_t> most_kept{kKeptBytes};

// Bounds the blocks that wait to be used again, and gives what is unused back to the system.
void release_memory(int64_t num_bytes) {
  if (num_bytes < 0) throw std::invalid_argument("negative number of bytes");
  nanobind::gil_scoped_release unlocked;
  most_kept = static_cast<size_t>(num_bytes);
  keep_memory(most_kept);
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// Gives blocks that wait to be used again back to the system, the oldest first, until no more are
// left than that; their bound stays as it is.
void trim_memory(int64_t num_bytes) {
  if (num_bytes < 0) throw std::invalid_argument("negative number of bytes");
  nanobind::gil_scoped_release unlocked;
  keep_memory(static_cast<size_t>(num_bytes));
  keep_memory(most_kept);
}

}  // namespace
}  // namespace alance

void register_memory(nanobind::module_& m) {
  m.def("blank", &alance::blank);
  m.def("release_memory", &alance::release_memory);
  m.def("trim_memory", &alance::trim_memory);
}
