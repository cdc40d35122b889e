#include "bounds.hpp"

void register_strings(nanobind::module_& m) { (void)m; }
