// FSST: strings as codes of one byte for symbols of 1 to 8 bytes; 255 escapes the next byte.
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

struct Table {
  uint64_t symbols[256];
  uint64_t lengths[256];

  Table(const In<uint64_t>& symbols_, const Bytes& lengths_) {
    if (symbols_.size() > ESCAPE || symbols_.size() != lengths_.size())
      corrupt("fsst: a table of " + std::to_string(symbols_.size()) + " symbols");
    size_t size = symbols_.size();
    for (size_t code = 0; code < 256; ++code) {
      symbols[code] = code < size ? symbols_.data()[code] : 0;
      lengths[code] = code < size ? lengths_.data()[code] : INVALID;
      if (code < size && (lengths[code] < 1 || lengths[code] > MAX_SYMBOL))
        corrupt("fsst: a symbol of " + std::to_string(lengths[code]) + " bytes");
    }
  }
};

// Bytes that the codes in [code, end) stand for.
uint64_t decoded_size(const Table& table, const uint8_t* code, const uint8_t* end) {
  uint64_t size = 0;
  while (code < end) {
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
    if (*code == ESCAPE) {
      if (end - code < 2) corrupt("fsst: a string ends with an escape");
      size += 1;
      code += 2;
    } else {
      size += table.lengths[*code++];
    }
  }
  return size;
}

// Writes what the codes stand for; may scribble up to 8 bytes behind it.
uint8_t* decode(const Table& table, const uint8_t* code, const uint8_t* end, uint8_t* out) {
  while (code < end) {
    if (end - code >= 8) {
      uint64_t eight = load<uint64_t>(code);
      if (!has_escape(eight)) {
        for (int i = 0; i < 64; i += 8) {
          uint8_t symbol = static_cast<uint8_t>(eight >> i);
          store(out, table.symbols[symbol]);
          out += table.lengths[symbol];
        }
        code += 8;
        continue;
      }
    }
    if (*code == ESCAPE) {
      *out++ = code[1];
      code += 2;
    } else {
      store(out, table.symbols[*code]);
      out += table.lengths[*code++];
    }
  }
  return out;
}

// All strings of a page: sizes first, which checks every code, then the bytes.
template <typename Offset>
nb::tuple decode_strings(In<Offset> offsets, Bytes data, In<uint64_t> symbols, Bytes lengths) {
  auto run = [&] {
    nb::gil_scoped_release release;
    Table table(symbols, lengths);
    if (offsets.size() == 0) corrupt("fsst: no offsets");
    int64_t num_strings = static_cast<int64_t>(offsets.size()) - 1;
    const Offset* offset = offsets.data();
    int64_t num_bytes = static_cast<int64_t>(data.size());
    Owned<Offset> out_offsets(num_strings + 1);
    uint64_t total = 0;
    out_offsets[0] = 0;
    for (int64_t i = 0; i < num_strings; ++i) {
      if (offset[i] < 0 || offset[i + 1] < offset[i] || offset[i + 1] > num_bytes)
        corrupt("fsst: offsets decrease or leave the buffer");
      uint64_t size = decoded_size(table, data.data() + offset[i], data.data() + offset[i + 1]);
      if (size >= INVALID) corrupt("fsst: a code without a symbol");
      total += size;
      if (total > static_cast<uint64_t>(std::numeric_limits<Offset>::max()))
        throw std::overflow_error("fsst: " + std::to_string(total) +
                                  " bytes are too many for the offsets of this type");
      out_offsets[i + 1] = static_cast<Offset>(total);
    }
    Owned<uint8_t> bytes(static_cast<int64_t>(total), MAX_SYMBOL);
    uint8_t* out = bytes.data();
    for (int64_t i = 0; i < num_strings; ++i)
      out = decode(table, data.data() + offset[i], data.data() + offset[i + 1], out);
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
