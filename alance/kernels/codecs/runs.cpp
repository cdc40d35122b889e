// Run-length decoding of all chunks of a page.
//
// Source: docs/format/encodings.md, "Rle".
#include <algorithm>
#include <array>

#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t BURST = 32;  // bytes written at once: most runs are short

// Runs of all chunks hold at least the chunk's values, and only the last run may hold more.
void check_runs(const Spans& lengths, const Counts& counts) {
  for (int64_t i = 0; i < lengths.num; ++i) {
    const uint8_t* run = lengths.at(i);
    int64_t num_runs = lengths.sizes[i], total = 0;
    bool empty = false;
    for (int64_t r = 0; r < num_runs; ++r) {
      total += run[r];
      empty |= run[r] == 0;
    }
    if (empty) corrupt("rle: a run of length 0");
    int64_t last = num_runs ? run[num_runs - 1] : 0;
    if (total < counts[i] || (num_runs && total - last >= counts[i]))
      corrupt("rle: runs hold " + std::to_string(total) + " values, the chunk has " +
              std::to_string(counts[i]));
  }
}

template <typename T>
void expand(const Spans& values, const Spans& lengths, const Counts& counts, uint8_t* out) {
  for (int64_t i = 0; i < values.num; ++i) {
    const uint8_t* value = values.at(i);
    const uint8_t* run = lengths.at(i);
    uint8_t* end = out + counts[i] * static_cast<int64_t>(sizeof(T));
    while (out < end) {
      // Whole bursts may run over the end of the run: what follows is written later, and behind
      // the last value there is slack.
      T burst[BURST / sizeof(T)];
      std::fill(std::begin(burst), std::end(burst), load<T>(value));
      uint8_t* stop = std::min<uint8_t*>(out + *run++ * sizeof(T), end);
      for (uint8_t* to = out; to < stop; to += BURST) std::memcpy(to, burst, BURST);
      value += sizeof(T);
      out = stop;
    }
  }
}

using Expand = void (*)(const Spans&, const Spans&, const Counts&, uint8_t*);

Expand expander(int bits) {
  switch (bits) {
    case 8: return &expand<uint8_t>;
    case 16: return &expand<uint16_t>;
    case 32: return &expand<uint32_t>;
    case 64: return &expand<uint64_t>;
    default: corrupt("rle: values of " + std::to_string(bits) + " bits");
  }
}

// Values of all chunks from their run values and their run lengths of one byte each.
Numpy<uint8_t> expand_runs(Bytes data, In<int64_t> value_starts, In<int64_t> value_sizes,
                           In<int64_t> length_starts, In<int64_t> length_sizes,
                           In<int64_t> counts_, int bits) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    Expand expand = expander(bits);
    Spans values(data, value_starts, value_sizes, "rle");
    Spans lengths(data, length_starts, length_sizes, "rle");
    Counts counts(counts_, values, "rle");
    if (lengths.num != values.num) corrupt("rle: one buffer of lengths a chunk");
    for (int64_t i = 0; i < values.num; ++i)
      if (values.sizes[i] != product(lengths.sizes[i], bits / 8, "rle"))
        corrupt("rle: " + std::to_string(values.sizes[i]) + " bytes of values for " +
                std::to_string(lengths.sizes[i]) + " runs of " + std::to_string(bits) + " bits");
    check_runs(lengths, counts);
    Owned<uint8_t> out(product(counts.total, bits / 8, "rle"), BURST);
    expand(values, lengths, counts, out.data());
    return out;
  };
  return decode().numpy();
}

// The two parts of blocks that begin with the size of their values:
// value starts, value sizes, length starts, length sizes.
nb::tuple split_runs(Bytes data, In<int64_t> starts, In<int64_t> sizes) {
  auto decode = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t PREFIX = 8;
    Spans blocks(data, starts, sizes, "rle");
    std::array<Owned<int64_t>, 4> parts{Owned<int64_t>(blocks.num), Owned<int64_t>(blocks.num),
                                        Owned<int64_t>(blocks.num), Owned<int64_t>(blocks.num)};
    for (int64_t i = 0; i < blocks.num; ++i) {
      int64_t rest = blocks.sizes[i] - PREFIX;
      if (rest < 0) corrupt("rle: a block of " + std::to_string(blocks.sizes[i]) + " bytes");
      uint64_t num_bytes = load<uint64_t>(blocks.at(i));
      if (num_bytes > static_cast<uint64_t>(rest))
        corrupt("rle: " + std::to_string(num_bytes) + " bytes of values in a block with " +
                std::to_string(rest));
      parts[0][i] = blocks.starts[i] + PREFIX;
      parts[1][i] = static_cast<int64_t>(num_bytes);
      parts[2][i] = parts[0][i] + parts[1][i];
      parts[3][i] = rest - parts[1][i];
    }
    return parts;
  };
  auto parts = decode();
  return nb::make_tuple(parts[0].numpy(), parts[1].numpy(), parts[2].numpy(), parts[3].numpy());
}

}  // namespace
}  // namespace alance

void register_runs(nanobind::module_& m) {
  using namespace alance;
  m.def("expand_runs", &expand_runs, nb::arg("data"), nb::arg("value_starts"),
        nb::arg("value_sizes"), nb::arg("length_starts"), nb::arg("length_sizes"),
        nb::arg("counts"), nb::arg("bits"));
  m.def("split_runs", &split_runs, nb::arg("data"), nb::arg("starts"), nb::arg("sizes"));
}
