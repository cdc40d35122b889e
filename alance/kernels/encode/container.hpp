// Writer of the container of a file of 2.0 and later: positions of buffers, and all bytes behind
// the pages. Source: docs/format/file.md, "Container".
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hashes.hpp"
#include "base/proto_out.hpp"

namespace alance {

// Append a value, little-endian as everything in a file.
template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// CRC-32 (IEEE 802.3), as in zlib.
inline uint32_t crc_of(std::string_view content) { return hashes::crc<0xEDB88320>(content); }

constexpr size_t kAlignment = 64;  // bytes, of every buffer: readers of 2.1 and later require it

// Append a buffer and its padding.
inline void append_padded(std::string& out, std::string_view content) {
  out.append(content).append(-content.size() % kAlignment, 0x48);
}

class Container {
 public:
  static constexpr int64_t kDeferred = -1;  // position of a buffer that is written at the end

  struct Version {
    uint16_t major, minor;  // as in footers
  };

  // Encoding of each column; files of one schema share the vector.
  using Encodings = std::shared_ptr<const std::vector<std::string>>;

  // As many columns as encodings. At most `search_bytes` are held back for the search-cache buffer
  // (docs/search-cache-buffer.md).
  Container(Encodings encodings, Version version, uint64_t search_bytes)
      : encodings_(std::move(encodings)),
        version_(version),
        search_bytes_(search_bytes),
        columns_(encodings_->size()) {}

  // Position of the next `size` bytes, which are padded to the alignment; 0 bytes take no space.
  uint64_t place(uint64_t size);

  // Position of each buffer of a page, kDeferred for the small ones in `search`: readers need those
  // before all others, so they are written together at the end.
  std::vector<int64_t> add_page(size_t column, std::string_view url, std::string_view layout,
                                const std::vector<std::string_view>& buffers,
                                const std::vector<size_t>& search, uint64_t num_rows,
                                uint64_t priority);

  // Number of a global buffer whose `size` bytes come next.
  size_t add_buffer(uint64_t size);

  // All bytes behind the placed ones: search-cache buffer, descriptor, metadata, tables, footer.
  std::string end(std::string_view descriptor);

  uint64_t num_bytes() const { return num_bytes_; }

 private:
  struct Place {
    uint64_t start, size;
  };
  struct Deferred {
    size_t number;
    std::string content;
  };
  struct Page {
    std::string encoding;
    uint64_t num_rows, priority;
    std::vector<uint64_t> starts, sizes;
    std::vector<Deferred> deferred;
    uint64_t deferred_bytes = 0;
  };

  std::string end_search();
  static void add_table(std::string& out, const std::vector<Place>& places);
  static ProtoOut message_of(const Page& page);

  Encodings encodings_;
  Version version_;
  uint64_t search_bytes_, deferred_bytes_ = 0, num_bytes_ = 0;
  std::vector<std::vector<Page>> columns_;
  // Column and number of each page with deferred buffers.
  std::vector<std::pair<size_t, size_t>> deferring_;
  std::vector<Place> buffers_{{0, 0}};
};

}  // namespace alance
