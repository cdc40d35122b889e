// Unpacking loops for blocks of 1024 values; see bitpacking.cpp.
#pragma once
#include "codecs/fastlanes.hpp"

namespace alance::fastlanes {

// Loops for values of 8, 16, 32 or 64 bits, by packed width; each reads 128 * width bytes and
// writes 1024 values.
using Unpacker = void (*)(const uint8_t*, uint8_t*);
const Unpacker* unpackers(int bits);

// Values packed with one width: whole blocks of `block_bytes`, then the rest as one more block, or
// raw if `may_be_raw`.
struct Packed {
  Unpacker loop;
  int bits;
  int64_t block_bytes, count;
  bool may_be_raw = true;

  int64_t whole() const { return count / kBlockValues; }
  int64_t tail_bytes() const { return count % kBlockValues * (bits / 8); }
  bool is_raw(int64_t size) const {
    return may_be_raw && size == whole() * block_bytes + tail_bytes();
  }

  // Check the bytes of all values.
  void check(int64_t size) const {
    if (!is_raw(size) && (tail_bytes() == 0 || size != (whole() + 1) * block_bytes))
      corrupt("bit-packing: ", size, " bytes for ", count, " values of width ",
              block_bytes / kRowBytes);
  }
  void unpack(const uint8_t* in, int64_t size, uint8_t* out) const {
    for (int64_t i = 0; i < whole(); ++i, in += block_bytes, out += kBlockValues * (bits / 8))
      loop(in, out);
    if (tail_bytes() == 0) return;
    alignas(64) uint8_t last[kBlockValues * 8];
    if (!is_raw(size)) loop(in, last);
    std::memcpy(out, is_raw(size) ? in : last, static_cast<size_t>(tail_bytes()));
  }
};

}  // namespace alance::fastlanes
