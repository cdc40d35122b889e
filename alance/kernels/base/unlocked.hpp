// Release of the GIL, for long work only: reacquiring it can take longer than short work.
#pragma once
#include <optional>

#include "base/bounds.hpp"

namespace alance {

class Unlocked {
 public:
  static constexpr int64_t kShort = int64_t{64} << 10;  // values: about 20 µs of work

  // `steps`: approximate number of values that the work visits.
  explicit Unlocked(int64_t steps) {
    if (steps > kShort) release_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> release_;
};

}  // namespace alance
