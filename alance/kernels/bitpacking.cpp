#include "bounds.hpp"

void register_bitpacking(nanobind::module_& m) { (void)m; }
