// Vectors as float32 points, from which clusters and codes are computed; and the nearest centroids
// of points: a tiled matrix product of points and centroids, in registers.
#pragma once
#include "vectors/vectors.hpp"

namespace alance::vectors {

// Number of rows whose points are in memory at once and stay in the processor's cache.
constexpr int64_t kRowStep = 48;  // a multiple of the rows of each tile
constexpr int64_t kMaxRows = 2 * kRowStep;
inline int64_t rows_at_once(int64_t dim) {
  const int64_t rows = (int64_t{128} << 10) / (4 * dim) / kRowStep * kRowStep;
  return std::clamp<int64_t>(rows, kRowStep, kMaxRows);
}

// Stored values as points: unchanged, of length one (cosine), or bit by bit (hamming).
class Points {
 public:
  // `values`: vectors of `dim` numbers, row after row; throws if they are not whole rows.
  Points(const Bytes& values, int type, int64_t dim, int metric);

  int64_t count() const { return count_; }
  int64_t dim() const { return metric_ == kHamming ? 8 * dim_ : dim_; }  // numbers of a point
  bool is_dot() const { return metric_ == kDot; }
  // Load the points from `start` to `stop`, one after the other.
  void load(int64_t start, int64_t stop, float* out) const;
  // Call `visit(start, rows, points)` for blocks of points, with memory for `rows_at_once` of them.
  template <typename Visit>
  void each_block(Visit visit) const {
    const int64_t step = rows_at_once(dim());
    std::vector<float> block(static_cast<size_t>(step * dim()));
    for (int64_t start = 0; start < count_; start += step) {
      const int64_t rows = std::min(step, count_ - start);
      load(start, start + rows, block.data());
      visit(start, rows, block.data());
    }
  }

 private:
  const uint8_t* values_;
  int64_t dim_, row_bytes_, count_;
  int metric_;
  void (*convert_)(const uint8_t* values, int64_t count, float* out);
};

// Centroids in panels of two registers: for each panel the initial scores, then the values,
// component by component. A nearer centroid has a greater score.
//
// By l2 a score is x.c - |c|^2 / 2, of points relative to the mean of the centroids: far from zero,
// rounding would hide which centroid is nearer.
class Panels {
 public:
  // `lanes`: floats in a register: 4, 8 or 16; 0: as many as this processor has.
  Panels(const float* centroids, int64_t count, int64_t dim, bool is_dot, int lanes);

  int64_t count() const { return count_; }
  int64_t dim() const { return dim_; }
  // Point to subtract from points before they are scored.
  const float* origin() const { return origin_.data(); }

  // Nearest centroids of points from which `origin` was subtracted. There is memory for a multiple
  // of `kRowStep` points, of which the first `rows` count. Among equal scores, the smallest number
  // wins.
  void nearest(const float* points, int64_t rows, int32_t* labels, float* scores) const {
    nearest_(*this, points, rows, labels, scores);
  }

  // Used by the loops in clusters.cpp:
  int64_t num_panels() const { return panels_; }
  const float* panel(int64_t number) const { return values_.data() + number * panel_size_; }

 private:
  int64_t count_, dim_, panels_ = 0, panel_size_ = 0;
  std::vector<float> origin_, values_;
  void (*nearest_)(const Panels&, const float*, int64_t, int32_t*, float*);
};

// Throw unless there is a label for each point and, if there are centroids, each label is one.
void check_labels(const Points& points, const In<int64_t>& labels, const In<float>& centroids);

}  // namespace alance::vectors
