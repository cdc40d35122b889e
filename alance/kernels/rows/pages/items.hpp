// Dictionaries of pages: a block of values of whole bytes or of strings, perhaps compressed as a whole.
// format/codecs/strings.py has the format of strings. Items of other encodings are decoded to such a
// block first (`WordCoding`).
#pragma once
#include <string_view>
#include <vector>

#include "rows/pages/units.hpp"

namespace alance {

// Form of the items. `bits`: bits of a value, or of an offset of strings; `scheme`: compression of the
// block (units.hpp), or 0.
struct ItemsForm {
  bool strings;
  int bits;
  int64_t count;
  int scheme = 0;

  bool is_known() const {
    if (count < 0 || scheme < 0 || scheme > units::kZstd) return false;
    return strings ? bits == 32 || bits == 64 : bits >= 8 && bits % 8 == 0;
  }
};

// Items of a page, in memory of their own. Strings have offsets that ascend to at most the end of the bytes.
class Items {
 public:
  // ValueError: the bytes contradict the form.
  Items(cells::Part content, const ItemsForm& form) : form_(form) {
    if (!form.is_known()) corrupt("a dictionary of an unknown form");
    const int64_t size = form.scheme == 0
                             ? content.size
                             : units::decompressed(form.scheme, content, units::kMostUnit, block_).size;
    if (form.scheme == 0) block_.assign(content.data, content.data + size);
    if (form.strings) {
      form.bits == 32 ? find_strings<int32_t>(size) : find_strings<int64_t>(size);
      return;
    }
    if (size % width() || size / width() != form.count)
      corrupt("flat: ", size, " bytes for ", form.count, " items of ", form.bits, " bits");
    num_bytes_ = size;
  }

  // A single string.
  template <typename Offset>
  static Items of_string(cells::Part string) {
    Items own;
    own.form_ = {true, 8 * sizeof(Offset), 1};
    const Offset ends[] = {0, static_cast<Offset>(string.size)};
    own.block_.resize(sizeof(ends));
    std::memcpy(own.block_.data(), ends, sizeof(ends));
    own.block_.insert(own.block_.end(), string.data, string.data + string.size);
    own.start_ = sizeof(ends);
    own.num_bytes_ = string.size;
    return own;
  }

  bool are_strings() const { return form_.strings; }
  int64_t width() const { return form_.bits / 8; }  // of a value
  int64_t count() const { return form_.count; }
  const uint8_t* values() const { return block_.data() + start_; }
  int64_t num_bytes() const { return num_bytes_; }
  size_t memory() const { return sizeof(*this) + block_.capacity(); }
  // Result of `work` for the offsets of strings.
  template <typename Work>
  auto with_offsets(const Work& work) const {
    const uint8_t* offsets = block_.data() + offsets_start_;  // aligned
    return form_.bits == 64 ? work(reinterpret_cast<const int64_t*>(offsets))
                            : work(reinterpret_cast<const int32_t*>(offsets));
  }
  // Item `index`, which is below `count()`.
  std::string_view operator[](uint64_t index) const {
    const auto part = [this](int64_t start, int64_t end) {
      return std::string_view(reinterpret_cast<const char*>(values()) + start, static_cast<size_t>(end - start));
    };
    const auto i = static_cast<int64_t>(index);
    if (!form_.strings) return part(i * width(), (i + 1) * width());
    return with_offsets([=](const auto* offsets) { return part(offsets[i], offsets[i + 1]); });
  }

 private:
  Items() = default;

  // Block of strings: bits of an offset, start of the bytes, offsets ascending from 0, bytes. Early
  // writers began with one byte for the bits of an offset, then the number of values.
  template <typename T>
  void find_strings(int64_t size) {
    constexpr int64_t kWord = sizeof(T);
    const uint8_t* const block = block_.data();
    const int64_t count = form_.count;
    if (size < 1 + 2 * kWord) corrupt("variable: a block of ", size, " bytes");
    const bool is_early = block[1] || block[2] || block[3];
    const auto first = static_cast<int64_t>(is_early ? T{block[0]} : load<T>(block));
    if (first != 8 * kWord)
      corrupt("variable: a block with offsets of ", first, " bits, described are ", 8 * kWord);
    const auto stated = static_cast<int64_t>(is_early ? load<T>(block + 1) : static_cast<T>(count));
    if (is_early && stated != count)
      corrupt("variable: a block of ", stated, " values, not ", count);
    const int64_t offsets = 2 * kWord + is_early;
    const auto bytes = static_cast<int64_t>(load<T>(block + offsets - kWord));
    if (count > size / kWord || bytes < offsets + kWord * (count + 1) || bytes > size)
      corrupt("variable: ", count, " values whose bytes begin at ", bytes, " of ", size, " bytes");
    T previous = 0;
    for (int64_t i = 0; i <= count; ++i) {
      const T offset = load<T>(block + offsets + kWord * i);
      if (offset < previous || (i == 0 && offset != 0)) corrupt("variable: offsets of a block do not rise from 0");
      previous = offset;
    }
    if (static_cast<int64_t>(previous) > size - bytes)
      corrupt("variable: offsets to ", previous, " in ", size - bytes, " bytes");
    offsets_start_ = offsets;
    start_ = bytes;
    num_bytes_ = static_cast<int64_t>(previous);
    if (!is_early) return;
    block_.erase(block_.begin(), block_.begin() + offsets);  // so that the offsets are aligned
    offsets_start_ = 0;
    start_ -= offsets;
  }

  ItemsForm form_{};
  std::vector<uint8_t> block_;
  int64_t offsets_start_ = 0, start_ = 0, num_bytes_ = 0;  // of strings' offsets and of the values in the block
};

}  // namespace alance
