// A page without lists, as the taking of single rows sees it: where its chunks lie, and how one
// value of a chunk is decoded without the others.
#pragma once
#include <optional>
#include <vector>

#include "fsst.hpp"
#include "owned.hpp"

namespace alance {

// How values lie in a chunk. `zipped` is no chunk: rows of equal length, one behind the other,
// each with its control word in front.
enum class Values : int { flat, packed, runs, split, strings, fsst, zipped };
// How definition levels lie in a chunk.
enum class Nulls : int { none, flat, packed, runs, blocks };

struct Part {
  const uint8_t* data;
  int64_t size;
};

// Where decoded values go: bytes of one width, or strings end to end.
struct Sink {
  int64_t width = 0;              // bytes of a value; 0: strings
  uint8_t* fixed = nullptr;       // width * rows
  std::vector<uint8_t> bytes;     // of all strings so far
  int64_t* offsets = nullptr;     // rows + 1
  uint8_t* valid = nullptr;       // rows; 1 is valid
  bool has_nulls = false;
  int64_t row = 0;                // the next one

  void null() {
    if (width != 0) std::memset(fixed + row * width, 0, static_cast<size_t>(width));
    valid[row] = 0;
    has_nulls = true;
    next();
  }
  void value(const uint8_t* from) {
    std::memcpy(fixed + row * width, from, static_cast<size_t>(width));
    valid[row] = 1;
    next();
  }
  void string(const uint8_t* from, int64_t size) {
    bytes.insert(bytes.end(), from, from + size);
    valid[row] = 1;
    next();
  }
  void next() {
    ++row;
    if (width == 0) offsets[row] = static_cast<int64_t>(bytes.size());
  }
};

class RowPage {
 public:
  // `first_rows` and `first_bytes` have one number a chunk and one behind the last; of zipped
  // rows they are empty. `start` is where the page's buffer of `size` bytes begins in its file;
  // `level_bits` is the packed width of levels in `blocks`, or the bytes of a control word.
  RowPage(In<int64_t> first_rows, In<int64_t> first_bytes, int64_t start, int64_t size,
          int64_t num_rows, int values, int bits, int nulls, int level_bits, int max_level,
          bool large);

  void set_symbols(In<uint64_t> symbols, Bytes lengths) { symbols_.emplace(symbols, lengths); }
  void set_items(Bytes items, int64_t width);
  void set_strings_32(In<int32_t> offsets, Bytes items);
  void set_strings_64(In<int64_t> offsets, Bytes items);

  // Bytes of a value as it is given; 0: strings.
  int64_t width() const;
  int64_t start() const { return start_; }
  // What rows are read with: the number of a chunk, or of a zipped row.
  int64_t chunk_of(int64_t row, int64_t from) const;
  // Where a chunk begins in the buffer.
  int64_t begin_of(int64_t chunk) const;
  // The row behind the last of a chunk.
  int64_t rows_until(int64_t chunk) const;
  // Decodes ascending rows of one chunk into the sink.
  void decode(int64_t chunk, Part bytes, const int64_t* rows, int64_t count, Sink& sink) const;
  void check_rows(const int64_t* rows, int64_t count) const;

 private:
  struct Cursor;  // of the runs of one chunk

  void decode_zipped(Part bytes, Sink& sink) const;
  uint64_t level_at(Part levels, int64_t count, int64_t i, Cursor& cursor) const;
  void emit(Part first, Part second, int64_t count, int64_t i, Cursor& cursor, Sink& sink) const;
  void emit_string(Part values, int64_t count, int64_t i, Sink& sink) const;
  void emit_bits(uint64_t value, Sink& sink) const;
  void emit_item(uint64_t index, Sink& sink) const;

  In<int64_t> first_rows_, first_bytes_;
  int64_t start_, size_, num_rows_, num_chunks_;
  Values values_;
  int bits_;
  Nulls nulls_;
  int level_bits_, max_level_;
  bool large_;
  std::optional<fsst::Table> symbols_;
  enum class Items { none, fixed, strings_32, strings_64 } items_kind_ = Items::none;
  int64_t item_width_ = 0, num_items_ = 0;
  Bytes items_;
  In<int32_t> offsets_32_;
  In<int64_t> offsets_64_;
};

}  // namespace alance
