// Sequences of many chunks: prefix sums of differences, and concatenated offsets of strings.
//
// Source: docs/format/encodings.md, "Sequences and metadata-only codecs (2.3)".
#include "base/bounds.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

// The sum of counts, each at least `least`.
int64_t total_of(const In<int64_t>& counts, int64_t least) {
  int64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts.data()[i] < least || __builtin_add_overflow(total, counts.data()[i], &total))
      corrupt("sequence: " + std::to_string(counts.data()[i]) + " numbers");
  return total;
}

// Of each chunk `base`, and each further number the one before plus a difference.
Numpy<int64_t> running_sums(In<int64_t> deltas, In<int64_t> counts, int64_t base, int64_t limit) {
  const int64_t total = total_of(counts, 1), chunks = static_cast<int64_t>(counts.size());
  if (static_cast<int64_t>(deltas.size()) != total - chunks)
    corrupt("delta: " + std::to_string(deltas.size()) + " differences of " +
            std::to_string(total) + " numbers in " + std::to_string(chunks) + " chunks");
  if (base < 0 || base > limit) corrupt("delta: from " + std::to_string(base));
  Owned<int64_t> out(total);
  {
    nb::gil_scoped_release release;
    const int64_t* delta = deltas.data();
    int64_t* to = out.data();
    for (int64_t c = 0; c < chunks; ++c) {
      int64_t number = base;
      *to++ = number;
      for (int64_t i = 1; i < counts.data()[c]; ++i, ++delta) {
        if (*delta < 0 || *delta > limit - number)
          corrupt("delta: numbers beyond " + std::to_string(limit));
        *to++ = number += *delta;
      }
    }
  }
  return out.numpy();
}

// Offsets of chunks, each from 0 to the bytes of its chunk, as those of all their bytes.
Numpy<int64_t> join_offsets(In<int64_t> offsets, In<int64_t> counts, In<int64_t> sizes) {
  const int64_t total = total_of(counts, 0), chunks = static_cast<int64_t>(counts.size());
  if (sizes.size() != counts.size() || static_cast<int64_t>(offsets.size()) != total + chunks)
    corrupt("variable: " + std::to_string(offsets.size()) + " offsets of " +
            std::to_string(total) + " values");
  Owned<int64_t> out(total + 1);
  {
    nb::gil_scoped_release release;
    const int64_t* from = offsets.data();
    int64_t* to = out.data();
    int64_t before = 0;
    *to++ = 0;
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t count = counts.data()[c], size = sizes.data()[c];
      bool rises = from[0] == 0 && from[count] == size && size >= 0;
      for (int64_t i = 0; i < count; ++i) {
        rises &= from[i] <= from[i + 1];
        to[i] = static_cast<int64_t>(static_cast<uint64_t>(before) +
                                     static_cast<uint64_t>(from[i + 1]));
      }
      if (!rises || __builtin_add_overflow(before, size, &before))
        corrupt("variable: offsets do not rise from 0 to the end of the bytes");
      from += count + 1;
      to += count;
    }
  }
  return out.numpy();
}

}  // namespace
}  // namespace alance

namespace nb = nanobind;

void register_sequences(nb::module_& m) {
  m.def("running_sums", &alance::running_sums, nb::arg("deltas"), nb::arg("counts"),
        nb::arg("base"), nb::arg("limit"));
  m.def("join_offsets", &alance::join_offsets, nb::arg("offsets"), nb::arg("counts"),
        nb::arg("sizes"));
}
