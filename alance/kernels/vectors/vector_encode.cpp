// Encoders of product codes (IVF_PQ, see vector_products.cpp), and of RaBitQ codes (IVF_RQ): a few
// bits for each component of a vector, rotated by random signs and Walsh-Hadamard transforms.
// vector_codes.cpp names the paper.
#include "vectors/clusters.hpp"

namespace alance::vectors {
namespace {

Owned<uint8_t> encode_pq(const Bytes& values, int type, int64_t dim, int metric,
                         const In<int64_t>& labels, const In<float>& centroids,
                         const In<float>& codebook, int64_t subs, int bits) {
  const Points points(values, type, dim, metric);
  const int64_t count = points.count(), wide = points.dim();
  check_labels(points, labels, centroids);
  if ((bits != 8 && bits != 4) || subs <= 0 || wide % subs || (bits == 4 && subs % 2) ||
      std::ssize(codebook) != wide << bits)
    corrupt("product codes: ", subs, " of ", bits, " bits for vectors of dimension ", wide,
            ", a codebook of ", codebook.size(), " values");
  const int64_t width = wide / subs, row_bytes = subs * bits / 8;
  Owned<uint8_t> out(count * row_bytes);
  std::vector<Panels> books;
  for (int64_t sub = 0; sub < subs; ++sub)
    books.emplace_back(codebook.data() + (sub * width << bits), int64_t{1} << bits, width, false,
                       0);
  std::vector<float> part(static_cast<size_t>(rows_at_once(wide) * width));
  std::fill_n(out.data(), out.size(), uint8_t{0});
  points.each_block([&](int64_t start, int64_t rows, float* block) {
    int32_t codes[kMaxRows];
    float scores[kMaxRows];
    for (int64_t r = 0; r < rows && centroids.size(); ++r) {
      const float* centroid = centroids.data() + labels.data()[start + r] * wide;
      for (int64_t i = 0; i < wide; ++i) block[r * wide + i] -= centroid[i];
    }
    for (int64_t sub = 0; sub < subs; ++sub) {
      const Panels& book = books[static_cast<size_t>(sub)];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; ++i)
          part[size_t(r * width + i)] = block[r * wide + sub * width + i] - book.origin()[i];
      book.nearest(part.data(), rows, codes, scores);
      uint8_t* to = out.data() + start * row_bytes + sub * bits / 8;
      const int shift = bits == 4 && sub % 2 ? 4 : 0;
      for (int64_t r = 0; r < rows; ++r)
        to[r * row_bytes] |= static_cast<uint8_t>(codes[r] << shift);
    }
  });
  return out;
}

constexpr int64_t kRounds = 4;
constexpr int64_t kGroup = 64;  // components whose further bits are stored together

// Walsh-Hadamard transform that keeps lengths.
template <class Real>
ALANCE_INLINE void hadamard(Real* values, int64_t size) {
  for (int64_t half = 1; half < size; half *= 2)
    for (int64_t start = 0; start < size; start += 2 * half)
      for (int64_t i = start; i < start + half; ++i) {
        const Real low = values[i], high = values[i + half];
        values[i] = low + high;
        values[i + half] = low - high;
      }
  const Real scale = 1 / std::sqrt(static_cast<Real>(size));
  for (int64_t i = 0; i < size; ++i) values[i] *= scale;
}

// Rounds of signs and transforms; if the dimension is no power of two, of the first and of the last
// components in turn.
template <class Real>
ALANCE_INLINE void rotate(Real* values, int64_t dim, const Real* signs) {
  int64_t part = 1;
  while (2 * part <= dim) part *= 2;
  const int64_t half = dim / 2;
  for (int64_t round = 0; round < kRounds; ++round, signs += dim) {
    for (int64_t i = 0; i < dim; ++i) values[i] *= signs[i];
    hadamard(values + (round % 2 ? dim - part : 0), part);
    if (part == dim) continue;
    for (int64_t i = 0; i < half; ++i) {
      const Real low = values[i], high = values[half + i];
      values[i] = low + high;
      values[half + i] = low - high;
    }
  }
  if (part != dim)
    for (int64_t i = 0; i < dim; ++i) values[i] *= Real{0.25};
}

// Set a bit of component i in a plane, the 64 top bits of a group: see vector_bits.cpp.
inline void put_plane_bit(uint8_t* plane, int i, uint32_t value) {
  const int k = i / 16, b = i % 16, bit = 8 * (b % 8) + 2 * k + b / 8;
  plane[bit / 8] |= static_cast<uint8_t>(value << (bit % 8));
}

inline void put_six_bits(uint8_t* out, int i, uint32_t value) {
  const int k = i / 16, b = i % 16;
  if (k < 3) {
    out[16 * k + b] |= static_cast<uint8_t>(value);
    return;
  }
  for (int j = 0; j < 3; ++j) out[16 * j + b] |= static_cast<uint8_t>((value >> (2 * j) & 3) << 6);
}

// Put the further bits of component i (of 64) into a group that was zero.
inline void put_extra_bits(uint8_t* out, int ex, int i, uint32_t value) {
  switch (ex) {
    case 1: out[i / 8] |= static_cast<uint8_t>(value << (i % 8)); break;
    case 3: put_plane_bit(out + 16, i, value >> 2); [[fallthrough]];
    case 2: out[i % 16] |= static_cast<uint8_t>((value & 3) << (2 * (i / 16))); break;
    case 4: out[8 * (i / 16) + i % 8] |= static_cast<uint8_t>(value << (i % 16 < 8 ? 0 : 4)); break;
    case 5:
      put_plane_bit(out + 32, i, value >> 4);
      out[16 * (i / 32) + i % 16] |= static_cast<uint8_t>((value & 15) << (i % 32 < 16 ? 0 : 4));
      break;
    case 7: put_plane_bit(out + 48, i, value >> 6); [[fallthrough]];
    case 6: put_six_bits(out, i, value & 63); break;
    default: out[i] = static_cast<uint8_t>(value);
  }
}

// Closeness of magnitudes to their codes in steps of 1/t: product of both, divided by the length of
// the codes. `padding`: zeros behind the magnitudes, whose codes do not count.
ALANCE_INLINE float closeness(const float* sizes, int64_t padded, int64_t padding, float t,
                              float top) {
  Lanes products{}, squares{};
  for (int64_t i = 0; i < padded; i += kLanes) {
    Lanes lanes;
    std::memcpy(&lanes, sizes + i, sizeof lanes);
    Lanes code = __builtin_convertvector(
        __builtin_convertvector(lanes * t + 1e-5f, int32_t __attribute__((vector_size(32)))),
        Lanes);
    code = code > top ? Lanes{} + top : code;
    code += 0.5f;
    products += lanes * code;
    squares += code * code;
  }
  return sum<Float32>(products) /
         std::sqrt(sum<Float32>(squares) - 0.25f * static_cast<float>(padding));
}

// Scale t of the codes that are closest to magnitudes of length one: by a grid, then a finer one.
ALANCE_INLINE float best_scale(const float* sizes, int64_t dim, int64_t padded, int ex) {
  float most = 0;
  for (int64_t i = 0; i < dim; ++i) most = std::max(most, sizes[i]);
  const float top = static_cast<float>((1 << ex) - 1);
  float best = (top + 0.5f) / most, best_score = -1, ratio = 1.15f;
  for (int pass = 0; pass < 2; ++pass) {
    const int count = pass ? 6 : 14;
    float t = pass ? best / 1.1f : 0.55f * (top + 1) / most;
    if (pass) ratio = 1.033f;
    for (int step = 0; step < count; ++step, t *= ratio) {
      const float score = closeness(sizes, padded, padded - dim, t, top);
      if (score > best_score) best = t, best_score = score;
    }
  }
  return best;
}

// Numbers that are stored for a row beside its codes.
struct Factors {
  float *add, *scale, *error, *add_ex, *scale_ex;
};

struct Form {
  int64_t dim, extra_bytes;
  int ex;
  bool is_dot;
};

// Codes and factors of a row: `rest` is its residual, and `centroid` its centroid, both rotated.
// `sizes` has room for whole groups.
ALANCE_INLINE void code_row(const Form& form, const float* rest, const float* centroid,
                            float* sizes, uint8_t* signs, uint8_t* extra, const Factors& out,
                            int64_t row) {
  const int64_t dim = form.dim, padded = (dim + kGroup - 1) / kGroup * kGroup;
  double norm = 0, coded = 0, product = 0, towards = 0;
  for (int64_t i = 0; i < dim; ++i) {
    const bool is_positive = rest[i] >= 0;
    norm += double{rest[i]} * double{rest[i]};
    coded += 0.5 * std::abs(double{rest[i]});
    product += double{rest[i]} * double{centroid[i]};
    towards += (is_positive ? 0.5 : -0.5) * double{centroid[i]};
    if (is_positive) signs[i / 8] |= static_cast<uint8_t>(1u << (i % 8));
  }
  const double times = form.is_dot ? 1 : 2, base = form.is_dot ? 1 - product : norm;
  const double factor = coded > 0 ? times * norm / coded : 0;
  out.add[row] = static_cast<float>(base + factor * towards);
  out.scale[row] = static_cast<float>(-factor);
  const double excess = coded > 0 ? norm * double(dim) / 4 / (coded * coded) - 1 : 0;
  out.error[row] = static_cast<float>(times * std::sqrt(norm) * 1.9 *
                                      std::sqrt(std::max(excess, 0.0) / double(dim - 1)));
  if (!form.ex) return;
  const float length = norm > 0 ? static_cast<float>(std::sqrt(norm)) : 1.0f;
  std::fill_n(sizes, padded, 0.0f);
  for (int64_t i = 0; i < dim; ++i) sizes[i] = std::abs(rest[i]) / length;
  const float t = norm > 0 ? best_scale(sizes, dim, padded, form.ex) : 0.0f;
  const auto top = static_cast<uint32_t>((1 << form.ex) - 1);
  coded = towards = 0;
  for (int64_t i = 0; i < dim; ++i) {
    const uint32_t size = std::min(static_cast<uint32_t>(t * sizes[i] + 1e-5f), top);
    const double code = (rest[i] >= 0 ? 1 : -1) * (double{static_cast<float>(size)} + 0.5);
    coded += double{rest[i]} * code;
    towards += double{centroid[i]} * code;
    put_extra_bits(extra + i / kGroup * 8 * form.ex, form.ex, static_cast<int>(i % kGroup),
                   rest[i] >= 0 ? size : top - size);
  }
  const double further = coded > 0 ? times * norm / coded : 0;
  out.add_ex[row] = static_cast<float>(base + further * towards);
  out.scale_ex[row] = static_cast<float>(-further);
}

struct Work {
  const Points& points;
  const int64_t* labels;
  const float *centroids, *rotation;
  int64_t num_centroids;
  Form form;
};

ALANCE_INLINE void encode_body(const Work& work, uint8_t* signs, uint8_t* extra,
                               const Factors& out) {
  const int64_t dim = work.form.dim, step = rows_at_once(dim), count = work.points.count();
  std::vector<float> block(static_cast<size_t>(step * dim)),
      sizes(static_cast<size_t>(dim + kGroup));
  // Centroids are rotated at first use: few vectors are near to few centroids.
  std::vector<std::vector<float>> rotated(static_cast<size_t>(work.num_centroids));
  for (int64_t start = 0; start < count; start += step) {
    const int64_t stop = std::min(count, start + step);
    work.points.load(start, stop, block.data());
    for (int64_t row = start; row < stop; ++row) {
      const int64_t label = work.labels[row];
      const float* centroid = work.centroids + label * dim;
      std::vector<float>& turned = rotated[static_cast<size_t>(label)];
      if (turned.empty()) {
        turned.assign(centroid, centroid + dim);
        rotate(turned.data(), dim, work.rotation);
      }
      float* rest = block.data() + (row - start) * dim;
      for (int64_t i = 0; i < dim; ++i) rest[i] -= centroid[i];
      rotate(rest, dim, work.rotation);
      code_row(work.form, rest, turned.data(), sizes.data(), signs + row * (dim / 8),
               extra + row * work.form.extra_bytes, out, row);
    }
  }
}

Owned<double> rotated(const In<double>& values, const In<double>& signs) {
  const int64_t dim = std::ssize(signs) / kRounds;
  if (dim < 2 || std::ssize(signs) != kRounds * dim || values.size() % static_cast<size_t>(dim))
    corrupt("a rotation of ", signs.size(), " values for vectors of ", values.size());
  Owned<double> out(std::ssize(values));
  std::copy_n(values.data(), values.size(), out.data());
  for (int64_t at = 0; at < out.size(); at += dim) rotate(out.data() + at, dim, signs.data());
  return out;
}

std::tuple<Owned<uint8_t>, Owned<uint8_t>, Owned<float>, Owned<float>, Owned<float>, Owned<float>,
           Owned<float>>
encode_rabitq(const Bytes& values, int type, int64_t dim, int metric, const In<int64_t>& labels,
              const In<float>& centroids, const In<float>& rotation, int ex, bool baseline) {
  const Points points(values, type, dim, metric);
  check_labels(points, labels, centroids);
  if (dim % 8 || metric == kHamming || ex < 0 || ex > 8 || (!centroids.size() && points.count()) ||
      std::ssize(rotation) != kRounds * dim)
    corrupt("bit codes: ", ex, " more bits of dimension ", dim, ", a rotation of ", rotation.size(),
            " values");
  const int64_t count = points.count(), extra_bytes = (dim + kGroup - 1) / kGroup * 8 * ex;
  Owned<uint8_t> signs(count * (dim / 8)), extra(count * extra_bytes);
  Owned<float> add(count), scale(count), error(count), add_ex(ex ? count : 0),
      scale_ex(ex ? count : 0);
  std::fill_n(signs.data(), signs.size(), uint8_t{0});
  std::fill_n(extra.data(), extra.size(), uint8_t{0});
  const Work work{points,
                  labels.data(),
                  centroids.data(),
                  rotation.data(),
                  std::ssize(centroids) / dim,
                  {dim, extra_bytes, ex, points.is_dot()}};
  const Factors factors{add.data(), scale.data(), error.data(), add_ex.data(), scale_ex.data()};
  Versions<encode_body>::best(baseline)(work, signs.data(), extra.data(), factors);
  return {std::move(signs), std::move(extra),  std::move(add),     std::move(scale),
          std::move(error), std::move(add_ex), std::move(scale_ex)};
}

}  // namespace

void check_labels(const Points& points, const In<int64_t>& labels, const In<float>& centroids) {
  const auto wide = static_cast<size_t>(points.dim());
  if (std::ssize(labels) != points.count() || centroids.size() % wide)
    corrupt(labels.size(), " labels for ", points.count(), " vectors, ", centroids.size(),
            " values of centroids");
  if (!centroids.size()) return;
  for (size_t row = 0; row < labels.size(); ++row)
    if (labels.data()[row] < 0 || labels.data()[row] >= int64_t(centroids.size() / wide))
      corrupt("centroid ", labels.data()[row]);
}

}  // namespace alance::vectors

void register_vector_encode(nanobind::module_& m) {
  using namespace alance;
  m.def("encode_pq", &vectors::encode_pq, "values"_a, "type"_a, "dim"_a, "metric"_a, "labels"_a,
        "centroids"_a, "codebook"_a, "subs"_a, "bits"_a, NoGil());
  m.def("encode_rabitq", &vectors::encode_rabitq, "values"_a, "type"_a, "dim"_a, "metric"_a,
        "labels"_a, "centroids"_a, "rotation"_a, "ex"_a, "baseline"_a = false, NoGil());
  m.def("rotated", &vectors::rotated, "values"_a, "signs"_a, NoGil());
}
