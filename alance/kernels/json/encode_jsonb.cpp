// JSONB from JSON text (RFC 8259), for the writer. Source: docs/format/file.md, "JSONB".
#include <stdexcept>
#include <string>

#include "base/bounds.hpp"
#include "base/ends.hpp"
#include "json/jsonb_text.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

// JSONB of each text; empty where `valid` is 0 (a byte a text; no bytes: all are valid).
template <typename Offset>
nb::tuple text_to_jsonb(const In<Offset>& offsets, const Bytes& data, const Bytes& valid) {
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  const Offset* ends = offsets.data();
  if (count < 0 || (valid.size() && static_cast<int64_t>(valid.size()) != count))
    corrupt("JSON: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  for (int64_t i = 0; i < count; ++i)
    check_ends(ends[i], ends[i + 1], static_cast<int64_t>(data.size()), "JSON");
  Owned<int64_t> stops(count + 1);
  std::string out;
  {
    nb::gil_scoped_release release;
    const char* text = reinterpret_cast<const char*>(data.data());
    stops[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!valid.size() || valid.data()[i]) {
        try {
          jsonb::Parser(text + ends[i], text + ends[i + 1], out).document();
        } catch (const std::invalid_argument& error) {
          corrupt("row " + std::to_string(i) + " is no JSON: " + error.what());
        }
      }
      stops[i + 1] = static_cast<int64_t>(out.size());
    }
  }
  Owned<uint8_t> content(static_cast<int64_t>(out.size()));
  std::memcpy(content.data(), out.data(), out.size());
  return nb::make_tuple(stops.numpy(), content.numpy());
}

}  // namespace
}  // namespace alance

void register_encode_jsonb(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  auto add = [&](auto function) {
    m.def("text_to_jsonb", function, arg("offsets").noconvert(), arg("data"), arg("valid"));
  };
  add(&text_to_jsonb<int32_t>);
  add(&text_to_jsonb<int64_t>);
}
