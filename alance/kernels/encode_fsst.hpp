// Finds the symbol that a position of a text begins with: the encoder's view of an FSST table.
//
// Symbols of three bytes and more stand in a table of hashes of their first three, one a place:
// what does not find its place free is no symbol. Symbols of two bytes and of one are looked up by
// the next two bytes. A symbol of three bytes and more goes first.
#pragma once
#include <memory>
#include <vector>

#include "bounds.hpp"
#include "fsst.hpp"
#include "spans.hpp"

namespace alance::fsst {

constexpr int MAX_SYMBOLS = 255;
constexpr int HASH_BITS = 12;

struct Symbol {
  uint64_t bytes = 0;  // the first lowest, zeros behind the last
  int length = 0;

  static uint64_t mask(int length) { return ~uint64_t{0} >> (64 - 8 * length); }

  // This symbol and then `next`, cut at eight bytes.
  Symbol with(const Symbol& next) const {
    if (length == MAX_SYMBOL) return *this;
    const int both = std::min<int>(MAX_SYMBOL, length + next.length);
    return {(bytes | next.bytes << (8 * length)) & mask(both), both};
  }
};

class Finder {
 public:
  // What a position begins with: `code` is that of a symbol, or ESCAPE and one byte.
  struct Found {
    uint32_t code, length;
  };

  Finder() : slots_(1 << HASH_BITS), pairs_(1 << 16), bytes_(256) { clear(); }

  void clear() {
    num_ = 0;
    for (Slot& slot : slots_) slot = {};
    for (uint32_t pair = 0; pair < pairs_.size(); ++pair) pairs_[pair] = NONE;
    for (uint32_t byte = 0; byte < 256; ++byte) bytes_[byte] = NONE;
  }

  int size() const { return num_; }
  const Symbol& operator[](uint32_t code) const { return symbols_[code]; }

  // Gives the symbol the next code; false if its place is taken.
  bool add(const Symbol& symbol) {
    if (num_ == MAX_SYMBOLS) return false;
    const uint16_t entry = static_cast<uint16_t>(num_ | symbol.length << 8);
    if (symbol.length >= 3) {
      Slot& slot = slots_[hash(symbol.bytes)];
      if (slot.length) return false;
      slot = {symbol.bytes, Symbol::mask(symbol.length), static_cast<uint32_t>(num_),
              static_cast<uint32_t>(symbol.length)};
    } else if (symbol.length == 2) {
      if (pairs_[symbol.bytes] >> 8 == 2) return false;
      pairs_[symbol.bytes] = entry;
    } else {
      const uint32_t byte = static_cast<uint32_t>(symbol.bytes);
      if (bytes_[byte] != NONE) return false;
      bytes_[byte] = entry;
      for (uint32_t next = 0; next < 256; ++next)
        if (pairs_[byte | next << 8] >> 8 != 2) pairs_[byte | next << 8] = entry;
    }
    symbols_[num_++] = symbol;
    return true;
  }

  // By the next eight bytes, all of the same string.
  Found find(uint64_t word) const {
    const Slot& slot = slots_[hash(word)];
    const uint32_t entry = pairs_[word & 0xFFFF];
    const bool hit = (word & slot.mask) == slot.bytes;
    return {hit ? slot.code : entry & 255, hit ? slot.length : entry >> 8};
  }

  // By fewer: zeros stand behind the `left` (1 to 7) bytes.
  Found find(uint64_t word, uint32_t left) const {
    const Slot& slot = slots_[hash(word)];
    const uint32_t entry = left > 1 ? pairs_[word & 0xFFFF] : bytes_[word & 0xFF];
    const bool hit = (word & slot.mask) == slot.bytes && slot.length <= left;
    return {hit ? slot.code : entry & 255, hit ? slot.length : entry >> 8};
  }

 private:
  static constexpr uint16_t NONE = ESCAPE | 1 << 8;

  struct Slot {
    uint64_t bytes = 1, mask = 0;  // never found
    uint32_t code = 0, length = 0;
  };

  static uint32_t hash(uint64_t word) {
    return static_cast<uint32_t>(word & 0xFFFFFF) * 2654435761u >> (32 - HASH_BITS);
  }

  Symbol symbols_[MAX_SYMBOLS];
  int num_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint16_t> pairs_;  // code and length << 8
  std::vector<uint16_t> bytes_;
};

// The first `left` bytes at `at`, zeros behind them; none behind `end` is read.
inline uint64_t word_at(const uint8_t* at, int64_t left, const uint8_t* end) {
  if (left >= 8) return load<uint64_t>(at);
  uint64_t word = 0;
  if (end - at >= 8)
    return load<uint64_t>(at) & Symbol::mask(static_cast<int>(left));
  std::memcpy(&word, at, static_cast<size_t>(left));
  return word;
}

}  // namespace alance::fsst
