// Memory for bytes read from files, and the limit of the block cache (recycler.hpp).
#include "base/owned.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace alance {
namespace {

Owned<uint8_t> blank(int64_t num_bytes) { return Owned<uint8_t>(num_bytes); }

size_t checked(int64_t num_bytes) {
  if (num_bytes < 0) corrupt("negative number of bytes");
  return static_cast<size_t>(num_bytes);
}

// Set the limit of the block cache, free what exceeds it, and return unused heap pages to the
// system.
void release_memory(int64_t num_bytes) {
  limit_memory(checked(num_bytes));
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void trim(int64_t num_bytes) { trim_memory(checked(num_bytes)); }

// Limit the memory that this thread takes for results from now on; negative: no limit.
void set_allowance(int64_t num_bytes) { allowance() = num_bytes < 0 ? kNoAllowance : num_bytes; }

}  // namespace
}  // namespace alance

void register_memory(nanobind::module_& m) {
  using namespace alance;
  m.def("blank", &blank);
  m.def("release_memory", &release_memory, NoGil());
  m.def("trim_memory", &trim, NoGil());
  nb::exception<OverAllowance>(m, "OverAllowance");
  m.def("set_allowance", &set_allowance);
}
