// Vectors as float32 points, from which clusters and codes are computed.
#pragma once
#include "vectors/vectors.hpp"

namespace alance::vectors {

// Stored values as points: unchanged, of length one (cosine), or bit by bit (hamming).
class Points {
 public:
  // `values`: vectors of `dim` numbers, row after row; throws if they are not whole rows.
  Points(Bytes values, int type, int64_t dim, int metric);

  int64_t count() const { return count_; }
  int64_t dim() const { return metric_ == kHamming ? 8 * dim_ : dim_; }  // numbers of a point
  bool is_dot() const { return metric_ == kDot; }
  // Load the points from `start` to `stop`, one after the other.
  void load(int64_t start, int64_t stop, float* out) const;

 private:
  const uint8_t* values_;
  int64_t dim_, row_bytes_, count_;
  int metric_;
  void (*convert_)(const uint8_t* values, int64_t count, float* out);
};

// Number of rows whose points are in memory at once and stay in the processor's cache.
constexpr int64_t kRowStep = 48;  // a multiple of the rows of each tile
inline int64_t rows_at_once(int64_t dim) {
  const int64_t rows = (int64_t{128} << 10) / (4 * dim) / kRowStep * kRowStep;
  return std::clamp<int64_t>(rows, kRowStep, 2 * kRowStep);
}

}  // namespace alance::vectors
