// How kernels are brought bytes that are not in memory yet.
#pragma once
#include <cstddef>
#include <cstdint>

namespace alance {

// A piece of a file; `table` says of which.
struct Piece {
  size_t table;
  int64_t start, stop;
};

// What gives the bytes of pieces while they are decoded. Kernels know no other: what it reads from,
// and how, is the matter of who made it.
class Source {
 public:
  virtual ~Source() = default;
  // The bytes of some pieces, one behind the other, until the next call; null: it failed.
  virtual const uint8_t* read(const Piece* pieces, size_t count, int64_t num_bytes) = 0;
};

}  // namespace alance
