// Interface by which a kernel gets bytes that are not in memory yet.
#pragma once
#include <cstddef>
#include <cstdint>

namespace alance {

// Piece of a file; `table` is the number of the file.
struct Piece {
  size_t table;
  int64_t start, stop;
};

// Source of the bytes that a kernel decodes, asked for piece by piece, so that bytes are still in
// the processor's cache when they are decoded. Kernels know this interface alone and not what it
// reads from: that keeps them pure.
class Source {
 public:
  virtual ~Source() = default;
  // Pointer to the bytes of a piece, valid as long as the source; null if they must be read.
  virtual const uint8_t* view(const Piece&) { return nullptr; }
  // Bytes of pieces, one after the other, valid until the next call; null on failure.
  virtual const uint8_t* read(const Piece* pieces, size_t count, int64_t num_bytes) = 0;
};

}  // namespace alance
