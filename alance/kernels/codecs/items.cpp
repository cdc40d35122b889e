// Dictionaries of pages for Python; see `items.hpp`.
#include "codecs/items.hpp"

namespace alance {

// (offsets or None, bytes) of a dictionary; None if it must be decoded step by step.
nb::object decode_items(Bytes content, bool compressed, bool strings, int bits, int64_t count) {
  ItemBlock items;
  bool is_good;
  {
    nb::gil_scoped_release release;
    is_good = items.find(content.data(), static_cast<int64_t>(content.size()),
                         {compressed, strings, bits, count});
  }
  if (!is_good) return nb::none();
  // Bytes, not arrays: each array would give the garbage collector two more objects to track.
  const auto part = [&](int64_t start, int64_t size) {
    return nb::bytes(items.block + start, static_cast<size_t>(size));
  };
  const nb::bytes data = part(items.data_start, items.data_size);
  if (!strings) return nb::make_tuple(nb::none(), data);
  return nb::make_tuple(part(items.offsets_start, bits / 8 * (count + 1)), data);
}

}  // namespace alance

void register_items(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_items", &decode_items, nb::arg("content"), nb::arg("compressed"),
        nb::arg("strings"), nb::arg("bits"), nb::arg("count"));
}
