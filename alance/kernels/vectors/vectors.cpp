// Exact distances of vectors from queries, and the nearest rows.
#include "vectors/vectors.hpp"

#include "vectors/graph.hpp"

namespace alance::vectors {
namespace {

template <class T, Metric M>
ALANCE_INLINE void body(const Query& query, const uint8_t* rows, int64_t count, float* out) {
  if constexpr (M == kHamming)
    bits_of(rows, count, query.dim, query.bytes, out);
  else if constexpr (std::is_same_v<typename T::Real, double>)
    distances_of<T, M>(rows, count, query.dim, query.exact, query.length, out);
  else
    distances_of<T, M>(rows, count, query.dim, query.floats, query.length, out);
}

template <class T>
Loop by_metric(int metric, bool baseline) {
  switch (metric) {
    case kL2: return Versions<body<T, kL2>>::best(baseline);
    case kCosine: return Versions<body<T, kCosine>>::best(baseline);
    case kDot: return Versions<body<T, kDot>>::best(baseline);
    case kHamming:
      if constexpr (std::is_same_v<T, Uint8>) return Versions<body<T, kHamming>>::best(baseline);
      return nullptr;
    default: return nullptr;
  }
}

Query query_of(const Nearest& nearest, int64_t number) {
  const double* query = nearest.exact(number);
  double squares = 0;
  for (int64_t d = 0; d < nearest.dim(); ++d) squares += query[d] * query[d];
  return nearest.query(number, std::sqrt(squares));
}

// Vectors that a graph leads to, one by one.
struct LinkedVectors {
  const Nearest& nearest;
  Loop loop;
  const uint8_t* values;
  int64_t row_bytes;
  Query query;

  void ask(int64_t number) { query = query_of(nearest, number); }

  float at(int64_t row) const {
    float distance;
    loop(query, values + row * row_bytes, 1, &distance);
    return distance;
  }

  void prefetch(int64_t row) const {
    for (int64_t byte = 0; byte < row_bytes && byte < 512; byte += 64)
      __builtin_prefetch(values + row * row_bytes + byte);
  }
};

void add_vectors(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids,
                 const Bytes& mask, const Bytes& values, int type, int metric, bool baseline,
                 const Graph* graph, int64_t ef) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  const Loop loop = loop_of(type, metric, baseline);
  const int64_t row_bytes = nearest.dim() * width_of(type);
  if (std::ssize(values) != rows.count * row_bytes)
    corrupt("vectors: ", values.size(), " bytes for ", rows.count, " rows of ", row_bytes);
  check_graph(graph, ef, rows);
  if (graph) {
    LinkedVectors linked{nearest, loop, values.data(), row_bytes, {}};
    return follow(nearest, numbers, rows, *graph, ef, linked);
  }
  float distances[kBlock];
  // A block stays in the processor's cache while all queries are compared with it.
  const int64_t step = std::clamp<int64_t>((64 << 10) / row_bytes, 1, kBlock);
  std::vector<Query> queries;
  for (size_t i = 0; i < numbers.size(); ++i) queries.push_back(query_of(nearest, numbers.data()[i]));
  for (int64_t start = 0; start < rows.count; start += step) {
    const int64_t stop = std::min(rows.count, start + step);
    if (!rows.any(start, stop)) continue;
    for (size_t i = 0; i < numbers.size(); ++i) {
      loop(queries[i], values.data() + start * row_bytes, stop - start, distances);
      nearest.offer(numbers.data()[i], distances, rows, start, stop);
    }
  }
}

void add_lists(Nearest& nearest, const In<int32_t>& numbers, const In<uint64_t>& ids,
               const Bytes& mask, const In<int64_t>& ends, const Bytes& values, int type,
               int metric, bool baseline) {
  const Rows rows = nearest.checked(ids, mask, numbers, nearest.width());
  const Loop loop = loop_of(type, metric, baseline);
  const int64_t row_bytes = nearest.dim() * width_of(type);
  int64_t last = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends.data()[i] < last) corrupt("lists of vectors: one ends before the one before it");
    last = ends.data()[i];
  }
  const int64_t most = std::ssize(values) / row_bytes;
  if (std::ssize(ends) != rows.count || last != most || std::ssize(values) != most * row_bytes)
    corrupt("lists of vectors: ", values.size(), " bytes for ", last, " vectors of ", row_bytes,
            " in ", rows.count, " rows");
  const int64_t step = std::clamp<int64_t>((64 << 10) / row_bytes, 1, kBlock), width = nearest.width();
  std::vector<float> distances, sums(kBlock);
  int64_t stop = 0;
  for (int64_t start = 0; start < rows.count; start = stop) {
    const int64_t first = start ? ends.data()[start - 1] : 0;
    // Rows with about a block of vectors, which stays in the processor's cache; at least one row.
    stop = start + 1;
    while (stop < rows.count && stop - start < kBlock && ends.data()[stop] - first <= step) ++stop;
    if (!rows.any(start, stop)) continue;
    distances.resize(static_cast<size_t>(ends.data()[stop - 1] - first));
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::fill_n(sums.begin(), stop - start, 0.0f);
      for (int64_t j = 0; j < width; ++j) {
        const int64_t vector = numbers.data()[i] * width + j;
        loop(query_of(nearest, vector), values.data() + first * row_bytes, std::ssize(distances),
             distances.data());
        for (int64_t row = start, at = 0; row < stop; ++row) {
          float least = std::numeric_limits<float>::quiet_NaN();
          for (; at < ends.data()[row] - first; ++at)
            if (!(distances[static_cast<size_t>(at)] >= least)) {
              const float distance = distances[static_cast<size_t>(at)];
              if (!std::isnan(distance)) least = distance;
            }
          sums[static_cast<size_t>(row - start)] += least;
        }
      }
      nearest.offer(numbers.data()[i], sums.data(), rows, start, stop);
    }
  }
}

}  // namespace

Loop loop_of(int type, int metric, bool baseline) {
  const Loop loop = with_type(type, [=](auto value) {
    return by_metric<decltype(value)>(metric, baseline);
  });
  if (!loop) corrupt("vectors of type ", type, " by metric ", metric);
  return loop;
}

int64_t width_of(int type) {
  return with_type(type, [](auto value) { return decltype(value)::kValueBytes; });
}

}  // namespace alance::vectors

void register_vectors(nanobind::module_& m) {
  using namespace alance;
  using vectors::Nearest;
  nb::class_<Nearest>(m, "Nearest")
      .def(nb::init<In<double>, int64_t, int64_t, float, float, int64_t, int64_t>(), "queries"_a,
           "dim"_a, "k"_a, "lower"_a, "upper"_a, "width"_a = 1, "below"_a = 0)
      .def("result", &Nearest::result)
      .def("below", &Nearest::below);
  m.def("add_vectors", &vectors::add_vectors, "nearest"_a, "numbers"_a, "ids"_a, "mask"_a,
        "values"_a, "type"_a, "metric"_a, "baseline"_a = false, "graph"_a = nb::none(), "ef"_a = 0,
        NoGil());
  m.def("add_lists", &vectors::add_lists, "nearest"_a, "numbers"_a, "ids"_a, "mask"_a, "ends"_a,
        "values"_a, "type"_a, "metric"_a, "baseline"_a = false, NoGil());
}
