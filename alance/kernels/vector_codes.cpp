// Distances of quantised vectors: product codes (IVF_PQ) and scaled bytes (IVF_SQ).
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

// `centroid` of the partition, that the codes are relative to; of `dot` it is not looked at.
void add_pq(Nearest& nearest, In<int32_t> numbers, In<uint64_t> ids, Bytes mask, Bytes codes,
            int bits, bool is_transposed, Floats codebook, int64_t subs, Floats centroid, int metric,
            float scale) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  if ((bits != 8 && bits != 4) || subs <= 0 || nearest.dim() % subs != 0 || (bits == 4 && subs % 2))
    corrupt("product codes: " + std::to_string(subs) + " of " + std::to_string(bits) +
            " bits for vectors of dimension " + std::to_string(nearest.dim()));
  const int64_t width = nearest.dim() / subs, per_sub = int64_t{1} << bits;
  const int64_t row_bytes = bits == 8 ? subs : subs / 2;
  if (static_cast<int64_t>(codebook.size()) != nearest.dim() * per_sub)
    corrupt("product codes: a codebook of " + std::to_string(codebook.size()) + " values");
  const bool is_dot = metric == kDot;
  if (!is_dot && static_cast<int64_t>(centroid.size()) != nearest.dim())
    corrupt("product codes: a centroid of " + std::to_string(centroid.size()) + " values");
  if (static_cast<int64_t>(codes.size()) != rows.count * row_bytes)
    corrupt("product codes: " + std::to_string(codes.size()) + " bytes for " +
            std::to_string(rows.count) + " rows of " + std::to_string(row_bytes));
  nb::gil_scoped_release release;
  std::vector<float> table(static_cast<size_t>(subs * per_sub));
  float distances[kBlock];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    fill_table(nearest.floats(number), centroid.data(), codebook.data(), subs, per_sub, width, is_dot,
               table.data());
    for (int64_t start = 0; start < rows.count; start += kBlock) {
      const int64_t stop = std::min(rows.count, start + kBlock), count = stop - start;
      if (!rows.any(start, stop)) continue;
      std::fill_n(distances, count, 0.0f);
      for (int64_t byte = 0; byte < row_bytes; ++byte) {
        const CodeRows here =
            is_transposed ? CodeRows{codes.data() + byte * rows.count + start, 1}
                          : CodeRows{codes.data() + start * row_bytes + byte, row_bytes};
        if (bits == 8)
          add_codes8(here, count, table.data() + byte * per_sub, distances);
        else
          add_codes4(here, count, table.data() + 2 * byte * per_sub, distances);
      }
      for (int64_t r = 0; r < count; ++r)
        distances[r] = is_dot ? 1 - distances[r] : scale * distances[r];
      nearest.offer(number, distances, rows, start, stop);
    }
  }
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

// A value v is stored as 255 (v - low) / (high - low), cut to bytes.
void add_sq(Nearest& nearest, In<int32_t> numbers, In<uint64_t> ids, Bytes mask, Bytes codes,
            double low, double high, int metric, float scale) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  const int64_t dim = nearest.dim();
  if (static_cast<int64_t>(codes.size()) != rows.count * dim)
    corrupt("scaled bytes: " + std::to_string(codes.size()) + " for " + std::to_string(rows.count) +
            " rows of " + std::to_string(dim));
  if (dim > 65536) corrupt("scaled bytes: vectors of dimension " + std::to_string(dim));
  nb::gil_scoped_release release;
  float distances[kBlock];
  const double unit = (high - low) / 255;
  const Loop products = loop_of(kUint8, kDot, false);
  std::vector<uint8_t> coded(static_cast<size_t>(dim));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    const float* query = nearest.floats(number);
    double sum = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const double code = unit > 0 ? (double{query[d]} - low) / unit : 0;
      coded[static_cast<size_t>(d)] = static_cast<uint8_t>(std::clamp(code, 0.0, 255.0));
      sum += double{query[d]};
    }
    for (int64_t start = 0; start < rows.count; start += kBlock) {
      const int64_t stop = std::min(rows.count, start + kBlock), count = stop - start;
      if (!rows.any(start, stop)) continue;
      const uint8_t* first = codes.data() + start * dim;
      if (metric == kDot) {
        products(nearest, number, 0, first, count, distances);
        for (int64_t r = 0; r < count; ++r)
          distances[r] = static_cast<float>(1 - low * sum - unit * (1 - double{distances[r]}));
      } else {
        square_gaps(first, count, dim, coded.data(), scale * static_cast<float>(unit * unit),
                    distances);
      }
      nearest.offer(number, distances, rows, start, stop);
    }
  }
}

}  // namespace
}  // namespace alance::vectors

void register_vector_codes(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("add_pq", &alance::vectors::add_pq, nb::arg("nearest"), nb::arg("numbers"), nb::arg("ids"),
        nb::arg("mask"), nb::arg("codes"), nb::arg("bits"), nb::arg("is_transposed"),
        nb::arg("codebook"), nb::arg("subs"), nb::arg("centroid"), nb::arg("metric"),
        nb::arg("scale"));
  m.def("add_sq", &alance::vectors::add_sq, nb::arg("nearest"), nb::arg("numbers"), nb::arg("ids"),
        nb::arg("mask"), nb::arg("codes"), nb::arg("low"), nb::arg("high"), nb::arg("metric"),
        nb::arg("scale"));
}
