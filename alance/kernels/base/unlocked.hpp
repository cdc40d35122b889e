// Release of the GIL, only for long work: to get it back can take longer than short work does.
#pragma once
#include <optional>

#include "base/bounds.hpp"

namespace alance {

class Unlocked {
 public:
  static constexpr int64_t kShort = int64_t{64} << 10;  // values: some 20 microseconds

  // `steps`: about how many values will be gone through.
  explicit Unlocked(int64_t steps) {
    if (steps > kShort) release_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> release_;
};

}  // namespace alance
