// Vectors of any type as float32 points, nearest centroids of vectors, and rounds of k-means (S.
// Lloyd, "Least Squares Quantization in PCM", 1982).
#include <optional>
#include <queue>

#include "base/lists.hpp"
#include "vectors/clusters.hpp"

namespace alance::vectors {
namespace {

template <int64_t W>
struct Register {
  typedef float Floats __attribute__((vector_size(4 * W)));
  typedef int32_t Numbers __attribute__((vector_size(4 * W)));
  typedef float Loose __attribute__((vector_size(4 * W), aligned(4), may_alias));  // anywhere
};
template <int64_t W>
using FloatsOf = typename Register<W>::Floats;
template <int64_t W>
using NumbersOf = typename Register<W>::Numbers;

// Score R points against the two registers of centroids of a panel, and note nearer centroids.
template <int64_t W, int64_t R>
ALANCE_INLINE void tile(const float* points, int64_t dim, const float* panel, int32_t first,
                        FloatsOf<W>* best, NumbersOf<W>* numbers) {
  using Loose = typename Register<W>::Loose;
  FloatsOf<W> scores[R][2];
  FloatsOf<W> low = *reinterpret_cast<const Loose*>(panel);
  FloatsOf<W> high = *reinterpret_cast<const Loose*>(panel + W);
#pragma GCC unroll 16
  for (int64_t r = 0; r < R; ++r) scores[r][0] = low, scores[r][1] = high;
  for (int64_t i = 0; i < dim; ++i) {
    panel += 2 * W;
    low = *reinterpret_cast<const Loose*>(panel);
    high = *reinterpret_cast<const Loose*>(panel + W);
#pragma GCC unroll 16
    for (int64_t r = 0; r < R; ++r) {
      const float value = points[r * dim + i];
      scores[r][0] += value * low;
      scores[r][1] += value * high;
    }
  }
  NumbersOf<W> here;
  for (int64_t lane = 0; lane < W; ++lane) here[lane] = first + static_cast<int32_t>(lane);
  for (int half = 0; half < 2; ++half, here += static_cast<int32_t>(W))
#pragma GCC unroll 16
    for (int64_t r = 0; r < R; ++r) {
      const NumbersOf<W> nearer = scores[r][half] > best[r];
      best[r] = nearer ? scores[r][half] : best[r];
      numbers[r] = nearer ? here : numbers[r];
    }
}

template <int64_t W, int64_t R>
ALANCE_INLINE void nearest_body(const Panels& panels, const float* points, int64_t rows,
                                int32_t* labels, float* scores) {
  const int64_t dim = panels.dim(), tiles = (rows + R - 1) / R;
  FloatsOf<W> best[kMaxRows];
  NumbersOf<W> numbers[kMaxRows];
  for (int64_t r = 0; r < tiles * R; ++r) {
    best[r] = FloatsOf<W>{} - std::numeric_limits<float>::infinity();
    numbers[r] = NumbersOf<W>{};
  }
  for (int64_t number = 0; number < panels.num_panels(); ++number)
    for (int64_t r = 0; r < tiles * R; r += R)
      tile<W, R>(points + r * dim, dim, panels.panel(number), static_cast<int32_t>(2 * W * number),
                 best + r, numbers + r);
  for (int64_t r = 0; r < rows; ++r) {
    float score = best[r][0];
    int32_t label = numbers[r][0];
    for (int64_t lane = 1; lane < W; ++lane)
      if (best[r][lane] > score || (best[r][lane] == score && numbers[r][lane] < label)) {
        score = best[r][lane];
        label = numbers[r][lane];
      }
    scores[r] = score;
    labels[r] = label;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,fma"))) void nearest_16(const Panels& panels, const float* points,
                                                       int64_t rows, int32_t* labels,
                                                       float* scores) {
  nearest_body<16, 12>(panels, points, rows, labels, scores);
}
#endif

// Floats in the widest registers of this processor, at most `lanes`; 0: no limit.
int lanes_here(int lanes) {
#if defined(__x86_64__)
  static const bool has_avx512 = __builtin_cpu_supports("avx512f");
  if (lanes == 0 || lanes > 8) return has_avx512 ? 16 : has_avx2() ? 8 : 4;
  if (lanes == 8) return has_avx2() ? 8 : 4;
#endif
  (void)lanes;
  return 4;
}

void check_centroids(size_t size, int64_t dim) {
  if (dim <= 0 || !size || size % static_cast<size_t>(dim) ||
      size / static_cast<size_t>(dim) > size_t{1} << 30)
    corrupt(size, " values of centroids of dimension ", dim);
}

Owned<int64_t> nearest_centroids(const Bytes& values, int type, int64_t dim, int metric,
                                 const In<float>& centroids, int lanes) {
  const Points points(values, type, dim, metric);
  check_centroids(centroids.size(), points.dim());
  const int64_t wide = points.dim();
  Owned<int64_t> out(points.count());
  const Panels panels(centroids.data(), std::ssize(centroids) / wide, wide, points.is_dot(), lanes);
  points.each_block([&](int64_t start, int64_t rows, float* block) {
    int32_t labels[kMaxRows];
    float scores[kMaxRows];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < wide; ++i) block[r * wide + i] -= panels.origin()[i];
    panels.nearest(block, rows, labels, scores);
    std::copy_n(labels, rows, out.data() + start);
  });
  return out;
}

// Scale to length one; zero stays zero.
void make_unit(float* point, int64_t dim) {
  double squares = 0;
  for (int64_t i = 0; i < dim; ++i) squares += double{point[i]} * double{point[i]};
  if (!(squares > 0)) return;
  const double length = std::sqrt(squares);
  for (int64_t i = 0; i < dim; ++i) point[i] = static_cast<float>(point[i] / length);
}

// Rounds of k-means over some columns of points. Threads may add pieces of the points at once; the
// result of a round depends neither on the threads nor on their order.
class KMeans {
 public:
  KMeans(In<float> points, int64_t stride, int64_t first, int64_t dim, In<float> centroids,
         bool by_angle, int64_t pieces, int lanes)
      : points_(points), stride_(stride), first_(first), dim_(dim), by_angle_(by_angle),
        lanes_(lanes), centroids_(centroids.data(), centroids.data() + centroids.size()) {
    check_centroids(centroids.size(), dim);
    if (stride <= 0 || first < 0 || first > stride - dim || pieces <= 0 || pieces > 1024 ||
        points.size() % static_cast<size_t>(stride))
      corrupt(points.size(), " values of points, columns ", first, " to ", first + dim, " of ",
              stride, ", in ", pieces, " pieces");
    count_ = std::ssize(points) / stride;
    pieces_.resize(static_cast<size_t>(pieces));
    prepare();
  }

  // Add the points of a piece to the clusters of this round.
  void add(int64_t number) {
    const int64_t num_pieces = std::ssize(pieces_);
    if (number < 0 || number >= num_pieces) corrupt("piece ", number);
    Piece& piece = pieces_[static_cast<size_t>(number)];
    const int64_t stop = count_ / num_pieces * (number + 1) +
                         (number + 1 == num_pieces ? count_ % num_pieces : 0);
    const int64_t step = rows_at_once(dim_);
    std::vector<float> block(static_cast<size_t>(step * dim_));
    piece.sums.assign(centroids_.size(), 0.0);
    piece.counts.assign(static_cast<size_t>(panels_->count()), 0);
    piece.loss = 0;
    for (int64_t start = count_ / num_pieces * number; start < stop; start += step)
      add_rows(piece, start, std::min(step, stop - start), block);
  }

  // End the round: centroids become the means of their points. Returns the loss before that.
  double update() {
    Piece& all = pieces_[0];
    for (size_t number = 1; number < pieces_.size(); ++number) {
      const Piece& piece = pieces_[number];
      if (piece.sums.size() != all.sums.size()) continue;  // never added: it has no points
      for (size_t i = 0; i < all.sums.size(); ++i) all.sums[i] += piece.sums[i];
      for (size_t i = 0; i < all.counts.size(); ++i) all.counts[i] += piece.counts[i];
      all.loss += piece.loss;
    }
    const float* origin = panels_->origin();
    for (size_t c = 0; c < all.counts.size(); ++c)
      for (int64_t i = 0; i < dim_ && all.counts[c]; ++i)
        centroids_[c * size_t(dim_) + size_t(i)] = static_cast<float>(
            origin[i] + all.sums[c * size_t(dim_) + size_t(i)] / double(all.counts[c]));
    split(all.counts);
    for (size_t c = 0; by_angle_ && c < centroids_.size(); c += size_t(dim_))
      make_unit(&centroids_[c], dim_);
    prepare();
    return all.loss;
  }

  Owned<float> centroids() const { return owned_of(centroids_); }

 private:
  struct Piece {
    std::vector<double> sums;
    std::vector<int64_t> counts;
    double loss = 0;
  };

  void prepare() {
    panels_.emplace(centroids_.data(), std::ssize(centroids_) / dim_, dim_, by_angle_, lanes_);
  }

  void add_rows(Piece& piece, int64_t start, int64_t rows, std::vector<float>& block) {
    const float* origin = panels_->origin();
    double squares = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = points_.data() + (start + r) * stride_ + first_;
      float* to = block.data() + r * dim_;
      float square = 0;
      for (int64_t i = 0; i < dim_; ++i) to[i] = from[i] - origin[i];
      for (int64_t i = 0; i < dim_; ++i) square += to[i] * to[i];
      squares += double{square};
    }
    int32_t labels[kMaxRows];
    float scores[kMaxRows];
    panels_->nearest(block.data(), rows, labels, scores);
    for (int64_t r = 0; r < rows; ++r) {
      double* sums = piece.sums.data() + labels[r] * dim_;
      for (int64_t i = 0; i < dim_; ++i) sums[i] += double{block[size_t(r * dim_ + i)]};
      ++piece.counts[static_cast<size_t>(labels[r])];
      squares -= 2 * double{scores[r]};
    }
    piece.loss += squares;
  }

  // Give an empty cluster half of the largest one; their centroids begin close to each other.
  void split(std::vector<int64_t>& counts) {
    constexpr float kApart = 1.0f / 1024;
    using Sized = std::pair<int64_t, int64_t>;  // points, -number: of equal clusters the first
    std::priority_queue<Sized> sizes;
    for (size_t c = 0; c < counts.size(); ++c) sizes.emplace(counts[c], -static_cast<int64_t>(c));
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (size_t c = 0; c < counts.size(); ++c) {
      if (counts[c]) continue;
      const auto [size, number] = sizes.top();
      sizes.pop();
      float* large = centroids_.data() + -number * dim_;
      float* empty = centroids_.data() + static_cast<int64_t>(c) * dim_;
      float most = 0;
      for (int64_t i = 0; i < dim_; ++i) most = std::max(most, std::abs(large[i]));
      for (int64_t i = 0; i < dim_; ++i) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const float apart = kApart * most * (static_cast<float>(state >> 40) / (1 << 23) - 1);
        empty[i] = large[i] + apart;
        large[i] -= apart;
      }
      sizes.emplace(size - size / 2, number);
      sizes.emplace(size / 2, -static_cast<int64_t>(c));
    }
  }

  In<float> points_;
  int64_t stride_, first_, dim_, count_ = 0;
  bool by_angle_;
  int lanes_;
  std::vector<float> centroids_;
  std::vector<Piece> pieces_;
  std::optional<Panels> panels_;
};

template <class T>
ALANCE_INLINE void convert(const uint8_t* values, int64_t count, float* out) {
  if constexpr (std::is_same_v<T, Float64>) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<double>(values + 8 * i));
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

Owned<float> vector_points(const Bytes& values, int type, int64_t dim, int metric) {
  const Points points(values, type, dim, metric);
  Owned<float> out(points.count() * points.dim());
  points.load(0, points.count(), out.data());
  return out;
}

}  // namespace

Panels::Panels(const float* centroids, int64_t count, int64_t dim, bool is_dot, int lanes)
    : count_(count), dim_(dim), origin_(static_cast<size_t>(dim)) {
  const int64_t here = lanes_here(lanes), width = 2 * here;
  nearest_ = &Versions<nearest_body<4, 6>>::any;
#if defined(__x86_64__)
  if (here == 8) nearest_ = &Versions<nearest_body<8, 6>>::avx2;
  if (here == 16) nearest_ = &nearest_16;
#endif
  std::vector<double> mean(static_cast<size_t>(dim));
  for (int64_t c = 0; c < count && !is_dot; ++c)
    for (int64_t i = 0; i < dim; ++i) mean[size_t(i)] += double{centroids[c * dim + i]};
  for (size_t i = 0; i < mean.size(); ++i)
    origin_[i] = static_cast<float>(mean[i] / static_cast<double>(count));
  panels_ = (count + width - 1) / width;
  panel_size_ = (dim + 1) * width;
  values_.resize(static_cast<size_t>(panels_ * panel_size_));
  for (int64_t c = 0; c < panels_ * width; ++c) {
    float* to = values_.data() + c / width * panel_size_ + c % width;
    if (c >= count) {
      *to = -std::numeric_limits<float>::infinity();
      continue;
    }
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const float value = centroids[c * dim + i] - origin_[size_t(i)];
      to[(i + 1) * width] = value;
      squares += double{value} * double{value};
    }
    *to = is_dot ? 0.0f : static_cast<float>(-squares / 2);
  }
}

Points::Points(const Bytes& values, int type, int64_t dim, int metric)
    : values_(values.data()), dim_(dim), metric_(metric), convert_(with_type(type, [](auto value) {
        return Versions<convert<decltype(value)>>::best();
      })) {
  if (metric < kL2 || metric > kHamming || (metric == kHamming && type != kUint8))
    corrupt("vectors of type ", type, " by metric ", metric);
  if (dim <= 0 || dim > (int64_t{1} << 24)) corrupt("vectors of dimension ", dim);
  row_bytes_ = dim * width_of(type);
  const int64_t size = std::ssize(values);
  if (size % row_bytes_) corrupt("vectors: ", size, " bytes for rows of ", row_bytes_);
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

void register_clusters(nanobind::module_& m) {
  using namespace alance;
  using vectors::KMeans;
  m.def("nearest_centroids", &vectors::nearest_centroids, "values"_a, "type"_a, "dim"_a, "metric"_a,
        "centroids"_a, "lanes"_a = 0, NoGil());
  nb::class_<KMeans>(m, "KMeans")
      .def(nb::init<In<float>, int64_t, int64_t, int64_t, In<float>, bool, int64_t, int>(),
           "points"_a, "stride"_a, "first"_a, "dim"_a, "centroids"_a, "by_angle"_a, "pieces"_a,
           "lanes"_a = 0)
      .def("add", &KMeans::add, "piece"_a, NoGil())
      .def("update", &KMeans::update, NoGil())
      .def("centroids", &KMeans::centroids);
  m.def("vector_points", &vectors::vector_points, "values"_a, "type"_a, "dim"_a, "metric"_a,
        NoGil());
}
