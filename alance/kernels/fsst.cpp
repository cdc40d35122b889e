// FSST: strings as codes of one byte for symbols of 1 to 8 bytes; 255 escapes the next byte.
#include <limits>

#include "fsst.hpp"
#include "owned.hpp"

namespace alance {
namespace {

using namespace fsst;

constexpr int64_t kBlock = 2048;        // codes between two looks at the room that is left
constexpr int64_t kSample = 64 << 10;   // codes that tell how long all of them get
constexpr uint32_t kInside = UINT32_MAX;  // a place inside an escape: no string may begin there

// Whether one of eight codes is the escape or has no symbol: is at least `count`.
class Special {
 public:
  explicit Special(uint64_t count)
      : add_((0x80 - (count & 0x7F)) * kOnes), high_(count >= 0x80) {}

  bool in(uint64_t eight) const {
    const uint64_t above = (eight & (0x7F * kOnes)) + add_;
    return ((high_ ? above & eight : above | eight) & (0x80 * kOnes)) != 0;
  }

 private:
  static constexpr uint64_t kOnes = 0x0101010101010101u;
  uint64_t add_;
  bool high_;
};

// Bytes for what codes stand for: guessed by the first of them, counted where that is too little.
class Room {
 public:
  Room(const Table& table, const uint8_t* begin, const uint8_t* end, uint64_t limit)
      : table_(table), end_(end), limit_(limit), bytes_(0) {
    const int64_t count = end - begin;
    is_exact_ = count <= kSample;
    uint64_t size = counted(begin, is_exact_ ? end : begin + kSample);
    if (!is_exact_) {
      size = static_cast<uint64_t>(1.03 * static_cast<double>(size) / kSample *
                                   static_cast<double>(count)) + (kBlock + 8) * MAX_SYMBOL;
      if (size > limit_) {
        is_exact_ = true;
        size = counted(begin, end);
      }
    }
    bytes_ = make(size);
  }

  // Where to write on; there is room for what `kBlock` codes from `code` stand for.
  uint8_t* need(const uint8_t* code, uint8_t* out) {
    const int64_t used = out - bytes_.data();
    if (is_exact_ || bytes_.size() - used >= (kBlock + 8) * MAX_SYMBOL) return out;
    is_exact_ = true;
    Owned<uint8_t> larger = make(static_cast<uint64_t>(used) + counted(code, end_));
    std::memcpy(larger.data(), bytes_.data(), static_cast<size_t>(used));
    bytes_ = std::move(larger);
    return bytes_.data() + used;
  }

  uint8_t* begin() { return bytes_.data(); }

  Owned<uint8_t> take() { return std::move(bytes_); }

 private:
  uint64_t counted(const uint8_t* code, const uint8_t* end) const {
    const uint64_t size = decoded_size(table_, code, end);
    if (size >= INVALID) corrupt("fsst: a code without a symbol");
    return size;
  }

  Owned<uint8_t> make(uint64_t size) const {
    if (size > limit_)
      throw std::overflow_error("fsst: " + std::to_string(size) +
                                " bytes are too many for the offsets of this type");
    return Owned<uint8_t>(static_cast<int64_t>(size), MAX_SYMBOL);
  }

  const Table& table_;
  const uint8_t* end_;
  uint64_t limit_;
  Owned<uint8_t> bytes_;
  bool is_exact_ = false;
};

// All strings of a page as one stream of codes: where strings end is no branch of the loop, their
// offsets are looked up in the places that codes were written to.
template <typename Offset>
nb::tuple decode_strings(In<Offset> offsets, Bytes data, In<uint64_t> symbols, Bytes lengths) {
  auto run = [&] {
    nb::gil_scoped_release release;
    const Table table(symbols, lengths);
    const Special special(symbols.size());
    if (offsets.size() == 0) corrupt("fsst: no offsets");
    const int64_t num_strings = static_cast<int64_t>(offsets.size()) - 1;
    const Offset* offset = offsets.data();
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < num_strings; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[num_strings] > static_cast<int64_t>(data.size()))
      corrupt("fsst: offsets decrease or leave the buffer");
    const uint8_t* const end = data.data() + offset[num_strings];
    const uint8_t* code = data.data() + offset[0];
    constexpr auto limit = static_cast<uint64_t>(std::numeric_limits<Offset>::max());
    Room room(table, code, end, limit);
    Owned<Offset> out_offsets(num_strings + 1);
    uint8_t* out = room.begin();
    uint32_t places[kBlock + 8];  // of the codes of a block, from its first byte
    int64_t next = 0;             // string whose offset is looked for
    while (code < end) {
      out = room.need(code, out);
      const uint8_t* const block = code;
      uint8_t* const first = out;
      const uint8_t* const stop = code + std::min<int64_t>(kBlock, end - code);
      while (code < stop) {
        uint32_t* place = places + (code - block);
        if (end - code >= 8) {
          const uint64_t eight = load<uint64_t>(code);
          if (!special.in(eight)) {
            for (int i = 0; i < 8; ++i) {
              const uint8_t symbol = static_cast<uint8_t>(eight >> (8 * i));
              place[i] = static_cast<uint32_t>(out - first);
              store(out, table.symbols[symbol]);
              out += table.lengths[symbol];
            }
            code += 8;
            continue;
          }
        }
        *place = static_cast<uint32_t>(out - first);
        if (*code == ESCAPE) {
          if (end - code < 2) corrupt("fsst: a string ends with an escape");
          place[1] = kInside;
          *out++ = code[1];
          code += 2;
        } else {
          if (table.lengths[*code] >= INVALID) corrupt("fsst: a code without a symbol");
          store(out, table.symbols[*code]);
          out += table.lengths[*code++];
        }
      }
      const int64_t before = first - room.begin();
      if (static_cast<uint64_t>(out - room.begin()) > limit)
        throw std::overflow_error("fsst: the bytes are too many for the offsets of this type");
      for (; next < num_strings && data.data() + offset[next] < code; ++next) {
        const uint32_t place = places[data.data() + offset[next] - block];
        if (place == kInside) corrupt("fsst: a string ends with an escape");
        out_offsets[next] = static_cast<Offset>(before + place);
      }
    }
    for (; next <= num_strings; ++next) out_offsets[next] = static_cast<Offset>(out - room.begin());
    const int64_t size = out - room.begin();
    return std::make_tuple(std::move(out_offsets), room.take(), size);
  };
  auto [found, bytes, size] = run();
  return nb::make_tuple(found.numpy(), bytes.numpy(size));
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
