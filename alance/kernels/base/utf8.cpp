// Validation of UTF-8 in byte strings (RFC 3629).
#include "base/utf8.hpp"

#include "base/ends.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

// Bytes of the well-formed sequence at `at`, or 0. RFC 3629 excludes overlong forms, surrogates and
// code points above U+10FFFF.
inline int64_t sequence(const uint8_t* at, const uint8_t* end) {
  const uint8_t first = at[0];
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const int64_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (end - at < size) return 0;
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at[1] < least || at[1] > most) return 0;
  for (int64_t i = 2; i < size; ++i)
    if ((at[i] & 0xC0) != 0x80) return 0;
  return size;
}

}  // namespace

bool is_utf8(const uint8_t* at, const uint8_t* end) {
  while (at < end) {
    // Eight bytes of ASCII at a time.
    while (end - at >= 8) {
      if (load<uint64_t>(at) & 0x8080808080808080ull) break;
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

template <typename Offset>
int64_t first_bad_utf8(const In<Offset>& offsets, const Bytes& data, const Bytes& valid) {
  const Strings strings(offsets, data, "strings");
  const Validity is_valid(valid, strings.count, "strings");
  if (are_utf8(strings.ends, strings.count, strings.content)) return -1;
  for (int64_t i = 0; i < strings.count; ++i)
    if (is_valid[i] && !is_utf8(strings.at(i), strings.at(i + 1))) return i;
  return -1;
}

}  // namespace
}  // namespace alance

void register_utf8(nanobind::module_& m) {
  using namespace alance;
  m.def("first_bad_utf8", &first_bad_utf8<int32_t>, NoGil());
  m.def("first_bad_utf8", &first_bad_utf8<int64_t>, NoGil());
}
