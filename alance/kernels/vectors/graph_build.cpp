// Construction of HNSW graphs, row by row (Malkov and Yashunin, see graph.hpp; algorithms 1 and 4).
//
// A new row and near rows are linked in both directions. A heuristic first selects rows that are
// nearer to the new row than to each other, so that links lead in all directions; other near rows
// fill the list. A list may exceed its size by half before its links are selected again. At the end
// links are added so that every row of level 0 can be reached from the entry.
#include <unordered_map>

#include "vectors/graph.hpp"
#include "vectors/graph_rows.hpp"

namespace alance::vectors {
namespace {

// Mixed bits of a number (splitmix64).
uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// Order by distance from `row`; ties have another order for each row, or the same few rows would
// get all links of equal rows.
struct NearerTo {
  uint64_t row;

  bool operator()(const Place& left, const Place& right) const {
    if (left.distance != right.distance) return left.distance < right.distance;
    return mixed(row << 32 | left.row) < mixed(row << 32 | right.row);
  }
};

class GraphBuilder {
 public:
  GraphBuilder(GraphRows& rows, int64_t m, int64_t ef, int64_t levels, uint64_t seed)
      : rows_(rows), num_rows_(rows.count()), ef_(ef) {
    if (m < 2 || m > 1024 || ef < 1 || levels < 1 || levels > 64)
      corrupt("graph: m " + std::to_string(m) + ", ef " + std::to_string(ef) + ", levels " +
              std::to_string(levels));
    // Links of all levels are counted in 31 bits; level 0 has most of them.
    if (num_rows_ > INT32_MAX / (4 * m))
      corrupt("graph: " + std::to_string(num_rows_) + " rows with " + std::to_string(2 * m) + " links");
    nb::gil_scoped_release release;
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
        for (const uint32_t row : level.rows) {
          level.get(row, list_);
          choose(row, list_, level.most);
          level.set(row, list_);
        }
      connect(levels_[0]);
      for (const Level& level : levels_) {
        num_places += static_cast<int64_t>(level.rows.size());
        for (const uint32_t size : level.sizes) num_links += size;
      }
    }
    Owned<uint32_t> rows(num_places), links(num_links);
    Owned<int32_t> starts(num_places + 1);
    Owned<float> distances(num_links);
    Owned<int64_t> levels(static_cast<int64_t>(levels_.size()) + 1);
    int64_t at = 0, link = 0;
    for (size_t number = 0; number < levels_.size(); ++number) {
      levels[static_cast<int64_t>(number)] = at;
      for (const uint32_t row : levels_[number].rows) {
        rows[at] = row;
        starts[at++] = static_cast<int32_t>(link);
        levels_[number].get(row, list_);
        const auto further = number ? further_.end() : further_.find(row);
        if (further != further_.end())
          list_.insert(list_.end(), further->second.begin(), further->second.end());
        for (const Place& near : list_) {
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

  // Links of the level's rows: those of a row lie together, and apart from their distances, since a
  // walk reads links alone.
  struct Level {
    size_t most, room;  // links of a row at the end, and before they are chosen anew
    std::vector<uint32_t> rows;      // ascending
    std::vector<uint32_t> place_of;  // position of a row; empty on level 0
    std::vector<uint32_t> sizes;  // of the lists of links, with those that found no room
    std::vector<uint32_t> links;
    std::vector<float> distances;

    void make_room() {
      sizes.resize(rows.size());
      links.resize(rows.size() * room);
      distances.resize(links.size());
    }

    size_t place(uint32_t row) const { return place_of.empty() ? row : place_of[row]; }

    std::span<const uint32_t> links_of(uint32_t row) const {
      return {links.data() + place(row) * room, std::min<size_t>(sizes[place(row)], room)};
    }

    void get(uint32_t row, List& out) const {
      const float* distance = distances.data() + place(row) * room;
      out.clear();
      for (const uint32_t link : links_of(row)) out.push_back({*distance++, link});
    }

    void set(uint32_t row, const List& list) {
      sizes[place(row)] = 0;
      for (const Place& near : list) add(row, near);
    }

    // False if there is no room for the link.
    bool add(uint32_t row, Place near) {
      const size_t size = sizes[place(row)]++, at = place(row) * room + size;
      if (size >= room) return false;
      links[at] = near.row;
      distances[at] = near.distance;
      return true;
    }
  };

  // Place every row on level 0, and of each level about one row of m on the next: by chance, but
  // the same each time.
  void place_rows(int64_t m, int64_t levels, uint64_t seed) {
    const double scale = 1 / std::log(static_cast<double>(m));
    for (int64_t number = 0; number < levels; ++number)
{
      const size_t most = static_cast<size_t>(number ? m : 2 * m);
      levels_.push_back({most, most + most / 2, {}, {}, {}, {}, {}});
    }
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
      level.make_room();
      if (level.rows.size() == static_cast<size_t>(num_rows_)) continue;
      level.place_of.resize(static_cast<size_t>(num_rows_));
      for (size_t place = 0; place < level.rows.size(); ++place)
        level.place_of[level.rows[place]] = static_cast<uint32_t>(place);
    }
  }

  void insert(uint32_t row) {
    const int top = tops_[row];
    if (top_ < 0) {
      entry_ = row;
      top_ = top;
      return;
    }
    rows_.ask(row, true);
    Place near{rows_.at(entry_), entry_};
    for (int number = top_; number >= 0; --number) {
      Level& level = levels_[static_cast<size_t>(number)];
      const auto links_of = [&](uint32_t here) { return level.links_of(here); };
      if (number > top) {
        near = Walk::approach(near, links_of, rows_);
        continue;
      }
      if (number < top) rows_.ask(row, true);  // `choose` has asked for other rows
      List& near_rows = walk_.spread(near.row, num_rows_, static_cast<size_t>(ef_), links_of, rows_,
                                     [](const Place&) { return true; });
      if (near_rows.empty()) continue;  // no row is near to NaN
      choose(row, near_rows, level.most);
      near = near_rows.front();
      level.set(row, near_rows);
      for (const Place& place : near_rows) link_back(level, place.row, {place.distance, row});
    }
    if (top > top_) {
      entry_ = row;
      top_ = top;
    }
  }

  void link_back(Level& level, uint32_t row, Place place) {
    if (level.add(row, place)) return;
    level.get(row, list_);
    list_.push_back(place);
    choose(row, list_, level.most);
    level.set(row, list_);
  }

  // Keep `most` of the rows near to a row: nearest first, then those that fill the list.
  void choose(uint32_t row, List& list, size_t most) {
    std::sort(list.begin(), list.end(), NearerTo{row});
    if (list.size() <= most) return;
    chosen_.clear();
    others_.clear();
    for (const Place& place : list) {
      if (chosen_.size() == most) break;
      rows_.ask(place.row, false);
      bool is_apart = true;
      for (const Place& other : chosen_)
        if (!(rows_.at(other.row) > place.distance)) {
          is_apart = false;
          break;
        }
      (is_apart ? chosen_ : others_).push_back(place);
    }
    for (size_t i = 0; chosen_.size() < most; ++i) chosen_.push_back(others_[i]);
    list.assign(chosen_.begin(), chosen_.end());
  }

  // Link to the rows of level 0 that no row leads to, such as clusters far from all others.
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
        for (const uint32_t row : level.links_of(here))
          if (!is_reached[row]) {
            is_reached[row] = 1;
            waiting.push_back(row);
          }
      }
    };
    reach(entry_);
    const auto links_of = [&](uint32_t here) { return level.links_of(here); };
    for (uint32_t row = 0; row < num_rows_; ++row) {
      if (is_reached[row]) continue;
      const Place* from = nullptr;  // reached row that `row` links to, with the fewest links
      level.get(row, list_);
      for (const Place& near : list_)
        if (is_reached[near.row] && (!from || level.sizes[near.row] < level.sizes[from->row]))
          from = &near;
      Place nearest{0, entry_};
      if (from) {
        nearest = *from;
      } else {
        rows_.ask(row, true);
        const List& near = walk_.spread(entry_, num_rows_, static_cast<size_t>(ef_), links_of, rows_,
                                        [](const Place&) { return true; });
        if (!near.empty()) nearest = *std::min_element(near.begin(), near.end());
      }
      const Place place{nearest.distance, row};
      if (!level.add(nearest.row, place)) further_[nearest.row].push_back(place);
      reach(row);
    }
  }

  GraphRows& rows_;
  int64_t num_rows_, ef_, next_ = 0;
  std::vector<uint8_t> tops_;  // highest level of each row
  std::vector<Level> levels_;
  uint32_t entry_ = 0;
  int top_ = -1;  // highest level so far
  Walk walk_;
  List list_, chosen_, others_;
  std::unordered_map<uint32_t, List> further_;  // links of level 0 beyond the room of its lists
};

}  // namespace
}  // namespace alance::vectors

void register_graph_build(nanobind::module_& m) {
  namespace nb = nanobind;
  using alance::vectors::GraphBuilder;
  nb::class_<GraphBuilder>(m, "GraphBuilder")
      .def(nb::init<alance::vectors::GraphRows&, int64_t, int64_t, int64_t, uint64_t>(),
           nb::keep_alive<1, 2>(), nb::arg("rows"), nb::arg("m"), nb::arg("ef"), nb::arg("levels"),
           nb::arg("seed"))
      .def("grow", &GraphBuilder::grow, nb::arg("count"))
      .def("finish", &GraphBuilder::finish);
}
