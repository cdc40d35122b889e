// Decompression of units: the first buffer of values of a chunk, or a zipped string.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/allowance.hpp"
#include "codecs/lz4.hpp"
#include "rows/pages/cells.hpp"

namespace alance::units {

using cells::Part;
using cells::text;

constexpr int64_t kMostUnit = int64_t{1} << 31;
constexpr int kLz4 = 1, kZstd = 2;

// Decoder of ZSTD units, which Python sets: returns the content, of at most so many bytes.
inline nb::object& zstd() {
  // Never freed: the interpreter may be gone by then.
  static nb::object& decoder = *new nb::object();
  return decoder;
}

// Append the content of a unit, of at most `most` bytes, to memory that `extend` returns.
template <typename Extend>
void decompress(int scheme, Part unit, int64_t most, const Extend& extend) {
  if (scheme == kLz4) {
    const int64_t size = lz4::content_size(unit.data, unit.size, most);
    spend(size);
    lz4::decode(unit.data + lz4::kPrefix, unit.data + unit.size, extend(size), size);
    return;
  }
  const nb::gil_scoped_acquire locked;
  if (!zstd().is_valid()) corrupt("zstd: there is no decoder");
  bool is_less = false;  // content that is larger may be valid
  try {
    if (allowance() != kNoAllowance && allowance() < most) {
      most = allowance();
      is_less = true;
    }
    const auto content = nb::cast<nb::bytes>(
        zstd()(nb::bytes(unit.data, static_cast<size_t>(unit.size)), most));
    const auto size = static_cast<int64_t>(content.size());
    if (size > most) corrupt("zstd: a unit of " + text(unit.size) + " bytes for " + text(size));
    spend(size);
    if (size != 0) {
      uint8_t* const to = extend(size);
      const char* const from = content.c_str();
      const nb::gil_scoped_release unlocked;  // it may have many pages of memory
      std::memcpy(to, from, static_cast<size_t>(size));
    }
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    if (is_less) throw OverAllowance();
    corrupt(nb::str(error.value()).c_str());
  }
}

// Content of a unit; it is stored in `content`, with room behind it for LZ4.
inline Part decompressed(int scheme, Part unit, int64_t most, std::vector<uint8_t>& content) {
  int64_t size = 0;
  content.clear();
  decompress(scheme, unit, most, [&](int64_t num_bytes) {
    size = num_bytes;
    content.resize(static_cast<size_t>(size + lz4::kBurst));
    return content.data();
  });
  return {content.data(), size};
}

}  // namespace alance::units
