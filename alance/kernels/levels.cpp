#include "bounds.hpp"

void register_levels(nanobind::module_& m) { (void)m; }
