#include "bounds.hpp"

void register_runs(nanobind::module_& m) { (void)m; }
