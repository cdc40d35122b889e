// Zone maps of a file's columns while it is written, and the statistics buffer of them. Source:
// docs/statistics.md.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace alance {

// Neighbouring rows, with the least and the greatest of their values that are neither null nor NaN
// (NaN has no place in an order): numbers as they are in memory, or the first bytes of texts.
struct Zone {
  int64_t num_rows = 0, nulls = 0, nans = 0;
  bool has_bounds = false;
  std::string low, high;
};

constexpr size_t TEXT_BYTES = 32;               // of a bound; 16 where bounds do not compress
constexpr size_t HEAD_BYTES = TEXT_BYTES + 1;   // of a text in a zone: that it is cut has to show

// `valid`: a byte a row, or nothing where all are.
using ScanNumbers = Zone (*)(const uint8_t* data, const uint8_t* valid, int64_t count);
using IsLess = bool (*)(const std::string& a, const std::string& b);

struct NumberKind {
  std::string_view name;  // one of KINDS in format/statistics.py
  int width;              // bytes of a bound; of a value, too, but of a bit
  ScanNumbers scan;
  IsLess is_less;
};

// In the order of KINDS; what comes behind them are texts.
extern const NumberKind NUMBER_KINDS[];
constexpr int NUM_NUMBER_KINDS = 13;

// Booleans, of which each is a bit.
Zone scan_bits(const uint8_t* data, const uint8_t* valid, int64_t first, int64_t stop);

template <typename Offset>
Zone scan_texts(const Offset* offsets, const uint8_t* data, const uint8_t* end,
                const uint8_t* valid, int64_t first, int64_t stop);

// The zones of one column, of which rows are added in order.
class Zones {
 public:
  // Each of `zone_rows` rows. At `max_zones`, pairs become one zone: so a file's statistics are
  // bounded, however many rows it has.
  Zones(uint32_t column, const std::string& kind, int64_t zone_rows, size_t max_zones);

  // Halves are given as floats.
  void add_numbers(const uint8_t* data, int64_t count, const uint8_t* valid);

  void add_bits(const uint8_t* data, int64_t count, const uint8_t* valid) {
    add(count, [&](int64_t first, int64_t stop) { return scan_bits(data, valid, first, stop); });
  }

  // Offsets do not decrease, and end within the data.
  template <typename Offset>
  void add_texts(const Offset* offsets, const uint8_t* data, const uint8_t* end, int64_t count,
                 const uint8_t* valid) {
    add(count, [&](int64_t first, int64_t stop) {
      return scan_texts(offsets, data, end, valid, first, stop);
    });
  }

  void widen();  // each two zones become one

  uint32_t column() const { return column_; }
  uint8_t kind() const { return kind_; }
  bool is_text() const { return kind_ == NUM_NUMBER_KINDS; }
  bool is_bits() const { return kind_ == NUM_NUMBER_KINDS - 1; }
  int width() const { return is_text() ? 1 : NUMBER_KINDS[kind_].width; }
  int64_t zone_rows() const { return zone_rows_; }
  const std::vector<Zone>& all() const { return zones_; }
  Zone whole() const;

 private:
  template <typename Scan>
  void add(int64_t count, Scan scan) {
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
  uint8_t kind_ = NUM_NUMBER_KINDS;
  int64_t zone_rows_;
  size_t max_zones_;
  std::vector<Zone> zones_;
};

using Compress = std::function<std::string(const std::string&)>;

// The statistics buffer; empty where no column has zones. `compress` is zlib's, of what is more
// than the one zone of a small file; zones become as wide as the widest of all columns.
std::string statistics_buffer(const std::vector<Zones*>& columns, const Compress& compress);

}  // namespace alance
