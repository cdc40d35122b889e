#include "bounds.hpp"

void register_fullzip(nanobind::module_& m) { (void)m; }
