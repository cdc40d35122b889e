// Registration of the encoder's kernels, which have one file each.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_encode_bitpacking(nb::module_& m);
void register_encode_streams(nb::module_& m);
void register_encode_lz4(nb::module_& m);
void register_encode_distinct(nb::module_& m);
void register_encode_fsst(nb::module_& m);
void register_container(nb::module_& m);
void register_zones(nb::module_& m);
void register_encode_pages(nb::module_& m);

void register_encode(nb::module_& m) {
  register_encode_bitpacking(m);
  register_encode_streams(m);
  register_encode_lz4(m);
  register_encode_distinct(m);
  register_encode_fsst(m);
  register_container(m);
  register_zones(m);
  register_encode_pages(m);
}
