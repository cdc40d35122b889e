// FSST: strings as codes of one byte for symbols of 1 to 8 bytes; 255 escapes the next byte.
#include <limits>

#include "fsst.hpp"
#include "owned.hpp"

namespace alance {
namespace {

using namespace fsst;

// All strings of a page. The first pass sizes the whole stream and sees codes without symbol. The
// second writes strings and offsets: it parses the same stream, up to an escape at the end of a
// string, where it stops, so it writes no more than the first pass has counted.
template <typename Offset>
nb::tuple decode_strings(In<Offset> offsets, Bytes data, In<uint64_t> symbols, Bytes lengths) {
  auto run = [&] {
    nb::gil_scoped_release release;
    Table table(symbols, lengths);
    if (offsets.size() == 0) corrupt("fsst: no offsets");
    const int64_t num_strings = static_cast<int64_t>(offsets.size()) - 1;
    const Offset* offset = offsets.data();
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < num_strings; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[num_strings] > static_cast<int64_t>(data.size()))
      corrupt("fsst: offsets decrease or leave the buffer");
    const uint8_t* const end = data.data() + offset[num_strings];
    uint64_t total = decoded_size(table, data.data() + offset[0], end);
    if (total >= INVALID) corrupt("fsst: a code without a symbol");
    if (total > static_cast<uint64_t>(std::numeric_limits<Offset>::max()))
      throw std::overflow_error("fsst: " + std::to_string(total) +
                                " bytes are too many for the offsets of this type");
    Owned<Offset> out_offsets(num_strings + 1);
    Owned<uint8_t> bytes(static_cast<int64_t>(total), MAX_SYMBOL);
    uint8_t* out = bytes.data();
    out_offsets[0] = 0;
    for (int64_t i = 0; i < num_strings; ++i) {
      out = decode(table, data.data() + offset[i], data.data() + offset[i + 1], end, out);
      out_offsets[i + 1] = static_cast<Offset>(out - bytes.data());
    }
    return std::make_pair(std::move(out_offsets), std::move(bytes));
  };
  auto strings = run();
  return nb::make_tuple(strings.first.numpy(), strings.second.numpy());
}

}  // namespace
}  // namespace alance

void register_fsst(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_fsst", &decode_strings<int32_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("symbols"), nb::arg("lengths"));
  m.def("decode_fsst", &decode_strings<int64_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("symbols"), nb::arg("lengths"));
}
