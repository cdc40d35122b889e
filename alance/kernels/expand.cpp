// Strings of a dictionary, written out.
#include <limits>
#include <vector>

#include "owned.hpp"

namespace alance {
namespace {

constexpr int64_t kSlot = 32;           // items up to this size are copied as a whole slot
constexpr int64_t kMaxSlots = 1 << 14;  // half a MiB of slots: beyond that they leave the cache

// The items that the indices mean, one behind the other. Where `valid` (one byte an index, or none
// at all where every one is valid) is 0, the index is arbitrary and the string empty.
template <typename Index, typename Offset>
nb::tuple expand_strings(const In<Index>& indices, const Bytes& valid, const In<Offset>& offsets,
                         const Bytes& data) {
  const int64_t count = static_cast<int64_t>(indices.size());
  const int64_t items = static_cast<int64_t>(offsets.size()) - 1;
  const bool some = valid.size() > 0;
  if (items < 0 || (some && static_cast<int64_t>(valid.size()) != count))
    corrupt("dictionary: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  const Offset* starts = offsets.data();
  const uint8_t* bytes = data.data();
  for (int64_t i = 0; i < items; ++i)
    if (starts[0] < 0 || starts[i + 1] < starts[i] ||
        static_cast<uint64_t>(starts[i + 1]) > data.size())
      corrupt("dictionary: offsets decrease or leave the buffer");
  auto run = [&] {
    nb::gil_scoped_release release;
    std::vector<int64_t> sizes(static_cast<size_t>(items));
    bool short_items = items <= kMaxSlots;
    for (int64_t i = 0; i < items; ++i) {
      sizes[static_cast<size_t>(i)] = starts[i + 1] - starts[i];
      short_items &= sizes[static_cast<size_t>(i)] <= kSlot;
    }
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (some && !valid.data()[i]) continue;
      const uint64_t index = indices.data()[i];
      if (index >= static_cast<uint64_t>(items))
        corrupt("dictionary index " + std::to_string(index) + ", the dictionary has " +
                std::to_string(items) + " values");
      if (__builtin_add_overflow(total, sizes[index], &total)) corrupt("dictionary: sizes overflow");
    }
    if (total > std::numeric_limits<Offset>::max())
      throw std::overflow_error("strings: " + std::to_string(total) +
                                " bytes are too many for the offsets of this type");
    std::vector<uint8_t> slots;
    if (short_items) {
      slots.resize(static_cast<size_t>(items * kSlot));
      for (int64_t i = 0; i < items; ++i)
        std::memcpy(slots.data() + i * kSlot, bytes + starts[i],
                    static_cast<size_t>(sizes[static_cast<size_t>(i)]));
    }
    Owned<Offset> out_offsets(count + 1);
    Owned<uint8_t> out(total, kSlot);
    uint8_t* at = out.data();
    for (int64_t i = 0; i < count; ++i) {
      out_offsets[i] = static_cast<Offset>(at - out.data());
      if (some && !valid.data()[i]) continue;
      const uint64_t index = indices.data()[i];
      if (short_items)
        std::memcpy(at, slots.data() + index * kSlot, kSlot);
      else
        std::memcpy(at, bytes + starts[index], static_cast<size_t>(sizes[index]));
      at += sizes[index];
    }
    out_offsets[count] = static_cast<Offset>(total);
    return std::make_pair(std::move(out_offsets), std::move(out));
  };
  auto found = run();
  return nb::make_tuple(found.first.numpy(), found.second.numpy());
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
