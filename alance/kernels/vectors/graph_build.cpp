// Construction of HNSW graphs, row by row (Malkov and Yashunin, see graph.hpp; algorithms 1 and 4).
//
// Rows are compared with each other by what is stored of them: vectors, scaled bytes, or product
// codes. A new row and near rows are linked in both directions. A heuristic first selects rows that
// are nearer to the new row than to each other, so that links lead in all directions; other near
// rows fill the list. A list may exceed its size by half before its links are selected again. At
// the end links are added so that every row of level 0 can be reached from the entry.
#include <unordered_map>

#include "vectors/graph.hpp"
#include "vectors/clusters.hpp"

namespace alance::vectors {
namespace {

// Rows of a partition and the distances between them.
class GraphRows {
 public:
  virtual ~GraphRows() = default;
  int64_t count() const { return count_; }

  // Select the row that others are compared with.
  virtual void ask(uint32_t row) = 0;
  // Distance of a row from the selected one.
  virtual float at(uint32_t row) const = 0;

  void prefetch(uint32_t row) const {
    constexpr int64_t kMost = 1024;  // bytes: the processor prefetches what follows
    const uint8_t* first = stored(row);
    for (int64_t byte = 0; byte < row_bytes_ && byte < kMost; byte += 64)
      __builtin_prefetch(first + byte);
  }

 protected:
  // Holds the values, row after row; throws if they are not whole rows.
  GraphRows(Bytes values, int64_t row_bytes) : values_(values), row_bytes_(row_bytes) {
    const int64_t size = std::ssize(values);
    if (row_bytes < 1 || size % row_bytes)
      corrupt("graph: ", size, " bytes of rows of ", row_bytes);
    count_ = size / row_bytes;
  }

  const uint8_t* stored(uint32_t row) const { return values_.data() + int64_t{row} * row_bytes_; }

 private:
  Bytes values_;
  int64_t row_bytes_, count_;
};

int64_t padded(int64_t dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

ALANCE_CLONES uint32_t sum_of(const uint8_t* bytes, int64_t dim) {
  uint32_t total = 0;
  for (int64_t i = 0; i < dim; ++i) total += bytes[i];
  return total;
}

ALANCE_CLONES uint32_t product_of(const uint8_t* left, const uint8_t* right, int64_t dim) {
  uint32_t total = 0;
  for (int64_t i = 0; i < dim; ++i) total += uint32_t{left[i]} * right[i];
  return total;
}

// Add a component's share of the distance between `value` and each of some values.
ALANCE_CLONES void add_component(const float* values, float value, int64_t count, bool by_product,
                                 float* out) {
  if (by_product) {
    for (int64_t i = 0; i < count; ++i) out[i] -= values[i] * value;
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] += (values[i] - value) * (values[i] - value);
  }
}

// Code of a part.
inline int64_t code_of(const uint8_t* codes, int bits, int64_t part) {
  return bits == 8 ? codes[part] : codes[part / 2] >> (part % 2 * 4) & 15;
}

// Distances between the values of a codebook: [part][code][other code]. By product they add up to
// 1 - product.
Owned<float> code_distances(const In<float>& codebook, int64_t parts, int bits, bool by_product) {
  const int64_t codes = bits == 8 ? 256 : 16, size = std::ssize(codebook);
  if ((bits != 8 && bits != 4) || parts < 1 || size < parts * codes || size % (parts * codes))
    corrupt("graph: ", parts, " codes of ", bits, " bits, a codebook of ", size, " values");
  const int64_t width = size / (parts * codes);  // components of a part
  Owned<float> out(parts * codes * codes);
  std::fill_n(out.data(), out.size(), 0.0f);
  if (by_product) std::fill_n(out.data(), codes * codes, 1.0f);
  std::vector<float> component(static_cast<size_t>(codes));  // of the values of all codes
  for (int64_t at = 0; at < parts * width; ++at) {
    const int64_t part = at / width;
    for (int64_t code = 0; code < codes; ++code)
      component[static_cast<size_t>(code)] =
          codebook.data()[(part * codes + code) * width + at % width];
    for (int64_t code = 0; code < codes; ++code)
      add_component(component.data(), component[static_cast<size_t>(code)], codes, by_product,
                    out.data() + (part * codes + code) * codes);
  }
  return out;
}

// Uncompressed vectors (FLAT). By cosine a vector of length 0 is at distance 1 from all others.
class GraphVectors : public GraphRows {
 public:
  GraphVectors(Bytes values, int type, int64_t dim, int metric)
      : GraphRows(values, dim * width_of(type)),
        points_(values, type, dim, metric), loop_(loop_of(type, metric, false)),
        is_cosine_(metric == kCosine), floats_(static_cast<size_t>(padded(dim))),
        exact_(type == kFloat64 ? floats_.size() : 0) {
    if (metric == kHamming) corrupt("graph: rows by hamming");
  }

  void ask(uint32_t row) override {
    points_.load(row, int64_t{row} + 1, floats_.data());
    std::copy_n(floats_.begin(), exact_.size(), exact_.begin());
  }

  float at(uint32_t row) const override {
    float distance;
    loop_({points_.dim(), floats_.data(), exact_.data(), nullptr, 1}, stored(row), 1, &distance);
    return is_cosine_ && std::isnan(distance) ? 1.0f : distance;
  }

 private:
  Points points_;
  Loop loop_;
  bool is_cosine_;
  std::vector<float> floats_;
  std::vector<double> exact_;
};

// A byte c for each number, which stands for low + unit * c (SQ).
class GraphBytes : public GraphRows {
 public:
  GraphBytes(Bytes codes, int64_t dim, double low, double high, bool by_product)
      : GraphRows(codes, dim), dim_(dim), low_(low), unit_((high - low) / 255) {
    if (dim > kMostBytes) corrupt("graph: rows of ", dim, " scaled bytes");
    if (!by_product) return;
    sums_.resize(static_cast<size_t>(count()));
    for (int64_t row = 0; row < count(); ++row)
      sums_[static_cast<size_t>(row)] = sum_of(stored(static_cast<uint32_t>(row)), dim);
  }

  void ask(uint32_t row) override { selected_ = row; }

  float at(uint32_t row) const override {
    const uint8_t *here = stored(row), *other = stored(selected_);
    if (sums_.empty()) {
      float distance;
      square_gaps(here, 1, dim_, other, static_cast<float>(unit_ * unit_), &distance);
      return distance;
    }
    const double sums = static_cast<double>(sums_[row]) + static_cast<double>(sums_[selected_]);
    const double fixed = low_ * (low_ * static_cast<double>(dim_) + unit_ * sums);
    return static_cast<float>(1 - fixed - unit_ * unit_ * product_of(here, other, dim_));
  }

 private:
  int64_t dim_;
  double low_, unit_;
  std::vector<uint32_t> sums_;  // of the bytes of each row, by product
  uint32_t selected_ = 0;
};

// Number of a codebook value for each part of a vector (PQ).
class GraphProducts : public GraphRows {
 public:
  // `codes`: row after row; `distances`: as from `code_distances`, held.
  GraphProducts(Bytes codes, In<float> distances, int64_t parts, int bits)
      : GraphRows(codes, bits == 8 ? parts : parts / 2), distances_(distances), bits_(bits) {
    if ((bits != 8 && bits != 4) || (bits == 4 && parts % 2) ||
        std::ssize(distances) != parts << 2 * bits)
      corrupt("graph: ", parts, " codes of ", bits, " bits, ", distances.size(), " distances");
    from_.resize(static_cast<size_t>(parts));
  }

  void ask(uint32_t row) override {
    for (size_t part = 0; part < from_.size(); ++part) {
      const auto number = static_cast<int64_t>(part);
      const int64_t code = code_of(stored(row), bits_, number);
      from_[part] = distances_.data() + (((number << bits_) + code) << bits_);
    }
  }

  float at(uint32_t row) const override {
    return bits_ == 8 ? sum<8>(stored(row)) : sum<4>(stored(row));
  }

 private:
  template <int Bits>
  float sum(const uint8_t* codes) const {
    const int64_t parts = std::ssize(from_);
    const float* const* from = from_.data();
    float sums[4] = {};
    int64_t part = 0;
    for (; part + 4 <= parts; part += 4)
      for (int64_t i = 0; i < 4; ++i) sums[i] += from[part + i][code_of(codes, Bits, part + i)];
    for (; part < parts; ++part) sums[0] += from[part][code_of(codes, Bits, part)];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  In<float> distances_;
  int bits_;
  std::vector<const float*> from_;  // distances from the selected row's value of each part
};

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
      corrupt("graph: m ", m, ", ef ", ef, ", levels ", levels);
    // Links of all levels are counted in 31 bits; level 0 has most of them.
    if (num_rows_ > INT32_MAX / (4 * m))
      corrupt("graph: ", num_rows_, " rows with ", 2 * m, " links");
    place_rows(m, levels, seed);
  }

  bool grow(int64_t count) {
    for (; count > 0 && next_ < num_rows_; --count) insert(static_cast<uint32_t>(next_++));
    return next_ == num_rows_;
  }

  std::tuple<Owned<uint32_t>, Owned<int32_t>, Owned<uint32_t>, Owned<float>, Owned<int64_t>,
             uint32_t>
  finish() {
    int64_t num_places = 0, num_links = 0;
    if (next_ != num_rows_) corrupt("graph: ", next_, " rows are linked");
    for (Level& level : levels_)
      for (const uint32_t row : level.rows) {
        level.get(row, list_);
        choose(row, list_, level.most);
        level.set(row, list_);
      }
    connect(levels_[0]);
    for (const Level& level : levels_) {
      num_places += std::ssize(level.rows);
      for (const uint32_t size : level.sizes) num_links += size;
    }
    Owned<uint32_t> rows(num_places), links(num_links);
    Owned<int32_t> starts(num_places + 1);
    Owned<float> distances(num_links);
    Owned<int64_t> levels(std::ssize(levels_) + 1);
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
    levels[std::ssize(levels_)] = at;
    return {std::move(rows),      std::move(starts), std::move(links),
            std::move(distances), std::move(levels), entry_};
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
    for (int64_t number = 0; number < levels; ++number) {
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
    rows_.ask(row);
    Place near{rows_.at(entry_), entry_};
    for (int number = top_; number >= 0; --number) {
      Level& level = levels_[static_cast<size_t>(number)];
      const auto links_of = [&](uint32_t here) { return level.links_of(here); };
      if (number > top) {
        near = Walk::approach(near, links_of, rows_);
        continue;
      }
      if (number < top) rows_.ask(row);  // `choose` has asked for other rows
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
      rows_.ask(place.row);
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
        rows_.ask(row);
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
  using namespace alance;
  using namespace vectors;
  nb::class_<GraphRows>(m, "GraphRows");
  nb::class_<GraphVectors, GraphRows>(m, "GraphVectors")
      .def(nb::init<Bytes, int, int64_t, int>(), "values"_a, "type"_a, "dim"_a, "metric"_a);
  nb::class_<GraphBytes, GraphRows>(m, "GraphBytes")
      .def(nb::init<Bytes, int64_t, double, double, bool>(), "codes"_a, "dim"_a, "low"_a, "high"_a,
           "by_product"_a, NoGil());
  nb::class_<GraphProducts, GraphRows>(m, "GraphProducts")
      .def(nb::init<Bytes, In<float>, int64_t, int>(), "codes"_a, "distances"_a, "parts"_a,
           "bits"_a);
  m.def("code_distances", &code_distances, "codebook"_a, "parts"_a, "bits"_a, "by_product"_a,
        NoGil());
  nb::class_<GraphBuilder>(m, "GraphBuilder")
      .def(nb::init<GraphRows&, int64_t, int64_t, int64_t, uint64_t>(), nb::keep_alive<1, 2>(),
           "rows"_a, "m"_a, "ef"_a, "levels"_a, "seed"_a, NoGil())
      .def("grow", &GraphBuilder::grow, "count"_a, NoGil())
      .def("finish", &GraphBuilder::finish, NoGil());
}
