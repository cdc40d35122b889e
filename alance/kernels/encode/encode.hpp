// Shared parts of the encoder's kernels: values in pieces, and their common bits.
#pragma once
#include <algorithm>
#include <optional>
#include <span>

#include "base/bounds.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

// A loop that the compiler vectorises, in two versions of which the loader takes one.
#if defined(__x86_64__) && defined(__linux__)
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance {

// The number of values of each chunk; `data` holds exactly these, end to end.
struct Pieces {
  const int64_t* counts;
  int64_t num;
  int64_t total = 0;  // values of all chunks

  Pieces(const In<int64_t>& counts_, const Bytes& data, int64_t bits, const char* what)
      : Pieces({counts_.data(), counts_.size()}, static_cast<int64_t>(data.size()), bits, what) {}

  Pieces(std::span<const int64_t> counts_, int64_t num_bytes, int64_t bits, const char* what)
      : counts(counts_.data()), num(static_cast<int64_t>(counts_.size())) {
    if (bits < 1) corrupt(std::string(what) + ": values of " + std::to_string(bits) + " bits");
    for (int64_t i = 0; i < num; ++i)
      if (counts[i] < 0 || __builtin_add_overflow(total, counts[i], &total))
        corrupt(std::string(what) + ": a chunk of " + std::to_string(counts[i]) + " values");
    if (bytes_of_bits(product(total, bits, what)) != num_bytes)
      corrupt(std::string(what) + ": " + std::to_string(num_bytes) + " bytes for " +
              std::to_string(total) + " values of " + std::to_string(bits) + " bits");
  }

  int64_t operator[](int64_t i) const { return counts[i]; }
};

// The bitwise or of all values of 8, 16, 32 or 64 bits.
uint64_t either(const uint8_t* data, int64_t num_bytes, int bits);

enum class ChunkForm : int { kFlat, kPacked, kRuns };

// What takes least bytes of values of 8, 16, 32 or 64 bits in the chunks of a page. Runs only where
// there are fewer than `most_runs` of them for each value.
ChunkForm chunk_form(const uint8_t* data, int64_t num_values, int bits,
                     std::optional<double> most_runs);

// What values of 8, 16, 32 or 64 bits cost: bit-packed, a width in front of each 1024; their runs.
struct ValueCosts {
  int64_t packed_bytes, num_runs;
};
ValueCosts costs_of(const uint8_t* data, int64_t num_values, int bits);

// Chunks end to end, and the bytes of each.
struct SizedChunks {
  Owned<uint8_t> data;
  Owned<int64_t> sizes;

  nb::tuple numpy() { return nb::make_tuple(data.numpy(), sizes.numpy()); }
};

// Every chunk: its width as one value, then one block. At most 1024 values a chunk.
SizedChunks pack_inline(const uint8_t* data, const Pieces& counts, int bits);

// Every chunk: blocks of one width for all, then the rest: raw, unless a block is smaller.
SizedChunks pack_blocks(const uint8_t* data, const Pieces& counts, int bits, int width,
                        bool baseline = false);

// Values that are not whole bytes, cut into chunks that begin with a byte.
SizedChunks cut_bits(const uint8_t* data, const Pieces& counts, int64_t bits);

// Every chunk: byte 0 of all its values of 32 or 64 bits, then byte 1 of all, and so on.
Owned<uint8_t> split_bytes(const uint8_t* data, const Pieces& counts, int bits);

// Units of LZ4, one a piece.
SizedChunks encode_lz4(const uint8_t* data, const Pieces& sizes);

struct RunChunks {
  Owned<uint8_t> values, lengths;
  Owned<int64_t> counts, value_sizes, length_sizes;  // of each chunk
};

// Chunks of at most `most` values, of which the runs take at most `max_bytes`.
RunChunks encode_runs(const uint8_t* data, int64_t num_values, int bits, int64_t most,
                      int64_t max_bytes);

// Bytes of the runs of each chunk as one block: u64 bytes of the values, values, lengths.
Owned<int64_t> run_block_sizes(const uint8_t* data, const Pieces& counts, int bits);
Owned<uint8_t> run_blocks(const uint8_t* data, const Pieces& counts, int bits);

// Mini-block chunks: part b of chunk c is the next `sizes[b * num_chunks + c]` bytes of
// `buffers[b]`. The first `level_buffers` parts have sizes of 16 bits in the header, the others of
// 32 if `large`.
SizedChunks assemble_chunks(std::span<const std::span<const uint8_t>> buffers,
                            std::span<const int64_t> sizes, std::span<const int64_t> entries,
                            int64_t level_buffers, bool large);

// Strings: `num` of them, whose offsets have been checked.
template <typename Offset>
struct StringsIn {
  const Offset* offset;
  int64_t num;
  const uint8_t* data;
  int64_t num_bytes;  // that can be read from `data` on

  int64_t total() const { return int64_t{offset[num]} - int64_t{offset[0]}; }
};

// Checks that offsets rise and stay in the data.
template <typename Offset>
StringsIn<Offset> strings_in(std::span<const Offset> offsets, std::span<const uint8_t> data,
                             const char* what) {
  if (offsets.empty()) corrupt(std::string(what) + ": no offsets");
  const Offset* offset = offsets.data();
  const auto num = static_cast<int64_t>(offsets.size()) - 1;
  bool rising = offset[0] >= 0;
  for (int64_t i = 0; i < num; ++i) rising &= offset[i] <= offset[i + 1];
  if (!rising || offset[num] > static_cast<int64_t>(data.size()))
    corrupt(std::string(what) + ": offsets decrease or leave the buffer");
  return {offset, num, data.data(), static_cast<int64_t>(data.size())};
}

template <typename Offset>
StringsIn<Offset> strings_in(const In<Offset>& offsets, const Bytes& data, const char* what) {
  return strings_in<Offset>({offsets.data(), offsets.size()}, {data.data(), data.size()}, what);
}

struct StringChunks {
  Owned<uint8_t> data;
  Owned<int64_t> counts, sizes;  // of each chunk
};

// Chunks of a power of two of strings, at least 2 and at most `most`, that take at most
// `chunk_bytes` if they can; the last has what is left.
template <typename Offset>
StringChunks chunk_strings(const StringsIn<Offset>& strings, int64_t chunk_bytes, int64_t most);

template <typename Offset>
int64_t longest_string(const Offset* offset, int64_t num);

// Symbols learned from a sample, its bytes as they are, and as they would be encoded.
struct LearnedSymbols {
  Owned<uint64_t> symbols;
  Owned<uint8_t> lengths;
  int64_t plain, encoded;
};

template <typename Offset>
LearnedSymbols learn_fsst(const StringsIn<Offset>& strings, int64_t most);

// Strings as codes, with bytes of no use behind them.
template <typename Offset>
struct CodedStrings {
  Owned<Offset> ends;
  Owned<uint8_t> codes;
};

template <typename Offset>
CodedStrings<Offset> encode_fsst(const StringsIn<Offset>& strings,
                                 std::span<const uint64_t> symbols,
                                 std::span<const uint8_t> lengths);

// The number of each value among the distinct ones, and these in the order in which they appear.
struct DistinctValues {
  Owned<uint32_t> indices;
  Owned<uint8_t> items;
};

template <typename Offset>
struct DistinctStrings {
  Owned<uint32_t> indices;
  Owned<Offset> ends;
  Owned<uint8_t> items;
};

// Values of 8 or 16 bytes; nothing where there are more than `most` distinct ones.
std::optional<DistinctValues> distinct_values(const uint8_t* data, int64_t num, int width,
                                              int64_t most);

// The same of strings, of at most `most_bytes` in all.
template <typename Offset>
std::optional<DistinctStrings<Offset>> distinct_strings(const StringsIn<Offset>& strings,
                                                        int64_t most, int64_t most_bytes);

}  // namespace alance
