// MD5 (RFC 1321), the SHA-2 family (FIPS 180-4), BLAKE2b and BLAKE2s (RFC 7693), and BLAKE3 (its
// specification of 2021), of many values.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/ends.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

// Integer parts of 2^32 * |sin(i)| for i from 1 to 64.
const auto kSines = [] {
  std::array<uint32_t, 64> sines;
  for (size_t i = 0; i < 64; ++i)
    sines[i] = static_cast<uint32_t>(std::fabs(std::sin(static_cast<double>(i + 1))) * 0x1p32);
  return sines;
}();

// The 64 bits behind the point of the cube root of a number below 512.
constexpr uint64_t cube_root(uint64_t number) {
  using Wide = unsigned __int128;
  // 1. The root of number * 2^96 has 32 of them; a larger number would overflow its cube.
  Wide root = 0;
  for (Wide bit = Wide{1} << 35; bit; bit >>= 1)
    if ((root + bit) * (root + bit) * (root + bit) <= Wide{number} << 96) root += bit;
  // 2. The others are `low` / 2^32, by which the root is too small: a quotient, then its square.
  const Wide rest = ((Wide{number} << 96) - root * root * root) << 32;
  Wide low = rest / (3 * root * root);
  while (3 * root * root * low + (3 * root * low * low >> 32) > rest) --low;
  return static_cast<uint64_t>(root << 32 | low);
}

// Fractional parts of the cube roots of the first 80 primes; SHA-256 has the upper half of the
// first 64.
constexpr auto kCubeRoots = [] {
  std::array<uint64_t, 80> roots{};
  size_t count = 0;
  for (uint64_t number = 2; count < roots.size(); ++number) {
    uint64_t factor = 2;
    while (number % factor) ++factor;
    if (factor == number) roots[count++] = cube_root(number);
  }
  return roots;
}();

// Initial states of SHA-512 and SHA-256, and of BLAKE2b and the others.
constexpr std::array<uint64_t, 8> kWide = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr std::array<uint32_t, 8> kNarrow = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

template <typename T>
T swapped(T value) {
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
  return __builtin_bswap32(static_cast<uint32_t>(value));
}

struct Md5 {
  using Word = uint32_t;
  static constexpr int kBlock = 64, kLength = 8;
  static constexpr bool kBigEndian = false;
  std::array<Word, 4> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

  void add(const uint8_t* block) {
    constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    auto [a, b, c, d] = state;
    for (int i = 0; i < 64; ++i) {
      Word mixed;
      int at;
      switch (i / 16) {
        case 0: mixed = (b & c) | (~b & d), at = i; break;
        case 1: mixed = (d & b) | (~d & c), at = (5 * i + 1) % 16; break;
        case 2: mixed = b ^ c ^ d, at = (3 * i + 5) % 16; break;
        default: mixed = c ^ (b | ~d), at = 7 * i % 16;
      }
      const Word sum = a + mixed + kSines[static_cast<size_t>(i)] + load<Word>(block + 4 * at);
      a = d, d = c, c = b;
      b += std::rotl(sum, kTurns[i / 16][i % 4]);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  }
};

// Distances in bits: two rotations and a shift for the message schedule, three rotations for the
// state.
struct Turns {
  int early[3], late[3], first[3], second[3];
};

template <typename W>
struct Sha2 {
  using Word = W;
  static constexpr bool kIsWide = sizeof(W) == 8;
  static constexpr int kBlock = 16 * sizeof(W), kLength = 2 * sizeof(W);
  static constexpr bool kBigEndian = true;
  static constexpr Turns kTurns = kIsWide
      ? Turns{{1, 8, 7}, {19, 61, 6}, {28, 34, 39}, {14, 18, 41}}
      : Turns{{7, 18, 3}, {17, 19, 10}, {2, 13, 22}, {6, 11, 25}};
  std::array<Word, 8> state;

  void add(const uint8_t* block) {
    constexpr size_t kRounds = kIsWide ? 80 : 64;
    std::array<Word, kRounds> words;
    for (size_t i = 0; i < 16; ++i) words[i] = swapped(load<Word>(block + sizeof(Word) * i));
    for (size_t i = 16; i < kRounds; ++i)
      words[i] = words[i - 16] + small(words[i - 15], kTurns.early) + words[i - 7] +
                 small(words[i - 2], kTurns.late);
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < kRounds; ++i) {
      const auto root = static_cast<Word>(kIsWide ? kCubeRoots[i] : kCubeRoots[i] >> 32);
      const Word t1 = h + large(e, kTurns.second) + ((e & f) ^ (~e & g)) + root + words[i];
      const Word t2 = large(a, kTurns.first) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<Word, 8> added = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += added[i];
  }

  static Word small(Word x, const int (&by)[3]) {
    return std::rotr(x, by[0]) ^ std::rotr(x, by[1]) ^ (x >> by[2]);
  }
  static Word large(Word x, const int (&by)[3]) {
    return std::rotr(x, by[0]) ^ std::rotr(x, by[1]) ^ std::rotr(x, by[2]);
  }
};

#if defined(__x86_64__)
// True if the processor has instructions for SHA-256, and SSSE3 and SSE4.1.
bool has_sha() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_supports("ssse3") || !__builtin_cpu_supports("sse4.1")) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}

// One block of SHA-224 or SHA-256. Two registers hold the state in the order of the instructions: a
// b e f and c d g h. `words` are the last 16 words of the message schedule.
__attribute__((target("sha,sse4.1,ssse3"))) void add_by_instructions(uint32_t* state,
                                                                     const uint8_t* block) {
  alignas(16) static constexpr auto kRoots = [] {
    std::array<uint32_t, 64> roots{};
    for (size_t i = 0; i < 64; ++i) roots[i] = static_cast<uint32_t>(kCubeRoots[i] >> 32);
    return roots;
  }();
  auto* halves = reinterpret_cast<__m128i*>(state);
  const auto* blocks = reinterpret_cast<const __m128i*>(block);
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  const __m128i before[2] = {_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0)};
  __m128i abef = before[0], cdgh = before[1], words[4];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    __m128i& word = words[i % 4];
    if (i < 4) {
      word = _mm_shuffle_epi8(_mm_loadu_si128(blocks + i), swap);
    } else {
      const __m128i last = words[(i + 3) % 4];
      const __m128i early = _mm_sha256msg1_epu32(word, words[(i + 1) % 4]);
      const __m128i seventh = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
      word = _mm_sha256msg2_epu32(_mm_add_epi32(early, seventh), last);
    }
    const auto* roots = reinterpret_cast<const __m128i*>(kRoots.data()) + i;
    const __m128i sums = _mm_add_epi32(word, _mm_load_si128(roots));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e));
  }
  const __m128i feba = _mm_shuffle_epi32(_mm_add_epi32(abef, before[0]), 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(_mm_add_epi32(cdgh, before[1]), 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}

struct Sha256ByInstructions : Sha2<uint32_t> {
  void add(const uint8_t* block) { add_by_instructions(state.data(), block); }
};
#endif

// Digest of a value: its blocks, then a set bit, zeros, and its length in bits. Writes the whole
// state, of which the digest may be the beginning.
template <typename H>
void digest(H hash, const uint8_t* at, int64_t size, uint8_t* out) {
  int64_t remaining = size;
  for (; remaining >= H::kBlock; at += H::kBlock, remaining -= H::kBlock) hash.add(at);
  uint8_t tail[2 * H::kBlock] = {};
  if (remaining) std::memcpy(tail, at, static_cast<size_t>(remaining));
  tail[remaining] = 0x80;
  const int64_t num_bytes = remaining + 1 + H::kLength > H::kBlock ? 2 * H::kBlock : H::kBlock;
  const uint64_t bits = 8 * static_cast<uint64_t>(size);
  // The upper half of a length of 128 bits is zero for every size that fits memory.
  const int64_t length_at = H::kBigEndian ? num_bytes - 8 : num_bytes - H::kLength;
  store(tail + length_at, H::kBigEndian ? swapped(bits) : bits);
  for (int64_t i = 0; i < num_bytes; i += H::kBlock) hash.add(tail + i);
  if (H::kBigEndian)
    for (auto& word : hash.state) word = swapped(word);
  std::memcpy(out, hash.state.data(), sizeof(hash.state));
}

constexpr Sha2<uint32_t> kSha224 = {{0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31,
                                      0x68581511, 0x64f98fa7, 0xbefa4fa4}};
constexpr Sha2<uint32_t> kSha256 = {kNarrow};
constexpr Sha2<uint64_t> kSha384 = {{0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17,
                                     0x152fecd8f70e5939, 0x67332667ffc00b31, 0x8eb44a8768581511,
                                     0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4}};
constexpr Sha2<uint64_t> kSha512 = {kWide};

template <typename W>
using Words = std::array<W, 16>;

// Order of a block's words in each round.
constexpr uint8_t kOrders[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                     {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                     {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                     {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                     {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                     {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                     {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                     {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                     {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                     {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
// The same of BLAKE3: each is the first one after so many of its permutations.
constexpr auto kPermuted = [] {
  constexpr uint8_t kMoves[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  std::array<uint8_t[16], 7> orders{};
  for (uint8_t i = 0; i < 16; ++i) orders[0][i] = i;
  for (size_t round = 1; round < 7; ++round)
    for (size_t i = 0; i < 16; ++i) orders[round][i] = orders[round - 1][kMoves[i]];
  return orders;
}();

// One round, on the columns of the state, then on its diagonals.
template <typename W>
void mix(Words<W>& v, const Words<W>& words, const uint8_t* order) {
  constexpr bool kIsWide = sizeof(W) == 8;
  constexpr int kTurns[4] = {kIsWide ? 32 : 16, kIsWide ? 24 : 12, kIsWide ? 16 : 8,
                             kIsWide ? 63 : 7};
  constexpr uint8_t kPlaces[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
                                     {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14}};
  for (size_t i = 0; i < 8; ++i) {
    const auto [a, b, c, d] = kPlaces[i];
    v[a] += v[b] + words[order[2 * i]];
    v[d] = std::rotr(v[d] ^ v[a], kTurns[0]);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], kTurns[1]);
    v[a] += v[b] + words[order[2 * i + 1]];
    v[d] = std::rotr(v[d] ^ v[a], kTurns[2]);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], kTurns[3]);
  }
}

// Block of `size` bytes, padded with zeros.
template <typename W>
Words<W> block_of(const uint8_t* at, int64_t size) {
  Words<W> words{};
  if (size) std::memcpy(words.data(), at, static_cast<size_t>(size));
  return words;
}

// Mix a block into a state; `tail` are the last words of the state's other half.
template <typename W, typename Orders>
std::array<W, 8> compressed(const std::array<W, 8>& state, const std::array<W, 8>& first,
                            const std::array<W, 4>& tail, const Words<W>& words,
                            const Orders& orders, size_t rounds) {
  Words<W> v;
  for (size_t i = 0; i < 8; ++i) v[i] = state[i], v[i + 8] = i < 4 ? first[i] : tail[i - 4];
  for (size_t i = 0; i < rounds; ++i) mix<W>(v, words, orders[i % std::size(orders)]);
  std::array<W, 8> mixed;
  for (size_t i = 0; i < 8; ++i) mixed[i] = v[i] ^ v[i + 8];
  return mixed;
}

template <typename W>
void blake2(const std::array<W, 8>& first, const uint8_t* at, int64_t size, uint8_t* out) {
  constexpr int64_t kBlock = 16 * sizeof(W);
  constexpr bool kIsWide = sizeof(W) == 8;
  std::array<W, 8> state = first;
  state[0] ^= 0x01010000 ^ static_cast<W>(sizeof(state));
  int64_t done = 0;
  do {
    const int64_t here = std::min(kBlock, size - done);
    const Words<W> words = block_of<W>(at + done, here);
    done += here;
    const uint64_t high = kIsWide ? 0 : static_cast<uint64_t>(done) >> 32;
    const std::array<W, 4> tail = {first[4] ^ static_cast<W>(done), first[5] ^ static_cast<W>(high),
                                   done == size ? ~first[6] : first[6], first[7]};
    const auto mixed = compressed(state, first, tail, words, kOrders, kIsWide ? 12 : 10);
    for (size_t i = 0; i < 8; ++i) state[i] ^= mixed[i];
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
    const std::array<uint32_t, 4> tail = {static_cast<uint32_t>(counter),
                                          static_cast<uint32_t>(counter >> 32), size, flags | more};
    return compressed(chain, kNarrow, tail, words, kPermuted, kPermuted.size());
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

// Bytes of a digest: MD5, SHA-224, SHA-256, SHA-384, SHA-512, BLAKE2b, BLAKE2s, BLAKE3.
constexpr int64_t kWidths[] = {16, 28, 32, 48, 64, 64, 32, 32};

Owned<uint8_t> digests(const In<int64_t>& offsets, const Bytes& content, int method,
                       [[maybe_unused]] bool baseline) {
  const Strings values(offsets, content, "value");
  if (method < 0 || method >= std::ssize(kWidths)) corrupt("digests of method ", method);
  const int64_t width = kWidths[method];
  Owned<uint8_t> out(product(values.count, width, "digests"), sizeof(kWide));
  const auto each = [&](auto digest) {
    for (int64_t i = 0; i < values.count; ++i)
      digest(values.at(i), values.size(i), out.data() + i * width);
  };
  const auto by = [&](const auto& hash) {
    each([&hash](auto... value) { digest(hash, value...); });
  };
  const auto by_narrow = [&](const Sha2<uint32_t>& hash) {
#if defined(__x86_64__)
    static const bool is_quick = has_sha();
    if (is_quick && !baseline) return by(Sha256ByInstructions{hash});
#endif
    by(hash);
  };
  std::vector<Chain> trees;
  switch (method) {
    case 0: by(Md5{}); break;
    case 1: by_narrow(kSha224); break;
    case 2: by_narrow(kSha256); break;
    case 3: by(kSha384); break;
    case 4: by(kSha512); break;
    case 5: each([](auto... value) { blake2<uint64_t>(kWide, value...); }); break;
    case 6: each([](auto... value) { blake2<uint32_t>(kNarrow, value...); }); break;
    default: each([&](auto... value) { blake3(value..., trees); });
  }
  return out;
}

}  // namespace
}  // namespace alance

void register_digests(nanobind::module_& m) {
  using namespace alance;
  m.def("digests", &digests, "offsets"_a, "content"_a, "method"_a, "baseline"_a = false, NoGil());
}
