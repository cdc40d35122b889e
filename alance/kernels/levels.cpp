// Repetition and definition levels to the offsets and validity of lists, one layer at a time.
#include "bounds.hpp"
#include "owned.hpp"

namespace alance {
namespace {

// One list layer of the levels of a page, from the inside out.
//
// Levels are numbered from the leaf outwards, so that a threshold tells how deep an entry goes:
// an entry has a child slot where its level is at most `child_max`, a list slot where it begins a
// list (rep > 0) and its level is at most `slot_max`. A list is present where its level is at most
// `child_max` or `empty_level`. Returns the offsets, the validity as one byte a list, the number
// of null lists, and the levels that are left for the next layer out (rep counted down by one).
nb::tuple list_layer(const In<uint16_t>& rep, const In<uint16_t>& definition, int64_t child_max,
                     int64_t slot_max, int64_t empty_level) {
  const int64_t num_entries = static_cast<int64_t>(rep.size());
  const bool has_def = definition.size() > 0;
  if (has_def && static_cast<int64_t>(definition.size()) != num_entries)
    corrupt(std::to_string(num_entries) + " repetition and " + std::to_string(definition.size()) +
            " definition levels");
  const uint16_t* reps = rep.data();
  const uint16_t* defs = definition.data();
  int64_t num_heads = 0, num_slots = 0, num_children = 0;
  Owned<int64_t> offsets(0);
  Owned<uint8_t> valid(0);
  Owned<uint16_t> rep_left(0), def_left(0);
  int64_t num_nulls = 0;
  {
    nb::gil_scoped_release release;
    // No branches: where rows begin and which lists are null has no pattern to guess. What is
    // written behind a slot that does not count is written again, or into the slack.
    for (int64_t i = 0; i < num_entries; ++i) {
      num_heads += reps[i] > 0;
      num_slots += (reps[i] > 0) & (!has_def || defs[i] <= slot_max);
    }
    offsets = Owned<int64_t>(num_slots + 1);
    valid = Owned<uint8_t>(num_slots, 1);
    rep_left = Owned<uint16_t>(num_heads, sizeof(uint16_t));
    def_left = Owned<uint16_t>(has_def ? num_heads : 0, sizeof(uint16_t));
    const auto run = [&](auto level_of) {
      int64_t slot = 0, head = 0;
      int64_t* const starts = offsets.data();
      uint8_t* const present_at = valid.data();
      uint16_t* const reps_out = rep_left.data();
      uint16_t* const defs_out = def_left.data();
      for (int64_t i = 0; i < num_entries; ++i) {
        const uint16_t level = level_of(i);
        const bool begins = reps[i] > 0, counts = begins & (level <= slot_max);
        const bool present = (level <= child_max) | (level == empty_level);
        starts[slot] = num_children;
        present_at[slot] = present;
        num_nulls += counts & !present;
        slot += counts;
        reps_out[head] = static_cast<uint16_t>(reps[i] - 1);
        if (has_def) defs_out[head] = level;
        head += begins;
        num_children += level <= child_max;
      }
      starts[slot] = num_children;
    };
    if (has_def)
      run([&](int64_t i) { return defs[i]; });
    else
      run([](int64_t) { return uint16_t{0}; });
  }
  return nb::make_tuple(offsets.numpy(), valid.numpy(), num_nulls, rep_left.numpy(),
                        def_left.numpy());
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
  m.def("list_layer", &alance::list_layer);
}
