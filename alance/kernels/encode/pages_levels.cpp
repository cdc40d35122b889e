// Repetition and definition levels (Dremel) of a nested structure, one layer at a time, outermost
// first.
//
// Source: S. Melnik et al., "Dremel: Interactive Analysis of Web-Scale Datasets", PVLDB 3, 2010;
// docs/format/file.md, "Arrow to levels (writer)".
#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "base/processor.hpp"

namespace alance {
namespace {

// Set definition level `level` in the entries whose slot is null (`nulls` has one byte a slot). An
// entry whose level is above `closed_above` has no slot in this layer and further in.
ALANCE_CLONES void mark_nulls(const Out<uint16_t>& definition, uint16_t closed_above,
                              const Bytes& nulls, int64_t level) {
  const int64_t num_entries = std::ssize(definition);
  const int64_t num_slots = std::ssize(nulls);
  uint16_t* defs = definition.data();
  const uint8_t* null = nulls.data();
  if (level < 1 || level > 0xFFFF) corrupt("levels: definition level ", level);
  int64_t open = 0;
  for (int64_t i = 0; i < num_entries; ++i) open += defs[i] <= closed_above;
  if (open != num_slots) corrupt("levels: ", open, " entries with a slot, ", num_slots, " slots");
  // An entry that is absent further out keeps that level: readers want the outermost reason.
  const auto mark = [&](int64_t i, uint8_t is_null) {
    defs[i] = is_null && defs[i] == 0 ? static_cast<uint16_t>(level) : defs[i];
  };
  if (num_slots == num_entries) {  // without branches, which the compiler vectorises
    for (int64_t i = 0; i < num_entries; ++i) mark(i, null[i]);
    return;
  }
  for (int64_t i = 0, slot = 0; i < num_entries; ++i)
    if (defs[i] <= closed_above) mark(i, null[slot++]);
}

// Open one list layer: each entry with a slot becomes the entries of its list's items, or one entry
// that says why there are none. `offsets` are those of the slots; `nulls` has one byte a slot, and
// is empty if no list is null. A level of -1 does not occur.
std::tuple<Owned<uint16_t>, Owned<uint16_t>> expand_lists(const In<uint16_t>& rep,
                                                          const In<uint16_t>& definition,
                                                          int64_t closed_above,
                                                          const In<int64_t>& offsets,
                                                          const Bytes& nulls, int64_t rep_level,
                                                          int64_t null_level, int64_t empty_level) {
  const int64_t num_entries = std::ssize(rep);
  const int64_t num_slots = std::ssize(offsets) - 1;
  const bool has_nulls = nulls.size() > 0;
  if (std::ssize(definition) != num_entries)
    corrupt("levels: ", num_entries, " repetition and ", definition.size(), " definition levels");
  if (num_slots < 0 || (has_nulls && std::ssize(nulls) != num_slots))
    corrupt("levels: ", offsets.size(), " offsets, ", nulls.size(), " bytes of nulls");
  if (rep_level < 1 || rep_level > 0xFFFF || null_level > 0xFFFF || empty_level > 0xFFFF)
    corrupt("levels: more than 65535");
  const uint16_t* reps = rep.data();
  const uint16_t* defs = definition.data();
  const int64_t* ends = offsets.data();
  // The first pass checks and counts, so that the second writes into exact sizes.
  int64_t total = 0, slot = 0;
  for (int64_t i = 0; i < num_entries; ++i) {
    if (defs[i] > closed_above) {
      ++total;
      continue;
    }
    if (slot >= num_slots) corrupt("levels: more entries with a list than lists");
    const int64_t count = ends[slot + 1] - ends[slot];
    const bool absent = defs[i] > 0 || (has_nulls && nulls.data()[slot]);
    if (ends[slot] < 0 || count < 0) corrupt("levels: offsets of lists decrease");
    if (absent && count > 0) corrupt("levels: a null list has children");
    if (absent && defs[i] == 0 && null_level < 1) corrupt("levels: no level for null lists");
    if (!absent && count == 0 && empty_level < 1) corrupt("levels: no level for empty lists");
    if (__builtin_add_overflow(total, count > 0 ? count : 1, &total))
      corrupt("levels: sizes overflow");
    ++slot;
  }
  if (slot != num_slots) corrupt("levels: more lists than entries with a list");
  Owned<uint16_t> out_rep(total), out_def(total);
  int64_t at = 0;
  slot = 0;
  for (int64_t i = 0; i < num_entries; ++i) {
    if (defs[i] > closed_above) {
      out_rep[at] = reps[i];
      out_def[at++] = defs[i];
      continue;
    }
    const int64_t count = ends[slot + 1] - ends[slot];
    out_rep[at] = reps[i] ? reps[i] : static_cast<uint16_t>(rep_level);
    if (count == 0) {
      const bool null = has_nulls && nulls.data()[slot];
      out_def[at++] = defs[i] ? defs[i] : static_cast<uint16_t>(null ? null_level : empty_level);
    } else {
      out_def[at++] = 0;
      std::memset(out_rep.data() + at, 0, static_cast<size_t>(count - 1) * sizeof(uint16_t));
      std::memset(out_def.data() + at, 0, static_cast<size_t>(count - 1) * sizeof(uint16_t));
      at += count - 1;
    }
    ++slot;
  }
  return {std::move(out_rep), std::move(out_def)};
}

}  // namespace
}  // namespace alance

void register_pages_levels(nanobind::module_& m) {
  using namespace alance;
  m.def("mark_nulls", &mark_nulls, "definition"_a.noconvert(), "closed_above"_a, "nulls"_a,
        "level"_a, NoGil());
  m.def("expand_lists", &expand_lists, NoGil());
}
