// Distances of product codes (IVF_PQ) by look-up tables.
//
// A code has a number for each sub-vector of a row, whose codebook entry it stands for. The entries
// make a vector w, which for l2 is relative to the centroid c of the row's partition. For any point
// o, the same for all rows,
//
//   |q - c - w|^2 = |q - c|^2 - 2 (q - o) w + (|w|^2 + 2 (c - o) w)
//
// The last part does not depend on the query: it is computed when the row is read. The middle part
// does not depend on the partition: a query has one table for all partitions.
//
// Source: H. Jegou, M. Douze, C. Schmid, "Product Quantization for Nearest Neighbor Search", 2011.
#include <atomic>

#include "vectors/graph.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace alance::vectors {
namespace {

constexpr int64_t kCodes = 256;  // values of a byte of codes
constexpr int64_t kTablesBytes = 32 << 20;  // bound of the tables that are kept, of all queries
constexpr int64_t kFewRows = kBlock / 16;  // of a block: fewer near rows are looked up one by one

// For each code of each sub-vector, the sum of w (factor + square w) over its components w. The
// codebook has the values of all codes side by side: [sub][component][code].
ALANCE_CLONES void fill_parts(const float* factors, float square, const float* codebook,
                              int64_t subs, int64_t codes, int64_t width, float* parts) {
  std::fill_n(parts, subs * codes, 0.0f);
  for (int64_t at = 0; at < subs * width; ++at, codebook += codes) {
    float* of_sub = parts + at / width * codes;
    const float factor = factors[at];
    for (int64_t code = 0; code < codes; ++code)
      of_sub[code] += codebook[code] * (factor + square * codebook[code]);
  }
}

// Position of a byte in the codes of each row: `step` bytes from one row to the next.
struct CodeRows {
  const uint8_t* first;
  int64_t step;
};

// Add the table values of N bytes of each row's codes, in the order of the bytes.
template <int64_t N>
void add_bytes(CodeRows codes, int64_t byte_step, int64_t count, const float* table, float* out) {
  for (int64_t r = 0; r < count; ++r) {
    const uint8_t* code = codes.first + r * codes.step;
    float total = out[r];
#pragma GCC unroll 8
    for (int64_t byte = 0; byte < N; ++byte) total += table[byte * kCodes + code[byte * byte_step]];
    out[r] = total;
  }
}

// Search of a block for rows whose distance may be within a limit. `steps` has the table in steps
// of `step`, rounded down; `terms` is null if rows have none. The result has a bit a row.
struct Coarse {
  const uint8_t* codes;  // of the first row; first byte of all rows, then the next byte
  int64_t byte_step, row_bytes;
  const uint8_t* steps;
  const float* terms;
  float step, limit;
};
using Sift = void (*)(const Coarse& rows, int64_t count, uint64_t* near);

#if defined(__x86_64__)
// A table of 256 bytes fills four registers of AVX-512; one instruction looks up in two of them.
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void sift_avx512(const Coarse& rows,
                                                                       int64_t count,
                                                                       uint64_t* near) {
  constexpr int kChunks = kBlock / 64;
  __mmask64 here[kChunks];
  __m512i even[kChunks], odd[kChunks];
  for (int64_t c = 0; c < kChunks; ++c) {
    const int64_t remaining = std::clamp<int64_t>(count - 64 * c, 0, 64);
    here[c] = remaining == 64 ? ~uint64_t{0} : (uint64_t{1} << remaining) - 1;
    even[c] = odd[c] = _mm512_setzero_si512();
  }
  const __m512i low_bytes = _mm512_set1_epi16(0xff);
  const uint8_t *codes = rows.codes, *steps = rows.steps;
  for (int64_t byte = 0; byte < rows.row_bytes; ++byte, codes += rows.byte_step, steps += kCodes) {
    const __m512i first = _mm512_loadu_si512(steps), second = _mm512_loadu_si512(steps + 64),
                  third = _mm512_loadu_si512(steps + 128), last = _mm512_loadu_si512(steps + 192);
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      const __m512i code = _mm512_maskz_loadu_epi8(here[c], codes + 64 * c);
      const __m512i part =
          _mm512_mask_blend_epi8(_mm512_movepi8_mask(code),  // by the highest bit
                                 _mm512_permutex2var_epi8(first, code, second),
                                 _mm512_permutex2var_epi8(third, code, last));
      even[c] = _mm512_add_epi16(even[c], _mm512_and_si512(part, low_bytes));
      odd[c] = _mm512_add_epi16(odd[c], _mm512_srli_epi16(part, 8));
    }
  }
  const __m512 step = _mm512_set1_ps(rows.step), limit = _mm512_set1_ps(rows.limit);
  for (int64_t c = 0; c < kChunks; ++c) {
    // 128 bits of the first array have eight rows, those of the second the next eight.
    __m128i halves[2][4];
    _mm512_storeu_si512(halves[0], _mm512_unpacklo_epi16(even[c], odd[c]));
    _mm512_storeu_si512(halves[1], _mm512_unpackhi_epi16(even[c], odd[c]));
    uint64_t mask = 0;
    for (int64_t r = 0; r < 64; r += 16) {
      const __mmask16 present = static_cast<__mmask16>(here[c] >> r);
      const __m512i wide =
          _mm512_cvtepu16_epi32(_mm256_set_m128i(halves[1][r / 16], halves[0][r / 16]));
      __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(wide), step);
      if (rows.terms)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(present, rows.terms + 64 * c + r));
      const __mmask16 is_near = _mm512_mask_cmp_ps_mask(present, sum, limit, _CMP_LE_OQ);
      mask |= uint64_t{is_near} << r;
    }
    near[c] = mask;
  }
}
#endif

// Null if this processor has nothing faster than adding floats.
Sift sift_here() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vbmi");
  if (has) return &sift_avx512;
#endif
  return nullptr;
}

// Smallest and largest table value of a byte. No `std::copy_n`: Clang leaves out inline functions that
// only clones call, and the library does not load.
ALANCE_CLONES void range_of(const float* parts, float* least, float* largest) {
  float low[kLanes], high[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) low[i] = high[i] = parts[i];
  for (int64_t code = kLanes; code < kCodes; code += kLanes)
    for (int64_t i = 0; i < kLanes; ++i) {
      low[i] = parts[code + i] < low[i] ? parts[code + i] : low[i];
      high[i] = parts[code + i] > high[i] ? parts[code + i] : high[i];
    }
  *least = *std::min_element(low, low + kLanes);
  *largest = *std::max_element(high, high + kLanes);
}

ALANCE_CLONES void steps_of(const float* parts, float least, float per_step, float most,
                            uint8_t* steps) {
  for (int64_t code = 0; code < kCodes; ++code) {
    const float number = (parts[code] - least) * per_step;
    steps[code] = static_cast<uint8_t>(static_cast<int32_t>(number < most ? number : most));
  }
}

// Add the table in steps of one size, the finest whose sums fit two bytes.
void round_down(QueryTable& table, int64_t row_bytes) {
  const float most = static_cast<float>(std::min<int64_t>(255, 65535 / row_bytes));
  std::vector<float> least(static_cast<size_t>(row_bytes));
  float widest = 0, size = 0, total = 0;
  for (int64_t byte = 0; byte < row_bytes; ++byte) {
    float low, high;
    range_of(table.parts.data() + byte * kCodes, &low, &high);
    least[static_cast<size_t>(byte)] = low;
    total += low;
    widest = std::max(widest, high - low);
    size += std::max(std::abs(low), std::abs(high));
  }
  if (most < 15 || !(widest > 0) || !std::isfinite(size)) return;
  table.least = total, table.size = size, table.step = widest / most;
  if (!(table.step > std::numeric_limits<float>::min())) return;
  table.steps.resize(static_cast<size_t>(row_bytes * kCodes));
  for (int64_t byte = 0; byte < row_bytes; ++byte)
    steps_of(table.parts.data() + byte * kCodes, least[static_cast<size_t>(byte)], 1 / table.step,
             most, table.steps.data() + byte * kCodes);
}

// Sum of squared differences.
ALANCE_CLONES double gaps_of(const float* a, const float* b, int64_t dim) {
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) {
      const double gap = double{a[i + j]} - double{b[i + j]};
      sums[j] += gap * gap;
    }
  for (; i < dim; ++i) {
    const double gap = double{a[i]} - double{b[i]};
    sums[i % kLanes] += gap * gap;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Codebook, and the comparison of its codes.
class ProductBook {
 public:
  ProductBook(In<float> values, In<float> origin, int bits, int64_t subs, bool is_transposed,
              int metric, float scale)
      : values_(values), origin_(origin.data(), origin.data() + origin.size()), bits_(bits),
        subs_(subs), is_transposed_(is_transposed), is_dot_(metric == kDot), scale_(scale) {
    static std::atomic<uint64_t> last{0};
    number_ = ++last;
    const bool is_valid = (bits == 8 || bits == 4) && subs > 0 && dim() > 0 && dim() % subs == 0 &&
                          !(bits == 4 && subs % 2);
    if (!is_valid)
      corrupt("product codes: ", subs, " of ", bits, " bits for vectors of dimension ", dim());
    if (std::ssize(values_) != dim() << bits)
      corrupt("product codes: a codebook of ", values_.size(), " values");
    row_bytes_ = bits == 8 ? subs : subs / 2;
  }

  // Part of the distance of each row that does not depend on the query; empty by dot.
  Owned<float> terms(const Bytes& codes, const In<float>& centroid) const {
    check_centroid(centroid);
    const int64_t count = is_dot_ ? 0 : std::ssize(codes) / row_bytes_;
    if (!is_dot_) check_codes(codes, count);
    Owned<float> out(count);
    std::vector<float> factors(origin_.size());
    for (size_t i = 0; i < factors.size() && !is_dot_; ++i)
      factors[i] = 2 * scale_ * (centroid.data()[i] - origin_[i]);
    if (count) sums({codes.data(), count}, 0, count, parts(factors.data(), scale_), out.data());
    return out;
  }

  void add(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids, const Bytes& mask,
           const Bytes& codes, const In<float>& terms, const In<float>& centroid,
           const Graph* graph, int64_t ef, bool baseline) const;

 private:
  friend class ProductCodes;
  struct Codes {
    const uint8_t* data;
    int64_t num_rows;
  };

  int64_t dim() const { return std::ssize(origin_); }
  int64_t row_step() const { return is_transposed_ ? 1 : row_bytes_; }
  int64_t byte_step(const Codes& codes) const { return is_transposed_ ? codes.num_rows : 1; }

  void check_centroid(const In<float>& centroid) const {
    if (!is_dot_ && std::ssize(centroid) != dim())
      corrupt("product codes: a centroid of ", centroid.size(), " values");
  }

  void check_codes(const Bytes& codes, int64_t num_rows) const {
    if (std::ssize(codes) != num_rows * row_bytes_)
      corrupt("product codes: ", codes.size(), " bytes for ", num_rows, " rows of ", row_bytes_);
  }

  // Table of shares for each value of each byte of a row's codes; see `fill_parts`.
  std::vector<float> parts(const float* factors, float square) const {
    const int64_t codes = int64_t{1} << bits_, width = dim() / subs_;
    std::vector<float> of_subs(static_cast<size_t>(subs_ * codes));
    fill_parts(factors, square, values_.data(), subs_, codes, width, of_subs.data());
    if (bits_ == 8) return of_subs;
    std::vector<float> of_bytes(static_cast<size_t>(row_bytes_ * kCodes));
    for (int64_t byte = 0; byte < row_bytes_; ++byte) {
      const float* two = of_subs.data() + 2 * byte * codes;  // two codes share a byte
      for (int64_t byte_value = 0; byte_value < kCodes; ++byte_value)
        of_bytes[static_cast<size_t>(byte * kCodes + byte_value)] =
            two[byte_value & 15] + two[16 + (byte_value >> 4)];
    }
    return of_bytes;
  }

  // Sums of the table values of rows' codes.
  void sums(const Codes& codes, int64_t start, int64_t count, const std::vector<float>& table,
            float* out) const {
    const int64_t step = byte_step(codes);
    std::fill_n(out, count, 0.0f);
    for (int64_t byte = 0; byte < row_bytes_;) {
      const CodeRows here{codes.data + byte * step + start * row_step(), row_step()};
      const float* from = table.data() + byte * kCodes;
      if (byte + 8 <= row_bytes_)
        add_bytes<8>(here, step, count, from, out), byte += 8;
      else
        add_bytes<1>(here, step, count, from, out), byte += 1;
    }
  }

  std::shared_ptr<const QueryTable> table_of(Nearest& nearest, int64_t query) const {
    std::shared_ptr<const QueryTable> cached = nearest.table(query, number_);
    if (cached) return cached;
    auto table = std::make_shared<QueryTable>();
    table->book = number_;
    const float* values = nearest.floats(query);
    std::vector<float> factors(origin_.size());
    for (size_t i = 0; i < factors.size(); ++i)
      factors[i] = is_dot_ ? -values[i] : -2 * scale_ * (values[i] - origin_[i]);
    table->parts = parts(factors.data(), 0);
    if (is_transposed_ && sift_here()) round_down(*table, row_bytes_);
    if (query < kTablesBytes / (row_bytes_ * kCodes * int64_t{sizeof(float)}))
      nearest.keep_table(query, table);
    return table;
  }

  In<float> values_;
  std::vector<float> origin_;
  int bits_;
  int64_t subs_, row_bytes_ = 0;
  bool is_transposed_, is_dot_;
  float scale_;
  uint64_t number_;
};

// Codes of a partition, compared with one query after the other.
class ProductCodes {
 public:
  ProductCodes(const ProductBook& book, Nearest& nearest, ProductBook::Codes codes,
               const float* terms, const float* centroid)
      : book_(book), nearest_(nearest), codes_(codes), terms_(terms), centroid_(centroid) {}

  void ask(int64_t number) {
    table_ = book_.table_of(nearest_, number);
    const double gaps = book_.is_dot_ ? 0 : gaps_of(nearest_.floats(number), centroid_, book_.dim());
    base_ = book_.is_dot_ ? 1.0f : static_cast<float>(double{book_.scale_} * gaps);
  }

  void run(int64_t start, int64_t count, float* distances) const {
    book_.sums(codes_, start, count, table_->parts, distances);
    for (int64_t r = 0; r < count; ++r) distances[r] = whole(start + r, distances[r]);
  }

  // The same sum as in `run`, in the same order.
  float at(int64_t row) const {
    const uint8_t* code = codes_.data + row * book_.row_step();
    const int64_t step = book_.byte_step(codes_);
    const float* table = table_->parts.data();
    float total = 0;
    for (int64_t byte = 0; byte < book_.row_bytes_; ++byte, table += kCodes)
      total += table[code[byte * step]];
    return whole(row, total);
  }

  void prefetch(int64_t row) const { __builtin_prefetch(codes_.data + row * book_.row_step()); }

  // Offer the rows of a block to a query that has k rows already, the farthest at `bound`. False,
  // with nothing done, if so many rows may be near that sifting does not pay.
  bool offer_few(int64_t number, const Rows& rows, int64_t start, int64_t stop, float bound,
                 Sift sift) {
    if (!sift || table_->steps.empty()) return false;
    const auto row_bytes = static_cast<float>(book_.row_bytes_);
    // Bound of the effect of rounding: of a step, and of sums of floats.
    const float slack = table_->step + 0x1p-22f * (row_bytes + 8) *
                                           (std::abs(base_) + std::abs(bound) + table_->size);
    const Coarse coarse{codes_.data + start, codes_.num_rows,
                        book_.row_bytes_,    table_->steps.data(),
                        terms_ ? terms_ + start : nullptr,
                        table_->step,        bound - base_ - table_->least + slack};
    uint64_t near[kBlock / 64];
    sift(coarse, stop - start, near);
    int64_t count = 0;
    for (const uint64_t word : near) count += __builtin_popcountll(word);
    if (count > kFewRows) return false;
    for (int64_t chunk = 0; count > 0 && chunk < kBlock / 64; ++chunk)
      for (uint64_t word = near[chunk]; word; word &= word - 1) {
        const int64_t row = start + 64 * chunk + __builtin_ctzll(word);
        const float distance = at(row);
        nearest_.offer(number, &distance, rows, row, row + 1);
      }
    return true;
  }

 private:
  float whole(int64_t row, float sum) const { return base_ + (terms_ ? terms_[row] + sum : sum); }

  const ProductBook& book_;
  Nearest& nearest_;
  ProductBook::Codes codes_;
  const float *terms_, *centroid_;
  std::shared_ptr<const QueryTable> table_;
  float base_ = 0;
};

void ProductBook::add(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids,
                      const Bytes& mask, const Bytes& codes, const In<float>& terms,
                      const In<float>& centroid, const Graph* graph, int64_t ef,
                      bool baseline) const {
  const Rows rows = nearest.checked(ids, mask, numbers);
  check_codes(codes, rows.count);
  check_centroid(centroid);
  if (nearest.dim() != dim())
    corrupt("product codes of dimension ", dim(), " for queries of ", nearest.dim());
  if (std::ssize(terms) != (is_dot_ ? 0 : rows.count))
    corrupt("product codes: ", terms.size(), " terms for ", rows.count, " rows");
  check_graph(graph, ef, rows);
  const Sift sift = baseline ? nullptr : sift_here();
  ProductCodes product(*this, nearest, {codes.data(), rows.count}, is_dot_ ? nullptr : terms.data(),
                       centroid.data());
  const auto few = [&](int64_t number, int64_t start, int64_t stop) {
    const float bound = nearest.bound(number);
    return std::isfinite(bound) && product.offer_few(number, rows, start, stop, bound, sift);
  };
  add_rows(nearest, numbers, rows, graph, ef, product, few);
}

}  // namespace
}  // namespace alance::vectors

void register_vector_products(nanobind::module_& m) {
  using namespace alance;
  using vectors::ProductBook;
  nb::class_<ProductBook>(m, "ProductBook")
      .def(nb::init<In<float>, In<float>, int, int64_t, bool, int, float>(), "values"_a, "origin"_a,
           "bits"_a, "subs"_a, "is_transposed"_a, "metric"_a, "scale"_a)
      .def("terms", &ProductBook::terms, "codes"_a, "centroid"_a, NoGil())
      .def("add", &ProductBook::add, "nearest"_a, "numbers"_a, "ids"_a, "mask"_a, "codes"_a,
           "terms"_a, "centroid"_a, "graph"_a = nb::none(), "ef"_a = 0, "baseline"_a = false,
           NoGil());
}
