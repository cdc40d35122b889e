// Memory for what is read from files.
#include "owned.hpp"

namespace alance {
namespace {

// Bytes without content; large ones are blocks that were used before.
Numpy<uint8_t> blank(int64_t num_bytes) { return Owned<uint8_t>(num_bytes).numpy(); }

}  // namespace
}  // namespace alance

void register_memory(nanobind::module_& m) { m.def("blank", &alance::blank); }
