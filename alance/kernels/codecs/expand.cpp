// Dictionary decoding of strings.
#include "codecs/dictionary.hpp"

namespace alance {
namespace {

// The items that the indices mean, one behind the other. Where `valid` (one byte an index, or none
// at all where every one is valid) is 0, the index is arbitrary and the string empty.
template <typename Index, typename Offset>
nb::tuple expand_strings(const In<Index>& indices, const Bytes& valid, const In<Offset>& offsets,
                         const Bytes& data) {
  const int64_t count = static_cast<int64_t>(indices.size());
  const int64_t num_items = static_cast<int64_t>(offsets.size()) - 1;
  if (num_items < 0 || (valid.size() > 0 && static_cast<int64_t>(valid.size()) != count))
    corrupt("dictionary: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  const Offset* starts = offsets.data();
  for (int64_t i = 0; i < num_items; ++i)
    if (starts[0] < 0 || starts[i + 1] < starts[i] ||
        static_cast<uint64_t>(starts[i + 1]) > data.size())
      corrupt("dictionary: offsets decrease or leave the buffer");
  const auto run = [&](const auto& is_valid) {
    nb::gil_scoped_release release;
    const Index* settled = indices.data();
    std::vector<Index> copy;
    if (!dictionary::are_inside(settled, count, num_items)) {
      copy.assign(settled, settled + count);
      dictionary::settle(copy.data(), count, num_items, is_valid);
      settled = copy.data();
    }
    const dictionary::Strings<Offset> items(starts, num_items, data.data(),
                                            static_cast<int64_t>(data.size()));
    return items.template expand<Offset>(settled, count, is_valid);
  };
  auto strings = valid.size() > 0 ? run([&](int64_t i) { return valid.data()[i] != 0; })
                                  : run(dictionary::AllValid());
  return nb::make_tuple(strings.first.numpy(), strings.second.numpy());
}

}  // namespace
}  // namespace alance

void register_expand(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  auto add = [&](auto function) {
    m.def("expand_strings", function, arg("indices").noconvert(), arg("valid"),
          arg("offsets").noconvert(), arg("data"));
  };
  add(&expand_strings<uint8_t, int32_t>);
  add(&expand_strings<uint16_t, int32_t>);
  add(&expand_strings<uint32_t, int32_t>);
  add(&expand_strings<uint64_t, int32_t>);
  add(&expand_strings<uint8_t, int64_t>);
  add(&expand_strings<uint16_t, int64_t>);
  add(&expand_strings<uint32_t, int64_t>);
  add(&expand_strings<uint64_t, int64_t>);
}
