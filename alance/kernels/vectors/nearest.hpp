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

#define ALANCE_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define ALANCE_AVX2 __attribute__((target("avx2,fma,f16c,popcnt")))
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance::vectors {

enum Metric : int { kL2 = 0, kCosine = 1, kDot = 2, kHamming = 3 };

// Eight values: one register of AVX2, or two of what every processor has.
using Lanes = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 256;  // rows whose distances are kept on the stack

// Whether this processor has AVX2, and what has come with it ever since.
inline bool has_avx2() {
#ifdef ALANCE_AVX2
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
  return has;
#else
  return false;
#endif
}

struct Candidate {
  float distance;
  uint64_t id;
  bool operator<(const Candidate& other) const {
    return distance < other.distance || (distance == other.distance && id < other.id);
  }
};

// Rows that are offered to a query: their ids, and where `mask` is not null, which of them count.
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

// A query as a table for product codes: for each value of each byte of a code, its part of the
// distance. `steps` has the same in whole steps, if it is not empty: these fit into a byte, so that
// a vector instruction looks up many at once, and most rows are dismissed by their rounded sums.
struct QueryTable {
  uint64_t book;  // its number
  std::vector<float> parts;
  std::vector<uint8_t> steps;  // above the least of their byte, rounded down
  float step = 0, least = 0;  // the size of a step; the sum of the least parts
  float size = 0;  // the sum of the largest parts, without their signs
};

// A vector that rows are compared with, in the types that loops compute with. Zeros follow its
// values up to a multiple of eight, so that loops have no rest of fewer values.
struct Query {
  int64_t dim;
  const float* floats;
  const double* exact;
  const uint8_t* bytes;
  double length;  // by cosine
};

// Queries with the rows nearest to each. Distances outside of [lower, upper), and NaN, are left
// out. Several threads may add rows at once.
//
// A query is one vector, or `width` vectors in a row if rows are lists of vectors. Of the rows
// whose distances are below the range, the `below` farthest of each query are kept as well: their
// distances are estimates by codes, and an exact comparison may bring them into the range.
class Nearest {
 public:
  Nearest(In<double> queries, int64_t dim, int64_t k, float lower, float upper, int64_t width,
          int64_t below)
      : dim_(dim), k_(k), width_(width), below_(below), lower_(lower), upper_(upper) {
    const bool is_valid =
        dim > 0 && k > 0 && width > 0 && width <= (int64_t{1} << 40) / dim && below >= 0;
    if (!is_valid || queries.size() % static_cast<size_t>(dim * width) != 0)
      corrupt("queries: " + std::to_string(queries.size()) + " values of " + std::to_string(width) +
              " vectors of dimension " + std::to_string(dim) + ", k " + std::to_string(k));
    const int64_t vectors = static_cast<int64_t>(queries.size()) / dim;
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
  // The values of a query's vector, followed by zeros up to a multiple of eight.
  const float* floats(int64_t vector) const { return floats_.data() + vector * stride_; }
  const double* exact(int64_t vector) const { return exact_.data() + vector * stride_; }
  const uint8_t* bytes(int64_t vector) const { return bytes_.data() + vector * stride_; }

  Query query(int64_t vector, double length = 0) const {
    return {dim_, floats(vector), exact(vector), bytes(vector), length};
  }

  // The rows that a kernel was given, and the queries that it is to answer; `width`: vectors that
  // it expects of a query.
  Rows checked(const In<uint64_t>& ids, const Bytes& mask, const In<int32_t>& numbers,
               int64_t width = 1) const {
    if (width != width_)
      corrupt("queries of " + std::to_string(width_) + " vectors, expected " + std::to_string(width));
    if (mask.size() && mask.size() != ids.size())
      corrupt("a mask of " + std::to_string(mask.size()) + " for " + std::to_string(ids.size()) +
              " rows");
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers.data()[i] < 0 || numbers.data()[i] >= count_)
        corrupt("query " + std::to_string(numbers.data()[i]) + " of " + std::to_string(count_));
    return {ids.data(), mask.size() ? mask.data() : nullptr, static_cast<int64_t>(ids.size())};
  }

  // Offers the rows from `start` to `stop`; `distances` begins with that of the first.
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

  // Offers a row that counts.
  void offer(int64_t query, float distance, uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_in_range(distance)) keep(heaps_[static_cast<size_t>(query)], {distance, id}, k_);
  }

  // How far a row may be to be kept; infinity as long as a query has fewer than k.
  float bound(int64_t query) {
    std::lock_guard<std::mutex> lock(mutex_);
    return worst_of(heaps_[static_cast<size_t>(query)]);
  }

  // What a codebook has made of a query, for the partitions that follow; null: nothing is kept.
  std::shared_ptr<const QueryTable> table(int64_t query, uint64_t book) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (tables_.empty()) return nullptr;
    const auto& kept = tables_[static_cast<size_t>(query)];
    return kept && kept->book == book ? kept : nullptr;
  }
  void keep_table(int64_t query, std::shared_ptr<const QueryTable> table) {
    std::lock_guard<std::mutex> lock(mutex_);
    tables_.resize(static_cast<size_t>(count_));
    tables_[static_cast<size_t>(query)] = std::move(table);
  }

  // Whether rows at that distance are kept, where it is a number.
  bool is_in_range(float distance) const {
    return !(distance < lower_) &&
           (distance < upper_ || upper_ == std::numeric_limits<float>::infinity());
  }

  // Of each query the number of rows; then the distances and ids of all, nearest first.
  nb::tuple result() const { return sorted_of(heaps_); }

  // The same of the rows below the range, the farthest first; their distances are negated.
  nb::tuple below() const { return sorted_of(below_heaps_); }

 private:
  nb::tuple sorted_of(const std::vector<std::vector<Candidate>>& heaps) const {
    int64_t total = 0;
    for (const auto& heap : heaps) total += static_cast<int64_t>(heap.size());
    Owned<int64_t> counts(count_);
    Owned<float> distances(total);
    Owned<uint64_t> ids(total);
    int64_t at = 0;
    for (int64_t query = 0; query < count_; ++query) {
      std::vector<Candidate> sorted = heaps[static_cast<size_t>(query)];
      std::sort_heap(sorted.begin(), sorted.end());
      counts[query] = static_cast<int64_t>(sorted.size());
      for (const Candidate& candidate : sorted) {
        distances[at] = candidate.distance;
        ids[at++] = candidate.id;
      }
    }
    return nb::make_tuple(counts.numpy(), distances.numpy(), ids.numpy());
  }

  float worst_of(const std::vector<Candidate>& heap) const {
    return static_cast<int64_t>(heap.size()) < k_ ? std::numeric_limits<float>::infinity()
                                                  : heap.front().distance;
  }

  static void keep(std::vector<Candidate>& heap, const Candidate& candidate, int64_t most) {
    if (static_cast<int64_t>(heap.size()) < most) {
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
