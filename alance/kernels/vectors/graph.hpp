// HNSW graph of a partition, and its search.
//
// Level 0 has every row of the partition, and each level above has fewer. A row has links to near
// rows of the same level. A search starts at the entry point of the highest level. On each upper
// level it follows links towards the query, then goes one level down. On level 0 it keeps the
// nearest rows that it meets.
//
// Source: Y. Malkov, D. Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using
// Hierarchical Navigable Small World Graphs", 2016; docs/format/search-indices.md, "HNSW inside
// partitions".
#pragma once
#include <functional>
#include <span>

#include "vectors/nearest.hpp"

namespace alance::vectors {

struct Place {
  float distance;
  uint32_t row;
  bool operator<(const Place& other) const {
    return distance < other.distance || (distance == other.distance && row < other.row);
  }
  bool operator>(const Place& other) const { return other < *this; }
};

// Links are checked at construction, so that a search follows them unchecked.
class Graph {
 public:
  // `rows`: rows on each level, level after level; `starts`: start of each row's links in `links`,
  // and the end; `levels`: start of each level in `rows`, and the end.
  Graph(In<uint32_t> rows, In<int32_t> starts, In<uint32_t> links, In<int64_t> levels, int64_t entry,
        int64_t num_rows);

  struct Level {
    std::vector<uint32_t> rows;  // empty on level 0, which has every row
    std::vector<uint32_t> starts;
    std::vector<uint32_t> links;  // above level 0: positions in `rows`

    std::span<const uint32_t> links_of(uint32_t place) const {
      return {links.data() + starts[place], links.data() + starts[place + 1]};
    }
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

// Best-first search along links; its memory is reused for the next query.
class Walk {
 public:
  // The nearest rows for which `counts(place)` is true, at most `most`, in no order.
  // `links_of(row)` is a span of rows, `distances.at(row)` the distance of a row. A row whose
  // distance is NaN is never among them.
  template <class LinksOf, class Distances, class Counts>
  std::vector<Place>& spread(uint32_t start, int64_t num_rows, size_t most, const LinksOf& links_of,
                             const Distances& distances, const Counts& counts) {
    nearest_.clear();
    waiting_.clear();
    seen_.assign(static_cast<size_t>((num_rows + 63) / 64), 0);
    see(start);
    meet({distances.at(start), start}, most, counts);
    while (!waiting_.empty()) {
      const Place here = waiting_.front();
      if (nearest_.size() == most && here.distance > nearest_.front().distance) break;
      std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
      waiting_.pop_back();
      fresh_.clear();
      for (const uint32_t row : links_of(here.row))
        if (see(row)) fresh_.push_back(row);
      if (!waiting_.empty()) prefetch(links_of(waiting_.front().row));
      for (size_t i = 0; i < std::min(kAhead, fresh_.size()); ++i) distances.prefetch(fresh_[i]);
      for (size_t i = 0; i < fresh_.size(); ++i) {
        if (i + kAhead < fresh_.size()) distances.prefetch(fresh_[i + kAhead]);
        meet({distances.at(fresh_[i]), fresh_[i]}, most, counts);
      }
    }
    return nearest_;
  }

  // Greedy search: go to a nearer row as long as a linked row is nearer. Arguments as in `spread`.
  template <class LinksOf, class Distances>
  static Place approach(Place here, const LinksOf& links_of, const Distances& distances) {
    for (bool is_nearer = true; is_nearer;) {
      is_nearer = false;
      for (const uint32_t row : links_of(here.row)) {
        const float distance = distances.at(row);
        if (!(distance < here.distance)) continue;
        here = {distance, row};
        is_nearer = true;
      }
    }
    return here;
  }

 private:
  static constexpr size_t kAhead = 4;  // rows that are prefetched while others are compared

  static void prefetch(std::span<const uint32_t> links) {
    for (size_t i = 0; i < links.size(); i += 16) __builtin_prefetch(links.data() + i);
  }

  bool see(uint32_t row) {
    uint64_t& word = seen_[row / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if (word & bit) return false;
    word |= bit;
    return true;
  }

  template <class Counts>
  void meet(Place place, size_t most, const Counts& counts) {
    const bool is_number = place.distance == place.distance;
    if (!is_number) place.distance = std::numeric_limits<float>::infinity();
    const bool is_full = nearest_.size() == most;
    if (is_full && !(place.distance < nearest_.front().distance)) return;
    waiting_.push_back(place);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    if (!is_number || !counts(place)) return;
    if (is_full) {
      std::pop_heap(nearest_.begin(), nearest_.end());
      nearest_.back() = place;
    } else {
      nearest_.push_back(place);
    }
    std::push_heap(nearest_.begin(), nearest_.end());
  }

  std::vector<uint64_t> seen_;
  std::vector<Place> waiting_, nearest_;  // heaps: nearest first, farthest first
  std::vector<uint32_t> fresh_;
};

// Row of level 0 where a search begins: the end of greedy searches on the levels above.
template <class Distances>
uint32_t descend(const Graph& graph, const Distances& distances) {
  uint32_t row = graph.entry();
  for (size_t number = graph.levels().size(); --number > 0;) {
    const Graph::Level& level = graph.levels()[number];
    const auto at = std::lower_bound(level.rows.begin(), level.rows.end(), row);
    const uint32_t place = static_cast<uint32_t>(at - level.rows.begin());
    struct {
      const Graph::Level& level;
      const Distances& distances;
      float at(uint32_t place) const { return distances.at(level.rows[place]); }
    } by_place{level, distances};
    const auto links_of = [&](uint32_t here) { return level.links_of(here); };
    row = level.rows[Walk::approach({by_place.at(place), place}, links_of, by_place).row];
  }
  return row;
}

// Add the rows that a walk finds to the nearest of queries. `distances.ask(number)` selects a
// query.
template <class Distances>
void follow(Nearest& nearest, const In<int32_t>& numbers, const Rows& rows, const Graph& graph,
            int64_t ef, Distances& distances) {
  if (graph.num_rows() == 0) return;
  const auto links_of = [&](uint32_t row) { return graph.levels()[0].links_of(row); };
  const auto counts = [&](const Place& place) {
    return (!rows.mask || rows.mask[place.row]) && nearest.is_in_range(place.distance);
  };
  Walk walk;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    distances.ask(number);
    const uint32_t start = descend(graph, distances);
    const size_t most = static_cast<size_t>(ef);
    for (const Place& place :
         walk.spread(start, graph.num_rows(), most, links_of, distances, counts))
      nearest.offer(number, place.distance, rows.ids[place.row]);
  }
}

// Add rows to the nearest of queries: those that a walk over a graph finds, or all, block by block.
// `few(number, start, stop)` is true if it handled a block without the distances of all its rows.
template <class Distances, class Few>
void add_rows(Nearest& nearest, const In<int32_t>& numbers, const Rows& rows, const Graph* graph,
              int64_t ef, Distances& distances, const Few& few) {
  if (graph) return follow(nearest, numbers, rows, *graph, ef, distances);
  float block[kBlock];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t number = numbers.data()[i];
    distances.ask(number);
    for (int64_t start = 0; start < rows.count; start += kBlock) {
      const int64_t stop = std::min(rows.count, start + kBlock);
      if (!rows.any(start, stop) || few(number, start, stop)) continue;
      distances.run(start, stop - start, block);
      nearest.offer(number, block, rows, start, stop);
    }
  }
}

// Check a graph and `ef` against the rows.
inline void check_graph(const Graph* graph, int64_t ef, const Rows& rows) {
  if (graph && (graph->num_rows() != rows.count || ef < 1))
    corrupt("a graph of ", graph->num_rows(), " rows for ", rows.count, ", ef ", ef);
}

}  // namespace alance::vectors
