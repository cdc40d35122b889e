// The k nearest rows of each query so far, in a heap to which all search kernels add rows.
//
// The order of rows is total (distance, then id). So the result depends neither on the order in
// which threads add rows, nor on how rows are divided among segments and partitions.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/owned.hpp"
#include "base/processor.hpp"

namespace alance::vectors {

enum Metric : int { kL2 = 0, kCosine = 1, kDot = 2, kHamming = 3 };

// Eight floats: one register of AVX2, or two smaller ones.
using Lanes = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 256;  // rows whose distances lie on the stack

struct Candidate {
  float distance;
  uint64_t id;
  bool operator<(const Candidate& other) const {
    return distance < other.distance || (distance == other.distance && id < other.id);
  }
};

// Rows that are offered to a query: ids, and a mask of the rows that count; null: all do.
struct Rows {
  const uint64_t* ids;
  const uint8_t* mask;
  int64_t count;

  bool any(int64_t start, int64_t stop) const {
    if (!mask) return true;
    for (int64_t row = start; row < stop; ++row)
      if (mask[row]) return true;
    return false;
  }
};

// Query as a table for product codes: for each value of each byte of a code, its share of the
// distance. `steps`, unless empty, has the shares as whole steps that fit a byte: a vector
// instruction looks up many at once, and most rows are dismissed by their rounded sums.
struct QueryTable {
  uint64_t book;  // number of the codebook
  std::vector<float> parts;
  std::vector<uint8_t> steps;  // above the smallest share of their byte, rounded down
  float step = 0, least = 0;  // size of a step; sum of the smallest shares
  float size = 0;  // sum of the largest absolute shares
};

// Vector that rows are compared with, in the types that loops compute in. Zeros follow its values
// up to a multiple of eight, so that loops have no remainder.
struct Query {
  int64_t dim;
  const float* floats;
  const double* exact;
  const uint8_t* bytes;
  double length;  // by cosine
};

// Queries with the rows nearest to each. Distances outside [lower, upper) and NaN are left out.
// Several threads may add rows at once.
//
// A query is one vector, or `width` vectors in a row if rows are lists of vectors. Of the rows
// below the range, the `below` farthest of each query are kept as well: their distances are
// estimates by codes, and an exact comparison may bring them into the range.
class Nearest {
 public:
  Nearest(In<double> queries, int64_t dim, int64_t k, float lower, float upper, int64_t width,
          int64_t below)
      : dim_(dim), k_(k), width_(width), below_(below), lower_(lower), upper_(upper) {
    const bool is_valid =
        dim > 0 && k > 0 && width > 0 && width <= (int64_t{1} << 40) / dim && below >= 0;
    if (!is_valid || queries.size() % static_cast<size_t>(dim * width) != 0)
      corrupt("queries: ", queries.size(), " values of ", width, " vectors of dimension ", dim,
              ", k ", k);
    const int64_t vectors = std::ssize(queries) / dim;
    count_ = vectors / width;
    stride_ = (dim + kLanes - 1) / kLanes * kLanes;
    exact_.resize(static_cast<size_t>(vectors * stride_));
    floats_.resize(exact_.size());
    bytes_.resize(exact_.size());
    for (int64_t vector = 0; vector < vectors; ++vector)
      for (int64_t i = 0; i < dim; ++i) {
        const double value = queries.data()[vector * dim + i];
        const size_t at = static_cast<size_t>(vector * stride_ + i);
        exact_[at] = value;
        floats_[at] = static_cast<float>(value);
        bytes_[at] = value >= 0 && value <= 255 ? static_cast<uint8_t>(value) : uint8_t{0};
      }
    heaps_.resize(static_cast<size_t>(count_));
    below_heaps_.resize(heaps_.size());
  }

  int64_t dim() const { return dim_; }
  int64_t width() const { return width_; }
  // Values of a query's vector, followed by zeros up to a multiple of eight.
  const float* floats(int64_t vector) const { return floats_.data() + vector * stride_; }
  const double* exact(int64_t vector) const { return exact_.data() + vector * stride_; }
  const uint8_t* bytes(int64_t vector) const { return bytes_.data() + vector * stride_; }

  Query query(int64_t vector, double length = 0) const {
    return {dim_, floats(vector), exact(vector), bytes(vector), length};
  }

  // Check the arguments of a kernel; returns the rows. `width`: vectors that the kernel expects in
  // a query.
  Rows checked(const In<uint64_t>& ids, const Bytes& mask, const In<int32_t>& numbers,
               int64_t width = 1) const {
    if (width != width_) corrupt("queries of ", width_, " vectors, expected ", width);
    if (mask.size() && mask.size() != ids.size())
      corrupt("a mask of ", mask.size(), " for ", ids.size(), " rows");
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers.data()[i] < 0 || numbers.data()[i] >= count_)
        corrupt("query ", numbers.data()[i], " of ", count_);
    return {ids.data(), mask.size() ? mask.data() : nullptr, std::ssize(ids)};
  }

  // Offer the rows from `start` to `stop`; `distances` begins with that of row `start`.
  void offer(int64_t query, const float* distances, const Rows& rows, int64_t start, int64_t stop) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Candidate>& heap = heaps_[static_cast<size_t>(query)];
    float worst = worst_of(heap);
    for (int64_t row = start; row < stop; ++row) {
      const float distance = distances[row - start];
      if (!(distance <= worst) || (rows.mask && !rows.mask[row])) continue;
      if (is_in_range(distance)) {
        keep(heap, {distance, rows.ids[row]}, k_);
        worst = worst_of(heap);
      } else if (below_ && distance < lower_) {
        keep(below_heaps_[static_cast<size_t>(query)], {-distance, rows.ids[row]}, below_);
      }
    }
  }

  // Offer a row that the mask includes.
  void offer(int64_t query, float distance, uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_in_range(distance)) keep(heaps_[static_cast<size_t>(query)], {distance, id}, k_);
  }

  // Largest distance that is still accepted; infinity while a query has fewer than k rows.
  float bound(int64_t query) {
    std::lock_guard<std::mutex> lock(mutex_);
    return worst_of(heaps_[static_cast<size_t>(query)]);
  }

  // Table of a query for a codebook, from an earlier partition; null if there is none.
  std::shared_ptr<const QueryTable> table(int64_t query, uint64_t book) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (tables_.empty()) return nullptr;
    const auto& cached = tables_[static_cast<size_t>(query)];
    return cached && cached->book == book ? cached : nullptr;
  }
  void keep_table(int64_t query, std::shared_ptr<const QueryTable> table) {
    std::lock_guard<std::mutex> lock(mutex_);
    tables_.resize(static_cast<size_t>(count_));
    tables_[static_cast<size_t>(query)] = std::move(table);
  }

  // True if rows at this distance, a number, are accepted.
  bool is_in_range(float distance) const {
    return !(distance < lower_) &&
           (distance < upper_ || upper_ == std::numeric_limits<float>::infinity());
  }

  // Number of rows of each query; distances and ids of all rows, nearest first.
  using Sorted = std::tuple<Owned<int64_t>, Owned<float>, Owned<uint64_t>>;
  Sorted result() const { return sorted_of(heaps_); }

  // The same for the rows below the range, farthest first, with negated distances.
  Sorted below() const { return sorted_of(below_heaps_); }

 private:
  Sorted sorted_of(const std::vector<std::vector<Candidate>>& heaps) const {
    int64_t total = 0;
    for (const auto& heap : heaps) total += std::ssize(heap);
    Owned<int64_t> counts(count_);
    Owned<float> distances(total);
    Owned<uint64_t> ids(total);
    int64_t at = 0;
    for (int64_t query = 0; query < count_; ++query) {
      std::vector<Candidate> sorted = heaps[static_cast<size_t>(query)];
      std::sort_heap(sorted.begin(), sorted.end());
      counts[query] = std::ssize(sorted);
      for (const Candidate& candidate : sorted) {
        distances[at] = candidate.distance;
        ids[at++] = candidate.id;
      }
    }
    return {std::move(counts), std::move(distances), std::move(ids)};
  }

  float worst_of(const std::vector<Candidate>& heap) const {
    return std::ssize(heap) < k_ ? std::numeric_limits<float>::infinity() : heap.front().distance;
  }

  static void keep(std::vector<Candidate>& heap, const Candidate& candidate, int64_t most) {
    if (std::ssize(heap) < most) {
      heap.push_back(candidate);
    } else if (candidate < heap.front()) {
      std::pop_heap(heap.begin(), heap.end());
      heap.back() = candidate;
    } else {
      return;
    }
    std::push_heap(heap.begin(), heap.end());
  }

  int64_t dim_, k_, width_, below_, count_ = 0, stride_ = 0;
  float lower_, upper_;
  std::vector<double> exact_;
  std::vector<float> floats_;
  std::vector<uint8_t> bytes_;
  std::vector<std::vector<Candidate>> heaps_, below_heaps_;
  std::vector<std::shared_ptr<const QueryTable>> tables_;
  std::mutex mutex_;
};

}  // namespace alance::vectors
