// Writer of the container of a file of 2.0 and later: positions of buffers, and all bytes behind
// the pages. Source: docs/format/file.md, "Container".
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/proto_out.hpp"

namespace alance {

// Little-endian, as everything of a file.
template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint32_t crc_of(std::string_view content);

constexpr size_t ALIGNMENT = 64;  // of every buffer, as readers of 2.1 and later demand

// Bytes of a buffer, and what fills them up to where the next one begins.
inline void append_padded(std::string& out, std::string_view content) {
  out.append(content).append(-content.size() % ALIGNMENT, 0x48);
}

class Container {
 public:
  static constexpr int64_t KEPT = -1;

  struct Version {
    uint16_t major, minor;  // as footers say them
  };

  // Of each column; files of one schema share them.
  using Encodings = std::shared_ptr<const std::vector<std::string>>;

  // Of so many columns as there are encodings; `search_bytes` at most are kept back for the
  // search-cache buffer (docs/search-cache-buffer.md).
  Container(Encodings encodings, Version version, uint64_t search_bytes)
      : encodings_(std::move(encodings)),
        version_(version),
        search_bytes_(search_bytes),
        columns_(encodings_->size()) {}

  // The place of `size` bytes that go next and are filled up to the alignment; none take no space.
  uint64_t place(uint64_t size);

  // Where each buffer of a page begins, or KEPT: readers need these (`search`) before others, and
  // they come with the end.
  std::vector<int64_t> add_page(size_t column, std::string_view url, std::string_view layout,
                                const std::vector<std::string_view>& buffers,
                                const std::vector<size_t>& search, uint64_t num_rows,
                                uint64_t priority);

  // The number of a global buffer, whose bytes go next.
  size_t add_buffer(uint64_t size);

  // All bytes behind those that have a place: search-cache buffer, descriptor, metadata, footer.
  std::string end(std::string_view descriptor);

  uint64_t num_bytes() const { return num_bytes_; }

 private:
  struct Place {
    uint64_t start, size;
  };
  struct Kept {
    size_t number;
    std::string content;
  };
  struct Page {
    std::string encoding;
    uint64_t num_rows, priority;
    std::vector<uint64_t> starts, sizes;
    std::vector<Kept> kept;
    uint64_t kept_bytes = 0;
  };

  std::string end_search();
  static void add_table(std::string& out, const std::vector<Place>& places);
  static ProtoOut message_of(const Page& page);

  Encodings encodings_;
  Version version_;
  uint64_t search_bytes_, kept_bytes_ = 0, num_bytes_ = 0;
  std::vector<std::vector<Page>> columns_;
  std::vector<std::pair<size_t, size_t>> with_kept_;  // column and place of pages, as they came
  std::vector<Place> buffers_{{0, 0}};
};

}  // namespace alance
