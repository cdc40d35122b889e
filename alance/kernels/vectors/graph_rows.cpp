// Distances between rows of a partition: vectors, scaled bytes, or product codes.
#include "vectors/graph_rows.hpp"

#include "vectors/points.hpp"

namespace alance::vectors {
namespace {

int64_t padded(int64_t dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

ALANCE_CLONES uint32_t sum_of(const uint8_t* bytes, int64_t dim) {
  uint32_t total = 0;
  for (int64_t i = 0; i < dim; ++i) total += bytes[i];
  return total;
}

ALANCE_CLONES uint32_t product_of(const uint8_t* left, const uint8_t* right, int64_t dim) {
  uint32_t total = 0;
  for (int64_t i = 0; i < dim; ++i) total += uint32_t{left[i]} * right[i];
  return total;
}

// Add a component's share of the distance between `value` and each of some values.
ALANCE_CLONES void add_component(const float* values, float value, int64_t count, bool by_product,
                                 float* out) {
  if (by_product) {
    for (int64_t i = 0; i < count; ++i) out[i] -= values[i] * value;
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] += (values[i] - value) * (values[i] - value);
  }
}

// Code of a part.
inline int64_t code_of(const uint8_t* codes, int bits, int64_t part) {
  return bits == 8 ? codes[part] : codes[part / 2] >> (part % 2 * 4) & 15;
}

template <int Bits>
float sum_of_table(const uint8_t* codes, const float* table, int64_t parts) {
  float sums[4] = {};
  int64_t part = 0;
  for (; part + 4 <= parts; part += 4, table += 4 << Bits)
    for (int64_t i = 0; i < 4; ++i) sums[i] += table[(i << Bits) + code_of(codes, Bits, part + i)];
  for (; part < parts; ++part, table += 1 << Bits) sums[0] += table[code_of(codes, Bits, part)];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Share of the distance from a vector that the values of codes have.
ALANCE_CLONES float sum_of_values(const uint8_t* codes, int bits, const float* codebook,
                                  const float* vector, int64_t parts, int64_t width,
                                  bool by_product) {
  Lanes sums[2] = {};
  float rest = 0;
  for (int64_t part = 0; part < parts; ++part, codebook += width << bits, vector += width) {
    const float* value = codebook + code_of(codes, bits, part) * width;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      Lanes left, right;
      std::memcpy(&left, value + i, sizeof left);
      std::memcpy(&right, vector + i, sizeof right);
      sums[i / kLanes % 2] += by_product ? -left * right : (left - right) * (left - right);
    }
    for (; i < width; ++i) {
      const float gap = value[i] - vector[i];
      rest += by_product ? -value[i] * vector[i] : gap * gap;
    }
  }
  sums[0] += sums[1];
  for (int64_t i = 0; i < kLanes; ++i) rest += sums[0][i];
  return rest;
}

// Uncompressed vectors (FLAT). By cosine a vector of length 0 is at distance 1 from all others.
class GraphVectors : public GraphRows {
 public:
  GraphVectors(Bytes values, int type, int64_t dim, int metric)
      : GraphRows(values, type < kFloat16 || type > kUint8 ? 0 : dim * width_of(type)),
        points_(values, type, dim, metric), loop_(loop_of(type, metric, false)),
        is_cosine_(metric == kCosine), floats_(static_cast<size_t>(padded(dim))), exact_(type == kFloat64 ? floats_.size() : 0) {
    if (metric == kHamming) corrupt("graph: rows by hamming");
  }

  void ask(uint32_t row, bool) override {
    points_.load(row, int64_t{row} + 1, floats_.data());
    std::copy_n(floats_.begin(), exact_.size(), exact_.begin());
  }

  float at(uint32_t row) const override {
    float distance;
    loop_({points_.dim(), floats_.data(), exact_.data(), nullptr, 1}, stored(row), 1, &distance);
    return is_cosine_ && std::isnan(distance) ? 1.0f : distance;
  }

 private:
  Points points_;
  Loop loop_;
  bool is_cosine_;
  std::vector<float> floats_;
  std::vector<double> exact_;
};

// A byte c for each number, which stands for low + unit * c (SQ).
class GraphBytes : public GraphRows {
 public:
  GraphBytes(Bytes codes, int64_t dim, double low, double high, bool by_product)
      : GraphRows(codes, dim), dim_(dim), low_(low), unit_((high - low) / 255) {
    if (dim > kMostBytes) corrupt("graph: rows of " + std::to_string(dim) + " scaled bytes");
    if (!by_product) return;
    nb::gil_scoped_release release;
    sums_.resize(static_cast<size_t>(count()));
    for (int64_t row = 0; row < count(); ++row)
      sums_[static_cast<size_t>(row)] = sum_of(stored(static_cast<uint32_t>(row)), dim);
  }

  void ask(uint32_t row, bool) override { selected_ = row; }

  float at(uint32_t row) const override {
    const uint8_t *here = stored(row), *other = stored(selected_);
    if (sums_.empty()) {
      float distance;
      square_gaps(here, 1, dim_, other, static_cast<float>(unit_ * unit_), &distance);
      return distance;
    }
    const double sums = static_cast<double>(sums_[row]) + static_cast<double>(sums_[selected_]);
    const double fixed = low_ * (low_ * static_cast<double>(dim_) + unit_ * sums);
    return static_cast<float>(1 - fixed - unit_ * unit_ * product_of(here, other, dim_));
  }

 private:
  int64_t dim_;
  double low_, unit_;
  std::vector<uint32_t> sums_;  // of the bytes of each row, by product
  uint32_t selected_ = 0;
};

// Number of a codebook value for each part of a vector (PQ).
class GraphProducts : public GraphRows {
 public:
  // `codes`: row after row; `codebook`: the values of each part, part after part.
  GraphProducts(Bytes codes, In<float> codebook, int64_t parts, int bits, bool by_product)
      : GraphRows(codes, bits == 8 ? parts : parts / 2), codebook_(codebook), parts_(parts),
        bits_(bits), by_product_(by_product) {
    const int64_t values = bits == 8 ? 256 : 16, size = static_cast<int64_t>(codebook.size());
    width_ = size / (parts * values);
    if ((bits != 8 && bits != 4) || (bits == 4 && parts % 2) || width_ < 1 ||
        size != parts * width_ * values)
      corrupt("graph: " + std::to_string(parts) + " codes of " + std::to_string(bits) +
              " bits, a codebook of " + std::to_string(size) + " values");
    nb::gil_scoped_release release;
    selected_.resize(static_cast<size_t>(parts * width_));
    table_.resize(static_cast<size_t>(parts << bits));
    by_component_.resize(codebook.size());
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t code = 0; code < values; ++code)
        for (int64_t i = 0; i < width_; ++i)
          by_component_[static_cast<size_t>(((part * width_ + i) << bits) + code)] =
              codebook.data()[((part << bits) + code) * width_ + i];
  }

  // Many rows are compared by a table of each value's share of the distance.
  void ask(uint32_t row, bool many) override {
    decode(row, selected_.data());
    has_table_ = many;
    if (!many) return;
    std::fill(table_.begin(), table_.end(), 0.0f);
    const float* values = by_component_.data();
    for (int64_t at = 0; at < parts_ * width_; ++at, values += int64_t{1} << bits_)
      add_component(values, selected_[static_cast<size_t>(at)], int64_t{1} << bits_, by_product_,
                    table_.data() + (at / width_ << bits_));
  }

  float at(uint32_t row) const override {
    const uint8_t* codes = stored(row);
    const float first = by_product_ ? 1 : 0;
    if (!has_table_)
      return first + sum_of_values(codes, bits_, codebook_.data(), selected_.data(), parts_, width_,
                                   by_product_);
    return first + (bits_ == 8 ? sum_of_table<8>(codes, table_.data(), parts_)
                               : sum_of_table<4>(codes, table_.data(), parts_));
  }

 private:
  void decode(uint32_t row, float* out) const {
    const uint8_t* codes = stored(row);
    const float* values = codebook_.data();
    for (int64_t part = 0; part < parts_; ++part, values += width_ << bits_, out += width_)
      std::memcpy(out, values + code_of(codes, bits_, part) * width_, static_cast<size_t>(4 * width_));
  }

  In<float> codebook_;
  int64_t parts_;
  int bits_;
  int64_t width_ = 0;  // components of a part
  bool by_product_, has_table_ = false;
  std::vector<float> by_component_;  // codebook with the values of all codes side by side
  std::vector<float> selected_, table_;
};

}  // namespace
}  // namespace alance::vectors

void register_graph_rows(nanobind::module_& m) {
  namespace nb = nanobind;
  using namespace alance::vectors;
  using alance::Bytes;
  nb::class_<GraphRows>(m, "GraphRows");
  nb::class_<GraphVectors, GraphRows>(m, "GraphVectors")
      .def(nb::init<Bytes, int, int64_t, int>(), nb::arg("values"), nb::arg("type"), nb::arg("dim"),
           nb::arg("metric"));
  nb::class_<GraphBytes, GraphRows>(m, "GraphBytes")
      .def(nb::init<Bytes, int64_t, double, double, bool>(), nb::arg("codes"), nb::arg("dim"),
           nb::arg("low"), nb::arg("high"), nb::arg("by_product"));
  nb::class_<GraphProducts, GraphRows>(m, "GraphProducts")
      .def(nb::init<Bytes, alance::In<float>, int64_t, int, bool>(), nb::arg("codes"),
           nb::arg("codebook"), nb::arg("parts"), nb::arg("bits"), nb::arg("by_product"));
}
