// MD5 (RFC 1321), the SHA-2 family (FIPS 180-4), BLAKE2b and BLAKE2s (RFC 7693), and BLAKE3 (its
// specification of 2021), of many values.
#include <algorithm>
#include <array>
#include <bit>
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
constexpr std::array<uint32_t, 64> kSines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

// Fractional parts of the cube roots of the first 80 primes; SHA-256 has the upper half of the
// first 64.
constexpr std::array<uint64_t, 80> kCubeRoots = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

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

// Digest of one value: its blocks, then a one bit, zeros, and its length in bits.
template <typename H>
void digest(H hash, const uint8_t* at, int64_t size, uint8_t* out, int64_t width) {
  using Word = typename H::Word;
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
  for (int64_t i = 0; i < width; i += static_cast<int64_t>(sizeof(Word))) {
    Word word = hash.state[static_cast<size_t>(i) / sizeof(Word)];
    if (H::kBigEndian) word = swapped(word);
    std::memcpy(out + i, &word, static_cast<size_t>(std::min<int64_t>(sizeof(Word), width - i)));
  }
}

constexpr Sha2<uint32_t> kSha224 = {{0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31,
                                      0x68581511, 0x64f98fa7, 0xbefa4fa4}};
constexpr Sha2<uint32_t> kSha256 = {kNarrow};
constexpr Sha2<uint64_t> kSha384 = {{0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17,
                                     0x152fecd8f70e5939, 0x67332667ffc00b31, 0x8eb44a8768581511,
                                     0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4}};
constexpr Sha2<uint64_t> kSha512 = {kWide};

template <typename H>
void digest_all(const H& hash, const Strings<int64_t>& values, uint8_t* out, int64_t width) {
  for (int64_t i = 0; i < values.count; ++i)
    digest(hash, values.at(i), values.size(i), out + i * width, width);
}

void digest_sha256(const Sha2<uint32_t>& hash, const Strings<int64_t>& values, uint8_t* out,
                   int64_t width, bool baseline) {
#if defined(__x86_64__)
  static const bool is_quick = has_sha();
  if (is_quick && !baseline) return digest_all(Sha256ByInstructions{hash}, values, out, width);
#endif
  (void)baseline;
  digest_all(hash, values, out, width);
}

Owned<uint8_t> digests(const In<int64_t>& offsets, const Bytes& content, int64_t width,
                       bool baseline) {
  const Strings values(offsets, content, "value");
  if (width != 16 && width != 28 && width != 32 && width != 48 && width != 64)
    corrupt("digests of ", width, " bytes");
  Owned<uint8_t> out(product(values.count, width, "digests"));
  switch (width) {
    case 16: digest_all(Md5{}, values, out.data(), width); break;
    case 28: digest_sha256(kSha224, values, out.data(), width, baseline); break;
    case 32: digest_sha256(kSha256, values, out.data(), width, baseline); break;
    case 48: digest_all(kSha384, values, out.data(), width); break;
    default: digest_all(kSha512, values, out.data(), width);
  }
  return out;
}

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
// Permutation of words between rounds of BLAKE3.
constexpr uint8_t kMoves[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

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

Owned<uint8_t> blake_digests(const In<int64_t>& offsets, const Bytes& content, int kind) {
  const Strings values(offsets, content, "value");
  if (kind < 0 || kind > 2) corrupt("digests of kind ", kind);
  const int64_t width = kind == 0 ? 64 : 32;
  Owned<uint8_t> out(product(values.count, width, "digests"));
  std::vector<Chain> trees;
  for (int64_t i = 0; i < values.count; ++i) {
    const uint8_t* at = values.at(i);
    uint8_t* to = out.data() + i * width;
    if (kind == 0) blake2<uint64_t>(kWide, at, values.size(i), to);
    if (kind == 1) blake2<uint32_t>(kNarrow, at, values.size(i), to);
    if (kind == 2) blake3(at, values.size(i), to, trees);
  }
  return out;
}

}  // namespace
}  // namespace alance

void register_digests(nanobind::module_& m) {
  using namespace alance;
  m.def("digests", &digests, "offsets"_a, "content"_a, "width"_a, "baseline"_a = false, NoGil());
  m.def("blake_digests", &blake_digests, "offsets"_a, "content"_a, "kind"_a, NoGil());
}
