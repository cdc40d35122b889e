// Checked positions of chunks in one buffer.
#pragma once
#include "base/bounds.hpp"

namespace alance {

inline int64_t bytes_of_bits(int64_t bits) { return bits / 8 + (bits % 8 != 0); }

struct Spans {
  const uint8_t* data;
  const int64_t* starts;
  const int64_t* sizes;
  int64_t num;
  int64_t total = 0;  // bytes of all spans

  Spans(const Bytes& buffer, const In<int64_t>& starts_, const In<int64_t>& sizes_,
        const char* what)
      : data(buffer.data()),
        starts(starts_.data()),
        sizes(sizes_.data()),
        num(static_cast<int64_t>(starts_.size())) {
    if (sizes_.size() != starts_.size()) corrupt(std::string(what) + ": one size a start");
    for (int64_t i = 0; i < num; ++i) {
      check_span(starts[i], sizes[i], static_cast<int64_t>(buffer.size()), what);
      if (__builtin_add_overflow(total, sizes[i], &total))
        corrupt(std::string(what) + ": sizes overflow");
    }
  }

  const uint8_t* at(int64_t i) const { return data + starts[i]; }
};

// Number of values of each chunk, checked.
struct Counts {
  const int64_t* data;
  int64_t total = 0;

  Counts(const In<int64_t>& counts, const Spans& spans, const char* what) : data(counts.data()) {
    if (static_cast<int64_t>(counts.size()) != spans.num)
      corrupt(std::string(what) + ": one count a chunk");
    for (int64_t i = 0; i < spans.num; ++i)
      if (data[i] < 0 || __builtin_add_overflow(total, data[i], &total))
        corrupt(std::string(what) + ": a chunk of " + std::to_string(data[i]) + " values");
  }

  int64_t operator[](int64_t i) const { return data[i]; }
};

}  // namespace alance
