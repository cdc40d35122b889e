// Page from which single rows are taken: positions of its chunks, and the decoding of one value of
// a chunk without the others. A chunk may have 4096 values, so decoding all of it for one row would
// take most of the time of a take.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "rows/pages/chunk_coding.hpp"
#include "rows/pages/chunk_table.hpp"
#include "rows/nests.hpp"
#include "rows/pages/items.hpp"
#include "codecs/fsst.hpp"
#include "base/distinct.hpp"
#include "base/growing.hpp"
#include "base/owned.hpp"

namespace alance {

// Encoding of values in a chunk. `zipped` has no chunks: rows of equal length, one after the other,
// each behind its control word. `constant` has no values: one item stands for all. `rows`: zipped
// rows of any length, whose positions the page knows.
enum class Values : int { flat, packed, runs, split, strings, fsst, zipped, constant, rows };

inline bool is_string(Values values) { return values == Values::strings || values == Values::fsst; }

using cells::Nulls;
using cells::Part;

// Rows of a page in ascending order: a list of numbers, or neighbours.
struct Rows {
  const int64_t* numbers;  // null: neighbours
  int64_t first, count;  // `first`: number of the first row, for neighbours
  const uint16_t* levels = nullptr;  // levels of the rows if the page has none: 1 for nulls, else 0
  bool by_value = false;  // single rows: bare values are read without their chunks

  int64_t operator[](int64_t i) const { return numbers ? numbers[i] : first + i; }
  // End of the neighbours that begin at `i`.
  int64_t run_end(int64_t i) const {
    if (numbers == nullptr) return count;
    for (++i; i < count && numbers[i] == numbers[i - 1] + 1;) ++i;
    return i;
  }
  // First position from `i` on whose row is not below `row`.
  int64_t reaching(int64_t row, int64_t i) const {
    if (numbers == nullptr) return std::clamp(row - first, i, count);
    while (i < count && numbers[i] < row) ++i;
    return i;
  }
  Rows part(int64_t begin, int64_t end) const {
    return {numbers ? numbers + begin : nullptr, first + begin, end - begin, levels ? levels + begin : nullptr, by_value};
  }
};

// Sink of decoded entries: values of one width, or strings, and nulls.
struct Sink {
  int64_t width = 0;           // bytes of a value; 0: strings
  bool with_levels = false;  // levels are appended instead of validity
  Growing<uint8_t> bytes;
  Growing<int64_t> offsets;
  Growing<uint8_t> valid;  // 1: valid
  Growing<uint16_t> rep, def;
  std::vector<uint16_t> chunk_rep, chunk_def, visible;  // of the current chunk
  // Decompressed values and decoded levels of the current chunk.
  struct Content {
    std::vector<uint8_t> values, reps, defs;
  } content;
  bool has_nulls = false;
  // Validity of the items of list values at a depth. It may end early: then the items of further
  // values are valid. Each value begins on a byte.
  struct Mask {
    int64_t num_items;
    Growing<uint8_t> bytes{};
    size_t step() const { return static_cast<size_t>(bytes_of_bits(num_items)); }
  };
  std::vector<Mask> masks;
  // For columns of indices: values are their numbers here, of 4 bytes.
  std::unique_ptr<Distinct> distinct;
  // For packed structs of any length: the values of each member. In this sink each is an empty
  // string.
  std::vector<Sink> members;

  // Empty the sink, for about `num_values` values of a width.
  void clear(int64_t new_width, int64_t num_values) {
    masks.clear();
    members.clear();
    distinct.reset();
    width = new_width;
    bytes.clear();
    offsets.clear();
    valid.clear();
    rep.clear();
    def.clear();
    has_nulls = false;
    if (width == 0)
      offsets.push_back(0);
    else
      bytes.reserve(static_cast<size_t>(product(num_values, width, "row sink")));
  }

  void nulls(int64_t count) {
    for (Sink& member : members) member.nulls(count);
    if (width != 0)
      bytes.fill(static_cast<size_t>(count * width), 0);
    else
      offsets.fill(static_cast<size_t>(count), static_cast<int64_t>(bytes.size()));
    has_nulls |= count != 0;
    if (!with_levels) valid.fill(static_cast<size_t>(count), 0);
  }
  void null() { nulls(1); }
  void value(const uint8_t* from) {
    bytes.append(from, static_cast<size_t>(width));
    if (!with_levels) valid.push_back(1);
  }
  void number(uint32_t number) { value(reinterpret_cast<const uint8_t*>(&number)); }
  // Room for the validity of the items of the last `count` values.
  uint8_t* begin_mask(size_t depth, int64_t count) {
    Mask& mask = masks[depth];
    const size_t before = bytes.size() / static_cast<size_t>(width) - static_cast<size_t>(count);
    mask.bytes.fill(before * mask.step() - mask.bytes.size(), 0xFF);
    return mask.bytes.extend(static_cast<size_t>(count) * mask.step());
  }
  void string(const uint8_t* from, int64_t size) {
    bytes.append(from, static_cast<size_t>(size));
    string_ends();
  }
  // End a string whose bytes were appended.
  void string_ends() {
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    if (!with_levels) valid.push_back(1);
  }

  // Room for values of the width; `end_run` adds their validity.
  uint8_t* begin_run(int64_t count) { return bytes.extend(static_cast<size_t>(count * width)); }
  // Append adjacent strings whose offsets begin anywhere.
  template <typename Load>
  void string_run(const uint8_t* from, int64_t size, int64_t count, const Load& offset) {
    const int64_t before = static_cast<int64_t>(bytes.size()) - int64_t{offset(0)};
    bytes.append(from, static_cast<size_t>(size));
    int64_t* out = offsets.extend(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) out[i] = int64_t{offset(i + 1)} + before;
  }
  // `levels`: of the appended values, not 0 for nulls; null: all are valid.
  void end_run(const uint16_t* levels, int64_t count) {
    has_nulls |= levels != nullptr;
    if (with_levels) return;
    uint8_t* out = valid.extend(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) out[i] = levels == nullptr || levels[i] == 0;
  }
};

// Read all levels of a chunk.
void read_levels(Nulls kind, int bits, Part part, int64_t count, uint16_t* out);

// The same in a buffer that is reused; all 0 if the chunk has no levels.
const uint16_t* levels_of(Nulls kind, int bits, Part part, int64_t count,
                          std::vector<uint16_t>& levels);
inline int highest(const uint16_t* levels, int64_t count) {
  uint16_t top = 0;
  for (int64_t i = 0; i < count; ++i) top = std::max(top, levels[i]);
  return top;
}

class RangeSink;
struct RangeForm;
namespace sparse {
struct Slots;
}
template <typename Offset>
struct RangeStrings;

constexpr size_t kMostDepths = 64;  // of nested fixed-size lists
constexpr size_t kBlobBytes = 16;     // of a description
constexpr int64_t kBareHeader = 8;  // bytes of the header of a chunk with one buffer

// Symbols of a page's strings, which pages of one description share.
struct Symbols {
  Symbols(const In<uint64_t>& symbols, const Bytes& lengths)
      : table(symbols, lengths), num_codes(symbols.size()) {}
  // From a table in a description (`SymbolTable` of codecs/strings.py), which was checked.
  explicit Symbols(const uint8_t* table)
      : table(table + kHeader, table[0], table + kHeader + 8 * size_t{table[0]}), num_codes(table[0]) {}
  static constexpr size_t kHeader = 8, kTableBytes = 2312;

  fsst::Table table;
  uint64_t num_codes;
};

// Bytes of a value's masks, as in `PageKind`.
inline int64_t bytes_of_masks(const std::vector<int64_t>& masks) {
  int64_t sum = 0;
  for (const int64_t count : masks) sum += bytes_of_bits(count);
  return sum;
}

// Member of packed structs in zipped rows. `width`: bytes of a value, or minus the bytes of the length
// before it; `symbols`: for compressed strings, else null; `scheme` and `masks`: as in `PageKind`;
// `members`: of a member that is itself a packed struct of any length.
struct PackedMember {
  int64_t width;
  std::shared_ptr<const Symbols> symbols;
  int scheme;
  std::vector<int64_t> masks{};
  std::vector<PackedMember> members{};

  bool holds(const RangeForm& form) const;
};

// Facts that all pages of a description share.
struct PageKind {
  Values values = Values::flat;
  int bits = 0;  // of a value, of an index, or of an offset of strings
  Nulls nulls = Nulls::none;
  // Bits of packed levels; of zipped rows, the bytes of the control word.
  int level_bits = 0, max_level = 0;
  bool large = false;  // sizes of the values' buffers have four bytes
  Nulls reps = Nulls::none;
  int rep_bits = 0, max_rep = 0, max_visible = 0;  // `max_rep` 0: no lists
  // For fixed-size lists: number of items of a value at each depth, outermost first; 0 at a depth
  // without validity. Empty if no depth has validity.
  std::vector<int64_t> masks{};
  int scheme = 0;  // 1: LZ4, 2: ZSTD; of the first buffer of values, or of each zipped string
  bool null_items = false;  // true: items of zipped fixed-size lists are all null, without bytes
  std::optional<ChunkCoding> coding{};  // of chunks that are decoded as a whole
  std::optional<WordCoding> coded_reps{}, coded_defs{};  // of levels that are decoded as a whole
  int bits_def = 0;          // of the definition level in a control word
  int64_t length_bytes = 0;  // of the length in front of a zipped value; 0: one width
  std::vector<PackedMember> members{};  // of zipped values that are packed structs of any length
  int null_level = 0;  // of a constant page's own nulls; 0: no value can be null
  // Values are descriptions of blobs (BlobLayout): a u64 position and a u64 size. Those of size 0 at
  // another position are null, of level `position >> 16`, up to `max_blob_level`. -1: they are not.
  int max_blob_level = -1;
  nests::Layers layers{};

  bool is_zipped() const { return values == Values::zipped || values == Values::rows; }
  bool is_constant() const { return values == Values::constant; }
  bool has_lists() const { return max_rep != 0; }
  int64_t value_bytes() const { return bytes_of_bits(bits); }
  int64_t mask_bytes() const { return bytes_of_masks(masks); }
  int num_value_buffers() const { return coding ? coding->num_buffers() : values == Values::runs ? 2 : 1; }
  void check() const;
};

// Index of zipped rows that stays in the file: its position, and the bytes of an entry.
struct FileIndex {
  int64_t start = 0, width = 0;  // width 0: no such index
};

// Encoded levels of a page.
struct EncodedLevels {
  Nulls kind;
  int bits;
  int64_t count;
  Part bytes;
};

class RowPage {
 public:
  // Page whose rows are in bytes `start` to `start + size` of its file. `chunks`: of mini-block pages; for
  // zipped rows of any length, `first_bytes` has their positions and their end; empty for other pages.
  RowPage(std::shared_ptr<const PageKind> kind, int64_t start, int64_t size, int64_t num_rows, ChunkTable chunks = {},
          std::shared_ptr<const Symbols> symbols = nullptr);

  // Page whose values are all this item; without one all are null. Both kinds of levels are as many, or
  // one kind is absent.
  static std::unique_ptr<RowPage> constant(std::shared_ptr<const PageKind> kind, int64_t num_rows,
                                           const EncodedLevels& reps, const EncodedLevels& defs,
                                           std::optional<Items> item);

  const nests::Layers& layers() const { return kind_->layers; }

  // Index of zipped rows that stays in the file; null if there is none. Rows of such a page are decoded
  // only from the result of `of_runs`.
  const FileIndex* file_index() const { return index_.width != 0 ? &index_ : nullptr; }
  void set_file_index(const FileIndex& index);
  // Page of some runs of rows of a page with such an index; runs ascend. `firsts`, `lasts`: first and
  // end row of each run; `bytes`: start and end of its bytes.
  std::shared_ptr<const RowPage> of_runs(std::vector<int64_t> firsts, std::vector<int64_t> lasts,
                                         std::vector<int64_t> bytes) const;

  // Set the items of a dictionary. The kind's masks are then those of the items, if these are
  // fixed-size lists that follow the validity of their own items, as in zipped rows.
  void set_items(Items items);

  // Make this a sparse page: `slots` has its structure, and this page has the values of the slots.
  void set_slots(std::shared_ptr<const sparse::Slots> slots);
  const sparse::Slots* slots() const { return slots_.get(); }
  // True if all values are null.
  bool is_null() const { return is_constant() && !has_items(); }

  int64_t page_start = 0;  // position of the page in its file

  // Approximate memory that this page alone uses.
  int64_t num_bytes() const;
  bool has_items() const { return items_ != nullptr; }
  // Bytes of a value as decoded; 0: strings.
  int64_t width() const;
  // True if decoded values have `width` bytes.
  bool gives(int64_t width) const { return is_null() || kind_->null_items || this->width() == width; }
  // True if rows are decoded without bytes of the file.
  bool is_constant() const { return kind_->is_constant(); }
  // Call before any use of the page's chunks; planning rows of a constant page does not use them.
  void prepare() const;
  int64_t start() const { return start_; }
  int64_t size() const { return size_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t num_chunks() const { return num_chunks_; }
  // Number of the chunk (or zipped row, or run of rows) that holds a row. The search begins at `from`.
  int64_t chunk_of(int64_t row, int64_t from) const;
  // True if a chunk begins inside a row.
  bool carries(int64_t chunk) const {
    return !chunks_.carries.empty() && chunks_.carries[static_cast<size_t>(chunk)] != 0;
  }
  // Start and end of a chunk in the buffer.
  int64_t begin_of(int64_t chunk) const;
  int64_t end_of(int64_t chunk) const { return has_runs_ ? bytes_[2 * chunk + 1] : begin_of(chunk + 1); }
  // Chunks of neighbouring rows, at least one: the first, and the one behind the last.
  std::pair<int64_t, int64_t> chunks_of(int64_t first, int64_t last) const {
    const int64_t begin = chunk_of(first, 0);
    int64_t chunk = chunk_of(last - 1, begin);
    bool goes_on = rows_until(chunk) == last;  // the last row may continue where no other begins
    while (++chunk < num_chunks_ && goes_on && carries(chunk))
      goes_on = rows_until(chunk) == rows_from(chunk);
    return {begin, chunk};
  }
  // Values of chunks, including nulls.
  int64_t num_values(int64_t begin, int64_t end) const {
    if (has_runs_) {
      int64_t count = 0;
      for (; begin < end; ++begin) count += rows_until(begin) - rows_from(begin);
      return count;
    }
    if (kind_->is_zipped()) return end - begin;  // lower bound, if values are in lists
    const int64_t* before = chunks_.first_values.data();
    return before[end] - before[begin];
  }
  // True if a chunk has values alone, as they are in memory, behind a header that tells nothing else.
  // Single rows of it are read and decoded without the chunk.
  bool is_bare(int64_t chunk) const {
    const PageKind& kind = *kind_;
    return kind.values == Values::flat && kind.bits % 8 == 0 && kind.nulls == Nulls::none && !kind.has_lists() &&
           !has_items() && kind.masks.empty() && kind.scheme == 0 && !kind.coding && !slots_ &&
           end_of(chunk) - begin_of(chunk) ==
               kBareHeader + (num_values(chunk, chunk + 1) * (kind.bits / 8) + 7) / 8 * 8;
  }
  // Start and end of the value of a row of such a chunk in the buffer.
  std::pair<int64_t, int64_t> bare_bytes(int64_t chunk, int64_t row) const {
    const int64_t start = begin_of(chunk) + kBareHeader + (row - rows_from(chunk)) * (kind_->bits / 8);
    return {start, start + kind_->bits / 8};
  }
  // Row behind the last that begins in a chunk, and first row that does.
  int64_t rows_until(int64_t chunk) const;
  int64_t rows_from(int64_t chunk) const;
  // Decode ascending rows that begin in a chunk into the sink; `open`: first the rest of the row
  // that began before it. `bytes`: the chunk, or, of a bare one and rows by value, from the value of the
  // first row to that of the last.
  void decode(int64_t chunk, Part bytes, const Rows& rows, bool open, Sink& sink) const;
  void check_rows(const int64_t* rows, int64_t count) const;
  // Bytes of neighbouring rows, at least one, in the buffer: begin and end.
  std::pair<int64_t, int64_t> bytes_of(int64_t first, int64_t last) const {
    if (is_constant()) return {0, 0};
    if (last - first == num_rows_ && !has_runs_) return {0, size_};
    const auto [begin, end] = chunks_of(first, last);
    return {begin_of(begin), end_of(end - 1)};
  }
  // Decode neighbouring rows, at least one, from these bytes; of a page without lists.
  void decode_range(int64_t first, int64_t last, Part bytes, RangeSink& sink) const;
  // True if values have a form, or a width as in it; `fits`: and rows are such values.
  bool holds(const RangeForm& form) const;
  bool holds(int64_t width) const;
  // Kind and width of the values, for errors.
  std::string values_text() const;
  bool fits(int64_t width) const { return !has_lists() && is_simple(width) && holds(width); }
  // True if neighbouring rows are decoded without a `Sink`.
  bool is_simple(int64_t width) const;
  // True if the bytes of neighbouring rows are exactly their values.
  bool is_raw() const {
    return kind_->values == Values::zipped && kind_->level_bits == 0 && kind_->masks.empty() && !kind_->null_items &&
           kind_->max_blob_level < 0;
  }
  bool has_nulls() const { return kind_->max_level != 0; }
  bool has_lists() const { return kind_->has_lists(); }
  // Call before rows of this page are decoded behind those of another page.
  void enter(Sink& sink, int64_t num_rows) const;

 private:
  struct Chunk {
    int64_t number, entries, values;
    Part reps, nulls, first, second;  // the buffers of levels, and one or two of values
    std::vector<Part> masks{};
  };

  struct Slice;

  void read_nulls(const std::vector<Slice>& slices, RangeSink& sink) const;
  void read_words(const Slice& slice, uint8_t* out) const;
  template <typename Work>
  void with_word(uint8_t* out, const Work& work) const;
  template <typename Work>
  void with_indices(uint8_t* words, int64_t count, const RangeSink& sink, const Work& work) const;
  void gather_items(const std::vector<Slice>& slices, RangeSink& sink) const;
  template <typename Offset>
  void string_range(const std::vector<Slice>& slices, int64_t count, Part bytes,
                    RangeSink& sink) const;
  template <typename Offset>
  RangeStrings<Offset> expanded(const std::vector<Slice>& slices, int64_t count,
                                const RangeSink& sink) const;
  template <typename Offset>
  void check_text(RangeStrings<Offset>& strings, const RangeSink& sink) const;
  bool has_text_items() const;
  void zipped_range(int64_t first, int64_t last, Part bytes, RangeSink& sink) const;

  struct Later;
  void read_levels_of_all(const EncodedLevels& reps, const EncodedLevels& defs);
  void cut_levels(int64_t num_entries, ChunkTable& cut) const;
  void set_chunks(ChunkTable chunks);
  // Encodings of the levels of chunks: constant pages have decoded levels.
  Nulls nulls() const { return is_constant() && !chunks_.defs.empty() ? Nulls::flat : kind_->nulls; }
  Nulls reps() const { return is_constant() && has_lists() ? Nulls::flat : kind_->reps; }
  bool has_fixed_items() const { return has_items() && !items_->are_strings(); }
  bool has_strings() const {
    return has_items() ? items_->are_strings() : is_string(kind_->values) || kind_->length_bytes != 0;
  }
  // `content`: buffers for decompressed bytes.
  Chunk open_chunk(int64_t number, Part bytes, Sink::Content* content = nullptr) const;
  void decode_levels(Chunk& chunk, Sink::Content& content) const;
  void recode(Chunk& chunk, std::vector<uint8_t>& content) const;
  void decode_distinct(int64_t number, Part bytes, const Rows& rows, bool open, Sink& sink) const;
  void decode_entries(int64_t chunk, Part bytes, const Rows& rows, bool open, Sink& sink) const;
  void decode_single(const Chunk& chunk, const Rows& rows, cells::Walk& levels, cells::Walk& values, Sink& sink) const;
  void decode_bare(Part bytes, const Rows& rows, Sink& sink) const;
  void mark_null_blobs(size_t first, Sink& sink) const;
  void decode_run(Part bytes, int64_t count, Sink& sink) const;
  void emit_zipped(const uint8_t* from, Sink& sink) const;
  static void emit_masked(const std::vector<int64_t>& masks, const uint8_t* from, Sink& sink);
  void emit_masks(const Chunk& chunk, int64_t first, int64_t count, Sink& sink) const;
  static void check_masks(const std::vector<int64_t>& masks, const Sink& sink);
  int64_t most_bytes(int64_t num_values) const;
  static void emit_codes(const Symbols& symbols, Part codes, const uint8_t* end, Sink& sink);
  static void emit_zipped_string(int scheme, const Symbols* symbols, Part value, const uint8_t* end,
                                 Sink& sink);
  static void emit_members(const std::vector<PackedMember>& members, Part value, const uint8_t* end, Sink& sink);
  void decode_lists(const Chunk& chunk, const Rows& rows, bool open, Sink& sink) const;
  void check_level(uint64_t level) const;
  void absent(uint64_t level, Sink& sink) const;
  void emit(const Chunk& chunk, int64_t i, cells::Walk& walk, Sink& sink) const;
  void emit_string(Part values, int64_t count, int64_t i, Sink& sink) const;
  void emit_values(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                   cells::Walk& walk, Sink& sink) const;
  bool emit_run(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                Sink& sink) const;
  template <typename Offset>
  bool emit_strings(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                    Sink& sink) const;
  void emit_items(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                  Sink& sink) const;
  void emit_bits(uint64_t value, Sink& sink) const;
  void emit_item(uint64_t index, Sink& sink) const;

  // What planning reads comes first: it shares few cache lines.
  std::shared_ptr<const PageKind> kind_;
  int64_t start_, size_, num_rows_, num_chunks_ = 0;
  const int64_t *rows_ = nullptr, *bytes_ = nullptr;  // first row and byte of each chunk
  bool has_runs_ = false;  // a chunk is a run of zipped rows
  std::shared_ptr<const sparse::Slots> slots_;
  FileIndex index_;
  ChunkTable chunks_;
  std::shared_ptr<Later> later_;  // null: the levels are already decoded
  std::shared_ptr<const Symbols> symbols_;
  mutable std::atomic<signed char> text_items_{-1};  // 1: the items are UTF-8; -1: not known
  std::unique_ptr<const Items> items_;
};

}  // namespace alance
