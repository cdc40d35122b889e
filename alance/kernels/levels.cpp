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
    for (int64_t i = 0; i < num_entries; ++i) {
      num_heads += reps[i] > 0;
      num_slots += reps[i] > 0 && (!has_def || defs[i] <= slot_max);
    }
    offsets = Owned<int64_t>(num_slots + 1);
    valid = Owned<uint8_t>(num_slots);
    rep_left = Owned<uint16_t>(num_heads);
    def_left = Owned<uint16_t>(has_def ? num_heads : 0);
    int64_t slot = 0, head = 0;
    for (int64_t i = 0; i < num_entries; ++i) {
      const uint16_t level = has_def ? defs[i] : 0;
      if (reps[i] > 0) {
        if (level <= slot_max) {
          const bool present = level <= child_max || level == empty_level;
          offsets[slot] = num_children;
          valid[slot] = present;
          num_nulls += !present;
          ++slot;
        }
        rep_left[head] = static_cast<uint16_t>(reps[i] - 1);
        if (has_def) def_left[head] = level;
        ++head;
      }
      num_children += level <= child_max;
    }
    offsets[slot] = num_children;
  }
  return nb::make_tuple(offsets.numpy(), valid.numpy(), num_nulls, rep_left.numpy(),
                        def_left.numpy());
}

}  // namespace
}  // namespace alance

void register_levels(nanobind::module_& m) {
  m.def("list_layer", &alance::list_layer);
}
