// Nearest centroid of points: tiled matrix product of points and centroids, in registers.
#pragma once
#include "vectors/points.hpp"

namespace alance::vectors {

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
