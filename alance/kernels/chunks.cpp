#include "bounds.hpp"

void register_chunks(nanobind::module_& m) { (void)m; }
