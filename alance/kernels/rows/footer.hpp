// End of a 2.x file: its footer, and the tables of its columns and buffers.
//
//   0  u64  column metadata       24  u32  global buffers
//   8  u64  table of columns      28  u32  columns
//  16  u64  table of buffers      32  u16  major, u16 minor, `LANC`
//
// Source: docs/format/file.md, "Container".
#pragma once
#include "codecs/spans.hpp"

namespace alance {

constexpr uint64_t kFooterBytes = 40;

struct Footer {
  uint64_t metadata, columns, buffers;  // positions in the file
  uint32_t num_buffers, num_columns;
  uint16_t major, minor;

  // From the last bytes of a file; ValueError if they are no footer.
  static Footer read(const uint8_t* tail, size_t size) {
    if (size < kFooterBytes) corrupt("a tail of ", size, " bytes, no footer");
    const uint8_t* at = tail + size - kFooterBytes;
    if (std::memcmp(at + 36, "LANC", 4) != 0) {
      std::string magic;
      for (int i = 36; i < 40; ++i) {
        constexpr char kDigits[] = "0123456789abcdef";
        magic += {kDigits[at[i] >> 4], kDigits[at[i] & 15]};
      }
      corrupt("ends in 0x", magic, ", expected LANC");
    }
    return {load<uint64_t>(at),      load<uint64_t>(at + 8),  load<uint64_t>(at + 16),
            load<uint32_t>(at + 24), load<uint32_t>(at + 28), load<uint16_t>(at + 32),
            load<uint16_t>(at + 34)};
  }

  // Throw ValueError unless its tables can be in a file of `file_bytes` bytes.
  void check(uint64_t file_bytes) const {
    if (file_bytes < kFooterBytes) corrupt("a file of ", file_bytes, " bytes");
    const uint64_t limit = file_bytes - kFooterBytes;
    check_table("column metadata table", columns, num_columns, limit);
    check_table("global buffer table", buffers, num_buffers, limit);
    if (num_buffers == 0) corrupt("no global buffer, the schema is missing");
    if (metadata > columns) corrupt("column metadata at ", metadata, ", their table at ", columns);
  }

  // Call `each(start, stop)` for the parts in a table, in order; ValueError for a part that is not
  // in the file, or at no multiple of `alignment`.
  template <typename Each>
  static void places(const uint8_t* table, uint32_t count, uint64_t file_bytes, uint64_t alignment,
                     const char* what, Each each) {
    const uint64_t limit = file_bytes - kFooterBytes;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t start = load<uint64_t>(table + 16 * i), size = load<uint64_t>(table + 16 * i + 8);
      if (start > limit || size > limit - start || start % alignment)
        corrupt(what, " ", i, ": ", size, " bytes at ", start, ", expected a multiple of ",
                alignment, " and an end at or before ", limit);
      each(static_cast<int64_t>(start), static_cast<int64_t>(start + size));
    }
  }

 private:
  static void check_table(const char* what, uint64_t start, uint32_t count, uint64_t limit) {
    if (start > limit || count > (limit - start) / 16)
      corrupt(what, " of ", count, " entries at ", start, ", the footer is at ", limit);
  }
};

}  // namespace alance
