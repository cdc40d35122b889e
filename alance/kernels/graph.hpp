// The graph of a partition (HNSW), and the search that follows it.
//
// Every row of the partition is on level 0; fewer on each level above. A row has links to near ones
// of its level. A search walks from the entry point towards the query, level by level, and spreads
// out on level 0.
#pragma once
#include <functional>

#include "nearest.hpp"

namespace alance::vectors {

struct Place {
  float distance;
  uint32_t row;
  bool operator<(const Place& other) const {
    return distance < other.distance || (distance == other.distance && row < other.row);
  }
  bool operator>(const Place& other) const { return other < *this; }
};

// Checked when it is made: a search can then follow every link.
class Graph {
 public:
  // `rows`: the rows on each level, level after level; `starts`: where the links of each begin in
  // `links`, and where the last ones end; `levels`: where each level begins, and the end.
  Graph(In<uint32_t> rows, In<int32_t> starts, In<uint32_t> links, In<int64_t> levels, int64_t entry,
        int64_t num_rows);

  struct Level {
    std::vector<uint32_t> rows;  // empty on level 0, which has them all
    std::vector<uint32_t> starts;
    std::vector<uint32_t> links;  // above level 0: places in `rows`
  };

  int64_t num_rows() const { return num_rows_; }
  int64_t num_bytes() const;
  const std::vector<Level>& levels() const { return levels_; }
  uint32_t entry() const { return entry_; }

 private:
  int64_t num_rows_;
  uint32_t entry_ = 0;
  std::vector<Level> levels_;
};

// What a search asks of the rows that it finds.
struct Wanted {
  const Nearest& nearest;  // tells the range of distances
  const uint8_t* mask;     // null: all count
  int64_t ef;              // rows that are looked for

  bool counts(const Place& place) const {
    return (!mask || mask[place.row]) && nearest.is_in_range(place.distance);
  }
};

// Follows graphs; its memory is used again for the next query.
class Walk {
 public:
  // The rows near to a query, at most `wanted.ef`, in no order. `distances.at(row)`: how far; a row
  // at no distance (NaN) is never among them.
  template <class Distances>
  const std::vector<Place>& near(const Graph& graph, const Distances& distances,
                                 const Wanted& wanted) {
    nearest_.clear();
    if (graph.num_rows() == 0) return nearest_;
    const uint32_t start = descend(graph, distances);
    const Graph::Level& level = graph.levels()[0];
    seen_.assign(static_cast<size_t>((graph.num_rows() + 63) / 64), 0);
    waiting_.clear();
    const size_t most = static_cast<size_t>(wanted.ef);
    see(start);
    meet({distances.at(start), start}, wanted, most);
    while (!waiting_.empty()) {
      const Place here = waiting_.front();
      if (nearest_.size() == most && here.distance > nearest_.front().distance) break;
      std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
      waiting_.pop_back();
      fresh_.clear();
      for (uint32_t i = level.starts[here.row]; i < level.starts[here.row + 1]; ++i)
        if (see(level.links[i])) {
          distances.prefetch(level.links[i]);
          fresh_.push_back(level.links[i]);
        }
      for (const uint32_t row : fresh_) meet({distances.at(row), row}, wanted, most);
    }
    return nearest_;
  }

 private:
  // The row of level 0 where the search begins: on each level above none linked to it is nearer.
  template <class Distances>
  static uint32_t descend(const Graph& graph, const Distances& distances) {
    uint32_t row = graph.entry();
    float best = distances.at(row);
    for (size_t number = graph.levels().size(); --number > 0;) {
      const Graph::Level& level = graph.levels()[number];
      const auto at = std::lower_bound(level.rows.begin(), level.rows.end(), row);
      uint32_t place = static_cast<uint32_t>(at - level.rows.begin());
      for (bool is_nearer = true; is_nearer;) {
        is_nearer = false;
        for (uint32_t i = level.starts[place], stop = level.starts[place + 1]; i < stop; ++i) {
          const float distance = distances.at(level.rows[level.links[i]]);
          if (!(distance < best)) continue;
          best = distance;
          place = level.links[i];
          is_nearer = true;
        }
      }
      row = level.rows[place];
    }
    return row;
  }

  bool see(uint32_t row) {
    uint64_t& word = seen_[row / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if (word & bit) return false;
    word |= bit;
    return true;
  }

  void meet(Place place, const Wanted& wanted, size_t most) {
    const bool is_number = place.distance == place.distance;
    if (!is_number) place.distance = std::numeric_limits<float>::infinity();
    const bool is_full = nearest_.size() == most;
    if (is_full && !(place.distance < nearest_.front().distance)) return;
    waiting_.push_back(place);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    if (!is_number || !wanted.counts(place)) return;
    if (is_full) {
      std::pop_heap(nearest_.begin(), nearest_.end());
      nearest_.back() = place;
    } else {
      nearest_.push_back(place);
    }
    std::push_heap(nearest_.begin(), nearest_.end());
  }

  std::vector<uint64_t> seen_;
  std::vector<Place> waiting_, nearest_;  // heaps: the nearest first, and the farthest first
  std::vector<uint32_t> fresh_;
};

// Adds what a walk finds to the nearest rows of queries. `distances.ask(number)` turns to a query.
template <class Distances>
void follow(Nearest& nearest, const In<int32_t>& numbers, const Rows& rows, const Graph& graph,
            int64_t ef, Distances& distances) {
  const Wanted wanted{nearest, rows.mask, ef};
  Walk walk;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    distances.ask(number);
    for (const Place& place : walk.near(graph, distances, wanted))
      nearest.offer(number, place.distance, rows.ids[place.row]);
  }
}

// Checked before the GIL is released.
inline void check_graph(const Graph* graph, int64_t ef, const Rows& rows) {
  if (graph && (graph->num_rows() != rows.count || ef < 1))
    corrupt("a graph of " + std::to_string(graph->num_rows()) + " rows for " +
            std::to_string(rows.count) + ", ef " + std::to_string(ef));
}

}  // namespace alance::vectors
