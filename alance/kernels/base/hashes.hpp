// Hash functions for the kernels' hash tables, with a random secret per process.
#pragma once
#include <array>
#include <random>
#include <string_view>

#include "base/bounds.hpp"

namespace alance::hashes {

// Fold the 128-bit product of two words to one word: the exclusive or of its halves.
inline uint64_t folded(uint64_t a, uint64_t b) {
  const auto wide = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

// Extend a hash by a word; the result is the same in each process.
inline uint64_t mixed(uint64_t hash, uint64_t word) {
  return folded(hash ^ word ^ 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93);
}

// The last bytes of a value, fewer than a word but at least one.
inline uint64_t last_word(const uint8_t* at, int64_t remaining) {
  if (remaining >= 4) return load<uint32_t>(at) | uint64_t{load<uint32_t>(at + remaining - 4)} << 32;
  uint64_t word = at[0];
  if (remaining > 1) word |= uint64_t{at[1]} << 8;
  if (remaining > 2) word |= uint64_t{at[2]} << 16;
  return word;
}

// Cyclic redundancy check of 32 bits by a reflected polynomial, eight bytes a step, with a table for
// each of the eight.
template <uint32_t kPolynomial>
uint32_t crc(std::string_view content) {
  static constexpr auto kTables = [] {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
      tables[0][i] = value;
    }
    for (size_t k = 1; k < 8; ++k)
      for (size_t i = 0; i < 256; ++i)
        tables[k][i] = tables[0][tables[k - 1][i] & 255] ^ tables[k - 1][i] >> 8;
    return tables;
  }();
  const auto* at = reinterpret_cast<const uint8_t*>(content.data());
  size_t size = content.size();
  uint32_t value = ~0u;
  for (; size >= 8; size -= 8, at += 8) {
    const uint64_t word = load<uint64_t>(at) ^ value;
    value = 0;
    for (size_t k = 0; k < 8; ++k) value ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (; size > 0; --size, ++at) value = kTables[0][(value ^ *at) & 255] ^ value >> 8;
  return ~value;
}

// Random numbers of this process. Without them, values could be crafted whose hashes are equal, so
// that each look-up would take as many steps as there are values.
struct Secret {
  uint64_t start, factor;

  static const Secret& own() {
    static const Secret secret = [] {
      std::random_device random;
      const auto word = [&] { return uint64_t{random()} << 32 | random(); };
      return Secret{word(), word() | 1};
    }();
    return secret;
  }

  uint64_t of(uint64_t word) const { return folded(start ^ word, factor); }
  uint64_t of(std::string_view value) const {
    const auto* at = reinterpret_cast<const uint8_t*>(value.data());
    auto remaining = static_cast<int64_t>(value.size());
    uint64_t hash = start ^ value.size();
    for (; remaining >= 8; remaining -= 8, at += 8) hash = folded(hash ^ load<uint64_t>(at), factor);
    if (remaining != 0) hash = folded(hash ^ last_word(at, remaining), factor);
    return folded(hash, factor);
  }
};

}  // namespace alance::hashes

namespace alance {

// Hash function for texts from files, for hash tables of the standard library.
struct TextHash {
  size_t operator()(std::string_view text) const { return hashes::Secret::own().of(text); }
};

}  // namespace alance
