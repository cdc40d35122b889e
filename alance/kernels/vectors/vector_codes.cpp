// Distances of scalar-quantized vectors (IVF_SQ): one scaled byte a component; and of RaBitQ codes
// (IVF_RQ): a few bits for each component of a rotated vector.
//
// Source: J. Gao, C. Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error
// Bound for Approximate Nearest Neighbor Search", SIGMOD 2024; docs/format/search-indices.md,
// "IVF_RQ".
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "vectors/graph.hpp"
#include "vectors/vectors.hpp"

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
    if (std::ssize(codes) != num_rows * dim_)
      corrupt("scaled bytes: ", codes.size(), " for ", num_rows, " rows of ", dim_);
    if (dim_ > kMostBytes) corrupt("scaled bytes: vectors of dimension ", dim_);
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

void add_sq(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids,
            const Bytes& mask, const Bytes& codes, double low, double high, int metric, float scale,
            const Graph* graph, int64_t ef) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  ScaledBytes scaled(nearest, rows.count, codes, low, high, metric, scale);
  check_graph(graph, ef, rows);
  const auto none = [](int64_t, int64_t, int64_t) { return false; };
  add_rows(nearest, numbers, rows, graph, ef, scaled, none);
}

// Positions of rows in half a block: whole blocks of 32 rows have their sign bits side by side,
// byte by byte of a row (docs/format/search-indices.md, "IVF_RQ"). Rows behind the last whole
// block are stored column by column.
constexpr int kPlaces[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};

// Fill a query's table for signs, [four][value]: for each four components, and each value of their
// four bits, half the sum of the components with these signs.
void fill_signs(const float* query, int64_t dim, float* table) {
  for (int64_t d = 0; d < dim; d += 4, table += 16)
    for (int value = 0; value < 16; ++value) {
      float total = 0;
      for (int bit = 0; bit < 4; ++bit)
        total += value >> bit & 1 ? query[d + bit] : -query[d + bit];
      table[value] = total / 2;
    }
}

// Sums of the table values of each row in a block of 32. All versions add in the same order: the
// distance of a row depends neither on its position nor on the processor.
using SumBlock = void (*)(const uint8_t* block, int64_t row_bytes, const float* table, float* out);

void sum_block_any(const uint8_t* block, int64_t row_bytes, const float* table, float* out) {
  float sums[32] = {};  // by position in the block
  for (int64_t i = 0; i < row_bytes; ++i, block += 32, table += 32)
    for (int j = 0; j < 16; ++j) {
      sums[j] = sums[j] + table[block[j] & 15] + table[16 + (block[16 + j] & 15)];
      sums[16 + j] = sums[16 + j] + table[block[j] >> 4] + table[16 + (block[16 + j] >> 4)];
    }
  for (int j = 0; j < 16; ++j) {
    out[kPlaces[j]] = sums[j];
    out[16 + kPlaces[j]] = sums[16 + j];
  }
}

#if defined(__x86_64__)
// Sixteen table values fill a register of AVX-512; one instruction looks up sixteen.
__attribute__((target("avx512f"))) void sum_block_avx512(const uint8_t* block, int64_t row_bytes,
                                                         const float* table, float* out) {
  __m512 low = _mm512_setzero_ps(), high = low;
  for (int64_t i = 0; i < 2 * row_bytes; ++i, block += 16, table += 16) {
    const __m512 values = _mm512_loadu_ps(table);
    const __m512i bytes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block)));
    low = _mm512_add_ps(low, _mm512_permutexvar_ps(bytes, values));  // by the lowest four bits
    high = _mm512_add_ps(high, _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values));
  }
  const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  _mm512_storeu_ps(out, _mm512_permutexvar_ps(order, low));
  _mm512_storeu_ps(out + 16, _mm512_permutexvar_ps(order, high));
}
#endif

SumBlock sum_block(bool baseline) {
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx512f");
  if (is_wide && !baseline) return &sum_block_avx512;
#endif
  (void)baseline;
  return &sum_block_any;
}

// Signs of the rows of a partition.
struct Signs {
  const uint8_t* packed;
  int64_t count, row_bytes;
  bool is_packed;
  SumBlock sum;

  // Sums of the table values of some rows; `start` is that of a block.
  void sums(int64_t start, int64_t stop, const float* table, float* out) const {
    const int64_t whole = is_packed ? count / 32 * 32 : 0;
    for (; start < std::min(stop, whole); start += 32, out += 32)
      sum(packed + start * row_bytes, row_bytes, table, out);
    // Rows behind the last whole block: column by column, or row by row if signs are not packed.
    const int64_t row_step = is_packed ? 1 : row_bytes, byte_step = is_packed ? count - whole : 1;
    for (; start < stop; ++start) {
      const uint8_t* from = packed + whole * row_bytes + (start - whole) * row_step;
      float total = 0;
      for (int64_t i = 0; i < row_bytes; ++i, from += byte_step)
        total = total + table[32 * i + (*from & 15)] + table[32 * i + 16 + (*from >> 4)];
      *out++ = total;
    }
  }
};

inline uint64_t word_of(const uint8_t* in, int number) { return load<uint64_t>(in + 8 * number); }

constexpr uint64_t kOnes = 0x0101010101010101u;  // lowest bit of each byte

// Eight codes of six bits; the bits of the last sixteen of a block are above those of the others.
inline uint64_t six_bits(const uint8_t* in, int m) {
  if (m < 6) return word_of(in, m) & 63 * kOnes;
  const auto top = [&](int number) { return word_of(in, number + m % 2) >> 6 & 3 * kOnes; };
  return top(0) | top(2) << 2 | top(4) << 4;
}

// Further bits of eight components, from component 8 m of a block of 64 on, one byte each.
inline uint64_t extra_bits(const uint8_t* in, int ex, int m) {
  switch (ex) {
    case 1: {
      const uint64_t spread = in[m] * kOnes & 0x8040201008040201u;
      return (spread + 127 * kOnes) >> 7 & kOnes;
    }
    case 2: return word_of(in, m % 2) >> 2 * (m / 2) & 3 * kOnes;
    case 3: return extra_bits(in, 2, m) | (word_of(in, 2) >> m & kOnes) << 2;
    case 4: return word_of(in, m / 2) >> 4 * (m % 2) & 15 * kOnes;
    case 5:
      return (word_of(in, 2 * (m / 4) + m % 2) >> 4 * (m / 2 % 2) & 15 * kOnes) |
             (word_of(in, 4) >> m & kOnes) << 4;
    case 6: return six_bits(in, m);
    case 7: return six_bits(in, m) | (word_of(in, 6) >> m & kOnes) << 6;
    default: return word_of(in, m);
  }
}

// Unpack the further bits of rows, one byte each.
template <int Ex>
void unpack_extra(const uint8_t* in, int64_t count, int64_t dim, uint8_t* out) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t d = 0; d < dim; d += 64, in += 8 * Ex)
      for (int m = 0; m < 8 && d + 8 * m < dim; ++m, out += 8) store(out, extra_bits(in, Ex, m));
}

using Unpack = void (*)(const uint8_t* in, int64_t count, int64_t dim, uint8_t* out);
constexpr Unpack kUnpack[] = {nullptr,         unpack_extra<1>, unpack_extra<2>,
                              unpack_extra<3>, unpack_extra<4>, unpack_extra<5>,
                              unpack_extra<6>, unpack_extra<7>, unpack_extra<8>};

// Queries and the centroid of the partition are rotated like the vectors.
void add_rabitq(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids,
                const Bytes& mask, const Bytes& signs, bool is_packed, int ex, const Bytes& extra,
                const In<float>& add, const In<float>& factor, const In<float>& centroid,
                int metric, float scale, bool baseline) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  const int64_t dim = nearest.dim(), row_bytes = dim / 8, count = rows.count;
  if (ex < 0 || ex > 8 || dim % 8 != 0) corrupt("bit codes: ", ex, " more bits of dimension ", dim);
  const int64_t extra_bytes = ex * ((dim + 63) / 64) * 8;
  if (std::ssize(signs) != count * row_bytes || std::ssize(extra) != count * extra_bytes ||
      std::ssize(add) != count || std::ssize(factor) != count || std::ssize(centroid) != dim)
    corrupt("bit codes: ", signs.size(), " and ", extra.size(), " bytes for ", count,
            " rows of dimension ", dim);
  // For each query: its table, its distance from the centroid, the term of its further bits, and
  // its share along the centroid.
  std::vector<float> tables(numbers.size() * static_cast<size_t>(4 * dim));
  std::vector<float> gaps(numbers.size()), halves(numbers.size()), shares(numbers.size(), 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float* query = nearest.floats(numbers.data()[i]);
    fill_signs(query, dim, tables.data() + i * static_cast<size_t>(4 * dim));
    double gap = 0, sum = 0, norm = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const double value = query[d], centre = centroid.data()[d];
      gap += metric == kDot ? -value * centre : (value - centre) * (value - centre);
      norm += centre * centre;
      sum += value;
    }
    // By dot only the part of a query across the centroid is estimated: a row's `add` has the exact
    // product for the share along it.
    if (metric == kDot) {
      const double share = norm > 0 ? -gap / norm : 0;
      gap += 1 - share;
      shares[i] = static_cast<float>(share);
    }
    gaps[i] = static_cast<float>(gap);
    halves[i] = static_cast<float>(sum * ((1 << ex) - 1) / 2);
  }
  const Signs bits{signs.data(), count, row_bytes, is_packed, sum_block(baseline)};
  const Loop products = loop_of(kUint8, kDot, baseline);
  const float unit = static_cast<float>(1 << ex);
  const int64_t step = std::clamp<int64_t>((64 << 10) / dim / 32 * 32, 32, kBlock);
  std::vector<uint8_t> codes(static_cast<size_t>(ex ? step * dim : 0));
  float distances[kBlock], more[kBlock];
  for (int64_t start = 0; start < count; start += step) {
    const int64_t stop = std::min(count, start + step), here = stop - start;
    if (!rows.any(start, stop)) continue;
    if (ex) kUnpack[ex](extra.data() + start * extra_bytes, here, dim, codes.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      bits.sums(start, stop, tables.data() + i * static_cast<size_t>(4 * dim), distances);
      if (ex) {
        products(nearest.query(numbers.data()[i]), codes.data(), here, more);
        for (int64_t r = 0; r < here; ++r)
          distances[r] = unit * distances[r] + (1 - more[r] - halves[i]);
      }
      for (int64_t r = 0; r < here; ++r)
        distances[r] = scale * (shares[i] * add.data()[start + r] + gaps[i] +
                                factor.data()[start + r] * distances[r]);
      nearest.offer(numbers.data()[i], distances, rows, start, stop);
    }
  }
}

}  // namespace
}  // namespace alance::vectors

void register_vector_codes(nanobind::module_& m) {
  using namespace alance;
  m.def("add_sq", &vectors::add_sq, "nearest"_a, "numbers"_a, "ids"_a, "mask"_a, "codes"_a, "low"_a,
        "high"_a, "metric"_a, "scale"_a, "graph"_a = nb::none(), "ef"_a = 0, NoGil());
  m.def("add_rabitq", &vectors::add_rabitq, "nearest"_a, "numbers"_a, "ids"_a, "mask"_a, "signs"_a,
        "is_packed"_a, "ex"_a, "extra"_a, "add"_a, "factor"_a, "centroid"_a, "metric"_a, "scale"_a,
        "baseline"_a = false, NoGil());
}
