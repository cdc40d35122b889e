// Graphs of the rows of a partition (HNSW), made row by row.
//
// A new row is linked to some of the rows near to it, and they to it. Of near rows those are chosen
// that are nearer to it than to each other, so that links lead to all sides; others fill the rest.
// A list may grow beyond its size by half before it is chosen anew. In the end links lead from the
// entry to every row of level 0.
#include "graph.hpp"
#include "vectors.hpp"

namespace alance::vectors {
namespace {

using Pair = float (*)(const float*, const float*, int64_t);

template <Metric M>
ALANCE_INLINE float pair_body(const float* left, const float* right, int64_t dim) {
  float distance;
  distances_of<Float32, M>(reinterpret_cast<const uint8_t*>(left), 1, dim, right, 1, &distance);
  return distance;
}

template <Metric M>
float pair_any(const float* left, const float* right, int64_t dim) {
  return pair_body<M>(left, right, dim);
}

#ifdef ALANCE_AVX2
template <Metric M>
ALANCE_AVX2 float pair_avx2(const float* left, const float* right, int64_t dim) {
  return pair_body<M>(left, right, dim);
}
#endif

template <Metric M>
Pair pair_of() {
#ifdef ALANCE_AVX2
  if (has_avx2()) return &pair_avx2<M>;
#endif
  return &pair_any<M>;
}

// Well mixed bits of a number (splitmix64).
uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// Nearer to `row` first; of rows as near in another order for each row: the same few would get all
// links of rows that are alike.
struct NearerTo {
  uint64_t row;

  bool operator()(const Place& left, const Place& right) const {
    if (left.distance != right.distance) return left.distance < right.distance;
    return mixed(row << 32 | left.row) < mixed(row << 32 | right.row);
  }
};

class GraphBuilder {
 public:
  GraphBuilder(In<float> values, int64_t dim, bool by_product, int64_t m, int64_t ef, int64_t levels,
               uint64_t seed)
      : dim_(dim), ef_(ef), pair_(by_product ? pair_of<kDot>() : pair_of<kL2>()) {
    if (dim < 1 || values.size() % static_cast<size_t>(dim) != 0 || m < 2 || m > 1024 || ef < 1 ||
        levels < 1 || levels > 64)
      corrupt("graph: " + std::to_string(values.size()) + " values of dimension " +
              std::to_string(dim) + ", m " + std::to_string(m) + ", ef " + std::to_string(ef));
    num_rows_ = static_cast<int64_t>(values.size()) / dim;
    // The links of all levels are counted in 31 bits: level 0 has most of them.
    if (num_rows_ > INT32_MAX / (4 * m))
      corrupt("graph: " + std::to_string(num_rows_) + " rows with " + std::to_string(2 * m) + " links");
    nb::gil_scoped_release release;
    stride_ = (dim + kLanes - 1) / kLanes * kLanes;
    values_.resize(static_cast<size_t>(num_rows_ * stride_));
    for (int64_t row = 0; row < num_rows_; ++row)
      std::copy_n(values.data() + row * dim, dim, values_.data() + row * stride_);
    place_rows(m, levels, seed);
  }

  bool grow(int64_t count) {
    nb::gil_scoped_release release;
    for (; count > 0 && next_ < num_rows_; --count) insert(static_cast<uint32_t>(next_++));
    return next_ == num_rows_;
  }

  nb::tuple finish() {
    int64_t num_places = 0, num_links = 0;
    if (next_ != num_rows_) corrupt("graph: " + std::to_string(next_) + " rows are linked");
    {
      nb::gil_scoped_release release;
      for (Level& level : levels_)
        for (size_t place = 0; place < level.rows.size(); ++place)
          choose(level.rows[place], level.lists[place], level.most);
      connect(levels_[0]);
      for (const Level& level : levels_) {
        num_places += static_cast<int64_t>(level.rows.size());
        for (const List& list : level.lists) num_links += static_cast<int64_t>(list.size());
      }
    }
    Owned<uint32_t> rows(num_places), links(num_links);
    Owned<int32_t> starts(num_places + 1);
    Owned<float> distances(num_links);
    Owned<int64_t> levels(static_cast<int64_t>(levels_.size()) + 1);
    int64_t at = 0, link = 0;
    for (size_t number = 0; number < levels_.size(); ++number) {
      const Level& level = levels_[number];
      levels[static_cast<int64_t>(number)] = at;
      for (size_t place = 0; place < level.rows.size(); ++place) {
        rows[at] = level.rows[place];
        starts[at++] = static_cast<int32_t>(link);
        for (const Place& near : level.lists[place]) {
          links[link] = near.row;
          distances[link++] = near.distance;
        }
      }
    }
    starts[at] = static_cast<int32_t>(link);
    levels[static_cast<int64_t>(levels_.size())] = at;
    return nb::make_tuple(rows.numpy(), starts.numpy(), links.numpy(), distances.numpy(),
                          levels.numpy(), static_cast<int64_t>(entry_));
  }

 private:
  using List = std::vector<Place>;

  struct Level {
    size_t most;                     // links of a row, in the end
    std::vector<uint32_t> rows;      // ascending
    std::vector<uint32_t> place_of;  // of rows
    std::vector<List> lists;         // by place
  };

  // The distances of all rows from one of them.
  struct From {
    const GraphBuilder& graph;
    const float* query;

    float at(uint32_t row) const { return graph.pair_(graph.vector(row), query, graph.stride_); }
    void prefetch(uint32_t row) const {
      const float* vector = graph.vector(row);
      for (int64_t i = 0; i < graph.stride_ && i < 128; i += 16) __builtin_prefetch(vector + i);
    }
  };

  // The rows that a row is linked to.
  struct Linked {
    const List& list;
    struct Iterator {
      const Place* place;
      uint32_t operator*() const { return place->row; }
      Iterator& operator++() { return ++place, *this; }
      bool operator!=(const Iterator& other) const { return place != other.place; }
    };
    Iterator begin() const { return {list.data()}; }
    Iterator end() const { return {list.data() + list.size()}; }
  };

  const float* vector(uint32_t row) const { return values_.data() + int64_t{row} * stride_; }

  // Every row is on level 0, and of each level one of m on the next: by chance, the same each time.
  void place_rows(int64_t m, int64_t levels, uint64_t seed) {
    const double scale = 1 / std::log(static_cast<double>(m));
    for (int64_t number = 0; number < levels; ++number)
      levels_.push_back({static_cast<size_t>(number ? m : 2 * m), {}, {}, {}});
    tops_.resize(static_cast<size_t>(num_rows_));
    for (int64_t row = 0; row < num_rows_; ++row) {
      const uint64_t bits = mixed(seed ^ mixed(static_cast<uint64_t>(row))) >> 11;
      const double chance = static_cast<double>(bits + 1) / static_cast<double>(uint64_t{1} << 53);
      const double top = std::min(-std::log(chance) * scale, static_cast<double>(levels - 1));
      tops_[static_cast<size_t>(row)] = static_cast<uint8_t>(top);
      for (uint8_t number = 0; number <= tops_[static_cast<size_t>(row)]; ++number)
        levels_[number].rows.push_back(static_cast<uint32_t>(row));
    }
    for (Level& level : levels_) {
      if (level.rows.empty()) continue;
      level.lists.resize(level.rows.size());
      level.place_of.resize(static_cast<size_t>(num_rows_));
      for (size_t place = 0; place < level.rows.size(); ++place)
        level.place_of[level.rows[place]] = static_cast<uint32_t>(place);
    }
  }

  List& list_of(Level& level, uint32_t row) { return level.lists[level.place_of[row]]; }

  void insert(uint32_t row) {
    const int top = tops_[row];
    if (top_ < 0) {
      entry_ = row;
      top_ = top;
      return;
    }
    const From distances{*this, vector(row)};
    Place near{distances.at(entry_), entry_};
    for (int number = top_; number >= 0; --number) {
      Level& level = levels_[static_cast<size_t>(number)];
      const auto links_of = [&](uint32_t here) { return Linked{list_of(level, here)}; };
      if (number > top) {
        near = Walk::approach(near, links_of, distances);
        continue;
      }
      List& near_rows = walk_.spread(near.row, num_rows_, static_cast<size_t>(ef_), links_of, distances,
                                 [](const Place&) { return true; });
      if (near_rows.empty()) continue;  // nothing is near to NaN
      choose(row, near_rows, level.most);
      near = near_rows.front();
      List& list = list_of(level, row);
      list.reserve(level.most + level.most / 2 + 1);
      list.assign(near_rows.begin(), near_rows.end());
      for (const Place& place : list) link_back(level, place.row, {place.distance, row});
    }
    if (top > top_) {
      entry_ = row;
      top_ = top;
    }
  }

  void link_back(Level& level, uint32_t row, Place place) {
    List& list = list_of(level, row);
    list.reserve(level.most + level.most / 2 + 1);
    list.push_back(place);
    if (list.size() > level.most + level.most / 2) choose(row, list, level.most);
  }

  // Leaves `most` of the rows near to one of them, nearest first but for those that fill the rest.
  void choose(uint32_t row, List& list, size_t most) {
    std::sort(list.begin(), list.end(), NearerTo{row});
    if (list.size() <= most) return;
    chosen_.clear();
    others_.clear();
    for (const Place& place : list) {
      if (chosen_.size() == most) break;
      const From distances{*this, vector(place.row)};
      bool is_apart = true;
      for (const Place& other : chosen_)
        if (!(distances.at(other.row) > place.distance)) {
          is_apart = false;
          break;
        }
      (is_apart ? chosen_ : others_).push_back(place);
    }
    for (size_t i = 0; chosen_.size() < most; ++i) chosen_.push_back(others_[i]);
    list.assign(chosen_.begin(), chosen_.end());
  }

  // Links to the rows of level 0 that none lead to: of clusters far from others, for one.
  void connect(Level& level) {
    if (num_rows_ == 0) return;
    std::vector<uint8_t> is_reached(static_cast<size_t>(num_rows_));
    std::vector<uint32_t> waiting;
    const auto reach = [&](uint32_t first) {
      is_reached[first] = 1;
      waiting.push_back(first);
      while (!waiting.empty()) {
        const uint32_t here = waiting.back();
        waiting.pop_back();
        for (const Place& near : level.lists[here])
          if (!is_reached[near.row]) {
            is_reached[near.row] = 1;
            waiting.push_back(near.row);
          }
      }
    };
    reach(entry_);
    const auto links_of = [&](uint32_t here) { return Linked{level.lists[here]}; };
    for (uint32_t row = 0; row < num_rows_; ++row) {
      if (is_reached[row]) continue;
      const Place* from = nullptr;  // of the rows that it leads to the one with the fewest links
      for (const Place& near : level.lists[row])
        if (is_reached[near.row] &&
            (!from || level.lists[near.row].size() < level.lists[from->row].size()))
          from = &near;
      Place nearest{0, entry_};
      if (from) {
        nearest = *from;
      } else {
        const From distances{*this, vector(row)};
        const List& near = walk_.spread(entry_, num_rows_, static_cast<size_t>(ef_), links_of,
                                        distances, [](const Place&) { return true; });
        if (!near.empty()) nearest = *std::min_element(near.begin(), near.end());
      }
      level.lists[nearest.row].push_back({nearest.distance, row});
      reach(row);
    }
  }

  int64_t dim_, ef_, num_rows_ = 0, stride_ = 0, next_ = 0;
  Pair pair_;
  std::vector<float> values_;  // followed by zeros up to a multiple of eight
  std::vector<uint8_t> tops_;  // the highest level of each row
  std::vector<Level> levels_;
  uint32_t entry_ = 0;
  int top_ = -1;  // of the rows so far
  Walk walk_;
  List chosen_, others_;
};

}  // namespace
}  // namespace alance::vectors

void register_graph_build(nanobind::module_& m) {
  namespace nb = nanobind;
  using alance::vectors::GraphBuilder;
  nb::class_<GraphBuilder>(m, "GraphBuilder")
      .def(nb::init<alance::In<float>, int64_t, bool, int64_t, int64_t, int64_t, uint64_t>(),
           nb::arg("values"), nb::arg("dim"), nb::arg("by_product"), nb::arg("m"), nb::arg("ef"),
           nb::arg("levels"), nb::arg("seed"))
      .def("grow", &GraphBuilder::grow, nb::arg("count"))
      .def("finish", &GraphBuilder::finish);
}
