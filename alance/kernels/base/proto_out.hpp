// Writer of protobuf messages in wire format (protobuf.dev/programming-guides/encoding). The caller
// writes fields in ascending order and omits defaults; proto_wire.hpp reads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace alance {

class ProtoOut {
 public:
  ProtoOut() = default;
  explicit ProtoOut(std::string text) : text_(std::move(text)) {}

  ProtoOut& number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3);
    varint(value);
    return *this;
  }

  ProtoOut& bytes(uint32_t field, std::string_view content) {
    varint(uint64_t{field} << 3 | 2);
    varint(content.size());
    text_.append(content);
    return *this;
  }

  ProtoOut& message(uint32_t field, const ProtoOut& inner) { return bytes(field, inner.text_); }

  // Packed repeated field of numbers; nothing if `values` is empty.
  template <typename Numbers>
  ProtoOut& numbers(uint32_t field, const Numbers& values) {
    if (values.empty()) return *this;
    ProtoOut packed;
    for (const auto value : values) packed.varint(static_cast<uint64_t>(value));
    return message(field, packed);
  }

  // Append fields as they are.
  void append(std::string_view fields) { text_.append(fields); }
  void clear() { text_.clear(); }

  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }

  std::string text_;
};

}  // namespace alance
