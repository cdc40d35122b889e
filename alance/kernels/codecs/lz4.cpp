// Decoding of an LZ4 unit; see lz4.hpp.
#include "codecs/lz4.hpp"

#include "base/owned.hpp"

namespace alance {
namespace {

// Content of a unit, of at most `most` bytes.
Owned<uint8_t> decode_lz4(const Bytes& unit, int64_t most) {
  const uint8_t* const end = unit.data() + unit.size();
  Owned<uint8_t> content(lz4::content_size(unit.data(), std::ssize(unit), most), lz4::kBurst);
  lz4::decode(unit.data() + lz4::kPrefix, end, content.data(), content.size());
  return content;
}

}  // namespace
}  // namespace alance

void register_lz4(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_lz4", &decode_lz4, "unit"_a, "most"_a, NoGil());
}
