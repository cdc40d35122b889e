// Dictionaries of pages: one block of values of whole bytes or of strings, compressed by LZ4 or
// not.
//
// Unusual and damaged blocks are refused: the caller then decodes step by step and names the fault.
#pragma once
#include <vector>

#include "base/bounds.hpp"
#include "codecs/lz4.hpp"

namespace alance {

// Form of the items: `bits` of a value, or of an offset of strings.
struct ItemsForm {
  bool compressed, strings;
  int bits;
  int64_t count;

  bool is_known() const {
    return count >= 0 && bits >= 8 && bits % 8 == 0 && (!strings || bits == 32 || bits == 64);
  }
};

struct ItemBlock {
  std::vector<uint8_t> plain;  // the block, unless it lies in the file's bytes
  const uint8_t* block = nullptr;
  int64_t size = 0;
  int64_t offsets_start = 0;  // of strings, in the block
  int64_t data_start = 0, data_size = 0;  // of the values, in the block
  ItemsForm form{};

  // Copy the block, unless it is a copy already.
  void keep() {
    if (!plain.empty() || size == 0) return;
    plain.assign(block, block + size);
    block = plain.data();
  }

  bool find(const uint8_t* content, int64_t num_bytes, const ItemsForm& of) {
    form = of;
    block = content;
    size = num_bytes;
    if (!form.is_known() || (form.compressed && !decompress(content, num_bytes))) return false;
    if (form.strings) return form.bits == 32 ? find_strings<int32_t>() : find_strings<int64_t>();
    data_size = size;
    return size % (form.bits / 8) == 0 && size / (form.bits / 8) == form.count;
  }

 private:
  static constexpr int64_t kMostBytes = int64_t{1} << 31;

  // Unit of a 4-byte size and one LZ4 block.
  bool decompress(const uint8_t* content, int64_t num_bytes) {
    const int64_t rest = num_bytes - 4;
    if (rest < 1) return false;
    const int64_t decoded = load<uint32_t>(content);
    if (decoded > std::min(kMostBytes, rest * lz4::kMaxRatio + lz4::kMaxExtra)) return false;
    plain.resize(static_cast<size_t>(decoded + lz4::kBurst));
    try {
      lz4::decode(content + 4, content + num_bytes, plain.data(), decoded);
    } catch (const std::invalid_argument&) {
      return false;
    }
    block = plain.data();
    size = decoded;
    return true;
  }

  // Block of strings: bits of an offset, start of the bytes, offsets ascending from 0, bytes.
  template <typename T>
  bool find_strings() {
    constexpr int64_t kWord = sizeof(T);
    const int64_t count = form.count;
    if (size < 1 + 2 * kWord || count > size / kWord) return false;
    if (block[1] || block[2] || block[3]) return false;  // layout of early writers
    if (load<T>(block) != 8 * kWord) return false;
    const int64_t stop = 2 * kWord + kWord * (count + 1);
    const int64_t bytes_start = static_cast<int64_t>(load<T>(block + kWord));
    if (bytes_start < stop || bytes_start > size) return false;
    T previous = 0;
    for (int64_t i = 0; i <= count; ++i) {
      const T offset = load<T>(block + 2 * kWord + kWord * i);
      if (offset < previous || (i == 0 && offset != 0)) return false;
      previous = offset;
    }
    if (static_cast<int64_t>(previous) > size - bytes_start) return false;
    offsets_start = 2 * kWord;
    data_start = bytes_start;
    data_size = static_cast<int64_t>(previous);
    return true;
  }
};

}  // namespace alance
