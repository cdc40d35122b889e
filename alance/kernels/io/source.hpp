// Interface by which a kernel gets bytes that are not in memory yet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/owned.hpp"

namespace alance {

// Piece of a file; `table` is the number of the file.
struct Piece {
  size_t table;
  int64_t start, stop;
};

// Bytes in memory, and their owner, which any thread may release.
struct HeldBytes {
  const uint8_t* data = nullptr;
  std::shared_ptr<const void> owner{};
};

// Source of the bytes that a kernel decodes, asked for piece by piece, so that bytes are still in
// the processor's cache when they are decoded. Kernels know this interface alone and not what it
// reads from: that keeps them pure.
class Source {
 public:
  virtual ~Source() = default;
  // Pointer to the bytes of a piece, valid as long as the source; null if they must be read.
  virtual const uint8_t* view(const Piece&) { return nullptr; }
  // Bytes of a piece with their owner, valid as long as the owner lives; null also if the owner keeps
  // far more bytes in memory than these.
  virtual HeldBytes hold(const Piece&) { return {}; }
  // Copy the bytes of pieces, which have `num_bytes` in all, one after the other; false on failure.
  virtual bool copy(const Piece* pieces, size_t count, int64_t num_bytes, uint8_t* out) = 0;

  // Bytes of pieces, one after the other, valid until the next call; null on failure.
  const uint8_t* read(const Piece* pieces, size_t count, int64_t num_bytes) {
    if (!buffer_ || buffer_->size() < num_bytes) {
      buffer_.reset();  // so that its block can be reused
      buffer_.emplace(num_bytes);
    }
    return copy(pieces, count, num_bytes, buffer_->data()) ? buffer_->data() : nullptr;
  }

 private:
  std::optional<Owned<uint8_t>> buffer_;
};

}  // namespace alance
