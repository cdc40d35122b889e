// JSONB values to JSON text.
//
// A value is one container: a big-endian u32 header (top three bits: kind, rest: count), a u32
// descriptor for each entry (bits 28 to 30: type, the rest: bytes of its payload), then the
// payloads. An object has its keys before its values.
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "bounds.hpp"
#include "owned.hpp"

namespace alance {
namespace {

constexpr int kMaxDepth = 128;
constexpr uint32_t kArray = 4, kObject = 2, kScalar = 1;  // the header's top three bits

// Raised as TypeError: the bytes may be right, but are not known here.
[[noreturn]] void unknown(const std::string& what) { throw nb::type_error(what.c_str()); }

uint32_t big_u32(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void container(const uint8_t* at, int64_t size, int depth) {
    if (depth > kMaxDepth) corrupt("JSONB: nested more than 128 deep");
    if (size < 4) corrupt("JSONB: " + std::to_string(size) + " bytes, the header has 4");
    const uint32_t header = big_u32(at);
    const uint32_t kind = header >> 29;
    const int64_t count = header & 0x1FFFFFFF;
    if (kind != kArray && kind != kObject && kind != kScalar)
      corrupt("JSONB: container of kind " + std::to_string(kind));
    if (kind == kScalar && count > 1) corrupt("JSONB: a scalar of " + std::to_string(count));
    const int64_t entries = kind == kScalar ? 1 : kind == kObject ? 2 * count : count;
    if (entries > (size - 4) / 4)
      corrupt("JSONB: " + std::to_string(entries) + " entries in " + std::to_string(size) +
              " bytes");
    const uint8_t* descriptors = at + 4;
    int64_t position = 4 + 4 * entries;
    auto next = [&](int64_t entry) {
      const int64_t bytes = big_u32(descriptors + 4 * entry) & 0x0FFFFFFF;
      if (bytes > size - position)
        corrupt("JSONB: a value of " + std::to_string(bytes) + " bytes, " +
                std::to_string(size - position) + " are left");
      const uint8_t* payload = at + position;
      position += bytes;
      return std::pair(payload, bytes);
    };
    auto type = [&](int64_t entry) { return big_u32(descriptors + 4 * entry) >> 28 & 7; };
    if (kind == kScalar) {
      auto [payload, bytes] = next(0);
      value(type(0), payload, bytes, depth);
    } else if (kind == kArray) {
      out_ += '[';
      for (int64_t i = 0; i < count; ++i) {
        if (i) out_ += ',';
        auto [payload, bytes] = next(i);
        value(type(i), payload, bytes, depth);
      }
      out_ += ']';
    } else {
      std::vector<std::pair<const uint8_t*, int64_t>> keys;
      keys.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        if (type(i) != 1) corrupt("JSONB: a key that is no text");
        keys.push_back(next(i));
      }
      out_ += '{';
      for (int64_t i = 0; i < count; ++i) {
        if (i) out_ += ',';
        text(keys[static_cast<size_t>(i)].first, keys[static_cast<size_t>(i)].second);
        out_ += ':';
        auto [payload, bytes] = next(count + i);
        value(type(count + i), payload, bytes, depth);
      }
      out_ += '}';
    }
  }

 private:
  void value(uint32_t type, const uint8_t* at, int64_t size, int depth) {
    switch (type) {
      case 0: out_ += "null"; return;
      case 1: text(at, size); return;
      case 2: number(at, size); return;
      case 3: out_ += "false"; return;
      case 4: out_ += "true"; return;
      case 5: container(at, size, depth + 1); return;
      case 6: unknown("JSONB: dates, intervals and bytes inside JSON");
      default: corrupt("JSONB: a value of type " + std::to_string(type));
    }
  }

  void text(const uint8_t* at, int64_t size) {
    static const char* const kHex = "0123456789abcdef";
    out_ += '"';
    int64_t plain = 0;  // begin of what needs no escape
    for (int64_t i = 0; i < size; ++i) {
      const uint8_t byte = at[i];
      if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
      out_.append(reinterpret_cast<const char*>(at + plain), static_cast<size_t>(i - plain));
      plain = i + 1;
      switch (byte) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\b': out_ += "\\b"; break;
        case '\f': out_ += "\\f"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        default:
          out_ += "\\u00";
          out_ += kHex[byte >> 4];
          out_ += kHex[byte & 15];
      }
    }
    out_.append(reinterpret_cast<const char*>(at + plain), static_cast<size_t>(size - plain));
    out_ += '"';
  }

  void number(const uint8_t* at, int64_t size) {
    if (size < 1) corrupt("JSONB: a number of no bytes");
    const uint8_t tag = at[0];
    const int64_t bytes = size - 1;
    switch (tag) {
      case 0x00: out_ += '0'; return;
      case 0x10: case 0x20: case 0x30: out_ += "null"; return;  // NaN and infinities
      case 0x40: out_ += std::to_string(static_cast<int64_t>(whole(at + 1, bytes, true))); return;
      case 0x50: out_ += std::to_string(whole(at + 1, bytes, false)); return;
      case 0x60: {
        if (bytes != 8) corrupt("JSONB: a float of " + std::to_string(bytes) + " bytes");
        const uint64_t pattern = whole(at + 1, 8, false);
        double found;
        std::memcpy(&found, &pattern, 8);
        real(found);
        return;
      }
      case 0x70: decimal(at + 1, bytes); return;
      default: corrupt("JSONB: a number of kind " + std::to_string(tag));
    }
  }

  // A big-endian integer of 1, 2, 4 or 8 bytes, sign-extended where signed.
  static uint64_t whole(const uint8_t* at, int64_t bytes, bool is_signed) {
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
      corrupt("JSONB: an integer of " + std::to_string(bytes) + " bytes");
    uint64_t found = is_signed && (at[0] & 0x80) ? ~uint64_t{0} : 0;
    for (int64_t i = 0; i < bytes; ++i) found = found << 8 | at[i];
    return found;
  }

  // The fewest digits that read back as the same number; with an exponent below 1e-5 and from
  // 1e16 on.
  void real(double found) {
    if (!std::isfinite(found)) {
      out_ += "null";
      return;
    }
    char digits[40];
    auto end = std::to_chars(digits, digits + sizeof digits, found, std::chars_format::scientific);
    std::string_view text(digits, static_cast<size_t>(end.ptr - digits));
    const size_t mark = text.find('e');
    int exponent = 0;
    const char* first = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
    std::from_chars(first, end.ptr, exponent);
    if (found != 0 && (exponent < -5 || exponent >= 16)) {
      out_.append(text.substr(0, mark));
      out_ += 'e';
      if (exponent > 0) out_ += '+';
      out_ += std::to_string(exponent);
      return;
    }
    char plain[64];
    auto stop = std::to_chars(plain, plain + sizeof plain, found, std::chars_format::fixed);
    std::string_view shown(plain, static_cast<size_t>(stop.ptr - plain));
    out_.append(shown);
    if (shown.find('.') == std::string_view::npos) out_ += ".0";
  }

  // A big-endian coefficient of 8 or 16 bytes, then the number of decimal places.
  void decimal(const uint8_t* at, int64_t bytes) {
    if (bytes == 33) unknown("JSONB: decimals of 256 bits");
    if (bytes != 9 && bytes != 17)
      corrupt("JSONB: a decimal of " + std::to_string(bytes) + " bytes");
    const bool negative = at[0] & 0x80;
    unsigned __int128 found = negative ? ~static_cast<unsigned __int128>(0) : 0;
    for (int64_t i = 0; i + 1 < bytes; ++i) found = found << 8 | at[i];
    if (negative) found = -found;
    std::string digits;
    while (found) {
      digits += static_cast<char>('0' + static_cast<int>(found % 10));
      found /= 10;
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

template <typename T>
nb::tuple jsonb_to_text(const In<T>& offsets, const Bytes& data, const Bytes& valid) {
  const int64_t count = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t total = static_cast<int64_t>(data.size());
  if (count < 0 || (valid.size() && static_cast<int64_t>(valid.size()) != count))
    corrupt("JSONB: " + std::to_string(offsets.size()) + " offsets, validity of " +
            std::to_string(valid.size()));
  int64_t previous = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const int64_t offset = static_cast<int64_t>(offsets.data()[i]);
    if (offset < previous || offset > total)
      corrupt("JSONB: offset " + std::to_string(offset) + " in " + std::to_string(total) +
              " bytes");
    previous = offset;
  }
  Owned<int32_t> stops(count + 1);
  std::string out;
  {
    nb::gil_scoped_release release;
    out.reserve(static_cast<size_t>(total));
    Writer writer(out);
    stops[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!valid.size() || valid.data()[i])
        writer.container(data.data() + offsets.data()[i], offsets.data()[i + 1] - offsets.data()[i],
                         0);
      if (out.size() > INT32_MAX) throw std::overflow_error("JSON text of more than 2 GiB");
      stops[i + 1] = static_cast<int32_t>(out.size());
    }
  }
  Owned<uint8_t> text(static_cast<int64_t>(out.size()));
  std::memcpy(text.data(), out.data(), out.size());
  return nb::make_tuple(stops.numpy(), text.numpy());
}

}  // namespace
}  // namespace alance

void register_jsonb(nanobind::module_& m) {
  m.def("jsonb_to_text", &alance::jsonb_to_text<int32_t>);
  m.def("jsonb_to_text", &alance::jsonb_to_text<int64_t>);
}
