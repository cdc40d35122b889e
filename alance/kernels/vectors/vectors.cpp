// Exact distances of vectors from queries, and the nearest rows.
#include "vectors/vectors.hpp"

#include <nanobind/stl/optional.h>

#include "base/ends.hpp"
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
                 const Bytes& mask, const Bytes& values, int type, int metric,
                 const std::optional<In<int64_t>>& lists, bool baseline, const Graph* graph,
                 int64_t ef) {
  const int64_t width = lists ? nearest.width() : 1;
  const Rows rows = nearest.checked(ids, mask, numbers, width);
  const Loop loop = loop_of(type, metric, baseline);
  const int64_t row_bytes = nearest.dim() * width_of(type);
  const int64_t* ends = lists ? lists->data() : nullptr;
  const int64_t count = lists ? checked_count(*lists, INT64_MAX, "lists of vectors") : rows.count;
  const int64_t num_vectors = lists ? ends[count] : count;
  if (count != rows.count || num_vectors > std::ssize(values) / row_bytes ||
      std::ssize(values) != num_vectors * row_bytes || (lists && ends[0] != 0))
    corrupt("vectors: ", values.size(), " bytes for ", num_vectors, " vectors of ", row_bytes,
            " in ", rows.count, " rows");
  check_graph(graph, ef, rows);
  if (graph) {
    LinkedVectors linked{nearest, loop, values.data(), row_bytes, {}};
    return follow(nearest, numbers, rows, *graph, ef, linked);
  }
  std::vector<Query> queries;
  for (size_t i = 0; i < numbers.size(); ++i)
    for (int64_t j = 0; j < width; ++j)
      queries.push_back(query_of(nearest, numbers.data()[i] * width + j));
  // Rows with about a block of vectors, at least one row: a block stays in the processor's cache
  // while all queries are compared with it.
  const int64_t step = std::clamp<int64_t>((64 << 10) / row_bytes, 1, kBlock);
  const auto place = [ends](int64_t row) { return ends ? ends[row] : row; };
  std::vector<float> distances, sums(kBlock);
  for (int64_t start = 0, stop; start < rows.count; start = stop) {
    const int64_t first = place(start);
    stop = ends ? start + 1 : std::min(rows.count, start + step);
    while (ends && stop < rows.count && stop - start < kBlock && ends[stop + 1] - first <= step)
      ++stop;
    if (!rows.any(start, stop)) continue;
    distances.resize(static_cast<size_t>(place(stop) - first));
    for (size_t i = 0; i < queries.size(); ++i) {
      const int64_t number = numbers.data()[i / static_cast<size_t>(width)];
      loop(queries[i], values.data() + first * row_bytes, std::ssize(distances), distances.data());
      if (ends) {
        if (i % static_cast<size_t>(width) == 0) std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t row = start; row < stop; ++row) {
          float least = std::numeric_limits<float>::quiet_NaN();
          for (int64_t at = ends[row]; at < ends[row + 1]; ++at) {
            const float distance = distances[static_cast<size_t>(at - first)];
            if (!(distance >= least) && !std::isnan(distance)) least = distance;
          }
          sums[static_cast<size_t>(row - start)] += least;
        }
        if ((i + 1) % static_cast<size_t>(width)) continue;
      }
      nearest.offer(number, ends ? sums.data() : distances.data(), rows, start, stop);
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
        "values"_a, "type"_a, "metric"_a, "lists"_a = nb::none(), "baseline"_a = false,
        "graph"_a = nb::none(), "ef"_a = 0, NoGil());
}
