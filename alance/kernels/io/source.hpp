// Interface by which a kernel gets bytes that are not in memory yet.
#pragma once
#include <cstddef>
#include <cstdint>

namespace alance {

// A piece of a file; `table` says of which.
struct Piece {
  size_t table;
  int64_t start, stop;
};

// Gives the bytes of pieces while they are decoded, so that they are still in the processor's
// cache. Kernels use only this interface: they do not know what it reads from. That keeps them
// pure.
class Source {
 public:
  virtual ~Source() = default;
  // Where the bytes of a piece lie in memory, as long as the source does. Null: nowhere.
  virtual const uint8_t* view(const Piece&) { return nullptr; }
  // The bytes of some pieces, end to end; valid until the next call. Null: it failed.
  virtual const uint8_t* read(const Piece* pieces, size_t count, int64_t num_bytes) = 0;
};

}  // namespace alance
