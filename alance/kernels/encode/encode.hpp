// Interfaces between the encoder's kernels.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/ends.hpp"
#include "base/owned.hpp"
#include "base/processor.hpp"
#include "codecs/spans.hpp"

namespace alance {

using View = std::span<const uint8_t>;

// Fixed-width values, bits LSB first.
struct FixedIn {
  int64_t bits;
  View data;
};

using Sizes = std::vector<int64_t>;

inline int64_t sum(const Sizes& sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  return total;
}

// Values that are cut into chunks: the number of values of each chunk, and exactly these values.
struct Pieces {
  std::span<const int64_t> counts;
  const uint8_t* data;
  int bits;           // of a value
  int64_t total = 0;  // values of all chunks

  Pieces(std::span<const int64_t> counts_, const FixedIn& values)
      : counts(counts_), data(values.data.data()), bits(static_cast<int>(values.bits)) {
    if (bits < 1 || bits != values.bits) corrupt("chunks: values of ", values.bits, " bits");
    for (const int64_t count : counts)
      if (count < 0 || __builtin_add_overflow(total, count, &total))
        corrupt("chunks: a chunk of ", count, " values");
    if (bytes_of_bits(product(total, bits, "chunks")) != std::ssize(values.data))
      corrupt("chunks: ", values.data.size(), " bytes for ", total, " values of ", bits, " bits");
  }

  int64_t value_bytes() const { return bits / 8; }
};

// Bitwise or of all values of 8, 16, 32 or 64 bits.
uint64_t either(const uint8_t* data, int64_t num_bytes, int bits);

enum class ChunkForm : int { kFlat, kPacked, kRuns };

// Smallest form of values of 8, 16, 32 or 64 bits in the chunks of a page. Runs only if there are
// fewer than `most_runs` runs a value.
ChunkForm chunk_form(const uint8_t* data, int64_t num_values, int bits,
                     std::optional<double> most_runs);

// Costs of values of 8, 16, 32 or 64 bits: bytes when bit-packed, with a width in front of each
// 1024 values; number of runs.
struct ValueCosts {
  int64_t packed_bytes, num_runs;
};
ValueCosts costs_of(const uint8_t* data, int64_t num_values, int bits);

// Chunks, one after the other, and the bytes of each.
struct SizedChunks {
  Owned<uint8_t> data;
  Sizes sizes;
};

// Bit-packed chunks of at most 1024 values: the width as one value, then one block.
SizedChunks pack_inline(const Pieces& chunks);

// Bit-packed chunks of one width: blocks of 1024 values, then the rest raw, or as one more block if
// that is smaller.
SizedChunks pack_blocks(const Pieces& chunks, int width, bool baseline = false);

// Chunks of values that are not whole bytes; each chunk begins on a byte.
SizedChunks cut_bits(const Pieces& chunks);

// Byte stream split: in each chunk byte 0 of all values of 32 or 64 bits, then byte 1, and so on.
Owned<uint8_t> split_bytes(const Pieces& chunks);

// Rows of the values of all columns, side by side; each value takes whole bytes.
Owned<uint8_t> zip_columns(std::span<const FixedIn> columns, int64_t num_rows);

// LZ4 units of bytes, one a chunk.
SizedChunks encode_lz4(const Pieces& chunks);

struct RunChunks {
  std::vector<uint8_t> values, lengths;
  Sizes counts, value_sizes, length_sizes;  // of each chunk
};

// Run-length coded chunks of at most `most` values, whose runs take at most `max_bytes`.
RunChunks encode_runs(const uint8_t* data, int64_t num_values, int bits, int64_t most,
                      int64_t max_bytes);

// Number of one-byte run lengths in chunks of 4096 values; any number above `limit` if there are
// more.
int64_t run_entries(const uint8_t* data, int64_t num_values, int bits, int64_t limit);

// Runs of each chunk as one block, and its size: bytes of the values (u64), values, lengths.
Sizes run_block_sizes(const Pieces& chunks);
Owned<uint8_t> run_blocks(const Pieces& chunks);

// Mini-block chunks: part b of chunk c is the next `sizes[b * num_chunks + c]` bytes of
// `buffers[b]`. Sizes in a chunk's header have 16 bits, and 32 behind the first `level_buffers`
// parts if `large`.
SizedChunks assemble_chunks(std::span<const std::span<const uint8_t>> buffers,
                            std::span<const int64_t> sizes, std::span<const int64_t> entries,
                            int64_t level_buffers, bool large);

struct StringChunks {
  Owned<uint8_t> data;
  Sizes counts, sizes;  // of each chunk
};

// Chunks of strings. Each has a power of two of strings, from 2 to `most`, in at most `chunk_bytes`
// if possible; the last chunk has the rest.
template <typename Offset>
StringChunks chunk_strings(const Strings<Offset>& strings, int64_t chunk_bytes, int64_t most);

// Symbols learned from a sample, and the sample's bytes before and after encoding.
struct LearnedSymbols {
  Owned<uint64_t> symbols;
  Owned<uint8_t> lengths;
  int64_t plain, encoded;
};

template <typename Offset>
LearnedSymbols learn_fsst(const Strings<Offset>& strings, int64_t most);

// Strings as codes; unused bytes follow the last code.
template <typename Offset>
struct CodedStrings {
  Owned<Offset> ends;
  Owned<uint8_t> codes;
};

template <typename Offset>
CodedStrings<Offset> encode_fsst(const Strings<Offset>& strings,
                                 std::span<const uint64_t> symbols,
                                 std::span<const uint8_t> lengths);

// Index of each value among the distinct values, and these in order of first appearance.
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

// Distinct values of 8 or 16 bytes; nothing if there are, or probably are, more than `most`.
std::optional<DistinctValues> distinct_values(const uint8_t* data, int64_t num, int width,
                                              int64_t most);

// The same for strings, whose distinct ones have at most `most_bytes` in total.
template <typename Offset>
std::optional<DistinctStrings<Offset>> distinct_strings(const Strings<Offset>& strings,
                                                        int64_t most, int64_t most_bytes);

}  // namespace alance
