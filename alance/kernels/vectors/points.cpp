// Vectors of any type as float32 points, and the mask of vectors with only finite numbers.
#include "vectors/points.hpp"

namespace alance::vectors {
namespace {

template <class T>
ALANCE_INLINE void convert(const uint8_t* values, int64_t count, float* out) {
  if constexpr (std::is_same_v<T, Float64>) {
    for (int64_t i = 0; i < count; ++i) {
      double value;
      std::memcpy(&value, values + 8 * i, 8);
      out[i] = static_cast<float>(value);
    }
  } else {
    const int64_t whole = count / kLanes * kLanes;
    Lanes lanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
      T::load(lanes, values + i * T::kValueBytes);
      std::memcpy(out + i, &lanes, sizeof lanes);
    }
    if (whole < count) {
      uint8_t rest[32] = {};
      std::memcpy(rest, values + whole * T::kValueBytes,
                  static_cast<size_t>((count - whole) * T::kValueBytes));
      T::load(lanes, rest);
      std::memcpy(out + whole, &lanes, static_cast<size_t>(4 * (count - whole)));
    }
  }
}

template <class T>
void convert_any(const uint8_t* values, int64_t count, float* out) {
  convert<T>(values, count, out);
}

#ifdef ALANCE_AVX2
template <class T>
ALANCE_AVX2 void convert_avx2(const uint8_t* values, int64_t count, float* out) {
  convert<T>(values, count, out);
}
#endif

using Convert = void (*)(const uint8_t*, int64_t, float*);

template <class T>
Convert best() {
#ifdef ALANCE_AVX2
  if (has_avx2()) return &convert_avx2<T>;
#endif
  return &convert_any<T>;
}

Convert convert_of(int type) {
  switch (type) {
    case kFloat16: return best<Float16>();
    case kBfloat16: return best<Bfloat16>();
    case kFloat32: return best<Float32>();
    case kFloat64: return best<Float64>();
    case kUint8: return best<Uint8>();
    default: return nullptr;
  }
}

// Scale to length one; zero stays zero.
void make_unit(float* point, int64_t dim) {
  double squares = 0;
  for (int64_t i = 0; i < dim; ++i) squares += double{point[i]} * double{point[i]};
  if (!(squares > 0)) return;
  const double length = std::sqrt(squares);
  for (int64_t i = 0; i < dim; ++i) point[i] = static_cast<float>(point[i] / length);
}

nb::object vector_points(Bytes values, int type, int64_t dim, int metric) {
  const Points points(values, type, dim, metric);
  Owned<float> out(points.count() * points.dim());
  {
    nb::gil_scoped_release release;
    points.load(0, points.count(), out.data());
  }
  return nb::cast(out.numpy());
}

// Mark the rows whose numbers of 2, 4 or 8 bytes are all below a bound, by their bits without the
// sign.
template <class Word>
void finite_rows(const uint8_t* values, int64_t count, int64_t dim, Word bound, uint8_t* out) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  for (int64_t row = 0; row < count; ++row, values += dim * sizeof(Word)) {
    Word rest = 1;
    for (int64_t i = 0; i < dim; ++i) {
      Word word;
      std::memcpy(&word, values + i * sizeof(Word), sizeof(Word));
      rest &= static_cast<Word>((word & kMagnitude) < bound);
    }
    out[row] = static_cast<uint8_t>(rest);
  }
}

// Mask of the vectors whose numbers are all finite as float32, the type of comparisons.
nb::object whole_vectors(Bytes values, int type, int64_t dim) {
  const Points points(values, type, dim, kL2);
  const int64_t count = points.count();
  Owned<uint8_t> out(count);
  {
    nb::gil_scoped_release release;
    const uint8_t* from = values.data();
    switch (type) {
      case kFloat16: finite_rows<uint16_t>(from, count, dim, 0x7C00, out.data()); break;
      case kBfloat16: finite_rows<uint16_t>(from, count, dim, 0x7F80, out.data()); break;
      case kFloat32: finite_rows<uint32_t>(from, count, dim, 0x7F800000, out.data()); break;
      case kFloat64:
        // The bound is half a step above float32's largest number.
        finite_rows<uint64_t>(from, count, dim, 0x47EFFFFFF0000000, out.data());
        break;
      default: std::fill_n(out.data(), count, uint8_t{1});
    }
  }
  return nb::cast(out.numpy());
}

}  // namespace

Points::Points(Bytes values, int type, int64_t dim, int metric)
    : values_(values.data()), dim_(dim), metric_(metric), convert_(convert_of(type)) {
  if (!convert_ || metric < kL2 || metric > kHamming || (metric == kHamming && type != kUint8))
    corrupt("vectors of type " + std::to_string(type) + " by metric " + std::to_string(metric));
  if (dim <= 0 || dim > (int64_t{1} << 24))
    corrupt("vectors of dimension " + std::to_string(dim));
  row_bytes_ = dim * width_of(type);
  const int64_t size = static_cast<int64_t>(values.size());
  if (size % row_bytes_)
    corrupt("vectors: " + std::to_string(size) + " bytes for rows of " + std::to_string(row_bytes_));
  count_ = size / row_bytes_;
}

void Points::load(int64_t start, int64_t stop, float* out) const {
  const uint8_t* from = values_ + start * row_bytes_;
  const int64_t count = (stop - start) * dim_;
  if (metric_ == kHamming) {
    for (int64_t i = 0; i < count; ++i)
      for (int bit = 7; bit >= 0; --bit) *out++ = static_cast<float>((from[i] >> bit) & 1);
    return;
  }
  convert_(from, count, out);
  if (metric_ == kCosine)
    for (int64_t row = start; row < stop; ++row, out += dim_) make_unit(out, dim_);
}

}  // namespace alance::vectors

void register_points(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("vector_points", &alance::vectors::vector_points, nb::arg("values"), nb::arg("type"),
        nb::arg("dim"), nb::arg("metric"));
  m.def("whole_vectors", &alance::vectors::whole_vectors, nb::arg("values"), nb::arg("type"),
        nb::arg("dim"));
}
