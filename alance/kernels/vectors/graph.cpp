// HNSW graphs of partitions from an index file, with checks; see graph.hpp.
#include "vectors/graph.hpp"

namespace alance::vectors {
namespace {

template <typename... Parts>
[[noreturn]] void corrupt_level(size_t level, const Parts&... parts) {
  corrupt("graph: level ", level, ": ", parts...);
}

// Position of a row among the ascending rows of a level.
uint32_t place_of(const Graph::Level& level, size_t number, uint32_t row) {
  const auto at = std::lower_bound(level.rows.begin(), level.rows.end(), row);
  if (at == level.rows.end() || *at != row) corrupt_level(number, "row ", row, " is not on it");
  return static_cast<uint32_t>(at - level.rows.begin());
}

}  // namespace

Graph::Graph(In<uint32_t> rows, In<int32_t> starts, In<uint32_t> links, In<int64_t> levels,
             int64_t entry, int64_t num_rows)
    : num_rows_(num_rows) {
  const int64_t count = std::ssize(rows);
  const int64_t num_links = std::ssize(links);
  if (num_rows < 0 || num_rows > UINT32_MAX || num_links > INT32_MAX)
    corrupt("graph: ", num_rows, " rows, ", num_links, " links");
  if (std::ssize(starts) != count + 1 || levels.size() < 2 || levels.data()[0] != 0 ||
      levels.data()[levels.size() - 1] != count || levels.data()[1] != num_rows)
    corrupt("graph: ", count, " places on ", levels.size(), " levels for ", num_rows, " rows");
  for (size_t i = 1; i < levels.size(); ++i)
    if (levels.data()[i] < levels.data()[i - 1]) corrupt_level(i - 1, "it ends before it begins");
  if (starts.data()[0] < 0 || starts.data()[count] > num_links) corrupt("graph: links beyond the last");
  for (int64_t i = 0; i < count; ++i)
    if (starts.data()[i + 1] < starts.data()[i]) corrupt("graph: links that end before they begin");
  for (size_t number = 0; number + 1 < levels.size(); ++number) {
    const int64_t first = levels.data()[number], stop = levels.data()[number + 1];
    if (first == stop && number > 0) continue;
    if (number != levels_.size()) corrupt_level(number, "those below have no rows");
    Level level;
    for (int64_t i = first; i < stop; ++i) {
      const uint32_t row = rows.data()[i];
      const bool is_next = number == 0 ? row == i : i == first || row > rows.data()[i - 1];
      if (!is_next || row >= num_rows) corrupt_level(number, "row ", row, " out of order");
    }
    const int32_t base = starts.data()[first];
    level.starts.resize(static_cast<size_t>(stop - first + 1));
    for (int64_t i = first; i <= stop; ++i)
      level.starts[static_cast<size_t>(i - first)] = static_cast<uint32_t>(starts.data()[i] - base);
    level.links.assign(links.data() + base, links.data() + starts.data()[stop]);
    uint32_t most = 0;
    for (const uint32_t link : level.links) most = std::max(most, link);
    if (!level.links.empty() && most >= num_rows) corrupt_level(number, "a link to row ", most);
    if (number > 0) {
      level.rows.assign(rows.data() + first, rows.data() + stop);
      for (uint32_t& link : level.links) link = place_of(level, number, link);
    }
    levels_.push_back(std::move(level));
  }
  // Rows of a level are on the level below, too: a walk descends at its row.
  for (size_t number = 2; number < levels_.size(); ++number)
    for (const uint32_t row : levels_[number].rows) place_of(levels_[number - 1], number - 1, row);
  if (num_rows == 0) return;
  if (entry < 0 || entry >= num_rows) corrupt("graph: its entry is row ", entry);
  entry_ = static_cast<uint32_t>(entry);
  if (levels_.size() > 1) place_of(levels_.back(), levels_.size() - 1, entry_);
}

int64_t Graph::num_bytes() const {
  size_t total = sizeof *this;
  for (const Level& level : levels_)
    total += sizeof level + 4 * (level.rows.size() + level.starts.size() + level.links.size());
  return static_cast<int64_t>(total);
}

}  // namespace alance::vectors

void register_graph(nanobind::module_& m) {
  using namespace alance;
  using vectors::Graph;
  nb::class_<Graph>(m, "Graph")
      .def(nb::init<In<uint32_t>, In<int32_t>, In<uint32_t>, In<int64_t>, int64_t, int64_t>(),
           "rows"_a, "starts"_a, "links"_a, "levels"_a, "entry"_a, "num_rows"_a, NoGil())
      .def_prop_ro("num_bytes", &Graph::num_bytes);
}
