// Reader of the protobuf wire format (protobuf.dev/programming-guides/encoding): tags, varints and
// length-delimited fields; every read is checked.
#pragma once
#include <string_view>

#include "base/bounds.hpp"

namespace alance {

// Cursor over the fields of a message. `ok` turns false on truncated bytes and other wire types.
class ProtoWire {
 public:
  // `fixed`: fields of fixed width are not refused; they can only be skipped.
  explicit ProtoWire(std::string_view content, bool fixed = false)
      : at_(reinterpret_cast<const uint8_t*>(content.data())), end_(at_ + content.size()),
        fixed_(fixed) {}

  bool ok = true;
  uint32_t field = 0;
  uint32_t wire = 0;  // 0: varint, 2: bytes, 1 and 5: fixed width; other types are refused

  // Advance to the next field; false at the end or on an error.
  bool next() {
    begin_ = at_;
    if (!ok || at_ == end_) return false;
    const uint64_t tag = varint(5);
    field = static_cast<uint32_t>(tag >> 3);
    wire = static_cast<uint32_t>(tag & 7);
    ok = ok && tag <= UINT32_MAX && field != 0 &&
         (wire == 0 || wire == 2 || (fixed_ && (wire == 1 || wire == 5)));
    return ok;
  }

  // Varint of at most `max_bytes` bytes.
  uint64_t varint(int max_bytes = 10) {
    uint64_t value = 0;
    for (int shift = 0; shift < 7 * max_bytes; shift += 7) {
      if (at_ == end_) break;
      const uint64_t byte = *at_++;
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    ok = false;
    return 0;
  }

  // Content of a field of wire type 2.
  std::string_view bytes() {
    const uint64_t size = varint();
    if (!ok || size > static_cast<uint64_t>(end_ - at_)) {
      ok = false;
      return {};
    }
    const std::string_view content(reinterpret_cast<const char*>(at_), static_cast<size_t>(size));
    at_ += size;
    return content;
  }

  // Pass the numbers of a repeated field, packed or not, to `add`.
  template <typename Add>
  void numbers(Add add) {
    if (wire == 0) {
      add(varint());
      return;
    }
    ProtoWire inner(bytes());
    while (ok && inner.at_ != inner.end_) {
      add(inner.varint());
      ok = inner.ok;
    }
  }

  bool done() const { return at_ == end_; }
  const uint8_t* position() const { return at_; }
  // Bytes of the field that was read last, with its tag.
  std::string_view whole() const {
    return {reinterpret_cast<const char*>(begin_), static_cast<size_t>(at_ - begin_)};
  }

  void skip() {
    if (wire == 0) {
      varint();
    } else if (wire == 2) {
      bytes();
    } else {
      const int64_t size = wire == 1 ? 8 : 4;
      ok = end_ - at_ >= size;
      if (ok) at_ += size;
    }
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* begin_ = nullptr;  // of the field
  bool fixed_;
};

}  // namespace alance
