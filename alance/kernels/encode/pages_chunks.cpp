// Mini-block chunks: a header of sizes, then each buffer, padded to a multiple of 8 bytes.
//
// Source: docs/format/file.md, "Mini-block layout".
#include <vector>

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
  const int64_t num_chunks = static_cast<int64_t>(entries.size());
  const int64_t num_buffers = static_cast<int64_t>(buffers.size());
  std::vector<const uint8_t*> sources;
  for (const auto& buffer : buffers) sources.push_back(buffer.data());
  const int64_t header =
      aligned(2 + 2 * level_buffers + (num_buffers - level_buffers) * (large ? 4 : 2));
  Owned<int64_t> chunk_sizes(num_chunks);
  int64_t total = 0;
  for (int64_t c = 0; c < num_chunks; ++c) {
    int64_t size = header;
    for (int64_t b = 0; b < num_buffers; ++b)
      size += aligned(sizes[static_cast<size_t>(b * num_chunks + c)]);
    chunk_sizes[c] = size;
    total += size;
  }
  Owned<uint8_t> out(total);
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
Numpy<uint8_t> place_strings(const In<Offset>& offsets, const Bytes& data,
                             const In<int64_t>& starts, int64_t total, uint8_t filler) {
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  if (count < 0 || static_cast<int64_t>(starts.size()) != count)
    corrupt("strings: " + std::to_string(offsets.size()) + " offsets, " +
            std::to_string(starts.size()) + " places");
  const Offset* ends = offsets.data();
  const int64_t* places = starts.data();
  auto run = [&] {
    nb::gil_scoped_release release;
    int64_t last = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t size = static_cast<int64_t>(ends[i + 1]) - static_cast<int64_t>(ends[i]);
      check_span(ends[i], size, static_cast<int64_t>(data.size()), "strings");
      if (size == 0) continue;
      if (places[i] < last) corrupt("strings: places overlap");
      check_span(places[i], size, total, "places of strings");
      last = places[i] + size;
    }
    Owned<uint8_t> out(total);
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t size = static_cast<int64_t>(ends[i + 1]) - static_cast<int64_t>(ends[i]);
      if (size == 0) continue;
      std::memset(out.data() + at, filler, static_cast<size_t>(places[i] - at));
      std::memcpy(out.data() + places[i], data.data() + ends[i], static_cast<size_t>(size));
      at = places[i] + size;
    }
    std::memset(out.data() + at, filler, static_cast<size_t>(total - at));
    return out;
  };
  return run().numpy();
}

}  // namespace
}  // namespace alance

void register_pages_chunks(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  auto add = [&](auto function) {
    m.def("place_strings", function, arg("offsets").noconvert(), arg("data"), arg("starts"),
          arg("total"), arg("filler"));
  };
  add(&place_strings<int32_t>);
  add(&place_strings<int64_t>);
}
