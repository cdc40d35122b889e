// Rows of lists: all levels of a chunk are read, and only the values of requested rows decoded.
#include "rows/pages/row_page.hpp"

#include <algorithm>
#include <iterator>

namespace alance {

using namespace cells;

namespace {

constexpr int64_t kSteps[] = {64, 8};  // entries that are counted at once
constexpr int64_t kMostCounted = 1 << 15;  // levels whose count surely fits 16 bits

template <typename Which>
int64_t counted(const uint16_t* levels, int64_t count, const Which& which) {
  int64_t all = 0;
  for (int64_t i = 0; i < count;) {  // sums as wide as the levels take fewer instructions
    const int64_t stop = std::min(count, i + kMostCounted);
    uint16_t part = 0;
    for (; i < stop; ++i) part = static_cast<uint16_t>(part + which(levels[i]));
    all += part;
  }
  return all;
}

}  // namespace

const uint16_t* levels_of(Nulls kind, int bits, Part part, int64_t count,
                          std::vector<uint16_t>& levels) {
  levels.resize(static_cast<size_t>(count));
  if (kind == Nulls::none)
    std::fill_n(levels.begin(), count, uint16_t{0});
  else
    read_levels(kind, bits, part, count, levels.data());
  return levels.data();
}

void RowPage::decode_lists(const Chunk& chunk, const Rows& rows, bool open, Sink& sink) const {
  const int64_t count = rows.count;
  const auto fail = [&](const auto&... what) { corrupt("chunk ", chunk.number, ": ", what...); };
  const int64_t entries = chunk.entries;
  const uint16_t* reps = levels_of(this->reps(), kind_->rep_bits, chunk.reps, entries, sink.chunk_rep);
  const uint16_t* defs = levels_of(nulls(), kind_->level_bits, chunk.nulls, entries, sink.chunk_def);
  const uint16_t begin = static_cast<uint16_t>(kind_->max_rep), shown = static_cast<uint16_t>(kind_->max_visible);
  if (const int top = highest(reps, entries); top > kind_->max_rep)
    fail("repetition level ", top, ", the layers have ", kind_->max_rep);
  if (const int top = highest(defs, entries); top > kind_->max_level)
    fail("definition level ", top, ", the layers use ", kind_->max_level);
  if (entries != 0 && (reps[0] == begin) == carries(chunk.number))
    fail(reps[0] == begin ? "begins with a row, expected the rest of one"
                          : "begins inside a row, expected a new one");
  const auto begins = [=](uint16_t rep) { return rep == begin; };
  const auto is_shown = [=](uint16_t def) { return def <= shown; };
  Walk walk;
  int64_t row = rows_[chunk.number] - 1, value = 0, k = 0, e = 0;
  bool taking = open;
  while (e < entries && (taking || k < count)) {
    if (!taking) {  // skip entries in which no requested row begins
      for (const int64_t step : kSteps)
        while (e + step <= entries) {
          const int64_t begun = counted(reps + e, step, begins);
          if (row + begun >= rows[k]) break;
          row += begun;
          value += counted(defs + e, step, is_shown);
          e += step;
        }
      for (; e < entries && !(reps[e] == begin && ++row == rows[k]); ++e) value += is_shown(defs[e]);
      if (e == entries) break;
      ++k;
    }
    // Entries of this row, and of requested rows right behind it.
    int64_t stop = e + 1;
    if (count - k == rows_until(chunk.number) - 1 - row) {
      const int64_t begun = counted(reps + stop, entries - stop, begins);
      if (begun != count - k)
        fail(row + 1 + begun, " rows begin up to its end, expected ", row + 1 + count - k);
      row += begun;
      k = count;
      stop = entries;
    }
    for (; stop < entries; ++stop) {
      if (reps[stop] != begin) continue;
      if (k == count || rows[k] != row + 1) break;
      ++row;
      ++k;
    }
    sink.rep.append(reps + e, static_cast<size_t>(stop - e));
    sink.def.append(defs + e, static_cast<size_t>(stop - e));
    const int64_t num_shown = counted(defs + e, stop - e, is_shown);
    const uint16_t* levels = defs + e;
    if (num_shown != stop - e) {
      sink.visible.clear();
      std::copy_if(defs + e, defs + stop, std::back_inserter(sink.visible), is_shown);
      levels = sink.visible.data();
    }
    emit_values(chunk, value, num_shown, levels, walk, sink);
    value += num_shown;
    e = stop;
    taking = false;
  }
  if (k < count) fail(row + 1, " rows begin up to its end, expected more");
  if (e == entries && value != chunk.values)
    fail(value, " visible entries, expected ", chunk.values);
}

}  // namespace alance
