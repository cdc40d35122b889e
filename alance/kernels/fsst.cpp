// FSST: strings as codes of one byte for symbols of 1 to 8 bytes; 255 escapes the next byte.
#include <algorithm>
#include <limits>

#include "bounds.hpp"
#include "owned.hpp"
#include "spans.hpp"

namespace alance {
namespace {

constexpr uint8_t ESCAPE = 255;
constexpr int64_t MAX_SYMBOL = 8;
constexpr uint64_t INVALID = uint64_t{1} << 56;  // "length" of a code without symbol: any sum shows it

// Whether one of the eight codes is the escape: complemented, it is a zero byte.
inline bool has_escape(uint64_t codes) {
  uint64_t flipped = ~codes;
  return ((flipped - 0x0101010101010101u) & ~flipped & 0x8080808080808080u) != 0;
}

// The first `count` (0 to 8) of eight codes, and `filler` for the others.
inline uint64_t keep(uint64_t eight, int64_t count, uint8_t filler) {
  uint64_t behind = count < 8 ? ~uint64_t{0} << (8 * count) : 0;
  return (eight & ~behind) | (behind & (filler * 0x0101010101010101u));
}

struct Table {
  uint64_t symbols[256] = {};
  uint64_t lengths[256];  // of ESCAPE 0: it fills up words, its real meaning is looked for before

  Table(const In<uint64_t>& symbols_, const Bytes& lengths_) {
    size_t size = symbols_.size();
    if (size > ESCAPE || size != lengths_.size())
      corrupt("fsst: a table of " + std::to_string(size) + " symbols");
    std::fill(std::begin(lengths), std::end(lengths), INVALID);
    std::copy_n(symbols_.data(), size, symbols);
    std::copy_n(lengths_.data(), size, lengths);
    lengths[ESCAPE] = 0;
    for (size_t code = 0; code < size; ++code)
      if (lengths[code] < 1 || lengths[code] > MAX_SYMBOL)
        corrupt("fsst: a symbol of " + std::to_string(lengths[code]) + " bytes");
  }
};

// Bytes that the codes in [code, end) stand for, as one stream.
uint64_t decoded_size(const Table& table, const uint8_t* code, const uint8_t* end) {
  uint64_t size = 0;
  while (code < end && size < INVALID) {
    if (end - code >= 8) {
      uint64_t eight = load<uint64_t>(code);
      if (!has_escape(eight)) {
        uint64_t even = 0, odd = 0;
        for (int i = 0; i < 64; i += 16) {
          even += table.lengths[(eight >> i) & 255];
          odd += table.lengths[(eight >> (i + 8)) & 255];
        }
        size += even + odd;
        code += 8;
        continue;
      }
    }
    bool escaped = *code == ESCAPE;
    size += escaped ? 1 : table.lengths[*code];
    code += escaped ? 2 : 1;
  }
  return size;
}

// Writes what the codes of one string stand for; may scribble MAX_SYMBOL bytes behind it. Codes can
// be read up to `data_end`.
uint8_t* decode(const Table& table, const uint8_t* code, const uint8_t* end,
                const uint8_t* data_end, uint8_t* out) {
  while (code < end) {
    if (data_end - code >= 8) {
      // The end of the string inside the eight costs stores, not a branch that is guessed wrong.
      int64_t count = std::min<int64_t>(end - code, 8);
      uint64_t eight = load<uint64_t>(code);
      if (!has_escape(keep(eight, count, 0))) {
        eight = keep(eight, count, ESCAPE);
        for (int i = 0; i < 64; i += 8) {
          uint8_t symbol = static_cast<uint8_t>(eight >> i);
          store(out, table.symbols[symbol]);
          out += table.lengths[symbol];
        }
        code += count;
        continue;
      }
    }
    if (*code == ESCAPE) {
      if (end - code < 2) corrupt("fsst: a string ends with an escape");
      *out++ = code[1];
      code += 2;
    } else {
      store(out, table.symbols[*code]);
      out += table.lengths[*code++];
    }
  }
  return out;
}

// All strings of a page. The first pass sizes the whole stream and sees codes without symbol. The
// second writes strings and offsets: it parses the same stream, up to an escape at the end of a
// string, where it stops, so it writes no more than the first pass has counted.
template <typename Offset>
nb::tuple decode_strings(In<Offset> offsets, Bytes data, In<uint64_t> symbols, Bytes lengths) {
  auto run = [&] {
    nb::gil_scoped_release release;
    Table table(symbols, lengths);
    if (offsets.size() == 0) corrupt("fsst: no offsets");
    const int64_t num_strings = static_cast<int64_t>(offsets.size()) - 1;
    const Offset* offset = offsets.data();
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < num_strings; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[num_strings] > static_cast<int64_t>(data.size()))
      corrupt("fsst: offsets decrease or leave the buffer");
    const uint8_t* const end = data.data() + offset[num_strings];
    uint64_t total = decoded_size(table, data.data() + offset[0], end);
    if (total >= INVALID) corrupt("fsst: a code without a symbol");
    if (total > static_cast<uint64_t>(std::numeric_limits<Offset>::max()))
      throw std::overflow_error("fsst: " + std::to_string(total) +
                                " bytes are too many for the offsets of this type");
    Owned<Offset> out_offsets(num_strings + 1);
    Owned<uint8_t> bytes(static_cast<int64_t>(total), MAX_SYMBOL);
    uint8_t* out = bytes.data();
    out_offsets[0] = 0;
    for (int64_t i = 0; i < num_strings; ++i) {
      out = decode(table, data.data() + offset[i], data.data() + offset[i + 1], end, out);
      out_offsets[i + 1] = static_cast<Offset>(out - bytes.data());
    }
    return std::make_pair(std::move(out_offsets), std::move(bytes));
  };
  auto strings = run();
  return nb::make_tuple(strings.first.numpy(), strings.second.numpy());
}

}  // namespace
}  // namespace alance

void register_fsst(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_fsst", &decode_strings<int32_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("symbols"), nb::arg("lengths"));
  m.def("decode_fsst", &decode_strings<int64_t>, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("symbols"), nb::arg("lengths"));
}
