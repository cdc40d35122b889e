// Zone maps of a file's columns, collected while the file is written, and their statistics buffer.
// Source: docs/statistics.md.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encode/encode_page.hpp"

namespace alance {

// Adjacent rows, with the least and the greatest of their values that are neither null nor NaN
// (which has no place in an order): numbers as in memory, or the first bytes of texts.
struct Zone {
  int64_t num_rows = 0, nulls = 0, nans = 0;
  bool has_bounds = false;
  std::string low, high;
};

constexpr size_t kTextBytes = 32;  // of a text bound; half of it if bounds do not compress
// Bytes of a text in a zone: the last one shows that the text is cut.
constexpr size_t kHeadBytes = kTextBytes + 1;

// `valid`: a byte a row, or null if all rows are valid.
using ScanNumbers = Zone (*)(const uint8_t* data, const uint8_t* valid, int64_t count);
using IsLess = bool (*)(const std::string& a, const std::string& b);

struct NumberKind {
  std::string_view name;  // one of KINDS in format/statistics.py
  int bits;               // of a stored value
  int width;              // bytes of a bound
  ScanNumbers scan;
  IsLess is_less;
};

// In the order of KINDS; texts follow.
extern const NumberKind kNumberKinds[];
constexpr int kNumNumberKinds = 13;

// Zone of booleans, one bit each.
Zone scan_bits(const uint8_t* data, const uint8_t* valid, int64_t first, int64_t stop);

template <typename Offset>
Zone scan_texts(const Offset* offsets, const uint8_t* data, const uint8_t* end,
                const uint8_t* valid, int64_t first, int64_t stop);

// Zones of one column, to which rows are added in order.
class Zones {
 public:
  // Zones of `zone_rows` rows each. Beyond `max_zones`, pairs of zones are merged: a file's
  // statistics stay small, however many rows it has.
  Zones(uint32_t column, const std::string& kind, int64_t zone_rows, size_t max_zones);

  // Add the next rows; throws if they are not of the zones' kind.
  void add(const pages::Values& values, const uint8_t* valid);

  void widen();  // merges each two zones

  uint32_t column() const { return column_; }
  uint8_t kind() const { return kind_; }
  bool is_text() const { return kind_ == kNumNumberKinds; }
  int64_t zone_rows() const { return zone_rows_; }
  const std::vector<Zone>& all() const { return zones_; }
  Zone whole() const;

 private:
  template <typename Scan>
  void add_rows(int64_t count, Scan scan) {
    int64_t start = 0;
    if (count && !zones_.empty() && zones_.back().num_rows < zone_rows_) {
      start = std::min(count, zone_rows_ - zones_.back().num_rows);
      merge(zones_.back(), scan(0, start));
    }
    for (; start < count; start += zone_rows_)
      zones_.push_back(scan(start, std::min(count, start + zone_rows_)));
    while (zones_.size() > max_zones_) widen();
  }

  void merge(Zone& zone, const Zone& other) const;

  uint32_t column_;
  uint8_t kind_ = kNumNumberKinds;
  int64_t zone_rows_;
  size_t max_zones_;
  std::vector<Zone> zones_;
};

// Statistics buffer; empty if no column has zones. All columns get zones as wide as the widest.
// `compress` is zlib's; it is called for more than one zone of a small file.
std::string statistics_buffer(const std::vector<Zones*>& columns, const pages::Compress& compress);

}  // namespace alance
