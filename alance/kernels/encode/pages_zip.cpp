// Full-zip pages: control word, length and value of each entry, one entry after the other.
//
// Source: docs/format/file.md, "Full-zip layout".
#include <vector>

#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

// Levels of all entries; an array is empty if all its levels are 0.
struct Levels {
  const uint16_t* rep;
  const uint16_t* def;
  int64_t num_entries;
  int64_t num_visible = 0;
  int64_t num_rows = 0;
  int64_t control_bytes;
  int64_t bits_def;
  int64_t max_rep;
  int64_t max_visible;

  Levels(const In<uint16_t>& reps, const In<uint16_t>& defs, int64_t entries, int64_t controls,
         int64_t bits, int64_t rep_limit, int64_t visible_limit)
      : rep(reps.size() ? reps.data() : nullptr),
        def(defs.size() ? defs.data() : nullptr),
        num_entries(entries),
        control_bytes(controls),
        bits_def(bits),
        max_rep(rep_limit),
        max_visible(visible_limit) {
    if ((rep && static_cast<int64_t>(reps.size()) != entries) ||
        (def && static_cast<int64_t>(defs.size()) != entries) || entries < 0)
      corrupt("zip: one level an entry");
    if ((controls != 0 && controls != 1 && controls != 2 && controls != 4) || bits < 0 ||
        bits > 8 * controls || bits > 16)
      corrupt("zip: control words of " + std::to_string(controls) + " bytes");
  }

  uint64_t word(int64_t i) const {
    return (rep ? uint64_t{rep[i]} << bits_def : 0) | (def ? def[i] : 0);
  }
  bool is_visible(int64_t i) const { return !def || def[i] <= max_visible; }
  bool is_present(int64_t i) const { return !def || def[i] == 0; }
  bool is_row(int64_t i) const { return !rep || rep[i] == max_rep; }

  // Check every level, and count rows and visible entries.
  void count() {
    const uint64_t def_limit = uint64_t{1} << bits_def;
    const uint64_t word_limit = uint64_t{1} << (8 * control_bytes);
    for (int64_t i = 0; i < num_entries; ++i) {
      if ((def && def[i] >= def_limit) || word(i) >= word_limit || (rep && rep[i] > max_rep))
        corrupt("zip: levels too large for the control word");
      num_visible += is_visible(i);
      num_rows += is_row(i);
    }
    if (num_entries && !is_row(0)) corrupt("zip: the first entry begins no row");
  }

  uint8_t* write(uint8_t* at, int64_t i) const {
    const uint32_t value = static_cast<uint32_t>(word(i));
    std::memcpy(at, &value, static_cast<size_t>(control_bytes));
    return at + control_bytes;
  }
};

nb::tuple zip_fixed(const In<uint16_t>& rep, const In<uint16_t>& def, int64_t num_entries,
                    int64_t control_bytes, int64_t bits_def, int64_t max_rep, int64_t max_visible,
                    const Bytes& values, int64_t width) {
  Levels levels(rep, def, num_entries, control_bytes, bits_def, max_rep, max_visible);
  if (width < 1) corrupt("zip: values of " + std::to_string(width) + " bytes");
  auto run = [&] {
    nb::gil_scoped_release release;
    levels.count();
    const int64_t num_bytes = product(levels.num_visible, width, "zip");
    if (num_bytes != static_cast<int64_t>(values.size()))
      corrupt("zip: " + std::to_string(values.size()) + " bytes of " +
              std::to_string(levels.num_visible) + " values of " + std::to_string(width));
    int64_t total;
    if (__builtin_add_overflow(num_bytes, product(num_entries, control_bytes, "zip"), &total))
      corrupt("zip: sizes overflow");
    Owned<uint8_t> out(total);
    Owned<int64_t> starts(levels.num_rows + 1);
    const uint8_t* from = values.data();
    uint8_t* at = out.data();
    int64_t row = 0;
    for (int64_t i = 0; i < num_entries; ++i) {
      if (levels.is_row(i)) starts[row++] = at - out.data();
      at = levels.write(at, i);
      if (!levels.is_visible(i)) continue;
      std::memcpy(at, from, static_cast<size_t>(width));
      at += width;
      from += width;
    }
    starts[row] = total;
    return std::make_pair(std::move(out), std::move(starts));
  };
  auto zipped = run();
  return nb::make_tuple(zipped.first.numpy(), zipped.second.numpy());
}

// `offsets` has a string for each visible entry; strings of nulls are skipped.
template <typename Offset>
nb::tuple zip_variable(const In<uint16_t>& rep, const In<uint16_t>& def, int64_t num_entries,
                       int64_t control_bytes, int64_t bits_def, int64_t max_rep,
                       int64_t max_visible, const In<Offset>& offsets, const Bytes& data,
                       int64_t length_bytes) {
  Levels levels(rep, def, num_entries, control_bytes, bits_def, max_rep, max_visible);
  if (length_bytes != 4 && length_bytes != 8) corrupt("zip: lengths of 4 or 8 bytes");
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  const Offset* ends = offsets.data();
  auto run = [&] {
    nb::gil_scoped_release release;
    levels.count();
    if (count != levels.num_visible)
      corrupt("zip: " + std::to_string(count) + " strings for " +
              std::to_string(levels.num_visible) + " entries");
    int64_t total = product(num_entries, control_bytes, "zip");
    int64_t value = 0;
    for (int64_t i = 0; i < num_entries; ++i) {
      if (!levels.is_visible(i)) continue;
      const int64_t size =
          static_cast<int64_t>(ends[value + 1]) - static_cast<int64_t>(ends[value]);
      check_span(ends[value], size, static_cast<int64_t>(data.size()), "zip");
      ++value;
      if (!levels.is_present(i)) continue;
      if (length_bytes == 4 && size > INT64_C(0xFFFFFFFF))
        corrupt("zip: a string of " + std::to_string(size) + " bytes");
      if (__builtin_add_overflow(total, size + length_bytes, &total))
        corrupt("zip: sizes overflow");
    }
    Owned<uint8_t> out(total);
    Owned<int64_t> starts(levels.num_rows + 1);
    uint8_t* at = out.data();
    int64_t row = 0;
    value = 0;
    for (int64_t i = 0; i < num_entries; ++i) {
      if (levels.is_row(i)) starts[row++] = at - out.data();
      at = levels.write(at, i);
      if (!levels.is_visible(i)) continue;
      if (levels.is_present(i)) {
        const uint64_t size = static_cast<uint64_t>(ends[value + 1] - ends[value]);
        std::memcpy(at, &size, static_cast<size_t>(length_bytes));
        at += length_bytes;
        if (size) std::memcpy(at, data.data() + ends[value], size);
        at += size;
      }
      ++value;
    }
    starts[row] = total;
    return std::make_pair(std::move(out), std::move(starts));
  };
  auto zipped = run();
  return nb::make_tuple(zipped.first.numpy(), zipped.second.numpy());
}

}  // namespace
}  // namespace alance

void register_pages_zip(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  m.def("zip_fixed", &zip_fixed);
  auto add = [&](auto function) {
    m.def("zip_variable", function, arg("rep"), arg("definition"), arg("num_entries"),
          arg("control_bytes"), arg("bits_def"), arg("max_rep"), arg("max_visible"),
          arg("offsets").noconvert(), arg("data"), arg("length_bytes"));
  };
  add(&zip_variable<int32_t>);
  add(&zip_variable<int64_t>);
}
