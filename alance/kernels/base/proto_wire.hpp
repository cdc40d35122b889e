// Reader of the protobuf wire format (protobuf.dev/programming-guides/encoding): tags, varints and
// length-delimited fields; every read is checked.
#pragma once
#include <string_view>

#include "base/bounds.hpp"

namespace alance {

// Reads fields one after the other. What is cut short or of another wire form makes `ok` false.
class ProtoWire {
 public:
  explicit ProtoWire(std::string_view content)
      : at_(reinterpret_cast<const uint8_t*>(content.data())), end_(at_ + content.size()) {}

  bool ok = true;
  uint32_t field = 0;
  uint32_t wire = 0;  // 0: a varint, 2: bytes; others are not read

  // Goes to the next field; false at the end, or where something is wrong.
  bool next() {
    if (!ok || at_ == end_) return false;
    const uint64_t tag = varint(5);
    field = static_cast<uint32_t>(tag >> 3);
    wire = static_cast<uint32_t>(tag & 7);
    ok = ok && tag <= UINT32_MAX && field != 0 && (wire == 0 || wire == 2);
    return ok;
  }

  // A number of at most so many bytes.
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

  // The bytes of a field of wire form 2.
  std::string_view bytes() {
    const uint64_t size = varint();
    if (!ok || size > static_cast<uint64_t>(end_ - at_)) {
      ok = false;
      return {};
    }
    const std::string_view found(reinterpret_cast<const char*>(at_), static_cast<size_t>(size));
    at_ += size;
    return found;
  }

  // The numbers of a repeated field, packed or one by one; `add` is called with each.
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

  // Goes over the value of a field that does not matter.
  void skip() {
    if (wire == 0)
      varint();
    else
      bytes();
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace alance
