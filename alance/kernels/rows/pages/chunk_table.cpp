// Chunk words and repetition indices of mini-block pages.
#include "rows/pages/chunk_table.hpp"

#include <algorithm>

namespace alance {
namespace {

using cells::Part;
using cells::text;

constexpr uint64_t kMaxChunkValues = 32768;
// Bytes of a chunk's entry: rows that end in it, entries of a row that continues.
constexpr int64_t kIndexBytes = 16;

// Chunk word: (bytes / 8 - 1) << 4 | log2(values); the last chunk has the remaining values.
template <typename T>
void parse(const uint8_t* words, int64_t count, uint64_t num_items, int64_t chunk_bytes,
           ChunkTable& to) {
  int64_t bytes = 0, unsized = -1, low = 0;
  uint64_t values = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T word = load<T>(words + i * static_cast<int64_t>(sizeof(T)));
    const size_t at = static_cast<size_t>(i);
    low = word & 15;
    to.first_bytes[at] = bytes;
    to.first_values[at] = static_cast<int64_t>(values);
    bytes += ((int64_t{word} >> 4) + 1) * 8;
    if (i + 1 < count) {
      // Only the last chunk may leave out its number of values: no other chunk has a single value.
      if (low == 0 && unsized < 0) unsized = i;
      values += uint64_t{1} << low;
    }
  }
  if (bytes != chunk_bytes)
    corrupt("chunks of together ", bytes, " bytes, their buffer has ", chunk_bytes);
  if (count == 0 && num_items != 0) corrupt("no chunks for ", num_items, " values");
  if (unsized >= 0)
    corrupt("chunk ", unsized, " of ", count, " does not say how many values it has");
  if (count != 0 && (num_items < values || num_items - values > kMaxChunkValues))
    corrupt(values, " values before the last of ", count, " chunks, ", num_items, " in all");
  if (low != 0 && uint64_t{1} << low != num_items - values)
    corrupt("the last chunk has ", int64_t{1} << low, " values, ", num_items - values,
            " are left for it");
  to.first_bytes.back() = bytes;
  to.first_values.back() = static_cast<int64_t>(num_items);
}

}  // namespace

ChunkTable::ChunkTable(Part words, const Part* index, bool large, uint64_t num_items,
                       int64_t num_rows, int64_t chunk_bytes) {
  const int64_t width = large ? 4 : 2;
  if (words.size % width) corrupt(words.size, " bytes of chunk words of ", width, " bytes");
  const int64_t count = words.size / width;
  first_bytes.resize(static_cast<size_t>(count) + 1);
  first_values.resize(static_cast<size_t>(count) + 1);
  if (large)
    parse<uint32_t>(words.data, count, num_items, chunk_bytes, *this);
  else
    parse<uint16_t>(words.data, count, num_items, chunk_bytes, *this);
  if (index != nullptr)
    read_index(*index, num_rows);
  else if (num_rows < 0 || num_items != static_cast<uint64_t>(num_rows))
    corrupt(num_items, " values in ", num_rows, " rows without lists");
}

void ChunkTable::read_index(Part index, int64_t num_rows) {
  const int64_t count = std::ssize(first_bytes) - 1;
  if (index.size != kIndexBytes * count)
    corrupt("repetition index of ", index.size, " bytes for ", count, " chunks");
  first_rows.resize(first_bytes.size());
  carries.resize(static_cast<size_t>(count));
  int64_t ended = 0, begun = 0, unending = -1;
  bool is_open = false;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t ends = load<uint64_t>(index.data + kIndexBytes * i);
    const uint64_t rest = load<uint64_t>(index.data + kIndexBytes * i + 8);
    // A chunk counts its entries in 16 bits, so neither number can be larger.
    if (std::max(ends, rest) > UINT16_MAX)
      corrupt("repetition index: ", std::max(ends, rest), " rows or entries in one chunk");
    const bool goes_on = rest != 0;
    const int64_t begin = static_cast<int64_t>(ends) + goes_on - is_open;
    if (begin < 0 && unending < 0) unending = i;
    carries[static_cast<size_t>(i)] = is_open;
    first_rows[static_cast<size_t>(i)] = begun;
    ended += static_cast<int64_t>(ends);
    begun += begin;
    is_open = goes_on;
  }
  first_rows.back() = begun;
  if (ended != num_rows) corrupt("repetition index: ", ended, " rows end, the page has ", num_rows);
  if (is_open) corrupt("repetition index: a row goes on behind the last chunk");
  if (unending >= 0) corrupt("repetition index: the row open in chunk ", unending, " never ends");
}

}  // namespace alance
