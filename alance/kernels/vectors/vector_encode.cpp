// Encoder of product codes (IVF_PQ, see vector_products.cpp) and of scaled bytes (IVF_SQ).
#include "vectors/clusters.hpp"

namespace alance::vectors {
namespace {

using Floats = In<float>;
constexpr int64_t kMaxRows = 2 * kRowStep;

// Encode vectors, or with `centroids` their residuals.
nb::object encode_pq(Bytes values, int type, int64_t dim, int metric, In<int64_t> labels,
                     Floats centroids, Floats codebook, int64_t subs, int bits) {
  const Points points(values, type, dim, metric);
  const int64_t count = points.count(), wide = points.dim();
  check_labels(points, labels, centroids);
  if ((bits != 8 && bits != 4) || subs <= 0 || wide % subs || (bits == 4 && subs % 2) ||
      static_cast<int64_t>(codebook.size()) != wide << bits)
    corrupt("product codes: " + std::to_string(subs) + " of " + std::to_string(bits) +
            " bits for vectors of dimension " + std::to_string(wide) + ", a codebook of " +
            std::to_string(codebook.size()) + " values");
  const int64_t width = wide / subs, row_bytes = subs * bits / 8;
  Owned<uint8_t> out(count * row_bytes);
  {
    nb::gil_scoped_release release;
    std::vector<Panels> books;
    for (int64_t sub = 0; sub < subs; ++sub)
      books.emplace_back(codebook.data() + (sub * width << bits), int64_t{1} << bits, width, false, 0);
    const int64_t step = rows_at_once(wide);
    std::vector<float> block(static_cast<size_t>(step * wide)), part(size_t(step * width));
    int32_t codes[kMaxRows];
    float scores[kMaxRows];
    std::fill_n(out.data(), out.size(), uint8_t{0});
    for (int64_t start = 0; start < count; start += step) {
      const int64_t rows = std::min(step, count - start);
      points.load(start, start + rows, block.data());
      for (int64_t r = 0; r < rows && centroids.size(); ++r) {
        const float* centroid = centroids.data() + labels.data()[start + r] * wide;
        for (int64_t i = 0; i < wide; ++i) block[size_t(r * wide + i)] -= centroid[i];
      }
      for (int64_t sub = 0; sub < subs; ++sub) {
        const Panels& book = books[static_cast<size_t>(sub)];
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < width; ++i)
            part[size_t(r * width + i)] = block[size_t(r * wide + sub * width + i)] - book.origin()[i];
        book.nearest(part.data(), rows, codes, scores);
        uint8_t* to = out.data() + start * row_bytes + sub * bits / 8;
        const int shift = bits == 4 && sub % 2 ? 4 : 0;
        for (int64_t r = 0; r < rows; ++r) to[r * row_bytes] |= static_cast<uint8_t>(codes[r] << shift);
      }
    }
  }
  return nb::cast(out.numpy());
}

// Encode a value v as 255 (v - low) / (high - low), clamped to a byte.
nb::object encode_sq(Bytes values, int type, int64_t dim, int metric, double low, double high) {
  const Points points(values, type, dim, metric);
  const int64_t count = points.count(), wide = points.dim(), step = rows_at_once(wide);
  Owned<uint8_t> out(count * wide);
  {
    nb::gil_scoped_release release;
    const float start_at = static_cast<float>(low);
    const float unit = high > low ? static_cast<float>((high - low) / 255) : 1.0f;
    std::vector<float> block(static_cast<size_t>(step * wide));
    for (int64_t start = 0; start < count; start += step) {
      const int64_t rows = std::min(step, count - start);
      points.load(start, start + rows, block.data());
      uint8_t* to = out.data() + start * wide;
      for (int64_t i = 0; i < rows * wide; ++i)
        to[i] = static_cast<uint8_t>(
            std::clamp((block[static_cast<size_t>(i)] - start_at) / unit, 0.0f, 255.0f));
    }
  }
  return nb::cast(out.numpy());
}

}  // namespace

void check_labels(const Points& points, const In<int64_t>& labels, const In<float>& centroids) {
  const auto wide = static_cast<size_t>(points.dim());
  if (static_cast<int64_t>(labels.size()) != points.count() || centroids.size() % wide)
    corrupt(std::to_string(labels.size()) + " labels for " + std::to_string(points.count()) +
            " vectors, " + std::to_string(centroids.size()) + " values of centroids");
  if (!centroids.size()) return;
  for (size_t row = 0; row < labels.size(); ++row)
    if (labels.data()[row] < 0 || labels.data()[row] >= int64_t(centroids.size() / wide))
      corrupt("centroid " + std::to_string(labels.data()[row]));
}

}  // namespace alance::vectors

void register_vector_encode(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("encode_pq", &alance::vectors::encode_pq, nb::arg("values"), nb::arg("type"),
        nb::arg("dim"), nb::arg("metric"), nb::arg("labels"), nb::arg("centroids"),
        nb::arg("codebook"), nb::arg("subs"), nb::arg("bits"));
  m.def("encode_sq", &alance::vectors::encode_sq, nb::arg("values"), nb::arg("type"),
        nb::arg("dim"), nb::arg("metric"), nb::arg("low"), nb::arg("high"));
}
