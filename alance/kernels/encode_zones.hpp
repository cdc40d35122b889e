// Zones of rows: where they begin and end among the values at hand.
#pragma once
#include <string>

#include "encode.hpp"

namespace alance {

struct Cuts {
  const int64_t* at;
  int64_t zones;

  Cuts(const In<int64_t>& cuts, const Bytes& valid, int64_t num_values)
      : at(cuts.data()), zones(static_cast<int64_t>(cuts.size()) - 1) {
    if (zones < 0) corrupt("zones: no cuts");
    bool rising = at[0] >= 0;
    for (int64_t z = 0; z < zones; ++z) rising &= at[z] <= at[z + 1];
    if (!rising || at[zones] > num_values)
      corrupt("zones: cuts decrease or leave the " + std::to_string(num_values) + " values");
    if (valid.size() && static_cast<int64_t>(valid.size()) != num_values)
      corrupt("zones: validity of " + std::to_string(valid.size()) + " values");
  }
};

}  // namespace alance
