// JSON text from JSONB values; jsonb_entries.hpp describes the layout.
#include <vector>

#include "base/bounds.hpp"
#include "json/jsonb_entries.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

template <typename T>
nb::tuple jsonb_to_text(const In<T>& offsets, const Bytes& data, const Bytes& valid) {
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t total = static_cast<int64_t>(data.size());
  if (count < 0 || (valid.size() && static_cast<int64_t>(valid.size()) != count))
    corrupt("JSONB: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  int64_t previous = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const int64_t offset = static_cast<int64_t>(offsets.data()[i]);
    if (offset < previous || offset > total)
      corrupt("JSONB: offset " + std::to_string(offset) + " in " + std::to_string(total) +
              " bytes");
    previous = offset;
  }
  Owned<int32_t> stops(count + 1);
  std::string out;
  {
    nb::gil_scoped_release release;
    out.reserve(static_cast<size_t>(total));
    jsonb::Writer writer(out);
    stops[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!valid.size() || valid.data()[i])
        writer.container(data.data() + offsets.data()[i], offsets.data()[i + 1] - offsets.data()[i],
                         0);
      if (out.size() > INT32_MAX) throw std::overflow_error("JSON text of more than 2 GiB");
      stops[i + 1] = static_cast<int32_t>(out.size());
    }
  }
  Owned<uint8_t> text(static_cast<int64_t>(out.size()));
  std::memcpy(text.data(), out.data(), out.size());
  return nb::make_tuple(stops.numpy(), text.numpy());
}

}  // namespace
}  // namespace alance

void register_jsonb(nanobind::module_& m) {
  m.def("jsonb_to_text", &alance::jsonb_to_text<int32_t>);
  m.def("jsonb_to_text", &alance::jsonb_to_text<int64_t>);
}
