#include "bounds.hpp"

void register_streams(nanobind::module_& m) { (void)m; }
