// Byte strings into chunks: offsets from the beginning of the chunk, then the bytes, then filler.
#include <limits>
#include <vector>

#include "encode.hpp"
#include "owned.hpp"

namespace alance {
namespace {

constexpr uint8_t FILLER = 0x48;

template <typename Offset>
void check_offsets(const In<Offset>& offsets, const Bytes& data) {
  if (offsets.size() == 0) corrupt("strings: no offsets");
  const Offset* offset = offsets.data();
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  bool rising = offset[0] >= 0;
  for (int64_t i = 0; i < count; ++i) rising &= offset[i] <= offset[i + 1];
  if (!rising || offset[count] > static_cast<int64_t>(data.size()))
    corrupt("strings: offsets decrease or leave the buffer");
}

// Chunks of a power of two of strings, at least 2 and at most `most`, that take at most
// `chunk_bytes` if they can; the last has what is left. Gives the chunks, and the strings and the
// bytes of each.
template <typename Offset>
nb::tuple chunk_strings(In<Offset> offsets, Bytes data, int64_t chunk_bytes, int64_t most) {
  auto encode = [&] {
    nb::gil_scoped_release release;
    constexpr int64_t word = sizeof(Offset);
    if (most < 2 || (most & (most - 1)))
      corrupt("strings: chunks of " + std::to_string(most) + " strings");
    check_offsets(offsets, data);
    const Offset* offset = offsets.data();
    const int64_t num = static_cast<int64_t>(offsets.size()) - 1;
    auto size_of = [&](int64_t first, int64_t count) {
      return word * (count + 1) + int64_t{offset[first + count]} - int64_t{offset[first]};
    };
    std::vector<int64_t> counts;
    int64_t total = 0;
    for (int64_t first = 0; first < num;) {
      const int64_t left = num - first;
      int64_t count = 2;
      if (left <= 2 || (left <= most && size_of(first, left) <= chunk_bytes)) {
        count = left;
      } else {
        while (2 * count <= std::min(left, most) && size_of(first, 2 * count) <= chunk_bytes)
          count *= 2;
      }
      const int64_t size = size_of(first, count);
      if (size > std::numeric_limits<Offset>::max() - word)
        throw std::overflow_error("strings: a chunk of " + std::to_string(size) + " bytes");
      counts.push_back(count);
      total += (size + word - 1) / word * word;
      first += count;
    }
    const int64_t num_chunks = static_cast<int64_t>(counts.size());
    Owned<uint8_t> chunks(total);
    Owned<int64_t> sizes(num_chunks), counts_(num_chunks);
    uint8_t* out = chunks.data();
    int64_t first = 0;
    for (int64_t c = 0; c < num_chunks; ++c) {
      const int64_t count = counts[static_cast<size_t>(c)];
      const Offset base = static_cast<Offset>(word * (count + 1) - offset[first]);
      for (int64_t i = 0; i <= count; ++i)
        store(out + i * word, static_cast<Offset>(offset[first + i] + base));
      const int64_t num_bytes = int64_t{offset[first + count]} - int64_t{offset[first]};
      const int64_t size = word * (count + 1) + num_bytes;
      const int64_t padded = (size + word - 1) / word * word;
      if (num_bytes)
        std::memcpy(out + word * (count + 1), data.data() + offset[first],
                    static_cast<size_t>(num_bytes));
      std::memset(out + size, FILLER, static_cast<size_t>(padded - size));
      sizes[c] = padded;
      counts_[c] = count;
      out += padded;
      first += count;
    }
    return std::make_tuple(std::move(chunks), std::move(counts_), std::move(sizes));
  };
  auto [chunks, counts, sizes] = encode();
  return nb::make_tuple(chunks.numpy(), counts.numpy(), sizes.numpy());
}

// Bytes of the longest string.
template <typename Offset>
int64_t longest_string(In<Offset> offsets) {
  nb::gil_scoped_release release;
  const Offset* offset = offsets.data();
  Offset longest = 0;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(offsets.size()); ++i)
    longest = std::max(longest, static_cast<Offset>(offset[i + 1] - offset[i]));
  return longest;
}

template <typename Offset>
void add(nanobind::module_& m) {
  m.def("chunk_strings", &chunk_strings<Offset>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("chunk_bytes"), nb::arg("most"));
  m.def("longest_string", &longest_string<Offset>, nb::arg("offsets").noconvert());
}

}  // namespace
}  // namespace alance

void register_encode_strings(nanobind::module_& m) {
  alance::add<int32_t>(m);
  alance::add<int64_t>(m);
}
