// LZ4 compression of units: four bytes of size, then one raw block in the format of lz4.hpp.
//
// The match search is greedy: a hash table keeps the last position of each hash of four bytes.
// After many misses, positions are skipped with growing steps.
#include "codecs/lz4.hpp"
#include "encode/encode.hpp"

namespace alance {
namespace {

using lz4::kPrefix;

constexpr int64_t kMinMatch = 4;
constexpr int64_t kLastLiterals = 5;  // literals at the end of a block
constexpr int64_t kLastMatch = 12;  // bytes at the end of a block in which no match begins
constexpr int64_t kMaxDistance = 65535;
constexpr int kHashBits = 12;
constexpr int kPatience = 6;  // log2 of the misses between two growths of the step
constexpr int64_t kMaxUnit = int64_t{1} << 31;

inline int64_t most_bytes(int64_t size) { return kPrefix + size + size / 255 + 16; }

inline uint32_t hash(uint32_t four) { return (four * 2654435761u) >> (32 - kHashBits); }

inline uint8_t* put_length(uint8_t* out, int64_t rest) {
  for (; rest >= 255; rest -= 255) *out++ = 255;
  *out++ = static_cast<uint8_t>(rest);
  return out;
}

inline uint8_t* put_literals(uint8_t* out, const uint8_t* from, int64_t literals, int64_t match) {
  const int64_t low = match < 0 ? 0 : std::min<int64_t>(match - kMinMatch, 15);
  *out++ = static_cast<uint8_t>(std::min<int64_t>(literals, 15) << 4 | low);
  if (literals >= 15) out = put_length(out, literals - 15);
  if (literals) std::memcpy(out, from, static_cast<size_t>(literals));
  return out + literals;
}

inline int64_t match_length(const uint8_t* a, const uint8_t* b, const uint8_t* stop) {
  const uint8_t* const begin = b;
  while (stop - b >= 8) {
    const uint64_t differ = load<uint64_t>(a) ^ load<uint64_t>(b);
    if (differ) return b - begin + __builtin_ctzll(differ) / 8;
    a += 8;
    b += 8;
  }
  while (b < stop && *a == *b) {
    ++a;
    ++b;
  }
  return b - begin;
}

uint8_t* compress(const uint8_t* const in, int64_t size, uint8_t* out) {
  int64_t anchor = 0;  // start of the bytes that are not written yet
  if (size > kLastMatch) {
    uint32_t table[1 << kHashBits] = {};
    const int64_t last = size - kLastMatch;
    const uint8_t* const stop = in + size - kLastLiterals;
    int64_t at = 1, misses = int64_t{1} << kPatience;
    while (at <= last) {
      const uint32_t four = load<uint32_t>(in + at), slot = hash(four);
      int64_t candidate = table[slot];
      table[slot] = static_cast<uint32_t>(at);
      if (candidate >= at || at - candidate > kMaxDistance ||
          load<uint32_t>(in + candidate) != four) {
        at += misses++ >> kPatience;
        continue;
      }
      misses = int64_t{1} << kPatience;
      while (at > anchor && candidate > 0 && in[at - 1] == in[candidate - 1]) {
        --at;
        --candidate;
      }
      const int64_t match =
          kMinMatch + match_length(in + candidate + kMinMatch, in + at + kMinMatch, stop);
      out = put_literals(out, in + anchor, at - anchor, match);
      store(out, static_cast<uint16_t>(at - candidate));
      out += 2;
      if (match - kMinMatch >= 15) out = put_length(out, match - kMinMatch - 15);
      at += match;
      anchor = at;
      if (at <= last) table[hash(load<uint32_t>(in + at - 2))] = static_cast<uint32_t>(at - 2);
    }
  }
  return put_literals(out, in + anchor, size - anchor, -1);
}

}  // namespace

SizedChunks encode_lz4(const Pieces& chunks) {
  int64_t most = 0;
  for (const int64_t size : chunks.counts) {
    if (size >= kMaxUnit) corrupt("lz4: a unit of ", size, " bytes, at most 2^31 - 1");
    most += most_bytes(size);
  }
  Owned<uint8_t> scratch(most);
  Sizes unit_sizes;
  const uint8_t* in = chunks.data;
  uint8_t* out = scratch.data();
  for (const int64_t size : chunks.counts) {
    store(out, static_cast<uint32_t>(size));
    uint8_t* const end = compress(in, size, out + kPrefix);
    unit_sizes.push_back(end - out);
    in += size;
    out = end;
  }
  Owned<uint8_t> units(out - scratch.data());
  std::memcpy(units.data(), scratch.data(), static_cast<size_t>(units.size()));
  return {std::move(units), std::move(unit_sizes)};
}

namespace {

// Compress bytes to a unit.
Owned<uint8_t> unit_of(const Bytes& data) {
  const int64_t size = std::ssize(data);
  return encode_lz4({{&size, 1}, {8, {data.data(), data.size()}}}).data;
}

}  // namespace
}  // namespace alance

void register_encode_lz4(nanobind::module_& m) {
  using namespace alance;
  m.def("encode_lz4", &unit_of, "data"_a, NoGil());
}
