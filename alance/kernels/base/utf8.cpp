// Validation of UTF-8 in byte strings (RFC 3629).
#include "base/utf8.hpp"

#include "base/bounds.hpp"

namespace alance {
namespace {

// Bytes of the well-formed sequence at `at`, or 0. RFC 3629 excludes overlong forms, surrogates and
// code points above U+10FFFF.
inline int64_t sequence(const uint8_t* at, const uint8_t* end) {
  const uint8_t first = at[0];
  if (first < 0x80) return 1;
  auto continues = [&](int64_t i) { return (at[i] & 0xC0) == 0x80; };
  if (first >= 0xC2 && first <= 0xDF) return end - at >= 2 && continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (end - at < 3 || !continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && at[1] < 0xA0) return 0;
    if (first == 0xED && at[1] > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (end - at < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && at[1] < 0x90) return 0;
    if (first == 0xF4 && at[1] > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

bool is_utf8(const uint8_t* at, const uint8_t* end) {
  while (at < end) {
    // Eight bytes of ASCII at a time.
    while (end - at >= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      if (word & 0x8080808080808080ull) break;
      at += 8;
    }
    if (at == end) return true;
    const int64_t size = sequence(at, end);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

namespace {

// Position of the first valid string that is not UTF-8, or -1. `valid` has a byte a string; it is
// empty if all strings are valid.
template <typename T>
int64_t first_bad_utf8(const In<T>& offsets, const Bytes& data, const Bytes& valid) {
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t total = static_cast<int64_t>(data.size());
  const bool has_validity = valid.size() > 0;
  if (count < 0 || (has_validity && static_cast<int64_t>(valid.size()) != count))
    corrupt("strings: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  int64_t previous = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const int64_t offset = static_cast<int64_t>(offsets.data()[i]);
    if (offset < previous || offset > total)
      corrupt("strings: offset " + std::to_string(offset) + " after " + std::to_string(previous) +
              " in " + std::to_string(total) + " bytes");
    previous = offset;
  }
  if (count == 0) return -1;
  const uint8_t* bytes = data.data();
  if (are_utf8(offsets.data(), count, bytes)) return -1;
  for (int64_t i = 0; i < count; ++i) {
    if (has_validity && !valid.data()[i]) continue;
    if (!is_utf8(bytes + offsets.data()[i], bytes + offsets.data()[i + 1])) return i;
  }
  return -1;
}

}  // namespace
}  // namespace alance

void register_utf8(nanobind::module_& m) {
  using namespace nanobind;
  m.def("first_bad_utf8", &alance::first_bad_utf8<int32_t>, call_guard<gil_scoped_release>());
  m.def("first_bad_utf8", &alance::first_bad_utf8<int64_t>, call_guard<gil_scoped_release>());
}
