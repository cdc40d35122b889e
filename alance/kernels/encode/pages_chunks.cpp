// Mini-block chunks: a header of sizes, then each buffer, padded to a multiple of 8 bytes.
//
// Source: docs/format/file.md, "Mini-block layout".
#include <vector>

#include "base/ends.hpp"
#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 8;
constexpr uint8_t kFiller = 0xFE;

inline int64_t aligned(int64_t size) { return (size + kAlign - 1) & ~(kAlign - 1); }

}  // namespace

SizedChunks assemble_chunks(std::span<const std::span<const uint8_t>> buffers,
                            std::span<const int64_t> sizes, std::span<const int64_t> entries,
                            int64_t level_buffers, bool large) {
  const int64_t num_chunks = std::ssize(entries);
  const int64_t num_buffers = std::ssize(buffers);
  std::vector<const uint8_t*> sources;
  for (const auto& buffer : buffers) sources.push_back(buffer.data());
  const int64_t header =
      aligned(2 + 2 * level_buffers + (num_buffers - level_buffers) * (large ? 4 : 2));
  Sizes chunk_sizes;
  for (int64_t c = 0; c < num_chunks; ++c) {
    int64_t size = header;
    for (int64_t b = 0; b < num_buffers; ++b)
      size += aligned(sizes[static_cast<size_t>(b * num_chunks + c)]);
    chunk_sizes.push_back(size);
  }
  Owned<uint8_t> out(sum(chunk_sizes));
  uint8_t* at = out.data();
  for (int64_t c = 0; c < num_chunks; ++c) {
    uint8_t* const body = at + header;
    store<uint16_t>(at, static_cast<uint16_t>(entries[static_cast<size_t>(c)]));
    at += 2;
    for (int64_t b = 0; b < num_buffers; ++b) {
      const int64_t size = sizes[static_cast<size_t>(b * num_chunks + c)];
      if (b >= level_buffers && large) {
        store<uint32_t>(at, static_cast<uint32_t>(size));
        at += 4;
      } else {
        store<uint16_t>(at, static_cast<uint16_t>(size));
        at += 2;
      }
    }
    std::memset(at, kFiller, static_cast<size_t>(body - at));
    at = body;
    for (int64_t b = 0; b < num_buffers; ++b) {
      const int64_t size = sizes[static_cast<size_t>(b * num_chunks + c)];
      if (size) std::memcpy(at, sources[static_cast<size_t>(b)], static_cast<size_t>(size));
      sources[static_cast<size_t>(b)] += size;
      std::memset(at + size, kFiller, static_cast<size_t>(aligned(size) - size));
      at += aligned(size);
    }
  }
  return {std::move(out), std::move(chunk_sizes)};
}

namespace {

// Place strings in a new buffer of `total` bytes, with `filler` between them.
template <typename Offset>
Owned<uint8_t> place_strings(const In<Offset>& offsets, const Bytes& data,
                             const In<int64_t>& starts, int64_t total, uint8_t filler) {
  const Strings strings(offsets, data, "strings");
  if (std::ssize(starts) != strings.count)
    corrupt("strings: ", offsets.size(), " offsets, ", starts.size(), " places");
  const int64_t* places = starts.data();
  int64_t at = 0;
  for (int64_t i = 0; i < strings.count; ++i) {
    if (strings.size(i) == 0) continue;
    if (places[i] < at) corrupt("strings: places overlap");
    check_span(places[i], strings.size(i), total, "places of strings");
    at = places[i] + strings.size(i);
  }
  Owned<uint8_t> out(total);
  at = 0;
  for (int64_t i = 0; i < strings.count; ++i) {
    const auto size = static_cast<size_t>(strings.size(i));
    if (size == 0) continue;
    std::memset(out.data() + at, filler, static_cast<size_t>(places[i] - at));
    std::memcpy(out.data() + places[i], strings.at(i), size);
    at = places[i] + strings.size(i);
  }
  std::memset(out.data() + at, filler, static_cast<size_t>(total - at));
  return out;
}

}  // namespace
}  // namespace alance

void register_pages_chunks(nanobind::module_& m) {
  using namespace alance;
  auto add = [&](auto function) {
    m.def("place_strings", function, "offsets"_a.noconvert(), "data"_a, "starts"_a, "total"_a,
          "filler"_a, NoGil());
  };
  add(&place_strings<int32_t>);
  add(&place_strings<int64_t>);
}
