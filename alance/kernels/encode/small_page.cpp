// Values and levels of pages from Arrow arrays, with the results of alance/format/encode/leaves.py.
#include "encode/small_page.hpp"

#include "encode/encode.hpp"

namespace alance::small {
namespace {

bool bit_at(const uint8_t* bits, int64_t place) { return bits[place / 8] >> (place % 8) & 1; }

}  // namespace

std::optional<Rows> Rows::of(const ArrowArray& array, const Kind& kind) {
  Rows rows;
  rows.kind_ = kind;
  rows.count_ = array.length;
  if (array.length < 1 || array.dictionary || array.n_children ||
      array.n_buffers != (kind.bits ? 2 : 3) || !array.buffers[1] || !rows.take_validity(array))
    return {};
  if (kind.bits == 0) {
    const bool is_large = kind.offset_bytes == 8;
    if (!(is_large ? rows.take_strings<int64_t>(array) : rows.take_strings<int32_t>(array)))
      return {};
  } else if (kind.bits == 1) {
    rows.take_bits(array);
  } else {
    const int64_t width = kind.bits / 8;
    const auto* content = static_cast<const uint8_t*>(array.buffers[1]);
    rows.data_ = {content + array.offset * width, static_cast<size_t>(rows.count_ * width)};
  }
  return rows;
}

// False if there are nulls in a column without nulls: Python raises the error, which names the
// field.
bool Rows::take_validity(const ArrowArray& array) {
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  if (!bits || array.null_count == 0) return true;
  valid_.resize(static_cast<size_t>(count_));
  int64_t num_valid = 0;
  for (int64_t row = 0; row < count_; ++row)
    num_valid += valid_[static_cast<size_t>(row)] = bit_at(bits, array.offset + row);
  if (num_valid == count_) {
    valid_.clear();
    return true;
  }
  for (const uint8_t valid : valid_) definition_.push_back(!valid);
  return kind_.is_nullable;
}

// Bits that begin on a byte; a copy if those of the array do not.
void Rows::take_bits(const ArrowArray& array) {
  const auto* bits = static_cast<const uint8_t*>(array.buffers[1]);
  const auto num_bytes = static_cast<size_t>(bytes_of_bits(count_));
  if (array.offset % 8 == 0) {
    data_ = {bits + array.offset / 8, num_bytes};
    return;
  }
  own_data_.resize(num_bytes);
  copy_bits(bits, array.offset, count_, own_data_.data());
  data_ = own_data_;
}

// Strings with offsets from 0; strings of nulls become empty.
template <typename Offset>
bool Rows::take_strings(const ArrowArray& array) {
  const auto* content = static_cast<const uint8_t*>(array.buffers[1]);
  content += array.offset * static_cast<int64_t>(sizeof(Offset));
  const auto* data = static_cast<const uint8_t*>(array.buffers[2]);
  const auto num = static_cast<size_t>(count_);
  auto end_at = [&](size_t row) { return load<Offset>(content + row * sizeof(Offset)); };
  const Offset start = end_at(0);
  bool rises = start >= 0, is_clean = true;
  for (size_t row = 0; row < num; ++row) {
    rises &= end_at(row) <= end_at(row + 1);
    is_clean &= valid_.empty() || valid_[row] || end_at(row) == end_at(row + 1);
  }
  if (!rises) return false;
  if (data) data_ = {data + start, static_cast<size_t>(end_at(num) - start)};
  const bool is_aligned = reinterpret_cast<uintptr_t>(content) % alignof(Offset) == 0;
  if (is_clean && is_aligned && start == 0) {
    offsets_ = content;
    return true;
  }
  own_offsets_.resize((num + 1) * sizeof(Offset));
  Offset end = 0;
  for (size_t row = 0; row < num; ++row) {
    if (valid_.empty() || valid_[row]) {
      const Offset first = end_at(row), size = static_cast<Offset>(end_at(row + 1) - first);
      if (!is_clean && size) own_data_.insert(own_data_.end(), data + first, data + first + size);
      end = static_cast<Offset>(end + size);
    }
    store(own_offsets_.data() + (row + 1) * sizeof(Offset), end);
  }
  offsets_ = own_offsets_.data();
  if (!is_clean) data_ = own_data_;
  return true;
}

pages::Values Rows::values() const {
  if (kind_.bits) return {count_, FixedIn{kind_.bits, data_}};
  return {count_, pages::StringsView{kind_.offset_bytes, offsets_, data_}};
}

pages::Input Rows::input(int minor) const {
  pages::Input input;
  input.minor = minor;
  input.levels.layers = {static_cast<uint8_t>(definition_.empty() ? 1 : 3)};  // enum RepDefLayer
  if (!definition_.empty()) input.levels.definition = definition_;
  input.values = values();
  return input;
}

}  // namespace alance::small
