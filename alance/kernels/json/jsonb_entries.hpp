// Tokens of JSON text; entries of JSONB values, and their JSON text.
//
// A value is one container: a big-endian u32 header (top three bits: kind, rest: count), a u32
// descriptor for each entry (bits 28 to 30: type, the rest: bytes of its payload), then the
// payloads. An object has its keys before its values.
//
// Source: docs/format/file.md, "JSONB".
#pragma once
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/ends.hpp"
#include "base/utf8.hpp"

namespace alance::jsonb {

constexpr int kDeepest = 128;
constexpr uint32_t kArrays = 4, kObjects = 2, kScalars = 1;  // the header's top three bits
constexpr uint32_t kNullEntry = 0, kTextEntry = 1, kNumberEntry = 2, kFalseEntry = 3,
                   kTrueEntry = 4,
                   kContainerEntry = 5;  // types of entries

// Letters of escapes, and the character that each stands for; the last one need not be escaped.
constexpr std::string_view kEscapes = "bfnrt\"\\/", kEscaped = "\b\f\n\r\t\"\\/";

// Throw TypeError: the bytes may be valid, but are not supported.
[[noreturn]] inline void unknown(const std::string& what) { throw nb::type_error(what.c_str()); }

inline uint32_t big_u32(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

// Number of the four hexadecimal digits at `at`, which moves behind them.
inline uint32_t hexadecimal(const char*& at, const char* end) {
  uint32_t code = 0;
  const char* const behind = at + std::min<ptrdiff_t>(end - at, 4);
  const auto [stop, error] = std::from_chars(at, behind, code, 16);
  if (stop != at + 4) corrupt("\\u without four digits");
  at = stop;
  return code;
}

// Append the character of an escape; `at` is behind its backslash, and moves behind the escape. If
// not `is_strict`, half of a surrogate pair is U+FFFD, and an unknown escape the character itself.
inline void unescape(const char*& at, const char* end, bool is_strict, std::string& out) {
  if (at == end) corrupt("a string without its end");
  const char name = *at++;
  if (name != 'u') {
    const size_t place = kEscapes.find(name);
    if (place == kEscapes.npos && is_strict) corrupt("an escape that JSON has not");
    out += place == kEscapes.npos ? name : kEscaped[place];
    return;
  }
  uint32_t code = hexadecimal(at, end);
  if (code >= 0xD800 && code < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
    const char* behind = at + 2;
    const uint32_t low = hexadecimal(behind, end);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      at = behind;
    }
  }
  if (code >= 0xD800 && code < 0xE000) {
    if (is_strict) corrupt("half of a surrogate pair");
    code = 0xFFFD;
  }
  append_utf8(code, out);
}

// Number of a text; nothing if it is none. Beyond the largest number it is infinite, below the
// smallest one 0.
inline std::optional<double> real_of(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) return {};
  if (error == std::errc::result_out_of_range) {
    std::istringstream(std::string(text)) >> number;  // `strtod` would heed the locale
    if (std::fabs(number) > 1) number = std::copysign(HUGE_VAL, number);
  }
  return number;
}

// Cursor over the tokens of JSON text; spaces before them are skipped.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

 protected:
  void space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }

  char peek() {
    space();
    if (at_ == end_) corrupt("the text ends too early");
    return *at_;
  }

  bool take(char expected) {
    if (peek() != expected) return false;
    ++at_;
    return true;
  }

  void expect(char expected) {
    if (!take(expected)) corrupt("expected '", expected, "', found '", *at_, "'");
  }

  // Call `visit` before each value or member between brackets, which it passes, until it returns
  // true.
  template <typename Visit>
  void each(char open, char close, Visit visit) {
    expect(open);
    if (take(close)) return;
    do {
      if (visit()) return;
    } while (take(','));
    expect(close);
  }

  const char* at_;
  const char* end_;
};

// Call `visit` with the number and the content of each string. An error names the row, then
// `before` and its message.
template <typename Offset, typename Visit>
void each_row(const Strings<Offset>& strings, const char* before, Visit visit) {
  for (int64_t i = 0; i < strings.count; ++i) {
    try {
      visit(i, strings[i]);
    } catch (const std::invalid_argument& error) {
      corrupt("row ", i, before, error.what());
    }
  }
}

struct Entry {
  uint32_t type;
  const uint8_t* at;
  int64_t size;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(at), static_cast<size_t>(size)};
  }
};

inline uint32_t kind_of_container(const uint8_t* at, int64_t size) {
  if (size < 4) corrupt("JSONB: ", size, " bytes, the header has 4");
  const uint32_t kind = big_u32(at) >> 29;
  if (kind != kArrays && kind != kObjects && kind != kScalars)
    corrupt("JSONB: container of kind ", kind);
  return kind;
}

// Cursor over the entries of a container; an object has its keys before its values.
class Entries {
 public:
  Entries(const uint8_t* at, int64_t size)
      : kind(kind_of_container(at, size)), count(big_u32(at) & 0x1FFFFFFF), at_(at), size_(size) {
    if (kind == kScalars && count > 1) corrupt("JSONB: a scalar of ", count);
    if (kind == kScalars) count = 1;
    const int64_t all = kind == kObjects ? 2 * count : count;
    if (all > (size - 4) / 4) corrupt("JSONB: ", all, " entries in ", size, " bytes");
    position_ = 4 + 4 * all;
  }

  Entry next() {
    const uint32_t descriptor = big_u32(at_ + 4 + 4 * number_++);
    const int64_t bytes = descriptor & 0x0FFFFFFF;
    if (bytes > size_ - position_)
      corrupt("JSONB: a value of ", bytes, " bytes, ", size_ - position_, " are left");
    const uint8_t* payload = at_ + position_;
    position_ += bytes;
    return {descriptor >> 28 & 7, payload, bytes};
  }

  Entry next_key() {
    const Entry key = next();
    if (key.type != kTextEntry) corrupt("JSONB: a key that is no text");
    return key;
  }

  void skip(int64_t entries) {
    for (; entries > 0; --entries) next();
  }

  // Call `visit` with each item of an array until it returns true.
  template <typename Visit>
  void items(Visit visit) {
    for (int64_t i = 0; i < count; ++i)
      if (visit(next())) return;
  }

  // Call `visit` with the key and the value of each member of an object until it returns true.
  template <typename Visit>
  void members(Visit visit) {
    Entries values = *this;
    values.skip(count);
    for (int64_t i = 0; i < count; ++i) {
      const Entry key = next_key();
      if (visit(key, values.next())) return;
    }
  }

  // Call `visit` with the value of the first member of this name.
  template <typename Visit>
  void member(std::string_view name, Visit visit) {
    int64_t num_keys = 0;
    while (num_keys < count && next_key().text() != name) ++num_keys;
    if (num_keys == count) return;
    skip(count - 1);  // the other keys, and as many values as there are keys before this one
    visit(next());
  }

  uint32_t kind;
  int64_t count;  // of an object: members

 private:
  const uint8_t* at_;
  int64_t size_, position_ = 0, number_ = 0;
};

// Writer of JSON text from entries.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void container(const uint8_t* at, int64_t size, int depth) {
    if (depth > kDeepest) corrupt("JSONB: nested more than 128 deep");
    Entries entries(at, size);
    if (entries.kind == kScalars) {
      value(entries.next(), depth);
    } else if (entries.kind == kArrays) {
      out_ += '[';
      entries.items([&](const Entry& item) {
        if (out_.back() != '[') out_ += ',';
        value(item, depth);
        return false;
      });
      out_ += ']';
    } else {
      out_ += '{';
      entries.members([&](const Entry& key, const Entry& member) {
        if (out_.back() != '{') out_ += ',';
        text(key.at, key.size);
        out_ += ':';
        value(member, depth);
        return false;
      });
      out_ += '}';
    }
  }

  void value(const Entry& entry, int depth) {
    switch (entry.type) {
      case kNullEntry: out_ += "null"; return;
      case kTextEntry: text(entry.at, entry.size); return;
      case kNumberEntry: number(entry.at, entry.size); return;
      case kFalseEntry: out_ += "false"; return;
      case kTrueEntry: out_ += "true"; return;
      case kContainerEntry: container(entry.at, entry.size, depth + 1); return;
      case 6: unknown("JSONB: dates, intervals and bytes inside JSON");
      default: corrupt("JSONB: a value of type ", entry.type);
    }
  }

 private:
  void text(const uint8_t* at, int64_t size) {
    static const char* const kHex = "0123456789abcdef";
    out_ += '"';
    int64_t plain = 0;  // start of the bytes that need no escape
    for (int64_t i = 0; i < size; ++i) {
      while (i + 8 <= size && is_plain(at + i)) i += 8;
      if (i == size) break;
      const uint8_t byte = at[i];
      if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
      out_.append(reinterpret_cast<const char*>(at + plain), static_cast<size_t>(i - plain));
      plain = i + 1;
      if (const size_t place = kEscaped.find(static_cast<char>(byte)); place != kEscaped.npos)
        out_.append({'\\', kEscapes[place]});
      else
        out_.append("\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
    }
    out_.append(reinterpret_cast<const char*>(at + plain), static_cast<size_t>(size - plain));
    out_ += '"';
  }

  // True only if none of eight bytes needs an escape; may be false for bytes that need none.
  static bool is_plain(const uint8_t* at) {
    constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
    const auto bytes = load<uint64_t>(at);
    const uint64_t quotes = bytes ^ kOnes * '"', slashes = bytes ^ kOnes * '\\';
    return !(((bytes - kOnes * 0x20) & ~bytes & kTops) | ((quotes - kOnes) & ~quotes & kTops) |
             ((slashes - kOnes) & ~slashes & kTops));
  }

  void number(const uint8_t* at, int64_t size) {
    if (size < 1) corrupt("JSONB: a number of no bytes");
    const uint8_t tag = at[0];
    const int64_t bytes = size - 1;
    switch (tag) {
      case 0x00: out_ += '0'; return;
      case 0x10: case 0x20: case 0x30: out_ += "null"; return;  // NaN and infinities
      case 0x40: integer(static_cast<int64_t>(whole(at + 1, bytes, true))); return;
      case 0x50: integer(whole(at + 1, bytes, false)); return;
      case 0x60: {
        if (bytes != 8) corrupt("JSONB: a float of ", bytes, " bytes");
        real(std::bit_cast<double>(whole(at + 1, 8, false)));
        return;
      }
      case 0x70: decimal(at + 1, bytes); return;
      default: corrupt("JSONB: a number of kind ", tag);
    }
  }

  template <typename T>
  void integer(T value) {
    char digits[24];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  // Big-endian integer of 1, 2, 4 or 8 bytes, sign-extended if signed.
  static uint64_t whole(const uint8_t* at, int64_t bytes, bool is_signed) {
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
      corrupt("JSONB: an integer of ", bytes, " bytes");
    uint64_t result = is_signed && (at[0] & 0x80) ? ~uint64_t{0} : 0;
    for (int64_t i = 0; i < bytes; ++i) result = result << 8 | at[i];
    return result;
  }

  // Fewest digits that read back as the same number; with an exponent below 1e-5 and from 1e16 on.
  void real(double value) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    const double size = std::fabs(value);
    if (value != 0 && (size < 1e-5 || size >= 1e16)) {
      char digits[40];
      auto end =
          std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
      const std::string_view text(digits, static_cast<size_t>(end.ptr - digits));
      const size_t mark = text.find('e');
      int exponent = 0;
      std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), end.ptr, exponent);
      out_.append(text.substr(0, mark));
      out_ += 'e';
      if (exponent > 0) out_ += '+';
      out_ += std::to_string(exponent);
      return;
    }
    char plain[64];
    auto stop = std::to_chars(plain, plain + sizeof plain, value, std::chars_format::fixed);
    std::string_view shown(plain, static_cast<size_t>(stop.ptr - plain));
    out_.append(shown);
    if (shown.find('.') == std::string_view::npos) out_ += ".0";
  }

  // Big-endian coefficient of 8 or 16 bytes, then the number of decimal places.
  void decimal(const uint8_t* at, int64_t bytes) {
    if (bytes == 33) unknown("JSONB: decimals of 256 bits");
    if (bytes != 9 && bytes != 17) corrupt("JSONB: a decimal of ", bytes, " bytes");
    const bool negative = at[0] & 0x80;
    unsigned __int128 coefficient = negative ? ~static_cast<unsigned __int128>(0) : 0;
    for (int64_t i = 0; i + 1 < bytes; ++i) coefficient = coefficient << 8 | at[i];
    if (negative) coefficient = -coefficient;
    std::string digits;
    while (coefficient) {
      digits += static_cast<char>('0' + static_cast<int>(coefficient % 10));
      coefficient /= 10;
    }
    const size_t scale = at[bytes - 1];
    while (digits.size() <= scale) digits += '0';
    if (negative) out_ += '-';
    for (size_t i = digits.size(); i-- > 0;) {
      out_ += digits[i];
      if (i == scale && scale) out_ += '.';
    }
  }

  std::string& out_;
};

}  // namespace alance::jsonb
