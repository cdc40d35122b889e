#include "bounds.hpp"

void register_fsst(nanobind::module_& m) { (void)m; }
