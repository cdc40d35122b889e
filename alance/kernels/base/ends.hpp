// Checked views of lists and strings in Arrow's layout: offsets and values.
#pragma once
#include <algorithm>
#include <span>

#include "base/bounds.hpp"

namespace alance {

// Throw unless [start, stop) lies inside a buffer of `total` bytes; nothing is subtracted before.
inline void check_ends(int64_t start, int64_t stop, int64_t total, const char* what) {
  if (start < 0 || start > stop || stop > total)
    corrupt(what, ": bytes ", start, " to ", stop, " of a buffer of ", total,
            ", offsets decrease or leave the buffer");
}

// Number of values between offsets, each of which lies inside a buffer of `total` bytes.
template <typename Offsets>
int64_t checked_count(const Offsets& offsets, int64_t total, const char* what) {
  const int64_t count = std::ssize(offsets) - 1;
  if (count < 0) corrupt(what, ": no offsets");
  const auto* ends = offsets.data();
  bool ascend = count == 0 || (ends[0] >= 0 && ends[count] <= total);
  for (int64_t i = 0; i < count; ++i) ascend &= ends[i] <= ends[i + 1];
  for (int64_t i = 0; !ascend && i < count; ++i) check_ends(ends[i], ends[i + 1], total, what);
  return count;
}

// Strings or bytes, all inside of their content.
template <typename Offset>
struct Strings {
  const Offset* ends = &kNone;  // string i lies between ends i and i + 1
  const uint8_t* content;
  int64_t count;
  int64_t num_bytes;  // readable from `content` on

  Strings(const Offset* ends, const uint8_t* content, int64_t count, int64_t num_bytes)
      : ends(ends), content(content), count(count), num_bytes(num_bytes) {}
  Strings(std::span<const Offset> offsets, std::span<const uint8_t> bytes, const char* what)
      : content(bytes.data()), count(checked_count(offsets, std::ssize(bytes), what)),
        num_bytes(std::ssize(bytes)) {
    if (count != 0) ends = offsets.data();
  }
  Strings(const In<Offset>& offsets, const Bytes& bytes, const char* what)
      : Strings(std::span(offsets.data(), offsets.size()), {bytes.data(), bytes.size()}, what) {}

  int64_t total() const { return int64_t{ends[count]} - int64_t{ends[0]}; }
  // Size of the longest string; 0 if there are none.
  int64_t longest() const {
    Offset longest = 0;
    for (int64_t i = 0; i < count; ++i)
      longest = std::max(longest, static_cast<Offset>(ends[i + 1] - ends[i]));
    return longest;
  }
  const uint8_t* at(int64_t i) const { return content + ends[i]; }
  int64_t size(int64_t i) const { return int64_t{ends[i + 1]} - int64_t{ends[i]}; }
  std::string_view operator[](int64_t i) const {
    return {reinterpret_cast<const char*>(at(i)), static_cast<size_t>(size(i))};
  }

 private:
  static constexpr Offset kNone = 0;  // the only offset of no strings, which is not checked
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
