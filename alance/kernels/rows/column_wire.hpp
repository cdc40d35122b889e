// Reader of a column's metadata in wire form (file2.proto, message ColumnMetadata).
//
// Unusual metadata are left to the protobuf parser, which reports the errors. Unusual are: fields
// of another wire type, a second value of a single field, encodings that are not direct, and
// positions outside of the file.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/proto_wire.hpp"

namespace alance {

constexpr int64_t kMaxRows = int64_t{1} << 62;

// Pages of columns, one after the other.
struct PageTable {
  std::vector<int64_t> rows;                         // of each page
  std::vector<int64_t> ends{0};  // buffers before each page, and of all
  std::vector<int64_t> starts, sizes;                // of buffers, in bytes
  std::optional<std::string_view> column_encoding;   // of the column that was read last
  int64_t buffer_bytes = 0;
};

// Reads columns into a table; calls `describe` with the description of each page.
template <typename Describe>
class ColumnWire {
 public:
  ColumnWire(PageTable& table, int64_t file_bytes, int64_t alignment, Describe describe)
      : table_(table),
        limit_(static_cast<uint64_t>(file_bytes)),
        alignment_(static_cast<uint64_t>(alignment)),
        describe_(describe) {}

  // Add the pages of a column; false if it is unusual, and the table is of no use then.
  bool read(std::string_view content) {
    ProtoWire message(content);
    table_.column_encoding.reset();
    int64_t num_rows = 0;
    while (message.next()) {
      switch (message.field) {
        case kColumnEncoding:
          if (table_.column_encoding || !direct(message, table_.column_encoding)) return false;
          break;
        case kColumnPages:
          if (message.wire != 2 || !page(message.bytes(), num_rows)) return false;
          break;
        case kColumnOffsets:
        case kColumnSizes: message.numbers([](uint64_t) {}); break;
        default: message.skip();
      }
    }
    return message.ok;
  }

 private:
  static constexpr int kColumnEncoding = 1, kColumnPages = 2, kColumnOffsets = 3, kColumnSizes = 4;
  static constexpr int kPageOffsets = 1, kPageSizes = 2, kPageLength = 3, kPageEncoding = 4,
                       kPagePriority = 5;

  // Content of an encoding that is direct and nothing else.
  static bool direct(ProtoWire& message, std::optional<std::string_view>& content) {
    if (message.wire != 2) return false;
    ProtoWire outer(message.bytes());
    if (!message.ok || !outer.next() || outer.field != 2 || outer.wire != 2) return false;
    ProtoWire inner(outer.bytes());
    if (!outer.ok || !outer.done()) return false;
    content.emplace();
    if (inner.done()) return true;
    if (!inner.next() || inner.field != 1 || inner.wire != 2) return false;
    content = inner.bytes();
    return inner.ok && inner.done();
  }

  bool page(std::string_view content, int64_t& num_rows) {
    ProtoWire message(content);
    std::optional<std::string_view> encoding;
    uint64_t length = 0;
    // Numbers that are no position in a file are refused below: they are negative, or too large.
    std::vector<int64_t>&starts = table_.starts, &sizes = table_.sizes;
    const size_t first = starts.size();
    while (message.next()) {
      switch (message.field) {
        case kPageOffsets:
          message.numbers([&](uint64_t value) { starts.push_back(static_cast<int64_t>(value)); });
          break;
        case kPageSizes:
          message.numbers([&](uint64_t value) { sizes.push_back(static_cast<int64_t>(value)); });
          break;
        case kPageLength:
        case kPagePriority: {
          if (message.wire != 0) return false;
          const uint64_t value = message.varint();
          if (message.field == kPageLength) length = value;
          break;
        }
        case kPageEncoding:
          if (encoding || !direct(message, encoding)) return false;
          break;
        default: message.skip();
      }
    }
    if (!message.ok || !encoding || starts.size() != sizes.size()) return false;
    for (size_t i = first; i < starts.size(); ++i) {
      const uint64_t start = static_cast<uint64_t>(starts[i]);
      const uint64_t size = static_cast<uint64_t>(sizes[i]);
      if (start > limit_ || size > limit_ - start || start % alignment_) return false;
      table_.buffer_bytes += static_cast<int64_t>(size);
      if (table_.buffer_bytes >= kMaxRows) return false;
    }
    if (length >= static_cast<uint64_t>(kMaxRows - num_rows)) return false;
    num_rows += static_cast<int64_t>(length);
    table_.rows.push_back(static_cast<int64_t>(length));
    table_.ends.push_back(static_cast<int64_t>(starts.size()));
    describe_(*encoding);
    return true;
  }

  PageTable& table_;
  const uint64_t limit_, alignment_;
  Describe describe_;
};

constexpr std::string_view kColumnEncoding = "/lance.encodings.ColumnEncoding";

// Takes a field of a message that has a tag and a length of one byte each.
inline bool take_field(std::string_view& message, char tag, std::string_view& content) {
  if (message.size() < 2 || message[0] != tag || static_cast<uint8_t>(message[1]) >= 0x80) return false;
  content = message.substr(2, static_cast<uint8_t>(message[1]));
  if (content.size() != static_cast<uint8_t>(message[1])) return false;
  message.remove_prefix(2 + content.size());
  return true;
}

// True if a google.protobuf.Any, with its type URL and then maybe its value, is the encoding of a
// column.
inline bool is_column_encoding(std::string_view any) {
  std::string_view url, value;
  if (!take_field(any, '\x0a', url) || !url.ends_with(kColumnEncoding)) return false;
  return any.empty() || (take_field(any, '\x12', value) && any.empty());
}

}  // namespace alance
