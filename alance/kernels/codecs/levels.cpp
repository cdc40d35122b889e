// Repetition and definition levels to offsets and validity of lists, one layer at a time.
//
// Source: docs/format/file.md, "Levels to Arrow (reader)"; the levels are those of S. Melnik et
// al., "Dremel: Interactive Analysis of Web-Scale Datasets", PVLDB 3, 2010.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/bounds.hpp"
#include "codecs/levels.hpp"
#include "base/owned.hpp"
#include "base/unlocked.hpp"

namespace alance {
namespace {

struct ListLayer {
  Owned<int64_t> offsets{0};
  Owned<uint8_t> valid{0};
  int64_t num_nulls = 0;
  Owned<uint16_t> rep_left{0}, def_left{0};
};

// What is written behind a slot or head that does not count is written again, or into the slack:
// where rows begin and which lists are null has no pattern to guess, so there are no branches.
template <bool Nulls, bool Outer, bool Def, typename LevelOf>
void fill(ListLayer& found, const uint16_t* reps, int64_t num_entries, const LevelOf& level_of,
          int64_t child_max, int64_t slot_max, int64_t empty_level) {
  int64_t* starts = found.offsets.data();
  uint8_t* present_at = found.valid.data();
  uint16_t* reps_out = found.rep_left.data();
  uint16_t* defs_out = found.def_left.data();
  int64_t num_children = 0;
  for (int64_t i = 0; i < num_entries; ++i) {
    const uint16_t level = level_of(i);
    const bool begins = reps[i] > 0, counts = begins & (level <= slot_max);
    *starts = num_children;
    starts += counts;
    if constexpr (Nulls) {
      *present_at = (level <= child_max) | (level == empty_level);
      present_at += counts;
    }
    if constexpr (Outer) {
      *reps_out = static_cast<uint16_t>(reps[i] - 1);
      reps_out += begins;
      if constexpr (Def) {
        *defs_out = level;
        defs_out += begins;
      }
    }
    num_children += level <= child_max;
  }
  *starts = num_children;
}

// One list layer of the levels of a page, from the inside out.
//
// Levels are numbered from the leaf outwards, so that a threshold tells how deep an entry goes:
// an entry has a child slot where its level is at most `child_max`, a list slot where it begins a
// list (rep > 0) and its level is at most `slot_max`. A list is present where its level is at most
// `child_max` or `empty_level`. Returns the offsets, the validity as one byte a list (none where
// all are valid), the number of null lists, and the levels that are left for the next layer out
// (rep counted down by one; none where there is no such layer).
nb::tuple list_layer(const In<uint16_t>& rep, const In<uint16_t>& definition, int64_t child_max,
                     int64_t slot_max, int64_t empty_level, bool is_last) {
  const int64_t num_entries = static_cast<int64_t>(rep.size());
  const bool has_def = definition.size() > 0;
  if (has_def && static_cast<int64_t>(definition.size()) != num_entries)
    corrupt(std::to_string(num_entries) + " repetition and " + std::to_string(definition.size()) +
            " definition levels");
  if (child_max < 0 || slot_max < 0) corrupt("a layer without levels");
  const uint16_t* reps = rep.data();
  const uint16_t* defs = definition.data();
  ListLayer found;
  const auto run = [&](auto def, const auto& level_of) {
    constexpr bool Def = decltype(def)::value;
    // In 16 bits, as the levels are.
    const auto highest = [](int64_t level) {
      return static_cast<uint16_t>(std::min<int64_t>(level, UINT16_MAX));
    };
    const uint16_t child = highest(child_max), slot = highest(slot_max);
    const uint16_t empty =
        empty_level < 0 || empty_level > UINT16_MAX ? child : static_cast<uint16_t>(empty_level);
    const int64_t num_slots = count_if(num_entries, [&](int64_t i) {
      return (reps[i] > 0) & (level_of(i) <= slot);
    });
    found.num_nulls = num_slots - count_if(num_entries, [&](int64_t i) {
      const uint16_t level = level_of(i);
      return (reps[i] > 0) & (level <= slot) & ((level <= child) | (level == empty));
    });
    found.offsets = Owned<int64_t>(num_slots + 1);
    if (found.num_nulls > 0) found.valid = Owned<uint8_t>(num_slots, 1);
    if (!is_last) {
      const int64_t num_heads = count_if(num_entries, [&](int64_t i) { return reps[i] > 0; });
      found.rep_left = Owned<uint16_t>(num_heads, sizeof(uint16_t));
      found.def_left = Owned<uint16_t>(Def ? num_heads : 0, sizeof(uint16_t));
    }
    const auto go = [&](auto nulls, auto outer) {
      fill<decltype(nulls)::value, decltype(outer)::value, Def>(
          found, reps, num_entries, level_of, child_max, slot_max, empty_level);
    };
    using Yes = std::true_type;
    using No = std::false_type;
    if (is_last)
      found.num_nulls > 0 ? go(Yes{}, No{}) : go(No{}, No{});
    else
      found.num_nulls > 0 ? go(Yes{}, Yes{}) : go(No{}, Yes{});
  };
  {
    nb::gil_scoped_release release;
    if (has_def)
      run(std::true_type{}, [&](int64_t i) { return defs[i]; });
    else
      run(std::false_type{}, [](int64_t) { return uint16_t{0}; });
  }
  return nb::make_tuple(found.offsets.numpy(), found.valid.numpy(), found.num_nulls,
                        found.rep_left.numpy(), found.def_left.numpy());
}

// How many levels are at most `highest`.
int64_t count_up_to(const In<uint16_t>& levels, uint16_t highest) {
  const Unlocked unlocked(static_cast<int64_t>(levels.size()) / 4);
  const uint16_t* from = levels.data();
  return count_if(static_cast<int64_t>(levels.size()),
                  [&](int64_t i) { return from[i] <= highest; });
}

// Offsets of the lists of neighbouring pages as one, counted from the first child of the first.
Numpy<int64_t> join_lists(const nb::list& list) {
  std::vector<In<int64_t>> pieces;
  int64_t count = 0;
  for (nb::handle one : list) {
    pieces.push_back(nb::cast<In<int64_t>>(one));
    if (pieces.back().size() == 0) corrupt("lists without offsets");
    count += static_cast<int64_t>(pieces.back().size()) - 1;
  }
  const auto run = [&] {
    nb::gil_scoped_release release;
    Owned<int64_t> joined(count + 1);
    int64_t* to = joined.data();
    uint64_t before = 0;  // unsigned: what does not rise is found by those who look at it
    *to++ = 0;
    for (const In<int64_t>& one : pieces) {
      const int64_t* from = one.data() + 1;
      const int64_t num = static_cast<int64_t>(one.size()) - 1;
      for (int64_t i = 0; i < num; ++i)
        to[i] = static_cast<int64_t>(static_cast<uint64_t>(from[i]) + before);
      before += static_cast<uint64_t>(one.data()[num]);
      to += num;
    }
    return joined;
  };
  return run().numpy();
}

// Offsets in 32 bits; the caller knows that the last one fits and that they rise.
Numpy<int32_t> narrow_offsets(const In<int64_t>& offsets) {
  const auto run = [&] {
    nb::gil_scoped_release release;
    const int64_t count = static_cast<int64_t>(offsets.size());
    Owned<int32_t> narrowed(count);
    int32_t* to = narrowed.data();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int32_t>(offsets.data()[i]);
    return narrowed;
  };
  return run().numpy();
}

// The levels that are at most `highest`, in their order.
Numpy<uint16_t> levels_up_to(const In<uint16_t>& levels, int64_t highest) {
  const int64_t num_levels = static_cast<int64_t>(levels.size());
  const auto run = [&] {
    nb::gil_scoped_release release;
    const uint16_t* from = levels.data();
    int64_t count = 0;
    for (int64_t i = 0; i < num_levels; ++i) count += from[i] <= highest;
    Owned<uint16_t> kept(count, sizeof(uint16_t));
    uint16_t* to = kept.data();
    for (int64_t i = 0; i < num_levels; ++i) {
      *to = from[i];
      to += from[i] <= highest;
    }
    return kept;
  };
  return run().numpy();
}

}  // namespace
}  // namespace alance

void register_levels(nanobind::module_& m) {
  m.def("levels_up_to", &alance::levels_up_to);
  m.def("count_up_to", &alance::count_up_to);
  m.def("list_layer", &alance::list_layer);
  m.def("join_lists", &alance::join_lists);
  m.def("narrow_offsets", &alance::narrow_offsets);
}
