// FSST decoding of strings in several streams at once; see fsst.cpp.
#pragma once
#include <vector>

#include "codecs/fsst.hpp"
#include "base/owned.hpp"

namespace alance::fsst {

// Codes of adjacent strings, and `count` + 1 offsets that were checked to ascend; the first means
// `begin` and the last `end`.
struct Stream {
  const uint8_t* begin;
  const uint8_t* end;
  const uint8_t* offsets;
  int64_t count;
};

template <typename Offset>
struct Decoded {
  Owned<Offset> offsets;
  Owned<uint8_t> bytes;
  int64_t size;
  bool is_ascii;
};

// Decode the strings of all streams; `num_codes` codes have symbols. Codes can be read up to
// `data_end`.
template <typename Offset>
Decoded<Offset> decode_streams(const Table& table, uint64_t num_codes,
                               const std::vector<Stream>& streams, int64_t num_strings,
                               const uint8_t* data_end);

}  // namespace alance::fsst
