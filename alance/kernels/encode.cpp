// The kernels of the encoder, one file each.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_encode_bitpacking(nb::module_& m);
void register_encode_statistics(nb::module_& m);

void register_encode(nb::module_& m) {
  register_encode_bitpacking(m);
  register_encode_statistics(m);
}
