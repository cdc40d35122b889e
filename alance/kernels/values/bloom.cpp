// Split-block Bloom filters as in Parquet, over XXH64 of values.
//
// A block is eight words of 32 bits; a value has one bit in each word of its block.
//
// Source: github.com/apache/parquet-format/blob/master/BloomFilter.md
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

template <typename T>
T word(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

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
        sums[lane] = round_of(sums[lane], word<uint64_t>(at + 8 * lane));
    hash = rotated(sums[0], 1) + rotated(sums[1], 7) + rotated(sums[2], 12) + rotated(sums[3], 18);
    for (const uint64_t sum : sums) hash = (hash ^ round_of(0, sum)) * kPrime1 + kPrime4;
  }
  hash += static_cast<uint64_t>(size);
  for (; end - at >= 8; at += 8)
    hash = rotated(hash ^ round_of(0, word<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = rotated(hash ^ word<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
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

int64_t block_of(uint64_t hash, int64_t num_blocks) {
  return static_cast<int64_t>((hash >> 32) * static_cast<uint64_t>(num_blocks) >> 32);
}

// Hash of each value; value i lies between `offsets[i]` and `offsets[i + 1]`.
nb::object bloom_hashes(const In<int64_t>& offsets, const Bytes& content) {
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  const auto total = static_cast<int64_t>(content.size());
  if (count < 0) corrupt("bloom filter: no offsets");
  Owned<uint64_t> hashes(count);
  {
    nb::gil_scoped_release release;
    const int64_t* ends = offsets.data();
    for (int64_t i = 0; i < count; ++i) check_ends(ends[i], ends[i + 1], total, "value");
    for (int64_t i = 0; i < count; ++i)
      hashes[i] = hash_of(content.data() + ends[i], ends[i + 1] - ends[i]);
  }
  return nb::cast(hashes.numpy());
}

int64_t blocks_of(int64_t num_bytes) {
  if (num_bytes <= 0 || num_bytes % kBlockBytes || num_bytes / kBlockBytes > INT32_MAX)
    corrupt("bloom filter of " + std::to_string(num_bytes) + " bytes");
  return num_bytes / kBlockBytes;
}

// Add values to a filter, by their hashes.
void bloom_add(const In<uint64_t>& hashes, const MutBytes& filter) {
  const int64_t num_blocks = blocks_of(static_cast<int64_t>(filter.size()));
  for (size_t i = 0; i < hashes.size(); ++i) {
    uint8_t* block = filter.data() + kBlockBytes * block_of(hashes.data()[i], num_blocks);
    for (int number = 0; number < 8; ++number) {
      const uint32_t bits = word<uint32_t>(block + 4 * number) | bit_of(hashes.data()[i], number);
      std::memcpy(block + 4 * number, &bits, 4);
    }
  }
}

// 1 for each filter that may have any of the values, else 0. Filter i lies between `offsets[i]` and
// `offsets[i + 1]`.
nb::object bloom_hits(const In<int64_t>& offsets, const Bytes& filters,
                      const In<uint64_t>& hashes) {
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  const auto total = static_cast<int64_t>(filters.size());
  if (count < 0) corrupt("bloom filter: no offsets");
  Owned<uint8_t> hits(count);
  {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
      check_ends(start, stop, total, "bloom filter");
      const int64_t num_blocks = blocks_of(stop - start);
      hits[i] = 0;
      for (size_t n = 0; n < hashes.size() && !hits[i]; ++n) {
        const uint8_t* block =
            filters.data() + start + kBlockBytes * block_of(hashes.data()[n], num_blocks);
        bool is_in = true;
        for (int number = 0; number < 8 && is_in; ++number)
          is_in = word<uint32_t>(block + 4 * number) & bit_of(hashes.data()[n], number);
        hits[i] = is_in;
      }
    }
  }
  return nb::cast(hits.numpy());
}

}  // namespace
}  // namespace alance

void register_bloom(nanobind::module_& m) {
  using nanobind::arg;
  m.def("bloom_hashes", &alance::bloom_hashes, arg("offsets"), arg("content"));
  m.def("bloom_add", &alance::bloom_add, arg("hashes"), arg("filter"),
        nanobind::call_guard<nanobind::gil_scoped_release>());
  m.def("bloom_hits", &alance::bloom_hits, arg("offsets"), arg("filters"), arg("hashes"));
}
