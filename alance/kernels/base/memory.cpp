// Memory for bytes read from files, and the limit of the block cache (recycler.hpp).
#include "base/owned.hpp"

#include <atomic>
#include <stdexcept>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace alance {
namespace {

// Uninitialised bytes; a large array reuses a cached block if one fits.
Numpy<uint8_t> blank(int64_t num_bytes) { return Owned<uint8_t>(num_bytes).numpy(); }

std::atomic<size_t> cache_limit{kCachedBytes};

// Set the limit of the block cache, free what exceeds it, and return unused heap pages to the
// system.
void release_memory(int64_t num_bytes) {
  if (num_bytes < 0) throw std::invalid_argument("negative number of bytes");
  nanobind::gil_scoped_release unlocked;
  cache_limit = static_cast<size_t>(num_bytes);
  keep_memory(cache_limit);
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// Free cached blocks, the oldest first, until at most `num_bytes` remain; the limit stays as it is.
void trim_memory(int64_t num_bytes) {
  if (num_bytes < 0) throw std::invalid_argument("negative number of bytes");
  nanobind::gil_scoped_release unlocked;
  keep_memory(static_cast<size_t>(num_bytes));
  keep_memory(cache_limit);
}

// Limit the memory that this thread takes for results from now on; negative: no limit.
void set_allowance(int64_t num_bytes) { allowance() = num_bytes < 0 ? kNoAllowance : num_bytes; }

}  // namespace
}  // namespace alance

void register_memory(nanobind::module_& m) {
  m.def("blank", &alance::blank);
  m.def("release_memory", &alance::release_memory);
  m.def("trim_memory", &alance::trim_memory);
  nanobind::exception<alance::OverAllowance>(m, "OverAllowance");
  m.def("set_allowance", &alance::set_allowance);
}
