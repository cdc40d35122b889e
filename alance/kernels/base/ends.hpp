// Checked views of lists and strings in Arrow's layout: offsets and values.
#pragma once
#include "base/bounds.hpp"

namespace alance {

// Throw unless [start, stop) lies inside a buffer of `total` bytes; nothing is subtracted before.
inline void check_ends(int64_t start, int64_t stop, int64_t total, const char* what) {
  if (start < 0 || start > stop || stop > total)
    corrupt(what, ": bytes ", start, " to ", stop, " of a buffer of ", total);
}

// Number of values between offsets, each of which lies inside a buffer of `total` bytes.
template <typename Offset>
int64_t checked_count(const In<Offset>& offsets, int64_t total, const char* what) {
  const int64_t count = std::ssize(offsets) - 1;
  if (count < 0) corrupt(what, ": no offsets");
  const Offset* ends = offsets.data();
  bool ascend = count == 0 || (ends[0] >= 0 && ends[count] <= total);
  for (int64_t i = 0; i < count; ++i) ascend &= ends[i] <= ends[i + 1];
  for (int64_t i = 0; !ascend && i < count; ++i) check_ends(ends[i], ends[i + 1], total, what);
  return count;
}

// Strings or bytes, all inside of their content.
template <typename Offset>
struct Strings {
  const Offset* ends;  // string i lies between ends i and i + 1
  const uint8_t* content;
  int64_t count;

  Strings(const In<Offset>& offsets, const Bytes& bytes, const char* what)
      : ends(offsets.data()), content(bytes.data()),
        count(checked_count(offsets, std::ssize(bytes), what)) {}

  const uint8_t* at(int64_t i) const { return content + ends[i]; }
  int64_t size(int64_t i) const { return ends[i + 1] - ends[i]; }
  std::string_view operator[](int64_t i) const {
    return {reinterpret_cast<const char*>(at(i)), static_cast<size_t>(size(i))};
  }
};

// Validity of values, a byte each; no bytes: all values are valid.
class Validity {
 public:
  Validity(const Bytes& valid, int64_t count, const char* what)
      : valid_(valid.size() ? valid.data() : nullptr) {
    if (valid_ && std::ssize(valid) != count)
      corrupt(what, ": validity of ", valid.size(), " of ", count, " values");
  }

  bool operator[](int64_t i) const { return !valid_ || valid_[i]; }

 private:
  const uint8_t* valid_;
};

}  // namespace alance
