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

constexpr int kMaxSymbols = 255;
constexpr int kHashBits = 12;

struct Symbol {
  uint64_t bytes = 0;  // first byte lowest, zeros behind the last
  int length = 0;

  static uint64_t mask(int length) { return ~uint64_t{0} >> (64 - 8 * length); }

  // This symbol followed by `next`, cut at eight bytes.
  Symbol with(const Symbol& next) const {
    if (length == kMaxSymbolBytes) return *this;
    const int total = std::min<int>(kMaxSymbolBytes, length + next.length);
    return {(bytes | next.bytes << (8 * length)) & mask(total), total};
  }
};

class Finder {
  struct Slot {
    uint64_t bytes = 1, mask = 0;  // matches nothing
    uint64_t entry = 0;
  };

 public:
  // Longest match at a position: the code of a symbol, or kEscape and one byte.
  struct Match {
    uint32_t code;
    int64_t length;
  };

  // The tables alone: loops keep a copy in registers.
  struct View {
    const Slot* slots;
    const uint16_t* entries;

    // Match of the next `remaining` (1 or more) bytes of a string, which zeros follow. Branch-free:
    // text does not predict which branch it would take.
    Match find(uint64_t word, int64_t remaining) const {
      const Slot& slot = slots[hash(word)];
      const uint64_t entry = entries[(word & 0xFFFF) | static_cast<uint64_t>(remaining == 1) << 16];
      const uint64_t length = slot.entry >> 8;
      const uint64_t miss = ((word & slot.mask) ^ slot.bytes) |
                            (static_cast<uint64_t>(remaining - static_cast<int64_t>(length)) >> 63);
      const uint64_t hit = -static_cast<uint64_t>(miss == 0);  // all ones or zero
      const uint64_t match = entry ^ ((entry ^ slot.entry) & hit);
      return {static_cast<uint32_t>(match & 255), static_cast<int64_t>(match >> 8)};
    }
  };

  Finder() : slots_(1 << kHashBits), entries_((1 << 16) + 256) { clear(); }

  void clear() {
    num_ = 0;
    for (Slot& slot : slots_) slot = {};
    for (uint16_t& entry : entries_) entry = kNoSymbol;
  }

  int size() const { return num_; }
  const Symbol& operator[](uint32_t code) const { return symbols_[code]; }
  View view() const { return {slots_.data(), entries_.data()}; }

  // Give the symbol the next code; false if its slot is taken or the table is full.
  bool add(const Symbol& symbol) {
    if (num_ == kMaxSymbols) return false;
    const uint16_t entry = static_cast<uint16_t>(num_ | symbol.length << 8);
    if (symbol.length >= 3) {
      Slot& slot = slots_[hash(symbol.bytes)];
      if (slot.entry) return false;
      slot = {symbol.bytes, Symbol::mask(symbol.length), entry};
    } else if (symbol.length == 2) {
      if (entries_[symbol.bytes] >> 8 == 2) return false;
      entries_[symbol.bytes] = entry;
    } else {
      if (entries_[kLastBytes + symbol.bytes] != kNoSymbol) return false;
      entries_[kLastBytes + symbol.bytes] = entry;
      for (uint32_t next = 0; next < 256; ++next)
        if (entries_[symbol.bytes | next << 8] >> 8 != 2) entries_[symbol.bytes | next << 8] = entry;
    }
    symbols_[num_++] = symbol;
    return true;
  }

 private:
  static constexpr uint16_t kNoSymbol = kEscape | 1 << 8;
  static constexpr size_t kLastBytes = 1 << 16;  // first of the entries by a last byte

  static uint32_t hash(uint64_t word) {
    return static_cast<uint32_t>(word & 0xFFFFFF) * 2654435761u >> (32 - kHashBits);
  }

  Symbol symbols_[kMaxSymbols];
  int num_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint16_t> entries_;  // code | length << 8 by two bytes; then by a last byte
};

// The first `remaining` bytes at `at`, followed by zeros; eight bytes are readable.
inline uint64_t word_of(const uint8_t* at, int64_t remaining) {
  return load<uint64_t>(at) &
         Symbol::mask(static_cast<int>(std::min<int64_t>(remaining, kMaxSymbolBytes)));
}

// The same without reading behind `end`.
inline uint64_t word_of(const uint8_t* at, int64_t remaining, const uint8_t* end) {
  if (end - at >= kMaxSymbolBytes) return word_of(at, remaining);
  uint64_t word = 0;
  std::memcpy(&word, at, static_cast<size_t>(std::min<int64_t>(remaining, kMaxSymbolBytes)));
  return word;
}

}  // namespace alance::fsst
