// Distances of scalar-quantized vectors (IVF_SQ): one scaled byte a component.
#include "vectors/graph.hpp"
#include "vectors/vectors.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace alance::vectors {
namespace {

ALANCE_CLONES void square_gaps_any(const uint8_t* rows, int64_t count, int64_t dim, const uint8_t* query,
                               float factor, float* out) {
  for (int64_t r = 0; r < count; ++r, rows += dim) {
    uint32_t total = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const int32_t gap = int32_t{rows[i]} - int32_t{query[i]};
      total += static_cast<uint32_t>(gap * gap);
    }
    out[r] = factor * static_cast<float>(total);
  }
}

#if defined(__x86_64__)
#define ALANCE_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

// Differences of 32 bytes, 16 bits each.
ALANCE_VNNI inline __m512i gaps_of(const uint8_t* row, const uint8_t* query) {
  const auto* left = reinterpret_cast<const __m256i*>(row);
  const auto* right = reinterpret_cast<const __m256i*>(query);
  return _mm512_sub_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(left)),
                          _mm512_cvtepu8_epi16(_mm256_loadu_si256(right)));
}

// One instruction adds the squares of two differences to a sum.
ALANCE_VNNI void square_gaps_avx512(const uint8_t* rows, int64_t count, int64_t dim,
                                    const uint8_t* query, float factor, float* out) {
  for (int64_t r = 0; r < count; ++r, rows += dim) {
    __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    int64_t i = 0;
    for (; i + 64 <= dim; i += 64)
      for (int64_t j = 0; j < 2; ++j) {
        const __m512i gaps = gaps_of(rows + i + 32 * j, query + i + 32 * j);
        sums[j] = _mm512_dpwssd_epi32(sums[j], gaps, gaps);
      }
    auto total =
        static_cast<uint32_t>(_mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1])));
    for (; i < dim; ++i) {
      const int32_t gap = int32_t{rows[i]} - int32_t{query[i]};
      total += static_cast<uint32_t>(gap * gap);
    }
    out[r] = factor * static_cast<float>(total);
  }
}
#endif

}  // namespace

void square_gaps(const uint8_t* rows, int64_t count, int64_t dim, const uint8_t* query, float factor,
                 float* out) {
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx512f") &&
                              __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vnni");
  if (is_wide) return square_gaps_avx512(rows, count, dim, query, factor, out);
#endif
  square_gaps_any(rows, count, dim, query, factor, out);
}

namespace {

// Scaled bytes of a partition: a value v is stored as 255 (v - low) / (high - low), clamped to a
// byte.
class ScaledBytes {
 public:
  ScaledBytes(const Nearest& nearest, int64_t num_rows, const Bytes& codes, double low, double high,
              int metric, float scale)
      : nearest_(nearest), codes_(codes.data()), dim_(nearest.dim()), low_(low),
        unit_((high - low) / 255), factor_(scale * static_cast<float>(unit_ * unit_)),
        is_dot_(metric == kDot), products_(loop_of(kUint8, kDot, false)) {
    if (static_cast<int64_t>(codes.size()) != num_rows * dim_)
      corrupt("scaled bytes: " + std::to_string(codes.size()) + " for " + std::to_string(num_rows) +
              " rows of " + std::to_string(dim_));
    if (dim_ > kMostBytes) corrupt("scaled bytes: vectors of dimension " + std::to_string(dim_));
    coded_.resize(static_cast<size_t>(dim_));
  }

  void ask(int64_t number) {
    number_ = number;
    sum_ = 0;
    const float* query = nearest_.floats(number);
    for (int64_t d = 0; d < dim_; ++d) {
      const double code = unit_ > 0 ? (double{query[d]} - low_) / unit_ : 0;
      coded_[static_cast<size_t>(d)] = static_cast<uint8_t>(std::clamp(code, 0.0, 255.0));
      sum_ += double{query[d]};
    }
  }

  void run(int64_t start, int64_t count, float* distances) const {
    const uint8_t* first = codes_ + start * dim_;
    if (!is_dot_) return square_gaps(first, count, dim_, coded_.data(), factor_, distances);
    products_(nearest_.query(number_), first, count, distances);
    for (int64_t r = 0; r < count; ++r)
      distances[r] = static_cast<float>(1 - low_ * sum_ - unit_ * (1 - double{distances[r]}));
  }

  float at(int64_t row) const {
    float distance;
    run(row, 1, &distance);
    return distance;
  }

  void prefetch(int64_t row) const { __builtin_prefetch(codes_ + row * dim_); }

 private:
  const Nearest& nearest_;
  const uint8_t* codes_;
  int64_t dim_, number_ = 0;
  double low_, unit_, sum_ = 0;
  float factor_;
  bool is_dot_;
  Loop products_;
  std::vector<uint8_t> coded_;
};

void add_sq(Nearest& nearest, In<int32_t> numbers, In<uint64_t> ids, Bytes mask, Bytes codes,
            double low, double high, int metric, float scale, const Graph* graph, int64_t ef) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  ScaledBytes scaled(nearest, rows.count, codes, low, high, metric, scale);
  check_graph(graph, ef, rows);
  nb::gil_scoped_release release;
  const auto none = [](int64_t, int64_t, int64_t) { return false; };
  add_rows(nearest, numbers, rows, graph, ef, scaled, none);
}

}  // namespace
}  // namespace alance::vectors

void register_vector_codes(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("add_sq", &alance::vectors::add_sq, nb::arg("nearest"), nb::arg("numbers"), nb::arg("ids"),
        nb::arg("mask"), nb::arg("codes"), nb::arg("low"), nb::arg("high"), nb::arg("metric"),
        nb::arg("scale"), nb::arg("graph") = nb::none(), nb::arg("ef") = 0);
}
