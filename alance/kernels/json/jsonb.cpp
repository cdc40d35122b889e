// JSON text from JSONB values, and JSONB from JSON text (RFC 8259); jsonb_entries.hpp describes the
// layout.
#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "base/ends.hpp"
#include "base/lists.hpp"
#include "base/utf8.hpp"
#include "json/jsonb_entries.hpp"

namespace alance {
namespace jsonb {
namespace {

constexpr size_t kMaxPayload = (size_t{1} << 28) - 1;  // largest size in a descriptor

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

// Parser of one text, which appends its JSONB.
class Parser {
 public:
  Parser(std::string_view text, std::string& out)
      : at_(text.data()), end_(text.data() + text.size()), out_(out) {}

  // Parse one value, with nothing behind it, to a container.
  void document() {
    space();
    const size_t start = out_.size();
    if (at_ < end_ && (*at_ == '{' || *at_ == '[')) {
      container(1);
    } else {
      const uint32_t descriptor = value(0);
      std::string head;
      put_u32(head, kScalars << 29);
      put_u32(head, descriptor);
      out_.insert(start, head);
    }
    space();
    if (at_ != end_) corrupt("text goes on behind the value");
  }

 private:
  struct Member {
    std::string key;
    uint32_t descriptor;
    size_t start;
    size_t size;
  };

  void space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }

  bool take(char expected) {
    if (at_ == end_ || *at_ != expected) return false;
    ++at_;
    return true;
  }

  void need(char expected) {
    if (!take(expected)) corrupt("expected '", expected, "'");
  }

  // Append the payload of a value; returns its descriptor.
  uint32_t value(int depth) {
    if (at_ == end_) corrupt("the text ends too early");
    const size_t start = out_.size();
    uint32_t type = kNullEntry;
    switch (*at_) {
      case '{':
      case '[':
        container(depth + 1);
        type = kContainerEntry;
        break;
      case '"':
        text(out_);
        type = kTextEntry;
        break;
      case 'n': word("null"); break;
      case 't':
        word("true");
        type = kTrueEntry;
        break;
      case 'f':
        word("false");
        type = kFalseEntry;
        break;
      default: number(); type = kNumberEntry;
    }
    const size_t size = out_.size() - start;
    if (size > kMaxPayload) corrupt("a value of more than 256 MiB");
    return type << 28 | static_cast<uint32_t>(size);
  }

  void word(const char* expected) {
    for (; *expected; ++expected) need(*expected);
  }

  void container(int depth) {
    if (depth > kDeepest) corrupt("nested more than 128 deep");
    if (take('['))
      array(depth);
    else
      object(depth);
  }

  void array(int depth) {
    const size_t start = out_.size();
    std::vector<uint32_t> descriptors;
    space();
    if (!take(']')) {
      do {
        space();
        descriptors.push_back(value(depth));
        space();
      } while (take(','));
      need(']');
    }
    std::string head;
    put_u32(head, kArrays << 29 | count(descriptors.size()));
    for (uint32_t descriptor : descriptors) put_u32(head, descriptor);
    out_.insert(start, head);
  }

  void object(int depth) {
    const size_t start = out_.size();
    std::vector<Member> members;
    need('{');
    space();
    if (!take('}')) {
      do {
        space();
        Member member;
        if (at_ == end_ || *at_ != '"') corrupt("expected a key in quotes");
        text(member.key);
        if (member.key.size() > kMaxPayload) corrupt("a key of more than 256 MiB");
        space();
        need(':');
        space();
        member.start = out_.size();
        member.descriptor = value(depth);
        member.size = out_.size() - member.start;
        members.push_back(std::move(member));
        space();
      } while (take(','));
      need('}');
    }
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.key < b.key; });
    for (size_t i = 1; i < members.size(); ++i)
      if (members[i].key == members[i - 1].key) corrupt("an object has a key twice");
    std::string encoded;
    put_u32(encoded, kObjects << 29 | count(members.size()));
    for (const Member& member : members)
      put_u32(encoded, kTextEntry << 28 | static_cast<uint32_t>(member.key.size()));
    for (const Member& member : members) put_u32(encoded, member.descriptor);
    for (const Member& member : members) encoded += member.key;
    for (const Member& member : members) encoded.append(out_, member.start, member.size);
    out_.resize(start);
    out_ += encoded;
  }

  static uint32_t count(size_t entries) {
    if (entries > 0x1FFFFFFF) corrupt("too many values in one container");
    return static_cast<uint32_t>(entries);
  }

  void text(std::string& out) {
    need('"');
    for (;;) {
      const char* plain = at_;
      while (at_ < end_ && *at_ != '"' && *at_ != '\\' && static_cast<uint8_t>(*at_) >= 0x20) ++at_;
      out.append(plain, static_cast<size_t>(at_ - plain));
      if (at_ == end_) corrupt("a string without its end");
      const char mark = *at_++;
      if (mark == '"') return;
      if (mark != '\\') corrupt("a control character inside a string");
      unescape(at_, end_, true, out);
    }
  }

  bool digits() {
    const char* start = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ > start;
  }

  void number() {
    const char* start = at_;
    const bool negative = take('-');
    if (!take('0') && !digits()) corrupt("expected a value");
    const char* whole_end = at_;
    if (take('.') && !digits()) corrupt("a number without digits behind its point");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) corrupt("a number without digits in its exponent");
    }
    if (at_ == whole_end && whole(start, negative)) return;
    real(start);
  }

  // Append an integer in as few bytes as hold it; false if 64 bits do not.
  bool whole(const char* start, bool negative) {
    uint64_t pattern = 0;
    int64_t below = 0;
    const auto result =
        negative ? std::from_chars(start, at_, below) : std::from_chars(start, at_, pattern);
    if (result.ec != std::errc()) return false;
    if (negative) pattern = static_cast<uint64_t>(below);
    if (pattern == 0) {
      out_ += '\0';
      return true;
    }
    int bytes = 8;
    for (int size : {4, 2, 1}) {
      const int bits = 8 * size;
      if (negative ? below >= -(INT64_C(1) << (bits - 1)) : pattern >> bits == 0) bytes = size;
    }
    out_ += static_cast<char>(negative ? 0x40 : 0x50);
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
      out_ += static_cast<char>(pattern >> shift);
    return true;
  }

  void real(const char* start) {
    double value = 0;
    const auto result = std::from_chars(start, at_, value);
    if (result.ec == std::errc::result_out_of_range) {
      if (is_large(start)) corrupt("a number beyond those of 64-bit floats");
      value = *start == '-' ? -0.0 : 0.0;
    }
    const auto pattern = std::bit_cast<uint64_t>(value);
    out_ += '\x60';
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(pattern >> shift);
  }

  // True if a number out of range is too large, false if it is too close to 0; decided by the place
  // of its first digit.
  bool is_large(const char* at) const {
    int64_t place = 0;
    bool behind_point = false, has_digit = false;
    for (; at < at_ && *at != 'e' && *at != 'E'; ++at) {
      if (*at == '.') behind_point = true;
      if (*at < '0' || *at > '9') continue;
      has_digit |= *at != '0';
      if (has_digit && !behind_point) ++place;
      if (!has_digit && behind_point) --place;
    }
    int64_t exponent = 0;
    if (at < at_) {
      ++at;
      const bool negative = *at == '-';
      if (*at == '+' || *at == '-') ++at;
      if (std::from_chars(at, at_, exponent).ec != std::errc()) return !negative;
      if (negative) exponent = -exponent;
    }
    return place > -exponent;
  }

  const char* at_;
  const char* end_;
  std::string& out_;
};

}  // namespace
}  // namespace jsonb

namespace {

template <typename Offset>
std::tuple<Owned<int32_t>, Owned<uint8_t>> jsonb_to_text(const In<Offset>& offsets,
                                                         const Bytes& data, const Bytes& valid) {
  const Strings values(offsets, data, "JSONB");
  const Validity is_valid(valid, values.count, "JSONB");
  Owned<int32_t> stops(values.count + 1);
  std::string out;
  out.reserve(data.size());
  jsonb::Writer writer(out);
  stops[0] = 0;
  for (int64_t i = 0; i < values.count; ++i) {
    if (is_valid[i]) writer.container(values.at(i), values.size(i), 0);
    if (out.size() > INT32_MAX) throw std::overflow_error("JSON text of more than 2 GiB");
    stops[i + 1] = static_cast<int32_t>(out.size());
  }
  return {std::move(stops), owned_of(out)};
}

template <typename Offset>
std::tuple<Owned<int64_t>, Owned<uint8_t>> text_to_jsonb(const In<Offset>& offsets,
                                                         const Bytes& data, const Bytes& valid) {
  const Strings texts(offsets, data, "JSON");
  const Validity is_valid(valid, texts.count, "JSON");
  Owned<int64_t> stops(texts.count + 1);
  std::string out;
  stops[0] = 0;
  for (int64_t i = 0; i < texts.count; ++i) {
    try {
      if (is_valid[i]) jsonb::Parser(texts[i], out).document();
    } catch (const std::invalid_argument& error) {
      corrupt("row ", i, " is no JSON: ", error.what());
    }
    stops[i + 1] = std::ssize(out);
  }
  return {std::move(stops), owned_of(out)};
}

}  // namespace
}  // namespace alance

void register_jsonb(nanobind::module_& m) {
  using namespace alance;
  m.def("jsonb_to_text", &jsonb_to_text<int32_t>, NoGil());
  m.def("jsonb_to_text", &jsonb_to_text<int64_t>, NoGil());
  const auto add = [&m](auto* to_jsonb) {
    m.def("text_to_jsonb", to_jsonb, "offsets"_a.noconvert(), "data"_a, "valid"_a, NoGil());
  };
  add(&text_to_jsonb<int32_t>);
  add(&text_to_jsonb<int64_t>);
}
