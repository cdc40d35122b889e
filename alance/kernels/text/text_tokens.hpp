// Tokens as concatenated bytes with offsets.
#pragma once
#include <string_view>

#include "base/lists.hpp"

namespace alance::text {

struct Tokens {
  const int64_t* offsets;
  const char* data;
  int64_t count;

  Tokens(const In<int64_t>& starts, const Bytes& bytes)
      : offsets(starts.data()), data(text_of(bytes).data()), count(std::ssize(starts) - 1) {
    if (count < 0 || offsets[0] < 0 || offsets[count] > std::ssize(bytes))
      corrupt("text index: tokens outside of their bytes");
  }
  std::string_view operator[](int64_t i) const {
    return {data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
};

}  // namespace alance::text
