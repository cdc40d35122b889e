// Dictionaries of pages: one block of fixed-width values of whole bytes or of strings, perhaps
// compressed.
//
// Unusual or wrong bytes give None: the caller then decodes step by step, and its error says what
// is wrong.
//
// Source: docs/format/encodings.md, "Dictionary pages".
#include <vector>

#include "codecs/lz4.hpp"
#include "base/bounds.hpp"

namespace alance {
namespace {

constexpr int64_t MAX_ITEMS_BYTES = int64_t{1} << 31;

struct Items {
  std::vector<uint8_t> plain;     // the block, where it was compressed
  const uint8_t* block = nullptr;
  int64_t size = 0;
  int64_t data_start = 0, data_size = 0;  // of the values in the block
};

// A size of four bytes, and one LZ4 block.
bool decompress(const uint8_t* content, int64_t size, Items& found) {
  const int64_t rest = size - 4;
  if (rest < 1) return false;
  const int64_t plain = load<uint32_t>(content);
  if (plain > std::min(MAX_ITEMS_BYTES, rest * lz4::MAX_RATIO + lz4::MAX_EXTRA)) return false;
  found.plain.resize(static_cast<size_t>(plain + lz4::BURST));
  try {
    lz4::decode(content + 4, content + size, found.plain.data(), plain);
  } catch (const std::invalid_argument&) {
    return false;
  }
  found.block = found.plain.data();
  found.size = plain;
  return true;
}

// Bits of an offset, where the bytes begin, offsets that rise from 0, bytes.
template <typename T>
bool find_strings(int64_t count, Items& found) {
  constexpr int64_t word = sizeof(T);
  if (found.size < 1 + 2 * word || count > found.size / word) return false;
  const uint8_t* block = found.block;
  if (block[1] || block[2] || block[3]) return false;  // as early writers made it
  if (load<T>(block) != 8 * word) return false;
  const int64_t stop = 2 * word + word * (count + 1);
  const int64_t bytes_start = static_cast<int64_t>(load<T>(block + word));
  if (bytes_start < stop || bytes_start > found.size) return false;
  T previous = 0;
  for (int64_t i = 0; i <= count; ++i) {
    const T offset = load<T>(block + 2 * word + word * i);
    if (offset < previous || (i == 0 && offset != 0)) return false;
    previous = offset;
  }
  if (static_cast<int64_t>(previous) > found.size - bytes_start) return false;
  found.data_start = bytes_start;
  found.data_size = static_cast<int64_t>(previous);
  return true;
}

bool find(bool strings, int bits, int64_t count, Items& found) {
  if (strings)
    return bits == 32 ? find_strings<int32_t>(count, found) : find_strings<int64_t>(count, found);
  found.data_size = found.size;
  return found.size % (bits / 8) == 0 && found.size / (bits / 8) == count;
}

}  // namespace

// (offsets or None, bytes) of a dictionary; None: it must be decoded with more care.
//
// `bits` are those of a value, or of an offset where they are strings.
nb::object decode_items(Bytes content, bool compressed, bool strings, int bits, int64_t count) {
  if (count < 0 || bits < 8 || bits % 8 || (strings && bits != 32 && bits != 64))
    return nb::none();
  Items found;
  found.block = content.data();
  found.size = static_cast<int64_t>(content.size());
  bool is_good;
  {
    nb::gil_scoped_release release;
    is_good = (!compressed || decompress(content.data(), found.size, found)) &&
              find(strings, bits, count, found);
  }
  if (!is_good) return nb::none();
  // Bytes: arrays of our own would be two objects more that the collector of garbage looks at.
  const auto part = [&](int64_t start, int64_t size) {
    return nb::bytes(found.block + start, static_cast<size_t>(size));
  };
  const nb::bytes data = part(found.data_start, found.data_size);
  const int64_t word = bits / 8;
  if (!strings) return nb::make_tuple(nb::none(), data);
  return nb::make_tuple(part(2 * word, word * (count + 1)), data);
}

}  // namespace alance

void register_items(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_items", &decode_items, nb::arg("content"), nb::arg("compressed"),
        nb::arg("strings"), nb::arg("bits"), nb::arg("count"));
}
