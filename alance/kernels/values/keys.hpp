// Keys of rows: the bytes of one or several columns. Keys are equal if all columns are equal.
#pragma once
#include <vector>

#include "base/hashes.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {

constexpr int64_t kKeyWord = 8;  // bytes

using hashes::mixed;

// One column: `width` bytes every `stride` bytes; values between offsets if `width` is 0.
struct KeyPart {
  const uint8_t* data = nullptr;
  const int64_t* wide = nullptr;
  const int32_t* narrow = nullptr;
  int64_t width = 0;
  int64_t stride = 0;

  int64_t end(int64_t i) const { return wide ? wide[i] : narrow[i]; }
  const uint8_t* at(int64_t i) const { return data + (width ? i * stride : end(i)); }
  int64_t size(int64_t i) const { return width ? width : end(i + 1) - end(i); }

  bool equal(int64_t i, const KeyPart& other, int64_t j) const {
    const int64_t length = size(i);
    return length == other.size(j) &&
           std::memcmp(at(i), other.at(j), static_cast<size_t>(length)) == 0;
  }

  static uint64_t hash(uint64_t hash, const uint8_t* at, int64_t remaining) {
    for (; remaining >= kKeyWord; remaining -= kKeyWord, at += kKeyWord)
      hash = mixed(hash, load<uint64_t>(at));
    return remaining ? mixed(hash, hashes::last_word(at, remaining)) : hash;
  }

  // Mix the values of some rows into the hashes of their keys.
  void fold(int64_t start, int64_t count, uint64_t* hashes) const {
    switch (width) {
      case 0:
        for (int64_t i = 0; i < count; ++i) {
          const int64_t length = size(start + i);
          hashes[i] = hash(mixed(hashes[i], static_cast<uint64_t>(length)), at(start + i), length);
        }
        break;
      case 1: fold_words<uint8_t>(start, count, hashes); break;
      case 2: fold_words<uint16_t>(start, count, hashes); break;
      case 4: fold_words<uint32_t>(start, count, hashes); break;
      case 8: fold_words<uint64_t>(start, count, hashes); break;
      default:
        for (int64_t i = 0; i < count; ++i) hashes[i] = hash(hashes[i], at(start + i), width);
    }
  }

  // Value as a number; the width is 1, 2, 4 or 8.
  uint64_t word(int64_t i) const {
    switch (width) {
      case 1: return *at(i);
      case 2: return load<uint16_t>(at(i));
      case 4: return load<uint32_t>(at(i));
      default: return load<uint64_t>(at(i));
    }
  }

 private:
  template <typename T>
  void fold_words(int64_t start, int64_t count, uint64_t* hashes) const {
    const uint8_t* from = data + start * stride;
    for (int64_t i = 0; i < count; ++i, from += stride) hashes[i] = mixed(hashes[i], load<T>(from));
  }
};

class Keys {
 public:
  // Values of `width` bytes each.
  Keys(Bytes data, int64_t width) : data_{data} {
    if (width < 1) corrupt("keys of " + std::to_string(width) + " bytes");
    count_ = static_cast<int64_t>(data.size()) / width;
    if (count_ * width != static_cast<int64_t>(data.size()))
      corrupt("keys: " + std::to_string(data.size()) + " bytes, not a multiple of " +
              std::to_string(width));
    parts_.push_back({data.data(), nullptr, nullptr, width, width});
  }

  // Values between offsets.
  Keys(In<int64_t> offsets, Bytes data) : data_{data}, wide_{offsets} {
    check(offsets.data(), offsets.size(), data);
    parts_.push_back({data.data(), offsets.data(), nullptr, 0, 0});
  }
  Keys(In<int32_t> offsets, Bytes data) : data_{data}, narrow_{offsets} {
    check(offsets.data(), offsets.size(), data);
    parts_.push_back({data.data(), nullptr, offsets.data(), 0, 0});
  }

  int64_t count() const { return count_; }
  const std::vector<KeyPart>& parts() const { return parts_; }

  // True if keys are numbers of 1, 2, 4 or 8 bytes.
  bool is_word() const {
    const int64_t width = parts_[0].width;
    return parts_.size() == 1 && (width == 1 || width == 2 || width == 4 || width == 8);
  }

  bool alike(const Keys& other) const {
    bool are_alike = parts_.size() == other.parts_.size();
    for (size_t p = 0; are_alike && p < parts_.size(); ++p)
      are_alike = parts_[p].width == other.parts_[p].width;
    return are_alike;
  }

  bool equal(int64_t i, const Keys& other, int64_t j) const {
    for (size_t p = 0; p < parts_.size(); ++p)
      if (!parts_[p].equal(i, other.parts_[p], j)) return false;
    return true;
  }

  // Columns of other keys, with the same number of rows, side by side.
  static Keys beside(const nb::list& columns) {
    Keys result;
    for (nb::handle column : columns) {
      const Keys& keys = nb::cast<const Keys&>(column);
      if (!result.parts_.empty() && keys.count_ != result.count_)
        corrupt("keys: columns of different lengths");
      result.count_ = keys.count_;
      result.parts_.insert(result.parts_.end(), keys.parts_.begin(), keys.parts_.end());
      result.data_.insert(result.data_.end(), keys.data_.begin(), keys.data_.end());
      result.wide_.insert(result.wide_.end(), keys.wide_.begin(), keys.wide_.end());
      result.narrow_.insert(result.narrow_.end(), keys.narrow_.begin(), keys.narrow_.end());
    }
    if (result.parts_.empty()) corrupt("keys: no columns");
    return result;
  }

  // Columns of a key of `joined_keys`, by their widths; 0 if values vary in size.
  Keys split(const In<int64_t>& widths) const;

 private:
  Keys() = default;

  template <typename T>
  void check(const T* offset, size_t size, const Bytes& data) {
    if (size == 0) corrupt("keys: no offsets");
    count_ = static_cast<int64_t>(size) - 1;
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < count_; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[count_] > static_cast<int64_t>(data.size()))
      corrupt("keys: offsets decrease or leave the buffer");
  }

  std::vector<KeyPart> parts_;
  std::vector<Bytes> data_;  // memory of the parts
  std::vector<In<int64_t>> wide_;
  std::vector<In<int32_t>> narrow_;
  int64_t count_ = 0;
};

}  // namespace alance
