// Split-block Bloom filters as in Parquet, over XXH64 of values.
//
// A block is eight words of 32 bits; a value has one bit in each word of its block.
//
// Source: github.com/apache/parquet-format/blob/master/BloomFilter.md; of the hash
// github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
#include <array>

#include "base/ends.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87ull;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Full;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9ull;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63ull;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5ull;
constexpr int64_t kBlockBytes = 32;
constexpr std::array<uint32_t, 8> kSalts = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                            0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

uint64_t rotated(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

uint64_t round_of(uint64_t sum, uint64_t value) {
  return rotated(sum + value * kPrime2, 31) * kPrime1;
}

// XXH64 with seed 0.
uint64_t hash_of(const uint8_t* at, int64_t size) {
  const uint8_t* const end = at + size;
  uint64_t hash = kPrime5;
  if (size >= 32) {
    uint64_t sums[4] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
    for (; end - at >= 32; at += 32)
      for (int lane = 0; lane < 4; ++lane)
        sums[lane] = round_of(sums[lane], load<uint64_t>(at + 8 * lane));
    hash = rotated(sums[0], 1) + rotated(sums[1], 7) + rotated(sums[2], 12) + rotated(sums[3], 18);
    for (const uint64_t sum : sums) hash = (hash ^ round_of(0, sum)) * kPrime1 + kPrime4;
  }
  hash += static_cast<uint64_t>(size);
  for (; end - at >= 8; at += 8)
    hash = rotated(hash ^ round_of(0, load<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = rotated(hash ^ load<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) hash = rotated(hash ^ *at * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

uint32_t bit_of(uint64_t hash, int number) {
  return 1u << (static_cast<uint32_t>(hash) * kSalts[static_cast<size_t>(number)] >> 27);
}

// The block of a value, by its hash.
int64_t block_start(uint64_t hash, int64_t num_blocks) {
  return kBlockBytes * static_cast<int64_t>((hash >> 32) * static_cast<uint64_t>(num_blocks) >> 32);
}

Owned<uint64_t> bloom_hashes(const In<int64_t>& offsets, const Bytes& content) {
  const Strings values(offsets, content, "value");
  Owned<uint64_t> hashes(values.count);
  for (int64_t i = 0; i < values.count; ++i) hashes[i] = hash_of(values.at(i), values.size(i));
  return hashes;
}

int64_t blocks_of(int64_t num_bytes) {
  if (num_bytes <= 0 || num_bytes % kBlockBytes || num_bytes / kBlockBytes > INT32_MAX)
    corrupt("bloom filter of ", num_bytes, " bytes");
  return num_bytes / kBlockBytes;
}

void bloom_add(const In<uint64_t>& hashes, const MutBytes& filter) {
  const int64_t num_blocks = blocks_of(std::ssize(filter));
  for (size_t i = 0; i < hashes.size(); ++i) {
    const uint64_t hash = hashes.data()[i];
    uint8_t* word = filter.data() + block_start(hash, num_blocks);
    for (int number = 0; number < 8; ++number, word += 4)
      store(word, load<uint32_t>(word) | bit_of(hash, number));
  }
}

bool may_have(const uint8_t* filter, int64_t num_blocks, uint64_t hash) {
  const uint8_t* block = filter + block_start(hash, num_blocks);
  bool has = true;
  for (int number = 0; number < 8 && has; ++number)
    has = load<uint32_t>(block + 4 * number) & bit_of(hash, number);
  return has;
}

Owned<uint8_t> bloom_hits(const In<int64_t>& offsets, const Bytes& content,
                          const In<uint64_t>& hashes) {
  const Strings filters(offsets, content, "bloom filter");
  Owned<uint8_t> hits(filters.count);
  for (int64_t i = 0; i < filters.count; ++i) {
    const int64_t num_blocks = blocks_of(filters.size(i));
    hits[i] = 0;
    for (size_t n = 0; n < hashes.size() && !hits[i]; ++n)
      hits[i] = may_have(filters.at(i), num_blocks, hashes.data()[n]);
  }
  return hits;
}

}  // namespace
}  // namespace alance

void register_bloom(nanobind::module_& m) {
  using namespace alance;
  m.def("bloom_hashes", &bloom_hashes, "offsets"_a, "content"_a, NoGil());
  m.def("bloom_add", &bloom_add, "hashes"_a, "filter"_a, NoGil());
  m.def("bloom_hits", &bloom_hits, "offsets"_a, "filters"_a, "hashes"_a, NoGil());
}
