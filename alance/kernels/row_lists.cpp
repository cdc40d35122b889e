// Rows of lists: all levels of a chunk are looked at, and only the values of wanted rows decoded.
#include "row_page.hpp"

namespace alance {

using namespace cells;

void RowPage::set_lists(In<int64_t> first_values, Bytes carries, int reps, int rep_bits,
                        int max_rep, int max_visible) {
  if (static_cast<int64_t>(carries.size()) != num_chunks_ || max_rep < 1)
    corrupt("lists of an unknown form");
  PageKind kind{};
  kind.reps = reps;
  kind.rep_bits = rep_bits;
  kind.max_rep = max_rep;
  kind.max_visible = max_visible;
  carried_ = carries;
  carries_ = carried_.data();
  keep_lists(Kept(first_values), kind);
}

void RowPage::keep_lists(Kept first_values, const PageKind& kind) {
  if (values_ == Values::zipped || kind.reps <= 0 || kind.reps > static_cast<int>(Nulls::blocks) ||
      kind.max_rep < 1 || kind.max_visible < 0 || first_values.size() != first_rows_.size() ||
      (static_cast<Nulls>(kind.reps) == Nulls::blocks && (kind.rep_bits < 0 || kind.rep_bits > 15)))
    corrupt("lists of an unknown form");
  for (int64_t i = 0; i < num_chunks_; ++i)
    if (first_values.data()[i + 1] < first_values.data()[i])
      corrupt("chunk " + text(i) + " ends before it begins");
  first_values_ = first_values;
  reps_ = static_cast<Nulls>(kind.reps);
  rep_bits_ = kind.rep_bits;
  max_rep_ = kind.max_rep;
  max_visible_ = kind.max_visible;
}

void RowPage::decode_lists(const Chunk& chunk, const int64_t* rows, int64_t count, bool open,
                           Sink& sink) const {
  const auto fail = [&](const std::string& what) {
    corrupt("chunk " + text(chunk.number) + ": " + what);
  };
  Walk rep_walk, def_walk, value_walk;
  int64_t row = first_rows_.data()[chunk.number] - 1, value = 0, k = 0;
  bool taking = open;
  for (int64_t e = 0; e < chunk.entries && (taking || k < count); ++e) {
    const uint64_t rep = level_at(reps_, rep_bits_, chunk.reps, chunk.entries, e, rep_walk);
    const uint64_t def = level_at(nulls_, level_bits_, chunk.nulls, chunk.entries, e, def_walk);
    if (rep > static_cast<uint64_t>(max_rep_))
      fail("repetition level " + std::to_string(rep) + ", the layers have " + text(max_rep_));
    const bool begins = rep == static_cast<uint64_t>(max_rep_);
    if (e == 0 && begins == carries(chunk.number))
      fail(begins ? "begins with a row, expected the rest of one"
                  : "begins inside a row, expected a new one");
    if (begins) {
      taking = k < count && rows[k] == ++row;
      k += taking;
      if (!taking && k == count) break;
    }
    const bool visible = def <= static_cast<uint64_t>(max_visible_);
    if (taking) {
      sink.rep.push_back(static_cast<uint16_t>(rep));
      sink.def.push_back(static_cast<uint16_t>(def));
      if (def > static_cast<uint64_t>(max_level_))
        fail("definition level " + std::to_string(def) + ", the layers use " + text(max_level_));
      if (visible && def != 0) sink.null();
      if (def == 0) emit(chunk, value, value_walk, sink);
    }
    value += visible;
  }
  if (k < count) fail(text(row + 1) + " rows begin up to its end, expected more");
}

}  // namespace alance
