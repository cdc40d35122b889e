// Validation of UTF-8 in byte strings; see utf8.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace alance {

bool is_utf8(const uint8_t* at, const uint8_t* end);
inline bool is_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  return is_utf8(at, at + text.size());
}

inline void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const uint32_t lead = more == 1 ? 0xC0 : more == 2 ? 0xE0 : 0xF0;
  out += static_cast<char>(lead | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

// Character at `at`, which moves behind it; the text is UTF-8.
inline uint32_t next_character(std::string_view text, size_t& at) {
  const auto first = static_cast<uint8_t>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t value = first & (0x3F >> more);
  for (int i = 0; i < more && at < text.size(); ++i) value = value << 6 | (text[at++] & 0x3F);
  return value;
}

// True if all bytes are below 128. Branch-free: the compiler vectorises it.
inline bool is_ascii(const uint8_t* at, const uint8_t* end) {
  uint8_t all = 0;
  for (; at < end; ++at) all |= *at;
  return all < 0x80;
}
inline bool is_ascii(std::string_view text) {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  return is_ascii(at, at + text.size());
}

// True if each of `count` adjacent strings, whose offsets ascend, is UTF-8.
template <typename Offset>
bool are_utf8(const Offset* offsets, int64_t count, const uint8_t* bytes) {
  if (count == 0) return true;
  const int64_t last = offsets[count];
  if (is_ascii(bytes + offsets[0], bytes + last)) return true;
  if (!is_utf8(bytes + offsets[0], bytes + last)) return false;
  // Their concatenation is UTF-8: so is each string that does not begin inside a character.
  bool split = false;
  for (int64_t i = 1; i < count; ++i)
    split |= offsets[i] < last && (bytes[offsets[i]] & 0xC0) == 0x80;
  return !split;
}

}  // namespace alance
