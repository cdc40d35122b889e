// Unpacking loops for blocks of 1024 values; see bitpacking.cpp.
#pragma once
#include "codecs/fastlanes.hpp"

namespace alance::fastlanes {

// Loops for values of 8, 16, 32 or 64 bits, by packed width; each reads 128 * width bytes and
// writes 1024 values.
using Unpacker = void (*)(const uint8_t*, uint8_t*);
const Unpacker* unpackers(int bits);

}  // namespace alance::fastlanes
