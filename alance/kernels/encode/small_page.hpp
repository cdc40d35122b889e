// Input of a page from the Arrow array of a column without lists and structs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/arrow_c.hpp"
#include "encode/encode_page.hpp"
#include "encode/zones.hpp"

namespace alance::small {

// Kind of a column, from its field.
struct Kind {
  int bits;  // of a value; 0: byte strings
  int offset_bytes;   // of byte strings: 4 or 8
  std::string zones;  // kind of its bounds in statistics; empty: none
  bool is_nullable;
};

// Rows of one column: views of its array, or copies of the parts that pages need in another form.
class Rows {
 public:
  Rows(const Rows&) = delete;  // views point into own memory, which moves along
  Rows(Rows&&) = default;

  // Nothing if the column is not plain, or has nulls that its field excludes.
  static std::optional<Rows> of(const ArrowArray& array, const Kind& kind);

  // Input for a file of version 2.`minor`; valid as long as this and the array.
  pages::Input input(int minor) const;

  void add_to(Zones& zones) const { zones.add(values(), valid_.empty() ? nullptr : valid_.data()); }

  int64_t count() const { return count_; }

  // Bytes of values and levels.
  int64_t num_bytes() const {
    return static_cast<int64_t>(data_.size() + 2 * definition_.size()) +
           (kind_.bits ? 0 : kind_.offset_bytes * (count_ + 1));
  }

 private:
  Rows() = default;
  pages::Values values() const;
  bool take_validity(const ArrowArray& array);
  void take_bits(const ArrowArray& array);
  template <typename Offset>
  bool take_strings(const ArrowArray& array);

  Kind kind_;
  int64_t count_ = 0;
  std::vector<uint8_t> valid_;  // a byte a row; empty: all are valid
  std::vector<uint16_t> definition_;
  View data_;
  const void* offsets_ = nullptr;
  std::vector<uint8_t> own_data_, own_offsets_;
};

}  // namespace alance::small
