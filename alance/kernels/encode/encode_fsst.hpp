// Longest-match look-up of a symbol at a position of a text, in the encoder's FSST table.
//
// Symbols of three bytes and more are in a hash table keyed by their first three bytes, one per
// slot; a symbol whose slot is taken is dropped. Symbols of one and two bytes are looked up by the
// next two bytes. A symbol of three bytes and more has precedence.
//
// Source: see encode_fsst.cpp.
#pragma once
#include <memory>
#include <vector>

#include "base/bounds.hpp"
#include "codecs/fsst.hpp"
#include "codecs/spans.hpp"

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
  struct Slot {
    uint64_t bytes = 1, mask = 0;  // never found
    uint64_t entry = 0;
  };

 public:
  // What a position begins with: `code` is that of a symbol, or ESCAPE and one byte.
  struct Found {
    uint32_t code;
    int64_t length;
  };

  // The tables alone, for loops: a copy of it stays in registers.
  struct View {
    const Slot* slots;
    const uint16_t* entries;

    // By the next `left` (1 or more) bytes of a string, zeros behind them. Without branches: a
    // text gives no hint which of them would be taken.
    Found find(uint64_t word, int64_t left) const {
      const Slot& slot = slots[hash(word)];
      const uint64_t entry = entries[(word & 0xFFFF) | static_cast<uint64_t>(left == 1) << 16];
      const uint64_t length = slot.entry >> 8;
      const uint64_t miss = ((word & slot.mask) ^ slot.bytes) |
                            (static_cast<uint64_t>(left - static_cast<int64_t>(length)) >> 63);
      const uint64_t hit = -static_cast<uint64_t>(miss == 0);  // all ones, or none
      const uint64_t both = entry ^ ((entry ^ slot.entry) & hit);
      return {static_cast<uint32_t>(both & 255), static_cast<int64_t>(both >> 8)};
    }
  };

  Finder() : slots_(1 << HASH_BITS), entries_((1 << 16) + 256) { clear(); }

  void clear() {
    num_ = 0;
    for (Slot& slot : slots_) slot = {};
    for (uint16_t& entry : entries_) entry = NONE;
  }

  int size() const { return num_; }
  const Symbol& operator[](uint32_t code) const { return symbols_[code]; }
  View view() const { return {slots_.data(), entries_.data()}; }

  // Gives the symbol the next code; false if its place is taken.
  bool add(const Symbol& symbol) {
    if (num_ == MAX_SYMBOLS) return false;
    const uint16_t entry = static_cast<uint16_t>(num_ | symbol.length << 8);
    if (symbol.length >= 3) {
      Slot& slot = slots_[hash(symbol.bytes)];
      if (slot.entry) return false;
      slot = {symbol.bytes, Symbol::mask(symbol.length), entry};
    } else if (symbol.length == 2) {
      if (entries_[symbol.bytes] >> 8 == 2) return false;
      entries_[symbol.bytes] = entry;
    } else {
      if (entries_[BYTES + symbol.bytes] != NONE) return false;
      entries_[BYTES + symbol.bytes] = entry;
      for (uint32_t next = 0; next < 256; ++next)
        if (entries_[symbol.bytes | next << 8] >> 8 != 2) entries_[symbol.bytes | next << 8] = entry;
    }
    symbols_[num_++] = symbol;
    return true;
  }

 private:
  static constexpr uint16_t NONE = ESCAPE | 1 << 8;
  static constexpr size_t BYTES = 1 << 16;  // where the entries of last bytes stand

  static uint32_t hash(uint64_t word) {
    return static_cast<uint32_t>(word & 0xFFFFFF) * 2654435761u >> (32 - HASH_BITS);
  }

  Symbol symbols_[MAX_SYMBOLS];
  int num_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint16_t> entries_;  // code and length << 8, by two bytes; then by a last byte
};

// The first `left` bytes at `at`, zeros behind them; eight can be read.
inline uint64_t word_of(const uint8_t* at, int64_t left) {
  return load<uint64_t>(at) & Symbol::mask(static_cast<int>(std::min<int64_t>(left, MAX_SYMBOL)));
}

// The same; none behind `end` is read.
inline uint64_t word_of(const uint8_t* at, int64_t left, const uint8_t* end) {
  if (end - at >= MAX_SYMBOL) return word_of(at, left);
  uint64_t word = 0;
  std::memcpy(&word, at, static_cast<size_t>(std::min<int64_t>(left, MAX_SYMBOL)));
  return word;
}

}  // namespace alance::fsst
