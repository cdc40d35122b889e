// Ends of strings and lists in file version 2.0: one u64 a row; a null adds a constant to its end.
//
// Source: docs/format/file-2.0.md, "Binary" and "List".
#include <limits>

#include "base/owned.hpp"

namespace alance {
namespace {

// Rows of a page, span by span, from the u64 entries of those spans: where each span begins and
// ends in the page's bytes or items, offsets of all rows from 0, and validity (empty: all valid).
//
// Each span has one entry a row and, in front of them, the entry before its first row; the first
// span has none there where it begins with the page (`from_start`).
template <typename Offset>
nb::tuple page_offsets(Bytes entries, In<int64_t> counts, bool from_start, uint64_t adjustment,
                       int64_t limit) {
  auto run = [&] {
    nb::gil_scoped_release release;
    const int64_t spans = static_cast<int64_t>(counts.size());
    int64_t rows = 0;
    for (int64_t s = 0; s < spans; ++s)
      if (counts.data()[s] < 0 || __builtin_add_overflow(rows, counts.data()[s], &rows))
        corrupt("offsets: a span of " + std::to_string(counts.data()[s]) + " rows");
    const int64_t wanted = rows + spans - (from_start && spans ? 1 : 0);
    if (limit < 0 || entries.size() % 8 || static_cast<int64_t>(entries.size() / 8) != wanted)
      corrupt("offsets: " + std::to_string(entries.size()) + " bytes for " +
              std::to_string(wanted) + " entries");
    Owned<int64_t> starts(spans), stops(spans);
    Owned<Offset> offsets(rows + 1);
    Owned<uint8_t> valid((rows + 7) / 8);
    std::memset(valid.data(), 0, static_cast<size_t>((rows + 7) / 8));
    const uint8_t* in = entries.data();
    const uint64_t most = static_cast<uint64_t>(limit);
    auto next = [&](bool& is_valid) {
      uint64_t entry;
      std::memcpy(&entry, in, 8);
      in += 8;
      is_valid = adjustment == 0 || entry < adjustment;
      return is_valid ? entry : entry - adjustment;
    };
    int64_t row = 0, nulls = 0;
    uint64_t total = 0, before = 0;
    bool bad = false;
    offsets[0] = 0;
    for (int64_t s = 0; s < spans; ++s) {
      bool is_valid = true;
      const uint64_t first = s == 0 && from_start ? 0 : next(is_valid);
      uint64_t previous = first;
      for (const int64_t end = row + counts.data()[s]; row < end; ++row) {
        const uint64_t stop = next(is_valid);
        bad |= stop < previous;
        previous = stop;
        nulls += !is_valid;
        valid.data()[row >> 3] |= static_cast<uint8_t>(is_valid << (row & 7));
        offsets[row + 1] = static_cast<Offset>(total + (stop - first));
      }
      if (bad || first < before || previous > most)
        corrupt("offsets decrease, or end behind " + std::to_string(limit));
      before = previous;
      starts[s] = static_cast<int64_t>(first);
      stops[s] = static_cast<int64_t>(previous);
      total += previous - first;
      if (total > static_cast<uint64_t>(std::numeric_limits<Offset>::max()))
        throw std::overflow_error("strings or lists of " + std::to_string(total) +
                                  " bytes or items are too many for the offsets of this type");
    }
    if (nulls == 0) valid = Owned<uint8_t>(0);
    return std::make_tuple(std::move(starts), std::move(stops), std::move(offsets),
                           std::move(valid));
  };
  auto found = run();
  return nb::make_tuple(std::get<0>(found).numpy(), std::get<1>(found).numpy(),
                        std::get<2>(found).numpy(), std::get<3>(found).numpy());
}

}  // namespace
}  // namespace alance

void register_v2_0(nanobind::module_& m) {
  using namespace alance;
  m.def("page_offsets_32", &page_offsets<int32_t>, nb::arg("entries"), nb::arg("counts"),
        nb::arg("from_start"), nb::arg("adjustment"), nb::arg("limit"));
  m.def("page_offsets_64", &page_offsets<int64_t>, nb::arg("entries"), nb::arg("counts"),
        nb::arg("from_start"), nb::arg("adjustment"), nb::arg("limit"));
}
