// BLAKE2b and BLAKE2s (RFC 7693), and BLAKE3 (its specification of 2021), of many values.
#include <algorithm>
#include <array>
#include <vector>

#include "base/ends.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

template <typename W>
using Words = std::array<W, 16>;

template <typename W>
W turned(W value, int bits) {
  return value >> bits | value << (8 * static_cast<int>(sizeof(W)) - bits);
}

// Initial states; those of SHA-512 and SHA-256 are the same.
constexpr std::array<uint64_t, 8> kWide = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr std::array<uint32_t, 8> kNarrow = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Order of a block's words in each round.
constexpr uint8_t kOrders[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
// Permutation of words between rounds of BLAKE3.
constexpr uint8_t kMoves[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

// One round, on the columns of the state, then on its diagonals.
template <typename W>
void mix(Words<W>& v, const Words<W>& words, const uint8_t* order) {
  constexpr bool kIsWide = sizeof(W) == 8;
  constexpr int kTurns[4] = {kIsWide ? 32 : 16, kIsWide ? 24 : 12, kIsWide ? 16 : 8,
                             kIsWide ? 63 : 7};
  constexpr uint8_t kPlaces[8][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
                                     {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}};
  for (size_t i = 0; i < 8; ++i) {
    const auto [a, b, c, d] = kPlaces[i];
    v[a] += v[b] + words[order[2 * i]];
    v[d] = turned<W>(v[d] ^ v[a], kTurns[0]);
    v[c] += v[d];
    v[b] = turned<W>(v[b] ^ v[c], kTurns[1]);
    v[a] += v[b] + words[order[2 * i + 1]];
    v[d] = turned<W>(v[d] ^ v[a], kTurns[2]);
    v[c] += v[d];
    v[b] = turned<W>(v[b] ^ v[c], kTurns[3]);
  }
}

// Block of `size` bytes, padded with zeros.
template <typename W>
Words<W> block_of(const uint8_t* at, int64_t size) {
  Words<W> words{};
  if (size) std::memcpy(words.data(), at, static_cast<size_t>(size));
  return words;
}

template <typename W>
void blake2(const std::array<W, 8>& first, const uint8_t* at, int64_t size, uint8_t* out) {
  constexpr int64_t kBlock = 16 * sizeof(W);
  constexpr int kRounds = sizeof(W) == 8 ? 12 : 10;
  std::array<W, 8> state = first;
  state[0] ^= 0x01010000 ^ static_cast<W>(sizeof(state));
  int64_t done = 0;
  do {
    const int64_t here = std::min(kBlock, size - done);
    const Words<W> words = block_of<W>(at + done, here);
    done += here;
    Words<W> v;
    for (size_t i = 0; i < 8; ++i) v[i] = state[i], v[i + 8] = first[i];
    v[12] ^= static_cast<W>(done);
    if constexpr (sizeof(W) == 4) v[13] ^= static_cast<W>(static_cast<uint64_t>(done) >> 32);
    if (done == size) v[14] = ~v[14];
    for (int i = 0; i < kRounds; ++i) mix<W>(v, words, kOrders[i % 10]);
    for (size_t i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
  } while (done < size);
  std::memcpy(out, state.data(), sizeof(state));
}

using Chain = std::array<uint32_t, 8>;

// Compression that is not computed yet: the last block of a chunk, or the two halves of a tree.
struct Node {
  static constexpr uint32_t kStart = 1, kEnd = 2, kParent = 4, kRoot = 8;
  Chain chain = kNarrow;
  Words<uint32_t> words{};
  uint64_t counter = 0;
  uint32_t size = 0, flags = 0;

  Chain value(uint32_t more = 0) const {
    Words<uint32_t> v;
    for (size_t i = 0; i < 8; ++i) v[i] = chain[i], v[i + 8] = kNarrow[i];
    v[12] = static_cast<uint32_t>(counter), v[13] = static_cast<uint32_t>(counter >> 32);
    v[14] = size, v[15] = flags | more;
    Words<uint32_t> moved = words;
    for (int i = 0; i < 7; ++i) {
      mix<uint32_t>(v, moved, kOrders[0]);
      const Words<uint32_t> before = moved;
      for (size_t k = 0; k < 16; ++k) moved[k] = before[kMoves[k]];
    }
    Chain value;
    for (size_t i = 0; i < 8; ++i) value[i] = v[i] ^ v[i + 8];
    return value;
  }

  static Node parent(const Chain& left, const Chain& right) {
    Node node;
    std::copy(left.begin(), left.end(), node.words.begin());
    std::copy(right.begin(), right.end(), node.words.begin() + 8);
    node.size = 64, node.flags = kParent;
    return node;
  }
};

// Last block of a chunk; the blocks before it are in its chain.
Node chunk(const uint8_t* at, int64_t size, uint64_t number) {
  Node node;
  node.counter = number;
  for (int64_t done = 0;;) {
    const int64_t here = std::min<int64_t>(64, size - done);
    node.words = block_of<uint32_t>(at + done, here);
    node.size = static_cast<uint32_t>(here);
    node.flags = done == 0 ? Node::kStart : 0;
    done += here;
    if (done == size) break;
    node.chain = node.value();
  }
  node.flags |= Node::kEnd;
  return node;
}

void blake3(const uint8_t* at, int64_t size, uint8_t* out, std::vector<Chain>& trees) {
  constexpr int64_t kChunk = 1024;
  trees.clear();  // complete trees to the left, each larger than the next
  int64_t done = 0;
  uint64_t number = 0;
  for (; size - done > kChunk; done += kChunk) {
    Chain value = chunk(at + done, kChunk, number).value();
    for (uint64_t whole = ++number; whole % 2 == 0; whole /= 2) {
      value = Node::parent(trees.back(), value).value();
      trees.pop_back();
    }
    trees.push_back(value);
  }
  Node node = chunk(at + done, size - done, number);
  for (; !trees.empty(); trees.pop_back()) node = Node::parent(trees.back(), node.value());
  const Chain value = node.value(Node::kRoot);
  std::memcpy(out, value.data(), sizeof(value));
}

// Digest of each value, one after the other: BLAKE2b (kind 0, 64 bytes), BLAKE2s (1, 32) or BLAKE3
// (2, 32). Value i lies between `offsets[i]` and `offsets[i + 1]`.
nb::object blake_digests(const In<int64_t>& offsets, const Bytes& content, int kind) {
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  if (count < 0) corrupt("digests: no offsets");
  if (kind < 0 || kind > 2) corrupt("digests of kind " + std::to_string(kind));
  const int64_t width = kind == 0 ? 64 : 32;
  Owned<uint8_t> out(product(count, width, "digests"));
  {
    nb::gil_scoped_release release;
    std::vector<Chain> trees;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t start = offsets.data()[i], stop = offsets.data()[i + 1];
      check_ends(start, stop, static_cast<int64_t>(content.size()), "value");
      const uint8_t* at = content.data() + start;
      uint8_t* to = out.data() + i * width;
      if (kind == 0) blake2<uint64_t>(kWide, at, stop - start, to);
      if (kind == 1) blake2<uint32_t>(kNarrow, at, stop - start, to);
      if (kind == 2) blake3(at, stop - start, to, trees);
    }
  }
  return nb::cast(out.numpy());
}

}  // namespace
}  // namespace alance

void register_blake(nanobind::module_& m) {
  using nanobind::arg;
  m.def("blake_digests", &alance::blake_digests, arg("offsets"), arg("content"), arg("kind"));
}
