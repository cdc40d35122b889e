// Distances of vectors from a query: one loop for each value type and metric.
#pragma once
#include "vectors/nearest.hpp"

namespace alance::vectors {

enum Type : int { kFloat16 = 0, kBfloat16 = 1, kFloat32 = 2, kFloat64 = 3, kUint8 = 4 };

// Types of values, with the conversion of eight values (four of float64) to lanes.
struct Float32 {
  using Vec = Lanes;
  using Real = float;
  static constexpr int64_t kValueBytes = 4, kLaneCount = kLanes;
  static ALANCE_INLINE void load(Vec& out, const uint8_t* from) { std::memcpy(&out, from, 32); }
};

struct Float16 {
  using Vec = Lanes;
  using Real = float;
  static constexpr int64_t kValueBytes = 2, kLaneCount = kLanes;
  using Halves = _Float16 __attribute__((vector_size(16)));
  static ALANCE_INLINE void load(Vec& out, const uint8_t* from) {
    Halves halves;
    std::memcpy(&halves, from, 16);
    out = __builtin_convertvector(halves, Lanes);
  }
};

struct Bfloat16 {
  using Vec = Lanes;
  using Real = float;
  static constexpr int64_t kValueBytes = 2, kLaneCount = kLanes;
  using Words = uint16_t __attribute__((vector_size(16)));
  using Wide = uint32_t __attribute__((vector_size(32)));
  static ALANCE_INLINE void load(Vec& out, const uint8_t* from) {
    Words words;
    std::memcpy(&words, from, 16);
    const Wide wide = __builtin_convertvector(words, Wide) << 16;
    std::memcpy(&out, &wide, 32);
  }
};

struct Uint8 {
  using Vec = Lanes;
  using Real = float;
  static constexpr int64_t kValueBytes = 1, kLaneCount = kLanes;
  using Pair = uint64_t __attribute__((vector_size(16)));
  using Words = uint8_t __attribute__((vector_size(16)));
  using Halves = uint16_t __attribute__((vector_size(32)));
  using Wide = int32_t __attribute__((vector_size(32)));
  static ALANCE_INLINE void load(Vec& out, const uint8_t* from) {
    // Compilers split vectors of eight bytes; these are half of a vector that they handle.
    const Pair pair = {alance::load<uint64_t>(from), 0};
    const Halves halves = __builtin_convertvector((Words)pair, Halves);
    const auto low = __builtin_shufflevector(halves, halves, 0, 1, 2, 3, 4, 5, 6, 7);
    out = __builtin_convertvector(__builtin_convertvector(low, Wide), Lanes);
  }
};

struct Float64 {
  using Vec = double __attribute__((vector_size(32)));
  using Real = double;
  static constexpr int64_t kValueBytes = 8, kLaneCount = 4;
  static ALANCE_INLINE void load(Vec& out, const uint8_t* from) { std::memcpy(&out, from, 32); }
};

// Call `each` with an object of a type of values.
template <class Each>
auto with_type(int type, const Each& each) {
  switch (type) {
    case kFloat16: return each(Float16());
    case kBfloat16: return each(Bfloat16());
    case kFloat32: return each(Float32());
    case kFloat64: return each(Float64());
    case kUint8: return each(Uint8());
    default: corrupt("vectors of type ", type);
  }
}

template <class T>
ALANCE_INLINE typename T::Real sum(const typename T::Vec& lanes) {
  typename T::Real total = 0;
  for (int64_t i = 0; i < T::kLaneCount; ++i) total += lanes[i];
  return total;
}

// One step of a sum over lanes: of squared differences, or of products (and squares).
template <class T, Metric M>
ALANCE_INLINE void step(typename T::Vec& all, typename T::Vec& squares, const typename T::Vec& row,
                        const typename T::Real* query) {
  typename T::Vec lanes;
  std::memcpy(&lanes, query, sizeof lanes);
  if constexpr (M == kL2) {
    const typename T::Vec gap = row - lanes;
    all += gap * gap;
  } else {
    all += row * lanes;
    if constexpr (M == kCosine) squares += row * row;
  }
}

// Distances of `count` rows from a query that zeros follow; `length` is the query's.
template <class T, Metric M>
ALANCE_INLINE void distances_of(const uint8_t* rows, int64_t count, int64_t dim,
                                const typename T::Real* query, double length, float* out) {
  const int64_t row_bytes = dim * T::kValueBytes, whole = dim / T::kLaneCount * T::kLaneCount;
  for (int64_t r = 0; r < count; ++r, rows += row_bytes) {
    // Four sums, so that an addition does not wait for the one before it.
    typename T::Vec all[4] = {}, squares[4] = {}, row;
    int64_t i = 0;
    for (; i + 4 * T::kLaneCount <= whole; i += 4 * T::kLaneCount)
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j) {
        T::load(row, rows + (i + j * T::kLaneCount) * T::kValueBytes);
        step<T, M>(all[j], squares[j], row, query + i + j * T::kLaneCount);
      }
    for (; i < whole; i += T::kLaneCount) {
      T::load(row, rows + i * T::kValueBytes);
      step<T, M>(all[0], squares[0], row, query + i);
    }
    if (whole < dim) {
      uint8_t rest[32] = {};
      std::memcpy(rest, rows + whole * T::kValueBytes,
                  static_cast<size_t>((dim - whole) * T::kValueBytes));
      T::load(row, rest);
      step<T, M>(all[1], squares[1], row, query + whole);
    }
    all[0] += all[1];
    all[2] += all[3];
    all[0] += all[2];
    const auto total = sum<T>(all[0]);
    if constexpr (M == kL2) {
      out[r] = static_cast<float>(total);
    } else if constexpr (M == kDot) {
      out[r] = static_cast<float>(1 - total);
    } else {
      squares[0] += squares[1];
      squares[2] += squares[3];
      squares[0] += squares[2];
      const double distance = 1 - total / (length * std::sqrt(double{sum<T>(squares[0])}));
      out[r] = distance < 0 ? 0.0f : static_cast<float>(distance);  // negative by rounding alone
    }
  }
}

// Number of bits in which each row differs from a query.
ALANCE_INLINE void bits_of(const uint8_t* rows, int64_t count, int64_t dim, const uint8_t* query,
                           float* out) {
  for (int64_t r = 0; r < count; ++r, rows += dim) {
    int64_t total = 0, i = 0;
    for (; i + 8 <= dim; i += 8)
      total += __builtin_popcountll(load<uint64_t>(rows + i) ^ load<uint64_t>(query + i));
    for (; i < dim; ++i) total += __builtin_popcount(static_cast<unsigned>(rows[i] ^ query[i]));
    out[r] = static_cast<float>(total);
  }
}

// Sum of squared differences of bytes, times a factor, for each row.
void square_gaps(const uint8_t* rows, int64_t count, int64_t dim, const uint8_t* query, float factor,
                 float* out);
constexpr int64_t kMostBytes = 65536;  // of a row: sums fit 32 bits

// Loop for distances of rows from a query.
using Loop = void (*)(const Query& query, const uint8_t* rows, int64_t count, float* out);

// Best loop of this processor for a type and metric; throws if there is none.
Loop loop_of(int type, int metric, bool baseline);
int64_t width_of(int type);

}  // namespace alance::vectors
