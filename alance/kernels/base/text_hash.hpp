// Hash function for texts from files, for hash tables of the standard library.
#pragma once
#include "base/hashes.hpp"

namespace alance {

struct TextHash {
  size_t operator()(std::string_view text) const { return hashes::Secret::own().of(text); }
};

}  // namespace alance
