// FSST decoding: each code of one byte stands for a symbol of 1 to 8 bytes; 255 escapes the next
// byte.
//
// Source: P. Boncz, T. Neumann, V. Leis, "FSST: Fast Random Access String Compression", PVLDB 13,
// 2020; docs/format/encodings.md, "Fsst".
#include <bit>
#include <limits>
#include <vector>

#include "base/ends.hpp"
#include "codecs/fsst_streams.hpp"

namespace alance {
namespace {

using namespace fsst;

constexpr int64_t kBlockCodes = 2048;  // codes between two checks of the remaining room
constexpr int64_t kSampleCodes = 16 << 10;  // codes from which the decoded size is estimated
constexpr uint32_t kInside = UINT32_MAX;  // place inside an escape, where no string may begin

// Low half of an address: enough for differences within a block, which is shorter than 4 GiB.
inline uint32_t low(const uint8_t* place) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place));
}

// Search of eight codes for the escape and for codes without a symbol: those of `count` or more.
class Special {
 public:
  explicit Special(uint64_t count)
      : add_((0x80 - (count & 0x7F)) * kOnes), high_(count >= 0x80) {}

  // High bit of each such byte.
  uint64_t in(uint64_t eight) const {
    const uint64_t above = (eight & (0x7F * kOnes)) + add_;
    return (high_ ? above & eight : above | eight) & (0x80 * kOnes);
  }

 private:
  static constexpr uint64_t kOnes = 0x0101010101010101u;
  uint64_t add_;
  bool high_;
};

// Output buffer; its size is estimated from the first codes, and counted if that is too small.
class Room {
 public:
  Room(const Table& table, const std::vector<Stream>& streams, uint64_t limit)
      : table_(table), streams_(streams), limit_(limit), bytes_(0) {
    int64_t count = 0, sampled = 0;
    uint64_t size = 0;
    for (const Stream& stream : streams) count += stream.end - stream.begin;
    for (const Stream& stream : streams) {
      if (sampled >= kSampleCodes) break;
      const int64_t sample = std::min<int64_t>(kSampleCodes, stream.end - stream.begin);
      size += counted(stream.begin, stream.begin + sample);
      sampled += sample;
    }
    is_exact_ = sampled == count;
    if (!is_exact_) {
      size = static_cast<uint64_t>(1.03 * static_cast<double>(size) /
                                   static_cast<double>(sampled) * static_cast<double>(count)) +
             (kBlockCodes + 8) * kMaxSymbolBytes;
      if (size > limit_) {
        is_exact_ = true;
        size = behind(0, nullptr);
      }
    }
    bytes_ = make(size);
  }

  // Returns where to continue writing, with room for what `kBlockCodes` codes from `code` of a
  // stream decode to.
  uint8_t* need(size_t stream, const uint8_t* code, uint8_t* out) {
    const int64_t used = out - bytes_.data();
    if (is_exact_ || bytes_.size() - used >= (kBlockCodes + 8) * kMaxSymbolBytes) return out;
    is_exact_ = true;
    Owned<uint8_t> larger = make(static_cast<uint64_t>(used) + behind(stream, code));
    std::memcpy(larger.data(), bytes_.data(), static_cast<size_t>(used));
    bytes_ = std::move(larger);
    return bytes_.data() + used;
  }

  uint8_t* begin() { return bytes_.data(); }

  Owned<uint8_t> take() { return std::move(bytes_); }

 private:
  uint64_t counted(const uint8_t* code, const uint8_t* end) const {
    const uint64_t size = decoded_size(table_, code, end);
    if (size >= kInvalid) corrupt("fsst: a code without a symbol");
    return size;
  }

  // Decoded size of all codes from `code` of a stream on; null: from its beginning.
  uint64_t behind(size_t stream, const uint8_t* code) const {
    uint64_t size = 0;
    for (size_t i = stream; i < streams_.size(); ++i) {
      size += counted(code == nullptr ? streams_[i].begin : code, streams_[i].end);
      code = nullptr;
    }
    return size;
  }

  Owned<uint8_t> make(uint64_t size) const {
    if (size > limit_)
      throw std::overflow_error("fsst: " + std::to_string(size) +
                                " bytes are too many for the offsets of this type");
    return Owned<uint8_t>(static_cast<int64_t>(size), kMaxSymbolBytes);
  }

  const Table& table_;
  const std::vector<Stream>& streams_;
  uint64_t limit_;
  Owned<uint8_t> bytes_;
  bool is_exact_ = false;
};

}  // namespace

// Decode the strings of all streams. The ends of strings are no branch of the loop: `places`
// records where each code was written, and offsets are looked up there. Codes can be read up to
// `data_end`.
template <typename Offset>
Decoded<Offset> fsst::decode_streams(const Table& table, uint64_t num_codes,
                                     const std::vector<Stream>& streams, int64_t num_strings,
                                     const uint8_t* data_end) {
  const Special special(num_codes);
  constexpr auto kLimit = static_cast<uint64_t>(std::numeric_limits<Offset>::max());
  Room room(table, streams, kLimit);
  Owned<Offset> out_offsets(num_strings + 1);
  Offset* out_offset = out_offsets.data();
  uint8_t* out = room.begin();
  uint8_t escaped = 0;
  uint32_t places[kBlockCodes + 8];  // where the codes of a block were written
  for (size_t number = 0; number < streams.size(); ++number) {
    const Stream& stream = streams[number];
    const uint8_t* code = stream.begin;
    const uint8_t* const end = stream.end;
    const auto string_at = [&, before = load<Offset>(stream.offsets)](int64_t i) {
      return stream.begin + (load<Offset>(stream.offsets + sizeof(Offset) * i) - before);
    };
    int64_t next = 0;  // first string without an offset yet
    while (code < end) {
      out = room.need(number, code, out);
      const uint8_t* const block = code;
      uint8_t* const first = out;
      const uint32_t inside = low(first) + kInside;
      const uint8_t* const stop = code + std::min<int64_t>(kBlockCodes, end - code);
      while (code < stop) {
        uint32_t* place = places + (code - block);
        if (data_end - code >= 8) {
          uint64_t eight = load<uint64_t>(code);
          int64_t count = std::min<int64_t>(8, end - code);
          const uint64_t unusual = special.in(eight);
          if (unusual) count = std::min<int64_t>(count, std::countr_zero(unusual) / 8);
          if (count < 8) eight = keep(eight, count, kEscape);  // which has length 0 in the table
          for (int i = 0; i < 8; ++i) {
            const uint8_t symbol = static_cast<uint8_t>(eight >> (8 * i));
            place[i] = low(out);
            store(out, table.symbols[symbol]);
            out += table.lengths[symbol];
          }
          code += count;
          if (count == 8 || code == end) continue;
          place += count;
        }
        *place = low(out);
        if (*code == kEscape) {
          if (end - code < 2) corrupt("fsst: a string ends with an escape");
          place[1] = inside;
          escaped |= code[1];
          *out++ = code[1];
          code += 2;
        } else {
          if (table.lengths[*code] >= kInvalid) corrupt("fsst: a code without a symbol");
          store(out, table.symbols[*code]);
          out += table.lengths[*code++];
        }
      }
      const int64_t before = first - room.begin();
      if (static_cast<uint64_t>(out - room.begin()) > kLimit)
        throw std::overflow_error("fsst: the bytes are too many for the offsets of this type");
      for (; next < stream.count; ++next) {
        const uint8_t* const string = string_at(next);
        if (string >= code) break;
        const uint32_t place = places[string - block] - low(first);
        if (place == kInside) corrupt("fsst: a string ends with an escape");
        out_offset[next] = static_cast<Offset>(before + place);
      }
    }
    for (; next < stream.count; ++next) out_offset[next] = static_cast<Offset>(out - room.begin());
    out_offset += stream.count;
  }
  const int64_t size = out - room.begin();
  *out_offset = static_cast<Offset>(size);
  const bool is_ascii = table.is_ascii() && escaped < 0x80;
  return {std::move(out_offsets), room.take(), size, is_ascii};
}

template Decoded<int32_t> fsst::decode_streams(const Table&, uint64_t, const std::vector<Stream>&,
                                               int64_t, const uint8_t*);
template Decoded<int64_t> fsst::decode_streams(const Table&, uint64_t, const std::vector<Stream>&,
                                               int64_t, const uint8_t*);

namespace {

// Decode strings from their offsets and codes.
template <typename Offset>
std::tuple<Owned<Offset>, Owned<uint8_t>, bool> decode_strings(const In<Offset>& offsets,
                                                               const Bytes& data,
                                                               const In<uint64_t>& symbols,
                                                               const Bytes& lengths) {
  const Table table(symbols, lengths);
  const Strings codes(offsets, data, "fsst offsets");
  const auto* ends = reinterpret_cast<const uint8_t*>(codes.ends);
  const std::vector<Stream> streams{{codes.at(0), codes.at(codes.count), ends, codes.count}};
  auto decoded = decode_streams<Offset>(table, symbols.size(), streams, codes.count,
                                        data.data() + data.size());
  decoded.bytes.shrink(decoded.size);
  return {std::move(decoded.offsets), std::move(decoded.bytes), decoded.is_ascii};
}

}  // namespace
}  // namespace alance

void register_fsst(nanobind::module_& m) {
  using namespace alance;
  const auto add = [&m](auto* decode) {
    m.def("decode_fsst", decode, "offsets"_a.noconvert(), "data"_a, "symbols"_a, "lengths"_a,
          NoGil());
  };
  add(&decode_strings<int32_t>);
  add(&decode_strings<int64_t>);
}
