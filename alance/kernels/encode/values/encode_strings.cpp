// Chunks of byte strings: offsets from the start of the chunk, then the bytes, then padding.
//
// Source: docs/format/encodings.md, "Variable".
#include <limits>
#include <vector>

#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr uint8_t kFiller = 0x48;

}  // namespace

template <typename Offset>
StringChunks chunk_strings(const Strings<Offset>& strings, int64_t chunk_bytes, int64_t most) {
  constexpr int64_t kWord = sizeof(Offset);
  const Offset* offset = strings.ends;
  auto size_of = [&](int64_t first, int64_t count) {
    return kWord * (count + 1) + int64_t{offset[first + count]} - int64_t{offset[first]};
  };
  Sizes counts, sizes;
  for (int64_t first = 0; first < strings.count;) {
    const int64_t remaining = strings.count - first;
    int64_t count = 2;
    if (remaining <= 2 || (remaining <= most && size_of(first, remaining) <= chunk_bytes)) {
      count = remaining;
    } else {
      while (2 * count <= std::min(remaining, most) && size_of(first, 2 * count) <= chunk_bytes)
        count *= 2;
    }
    const int64_t size = size_of(first, count);
    if (size > std::numeric_limits<Offset>::max() - kWord)
      throw std::overflow_error("strings: a chunk of " + std::to_string(size) + " bytes");
    counts.push_back(count);
    sizes.push_back((size + kWord - 1) / kWord * kWord);
    first += count;
  }
  Owned<uint8_t> chunks(sum(sizes));
  uint8_t* out = chunks.data();
  int64_t first = 0;
  for (size_t c = 0; c < counts.size(); ++c) {
    const int64_t count = counts[c], size = size_of(first, count);
    const Offset base = static_cast<Offset>(kWord * (count + 1) - offset[first]);
    for (int64_t i = 0; i <= count; ++i)
      store(out + i * kWord, static_cast<Offset>(offset[first + i] + base));
    const int64_t num_bytes = size - kWord * (count + 1);
    if (num_bytes)
      std::memcpy(out + kWord * (count + 1), strings.content + offset[first],
                  static_cast<size_t>(num_bytes));
    std::memset(out + size, kFiller, static_cast<size_t>(sizes[c] - size));
    out += sizes[c];
    first += count;
  }
  return {std::move(chunks), std::move(counts), std::move(sizes)};
}

template StringChunks chunk_strings<int32_t>(const Strings<int32_t>&, int64_t, int64_t);
template StringChunks chunk_strings<int64_t>(const Strings<int64_t>&, int64_t, int64_t);

}  // namespace alance
