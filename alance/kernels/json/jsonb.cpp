// JSON text from JSONB values, and JSONB from JSON text (RFC 8259); jsonb_entries.hpp describes the
// layout.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "base/lists.hpp"
#include "json/jsonb_entries.hpp"

namespace alance {
namespace jsonb {
namespace {

constexpr size_t kMaxPayload = (size_t{1} << 28) - 1;  // largest size in a descriptor

// Append the lowest bytes of a number, the highest of them first.
void put_big(std::string& out, uint64_t value, int num_bytes = 4) {
  const auto bytes = std::bit_cast<std::array<char, 8>>(__builtin_bswap64(value));
  out.append(bytes.data() + 8 - num_bytes, static_cast<size_t>(num_bytes));
}

// Parser of one text, which appends its JSONB.
class Parser : Tokens {
 public:
  Parser(std::string_view text, std::string& out) : Tokens(text), out_(out) {}

  // Parse one value, with nothing behind it, to a container.
  void document() {
    const size_t start = out_.size();
    if (peek() == '{' || peek() == '[') {
      container(1);
    } else {
      const uint32_t descriptor = value(0);
      std::string head;
      put_big(head, kScalars << 29);
      put_big(head, descriptor);
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

  // As `take`, but not behind spaces: inside of a number there are none.
  bool take_next(char expected) {
    if (at_ == end_ || *at_ != expected) return false;
    ++at_;
    return true;
  }

  // Append the payload of a value; returns its descriptor.
  uint32_t value(int depth) {
    const size_t start = out_.size();
    uint32_t type = kNullEntry;
    switch (peek()) {
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

  void word(std::string_view expected) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(expected))
      corrupt("expected ", expected);
    at_ += expected.size();
  }

  void container(int depth) {
    if (depth > kDeepest) corrupt("nested more than 128 deep");
    if (*at_ == '[')
      array(depth);
    else
      object(depth);
  }

  void array(int depth) {
    const size_t start = out_.size();
    std::vector<uint32_t> descriptors;
    each('[', ']', [&] {
      descriptors.push_back(value(depth));
      return false;
    });
    std::string head;
    put_big(head, kArrays << 29 | count(descriptors.size()));
    for (uint32_t descriptor : descriptors) put_big(head, descriptor);
    out_.insert(start, head);
  }

  void object(int depth) {
    const size_t start = out_.size();
    std::vector<Member> members;
    each('{', '}', [&] {
      Member member;
      if (peek() != '"') corrupt("expected a key in quotes");
      text(member.key);
      if (member.key.size() > kMaxPayload) corrupt("a key of more than 256 MiB");
      expect(':');
      member.start = out_.size();
      member.descriptor = value(depth);
      member.size = out_.size() - member.start;
      members.push_back(std::move(member));
      return false;
    });
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.key < b.key; });
    for (size_t i = 1; i < members.size(); ++i)
      if (members[i].key == members[i - 1].key) corrupt("an object has a key twice");
    std::string encoded;
    put_big(encoded, kObjects << 29 | count(members.size()));
    for (const Member& member : members)
      put_big(encoded, kTextEntry << 28 | static_cast<uint32_t>(member.key.size()));
    for (const Member& member : members) put_big(encoded, member.descriptor);
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
    ++at_;
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
    const bool negative = take_next('-');
    if (!take_next('0') && !digits()) corrupt("expected a value");
    const char* whole_end = at_;
    if (take_next('.') && !digits()) corrupt("a number without digits behind its point");
    if (take_next('e') || take_next('E')) {
      if (!take_next('+')) take_next('-');
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
    put_big(out_, pattern, bytes);
    return true;
  }

  void real(const char* start) {
    const double value = real_of({start, static_cast<size_t>(at_ - start)}).value_or(0);
    if (std::isinf(value)) corrupt("a number beyond those of 64-bit floats");
    out_ += '\x60';
    put_big(out_, std::bit_cast<uint64_t>(value), 8);
  }

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
  jsonb::each_row(texts, " is no JSON: ", [&](int64_t i, std::string_view text) {
    if (is_valid[i]) jsonb::Parser(text, out).document();
    stops[i + 1] = std::ssize(out);
  });
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
