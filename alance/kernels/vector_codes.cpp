// Distances of quantised vectors: product codes (IVF_PQ) and scaled bytes (IVF_SQ).
#include "graph.hpp"
#include "vectors.hpp"

namespace alance::vectors {
namespace {

#ifdef ALANCE_AVX2
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

using Floats = In<float>;

// The part of the distance that each code of each sub-vector stands for: [sub][code]. Of the
// codebook the values of all codes are side by side: [sub][component][code].
ALANCE_CLONES void fill_table(const float* query, const float* centroid, const float* codebook,
                              int64_t subs, int64_t codes, int64_t width, bool is_dot,
                              float* table) {
  std::fill_n(table, subs * codes, 0.0f);
  for (int64_t at = 0; at < subs * width; ++at, codebook += codes) {
    float* parts = table + at / width * codes;
    if (is_dot) {
      const float value = query[at];
      for (int64_t code = 0; code < codes; ++code) parts[code] += value * codebook[code];
    } else {
      const float rest = query[at] - centroid[at];
      for (int64_t code = 0; code < codes; ++code) {
        const float gap = rest - codebook[code];
        parts[code] += gap * gap;
      }
    }
  }
}

// Where the code of a row and sub-vector is: every `step` bytes from `first` there is the next row.
struct CodeRows {
  const uint8_t* first;
  int64_t step;
};

void add_codes8(CodeRows codes, int64_t count, const float* table, float* out) {
  for (int64_t r = 0; r < count; ++r) out[r] += table[codes.first[r * codes.step]];
}

// The sums of two sub-vectors, whose codes share a byte.
void add_codes4(CodeRows codes, int64_t count, const float* table, float* out) {
  for (int64_t r = 0; r < count; ++r) {
    const uint8_t both = codes.first[r * codes.step];
    out[r] += table[both & 15] + table[16 + (both >> 4)];
  }
}

// The product codes of a partition, compared with one query after the other. `centroid` of the
// partition, that the codes are relative to; of `dot` it is not looked at.
class ProductCodes {
 public:
  ProductCodes(const Nearest& nearest, int64_t num_rows, const Bytes& codes, int bits,
               bool is_transposed, const Floats& codebook, int64_t subs, const Floats& centroid,
               int metric, float scale)
      : nearest_(nearest), codes_(codes.data()), codebook_(codebook.data()),
        centroid_(centroid.data()), bits_(bits), subs_(subs), scale_(scale),
        is_dot_(metric == kDot) {
    if ((bits != 8 && bits != 4) || subs <= 0 || nearest.dim() % subs != 0 || (bits == 4 && subs % 2))
      corrupt("product codes: " + std::to_string(subs) + " of " + std::to_string(bits) +
              " bits for vectors of dimension " + std::to_string(nearest.dim()));
    width_ = nearest.dim() / subs, per_sub_ = int64_t{1} << bits;
    row_bytes_ = bits == 8 ? subs : subs / 2;
    if (static_cast<int64_t>(codebook.size()) != nearest.dim() * per_sub_)
      corrupt("product codes: a codebook of " + std::to_string(codebook.size()) + " values");
    if (!is_dot_ && static_cast<int64_t>(centroid.size()) != nearest.dim())
      corrupt("product codes: a centroid of " + std::to_string(centroid.size()) + " values");
    if (static_cast<int64_t>(codes.size()) != num_rows * row_bytes_)
      corrupt("product codes: " + std::to_string(codes.size()) + " bytes for " +
              std::to_string(num_rows) + " rows of " + std::to_string(row_bytes_));
    row_step_ = is_transposed ? 1 : row_bytes_;
    byte_step_ = is_transposed ? num_rows : 1;
    table_.resize(static_cast<size_t>(subs * per_sub_));
  }

  void ask(int64_t number) {
    fill_table(nearest_.floats(number), centroid_, codebook_, subs_, per_sub_, width_, is_dot_,
               table_.data());
  }

  void run(int64_t start, int64_t count, float* distances) const {
    std::fill_n(distances, count, 0.0f);
    for (int64_t byte = 0; byte < row_bytes_; ++byte) {
      const CodeRows here{codes_ + byte * byte_step_ + start * row_step_, row_step_};
      if (bits_ == 8)
        add_codes8(here, count, table_.data() + byte * per_sub_, distances);
      else
        add_codes4(here, count, table_.data() + 2 * byte * per_sub_, distances);
    }
    for (int64_t r = 0; r < count; ++r)
      distances[r] = is_dot_ ? 1 - distances[r] : scale_ * distances[r];
  }

  // The same sum as of `run`, in the same order.
  float at(int64_t row) const {
    const uint8_t* code = codes_ + row * row_step_;
    const float* table = table_.data();
    float total = 0;
    for (int64_t byte = 0; byte < row_bytes_; ++byte, code += byte_step_) {
      total += bits_ == 8 ? table[*code] : table[*code & 15] + table[16 + (*code >> 4)];
      table += bits_ == 8 ? per_sub_ : 2 * per_sub_;
    }
    return is_dot_ ? 1 - total : scale_ * total;
  }

  void prefetch(int64_t row) const { __builtin_prefetch(codes_ + row * row_step_); }

 private:
  const Nearest& nearest_;
  const uint8_t* codes_;
  const float *codebook_, *centroid_;
  int bits_;
  int64_t subs_, width_, per_sub_, row_bytes_, row_step_, byte_step_;
  float scale_;
  bool is_dot_;
  std::vector<float> table_;
};

// Compares all rows with each query; or follows a graph, where there is one.
template <class Codes>
void compare(Nearest& nearest, const In<int32_t>& numbers, const Rows& rows, const Graph* graph,
             int64_t ef, Codes& codes) {
  if (graph) return follow(nearest, numbers, rows, *graph, ef, codes);
  float distances[kBlock];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    codes.ask(number);
    for (int64_t start = 0; start < rows.count; start += kBlock) {
      const int64_t stop = std::min(rows.count, start + kBlock);
      if (!rows.any(start, stop)) continue;
      codes.run(start, stop - start, distances);
      nearest.offer(number, distances, rows, start, stop);
    }
  }
}

void add_pq(Nearest& nearest, In<int32_t> numbers, In<uint64_t> ids, Bytes mask, Bytes codes,
            int bits, bool is_transposed, Floats codebook, int64_t subs, Floats centroid, int metric,
            float scale, const Graph* graph, int64_t ef) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  ProductCodes product(nearest, rows.count, codes, bits, is_transposed, codebook, subs, centroid,
                       metric, scale);
  check_graph(graph, ef, rows);
  nb::gil_scoped_release release;
  compare(nearest, numbers, rows, graph, ef, product);
}

// Sums of squared differences of bytes.
ALANCE_CLONES void square_gaps(const uint8_t* rows, int64_t count, int64_t dim, const uint8_t* query,
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

// The scaled bytes of a partition: a value v is stored as 255 (v - low) / (high - low), cut to bytes.
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
    if (dim_ > 65536) corrupt("scaled bytes: vectors of dimension " + std::to_string(dim_));
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
    products_(nearest_, number_, 0, first, count, distances);
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
  compare(nearest, numbers, rows, graph, ef, scaled);
}

}  // namespace
}  // namespace alance::vectors

void register_vector_codes(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("add_pq", &alance::vectors::add_pq, nb::arg("nearest"), nb::arg("numbers"), nb::arg("ids"),
        nb::arg("mask"), nb::arg("codes"), nb::arg("bits"), nb::arg("is_transposed"),
        nb::arg("codebook"), nb::arg("subs"), nb::arg("centroid"), nb::arg("metric"),
        nb::arg("scale"), nb::arg("graph") = nb::none(), nb::arg("ef") = 0);
  m.def("add_sq", &alance::vectors::add_sq, nb::arg("nearest"), nb::arg("numbers"), nb::arg("ids"),
        nb::arg("mask"), nb::arg("codes"), nb::arg("low"), nb::arg("high"), nb::arg("metric"),
        nb::arg("scale"), nb::arg("graph") = nb::none(), nb::arg("ef") = 0);
}
