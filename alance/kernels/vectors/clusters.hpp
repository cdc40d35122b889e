// Nearest centroid of points: tiled matrix product of points and centroids, in registers.
#pragma once
#include "vectors/points.hpp"

namespace alance::vectors {

// Centroids in panels of some lanes: of each panel first what a score begins with, then its
// numbers, component by component. A score is greater where a centroid is nearer.
//
// By distance a score is x.c - |c|^2 / 2, of points relative to the mean of the centroids: far from
// zero rounding would hide which one is nearer.
class Panels {
 public:
  // `lanes`: 4, 8 or 16, the width of the registers that are used; 0: the best of this processor.
  Panels(const float* centroids, int64_t count, int64_t dim, bool is_dot, int lanes);

  int64_t count() const { return count_; }
  int64_t dim() const { return dim_; }
  // What is subtracted from a point before its scores.
  const float* origin() const { return origin_.data(); }

  // The nearest centroids of points from which `origin` was taken. There is memory for a multiple
  // of `kRowStep` points, of which the first `rows` count. The least number where scores are equal.
  void nearest(const float* points, int64_t rows, int32_t* labels, float* scores) const {
    nearest_(*this, points, rows, labels, scores);
  }

  // The loops ask:
  int64_t num_panels() const { return panels_; }
  const float* panel(int64_t number) const { return values_.data() + number * panel_size_; }

 private:
  int64_t count_, dim_, panels_ = 0, panel_size_ = 0;
  std::vector<float> origin_, values_;
  void (*nearest_)(const Panels&, const float*, int64_t, int32_t*, float*);
};

// Raises where there is not one label a point, or one of no centroid; none of them: no labels count.
void check_labels(const Points& points, const In<int64_t>& labels, const In<float>& centroids);

}  // namespace alance::vectors
