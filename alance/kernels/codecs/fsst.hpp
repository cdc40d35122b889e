// Symbol table and decoder of FSST; see fsst.cpp.
#pragma once
#include <algorithm>

#include "base/bounds.hpp"
#include "codecs/spans.hpp"

namespace alance::fsst {

constexpr uint8_t kEscape = 255;
constexpr int64_t kMaxSymbolBytes = 8;
// Length of a code without symbol: any sum shows it.
constexpr uint64_t kInvalid = uint64_t{1} << 56;

// True if one of eight codes is the escape: complemented, it is a zero byte.
inline bool has_escape(uint64_t codes) {
  uint64_t flipped = ~codes;
  return ((flipped - 0x0101010101010101u) & ~flipped & 0x8080808080808080u) != 0;
}

// The first `count` (0 to 8) of eight codes, followed by `filler`.
inline uint64_t keep(uint64_t eight, int64_t count, uint8_t filler) {
  uint64_t behind = count < 8 ? ~uint64_t{0} << (8 * count) : 0;
  return (eight & ~behind) | (behind & (filler * 0x0101010101010101u));
}

struct Table {
  uint64_t symbols[256] = {};
  uint64_t lengths[256];  // 0 for kEscape, which pads words; true escapes are found before

  Table(const In<uint64_t>& symbols_, const Bytes& lengths_)
      : Table(reinterpret_cast<const uint8_t*>(symbols_.data()), size_of(symbols_, lengths_),
              lengths_.data()) {}

  // From symbols of 8 bytes each, and their lengths.
  Table(const uint8_t* symbols_, size_t size, const uint8_t* lengths_) {
    if (size > kEscape) corrupt("fsst: a table of ", size, " symbols");
    std::fill(std::begin(lengths), std::end(lengths), kInvalid);
    if (size != 0) std::memcpy(symbols, symbols_, 8 * size);
    std::copy_n(lengths_, size, lengths);
    lengths[kEscape] = 0;
    for (size_t code = 0; code < size; ++code)
      if (lengths[code] < 1 || lengths[code] > kMaxSymbolBytes)
        corrupt("fsst: a symbol of ", lengths[code], " bytes");
  }

  static size_t size_of(const In<uint64_t>& symbols, const Bytes& lengths) {
    if (symbols.size() != lengths.size()) corrupt("fsst: a table of ", symbols.size(), " symbols");
    return symbols.size();
  }

  // True if all bytes of all symbols are below 128.
  bool is_ascii() const {
    uint64_t all = 0;
    for (int code = 0; code < kEscape; ++code)
      if (lengths[code] <= kMaxSymbolBytes)
        all |= keep(symbols[code], static_cast<int64_t>(lengths[code]), 0);
    return (all & 0x8080808080808080u) == 0;
  }
};

// Number of bytes that the codes in [code, end) decode to, as one stream.
inline uint64_t decoded_size(const Table& table, const uint8_t* code, const uint8_t* end) {
  uint64_t size = 0;
  while (code < end && size < kInvalid) {
    if (end - code >= 8) {
      uint64_t eight = load<uint64_t>(code);
      if (!has_escape(eight)) {
        uint64_t even = 0, odd = 0;
        for (int i = 0; i < 64; i += 16) {
          even += table.lengths[(eight >> i) & 255];
          odd += table.lengths[(eight >> (i + 8)) & 255];
        }
        size += even + odd;
        code += 8;
        continue;
      }
    }
    bool escaped = *code == kEscape;
    size += escaped ? 1 : table.lengths[*code];
    code += escaped ? 2 : 1;
  }
  return size;
}

// Decode the codes of one string; may overwrite kMaxSymbolBytes bytes behind it. Codes can be read
// up to `data_end`.
inline uint8_t* decode(const Table& table, const uint8_t* code, const uint8_t* end,
                const uint8_t* data_end, uint8_t* out) {
  while (code < end) {
    if (data_end - code >= 8) {
      // Eight codes beyond the string's end cost stores, not a mispredicted branch.
      int64_t count = std::min<int64_t>(end - code, 8);
      uint64_t eight = load<uint64_t>(code);
      if (!has_escape(keep(eight, count, 0))) {
        eight = keep(eight, count, kEscape);
        for (int i = 0; i < 64; i += 8) {
          uint8_t symbol = static_cast<uint8_t>(eight >> i);
          store(out, table.symbols[symbol]);
          out += table.lengths[symbol];
        }
        code += count;
        continue;
      }
    }
    if (*code == kEscape) {
      if (end - code < 2) corrupt("fsst: a string ends with an escape");
      *out++ = code[1];
      code += 2;
    } else {
      store(out, table.symbols[*code]);
      out += table.lengths[*code++];
    }
  }
  return out;
}

}  // namespace alance::fsst
