// Dictionaries of pages: a block of values of whole bytes or of strings, perhaps compressed as a whole.
// format/codecs/strings.py has the format of strings. Items of other encodings are decoded to such a
// block first (`WordCoding`).
#pragma once
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

struct ItemBlock {
  std::vector<uint8_t> plain;  // the block, unless it lies in the file's bytes
  const uint8_t* block = nullptr;
  int64_t size = 0;
  int64_t offsets_start = 0;  // position of the strings' offsets in the block
  int64_t data_start = 0, data_size = 0;  // position and bytes of the values in the block
  ItemsForm form{};

  // Copy the block, unless it is a copy already.
  void keep() {
    if (!plain.empty() || size == 0) return;
    plain.assign(block, block + size);
    block = plain.data();
  }

  // Find the items in a block. ValueError: the bytes contradict the form.
  void find(cells::Part content, const ItemsForm& of) {
    form = of;
    block = content.data;
    size = content.size;
    if (!form.is_known()) corrupt("a dictionary of an unknown form");
    if (form.scheme != 0) decompress(content);
    if (form.strings) return form.bits == 32 ? find_strings<int32_t>() : find_strings<int64_t>();
    const int64_t width = form.bits / 8;
    if (size % width || size / width != form.count)
      corrupt("flat: ", size, " bytes for ", form.count, " items of ", form.bits, " bits");
    data_size = size;
  }

 private:
  static std::string text(int64_t number) { return std::to_string(number); }

  void own(std::vector<uint8_t> bytes, int64_t num_bytes) {
    plain = std::move(bytes);
    block = plain.data();
    size = num_bytes;
  }

  void decompress(cells::Part content) {
    const cells::Part own = units::decompressed(form.scheme, content, units::kMostUnit, plain);
    block = own.data;
    size = own.size;
  }

  // Block of strings: bits of an offset, start of the bytes, offsets ascending from 0, bytes. Early
  // writers began with one byte for the bits of an offset, then the number of values.
  template <typename T>
  void find_strings() {
    constexpr int64_t kWord = sizeof(T);
    const int64_t count = form.count;
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
    offsets_start = offsets;
    data_start = bytes;
    data_size = static_cast<int64_t>(previous);
    if (is_early) align(kWord * (count + 1));
  }

  // Copy offsets that begin at any byte, and the strings behind them.
  void align(int64_t offsets_size) {
    std::vector<uint8_t> bytes(static_cast<size_t>(offsets_size + data_size));
    std::memcpy(bytes.data(), block + offsets_start, static_cast<size_t>(offsets_size));
    if (data_size) std::memcpy(bytes.data() + offsets_size, block + data_start, static_cast<size_t>(data_size));
    own(std::move(bytes), offsets_size + data_size);
    offsets_start = 0;
    data_start = offsets_size;
  }
};

}  // namespace alance
