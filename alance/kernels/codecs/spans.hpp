// Checked positions of chunks in one buffer.
#pragma once
#include "base/bounds.hpp"

namespace alance {

// Call `each` with a zero of the type of values of 8, 16, 32 or 64 bits.
template <typename Each>
inline auto by_width(int bits, const Each& each) {
  switch (bits) {
    case 8:
      return each(uint8_t{});
    case 16:
      return each(uint16_t{});
    case 32:
      return each(uint32_t{});
    default:
      return each(uint64_t{});
  }
}

// Call `work` with a number of bytes: as a constant if it is a power of two up to 32, so that a copy
// of so many bytes takes few instructions.
template <typename Work>
inline void with_size(int64_t size, const Work& work) {
  switch (size) {
    case 1: return work(std::integral_constant<int64_t, 1>());
    case 2: return work(std::integral_constant<int64_t, 2>());
    case 4: return work(std::integral_constant<int64_t, 4>());
    case 8: return work(std::integral_constant<int64_t, 8>());
    case 16: return work(std::integral_constant<int64_t, 16>());
    case 32: return work(std::integral_constant<int64_t, 32>());
    default: return work(size);
  }
}

inline int64_t bytes_of_bits(int64_t bits) { return bits / 8 + (bits % 8 != 0); }

// Copy bits from `start` on to the beginning of `out`; zero bits fill the last byte.
inline void copy_bits(const uint8_t* in, int64_t start, int64_t num_bits, uint8_t* out) {
  if (num_bits == 0) return;
  const int64_t num_bytes = bytes_of_bits(num_bits);
  const int shift = static_cast<int>(start % 8);
  in += start / 8;
  if (shift == 0) {
    std::memcpy(out, in, static_cast<size_t>(num_bytes));
  } else {
    const int64_t last = (shift + num_bits - 1) / 8;  // last byte that is read
    for (int64_t i = 0; i < num_bytes; ++i) {
      const unsigned high = i < last ? in[i + 1] : 0;
      out[i] = static_cast<uint8_t>(in[i] >> shift | high << (8 - shift));
    }
  }
  if (num_bits % 8) out[num_bytes - 1] &= static_cast<uint8_t>((1u << num_bits % 8) - 1);
}

struct Spans {
  const uint8_t* data;
  const int64_t* starts;
  const int64_t* sizes;
  int64_t num;
  int64_t total = 0;  // bytes of all spans

  Spans(const Bytes& buffer, const In<int64_t>& starts_, const In<int64_t>& sizes_,
        const char* what)
      : data(buffer.data()), starts(starts_.data()), sizes(sizes_.data()),
        num(std::ssize(starts_)) {
    if (sizes_.size() != starts_.size()) corrupt(what, ": one size a start");
    for (int64_t i = 0; i < num; ++i) {
      check_span(starts[i], sizes[i], std::ssize(buffer), what);
      if (__builtin_add_overflow(total, sizes[i], &total)) corrupt(what, ": sizes overflow");
    }
  }

  const uint8_t* at(int64_t i) const { return data + starts[i]; }
};

}  // namespace alance
