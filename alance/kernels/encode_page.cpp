// What a page is made of: constants, or chunks of values that are compressed by what costs least,
// with a dictionary where one pays, and their levels. docs/format/file.md, "Mini-block layout",
// "Level budget" and "Constant layout"; the choices are those of the reference implementation.
#include "encode_page.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "container.hpp"
#include "encode.hpp"

namespace alance::pages {
namespace {

constexpr int64_t PACKED_VALUES = 1024;  // that are bit-packed together
constexpr int LEVEL_BITS = 16;
constexpr int64_t ROW_BYTES = 128;  // of packed values, for each bit of their width

// --- chunks of values ---
constexpr int64_t MAX_VALUES = 4096;   // of a chunk: more would make taking one row dear
constexpr int64_t MAX_BYTES = 8186;    // with a header and fillers less than 8 KiB
constexpr int64_t MIN_BYTES = 4096;    // a page of less is not worth the units' sizes
constexpr int64_t ENTROPY_VALUES = 64;  // so many tell whether splitting bytes helps
constexpr double MAX_ENTROPY = 4.0;    // bits of a byte, as a mean over the bytes of a value

// --- strings ---
constexpr int64_t MAX_STRINGS = 2048;         // of a chunk
constexpr int64_t V2_1_CHUNK_BYTES = 16384;   // of 32 KiB in all: as much is left for levels
constexpr int64_t V2_1_MAX_BYTES = 32000;
constexpr int64_t MIN_STRING_BYTES = 32768;   // below it a symbol table is not worth it
constexpr int64_t FSST_LENGTH = 5;   // shorter strings have nothing that a symbol could say
constexpr int64_t SAMPLE_BYTES = 32768;       // more finds hardly better symbols
constexpr int64_t MAX_FSST_BYTES = 1 << 30;   // all may be escaped, and offsets have 32 bits
constexpr size_t TABLE_BYTES = 2312;
constexpr double WORTH_IT = 0.95;  // of the bytes: else strings are read faster as they are

// --- dictionaries ---
constexpr int64_t MIN_DICTIONARY_VALUES = 100;
constexpr int64_t MAX_ITEMS = 100000;  // a page is read with all of them
constexpr int64_t RUN_BYTES = 5;       // of a run of indices
constexpr int64_t FEW = 16;            // one item for so many values: nothing else comes near

// --- pages ---
constexpr int64_t MAX_ENTRIES = 0xFFFF;     // a chunk says their number in 16 bits
constexpr int64_t MAX_LEVEL_BITS = 131072;  // of all levels of a chunk: half of a chunk of 2.1
constexpr int64_t MAX_LEVEL_BYTES = 0xFFFF;
constexpr int64_t MAX_CHUNK_BYTES = 32768;  // of 2.1, whose chunk words have 16 bits
constexpr int64_t MAX_RAW_LEVELS = 8192;    // bytes: levels beside a value are not compressed
constexpr int64_t WIDE_BYTES = 256;
constexpr int64_t MAX_VALUE_BYTES = 1 << 20;  // of a value that readers of the page have to hold
constexpr size_t MAX_INLINE_BYTES = 32;       // of a constant in the description

[[noreturn]] void refuse(const std::string& what) { throw std::overflow_error(what); }

// --- descriptions: message CompressiveEncoding ---

ProtoOut flat(int64_t bits) {
  return ProtoOut().message(1, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
ProtoOut variable(int offset_bits) {
  return ProtoOut().message(2, ProtoOut().message(1, flat(offset_bits)));
}
ProtoOut packed_apart(int64_t bits, int width) {
  return ProtoOut().message(
      4, ProtoOut().number(1, static_cast<uint64_t>(bits)).message(3, flat(width)));
}
ProtoOut packed_inline(int64_t bits) {
  return ProtoOut().message(5, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
ProtoOut fsst(std::string_view table, const ProtoOut& values) {
  return ProtoOut().message(6, ProtoOut().bytes(1, table).message(2, values));
}
ProtoOut runs(int64_t bits) {
  return ProtoOut().message(8, ProtoOut().message(1, flat(bits)).message(2, flat(8)));
}
ProtoOut split(int64_t bits) {
  return ProtoOut().message(9, ProtoOut().message(1, flat(bits)));
}
ProtoOut general(Compression scheme, std::optional<int32_t> level, const ProtoOut& values) {
  ProtoOut compression;
  compression.number(1, scheme == Compression::kLz4 ? 1 : 2);
  if (level) compression.number(2, static_cast<uint64_t>(int64_t{*level}));
  return ProtoOut().message(10, ProtoOut().message(1, compression).message(3, values));
}

// --- layers ---

constexpr uint8_t ALL_VALID_ITEM = 1, ALL_VALID_LIST = 2, NULLABLE_ITEM = 3, NULL_AND_EMPTY = 6;

bool is_list(uint8_t layer) { return layer != ALL_VALID_ITEM && layer != NULLABLE_ITEM; }
int num_levels(uint8_t layer) {
  if (layer == ALL_VALID_ITEM || layer == ALL_VALID_LIST) return 0;
  return layer == NULL_AND_EMPTY ? 2 : 1;
}

// What levels may be, by the layers.
struct Limits {
  uint16_t max_rep = 0, max_def = 0, max_visible = 0;

  explicit Limits(const std::vector<uint8_t>& layers) {
    for (const uint8_t layer : layers) {
      max_rep = static_cast<uint16_t>(max_rep + is_list(layer));
      max_def = static_cast<uint16_t>(max_def + num_levels(layer));
      if (max_rep == 0) max_visible = max_def;
    }
  }
};

// --- buffers: owned, or views of what the caller owns ---

class Buffer {
 public:
  Buffer(View view) : view_(view) {}
  Buffer(Owned<uint8_t> owned) : Buffer(std::move(owned), -1) {}
  Buffer(Owned<uint8_t> owned, int64_t size) : owned_(std::move(owned)) {
    view_ = {owned_->data(), static_cast<size_t>(size < 0 ? owned_->size() : size)};
  }
  View view() const { return view_; }
  int64_t size() const { return static_cast<int64_t>(view_.size()); }

 private:
  std::optional<Owned<uint8_t>> owned_;
  View view_;
};

Owned<uint8_t> copy_of(View view) {
  Owned<uint8_t> out(static_cast<int64_t>(view.size()));
  if (!view.empty()) std::memcpy(out.data(), view.data(), view.size());
  return out;
}
Owned<uint8_t> copy_of(std::string_view text) {
  return copy_of(View{reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

template <typename T>
View bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

using Sizes = std::vector<int64_t>;

Sizes sizes_of(Owned<int64_t>& from) { return {from.data(), from.data() + from.size()}; }

int64_t sum(const Sizes& sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  return total;
}
int64_t largest(const Sizes& sizes) {
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

// Values compressed in chunks; part b of chunk c has `sizes[b][c]` bytes.
struct Chunks {
  ProtoOut encoding;
  Sizes counts;  // of values
  std::vector<Buffer> buffers;
  std::vector<Sizes> sizes;
};

Pieces pieces(const Sizes& counts, View data, int64_t bits) {
  return Pieces(counts, static_cast<int64_t>(data.size()), bits, "chunks");
}

Sizes counts_of(int64_t num_values, int64_t per_chunk) {
  Sizes counts(static_cast<size_t>((num_values + per_chunk - 1) / per_chunk), per_chunk);
  if (num_values % per_chunk) counts.back() = num_values % per_chunk;
  return counts;
}

// The power of two of values that a chunk has where they are stored as they are.
int64_t values_per_chunk(int64_t bits_per_value) {
  // A chunk of values that are no whole bytes is counted twice, as other writers do.
  const int64_t bits = bits_per_value % 8 ? 2 * bits_per_value : bits_per_value;
  int64_t count = MAX_VALUES;
  while (count > 1 && count * bits >= 8 * MAX_BYTES) count /= 2;
  if (count < 2)
    refuse("mini-blocks of values of " + std::to_string(bits_per_value / 8) +
           " bytes: two must fit " + std::to_string(MAX_BYTES) +
           " bytes; use lance-encoding:structural-encoding = fullzip");
  return count;
}

void add_flat(Chunks& chunks, const FixedIn& values) {
  if (!chunks.counts.empty() && chunks.counts[0] * values.bits % 8) {
    auto cut = cut_bits(values.data.data(), pieces(chunks.counts, values.data, values.bits),
                        values.bits);
    chunks.sizes.push_back(sizes_of(cut.sizes));
    chunks.buffers.emplace_back(std::move(cut.data));
    return;
  }
  Sizes sizes;
  for (const int64_t count : chunks.counts) sizes.push_back(bytes_of_bits(count * values.bits));
  chunks.sizes.push_back(std::move(sizes));
  chunks.buffers.emplace_back(values.data);
}

Chunks flat_chunks(int64_t count, const FixedIn& values) {
  Chunks chunks{flat(values.bits), counts_of(count, values_per_chunk(values.bits)), {}, {}};
  add_flat(chunks, values);
  return chunks;
}

Chunks row_chunks(int64_t count, const RowsIn& rows) {
  Chunks chunks{ProtoOut(rows.encoding), counts_of(count, values_per_chunk(rows.row_bits)), {}, {}};
  for (const FixedIn& part : rows.parts) add_flat(chunks, part);
  return chunks;
}

// --- general compression ---

bool is_general(Compression scheme) {
  return scheme == Compression::kLz4 || scheme == Compression::kZstd;
}

// Neighbouring pieces, each as one unit.
std::pair<Buffer, Sizes> compressed(Compression scheme, std::optional<int32_t> level, View data,
                                    const Sizes& sizes, const Zstd& zstd) {
  if (scheme == Compression::kLz4) {
    auto units = encode_lz4(data.data(), pieces(sizes, data, 8));
    Sizes unit_sizes = sizes_of(units.sizes);
    return {Buffer(std::move(units.data)), std::move(unit_sizes)};
  }
  std::string out;
  Sizes unit_sizes;
  size_t at = 0;
  for (const int64_t size : sizes) {
    const size_t before = out.size();
    append(out, static_cast<uint64_t>(size));
    out += zstd(data.subspan(at, static_cast<size_t>(size)), level.value_or(0));
    unit_sizes.push_back(static_cast<int64_t>(out.size() - before));
    at += static_cast<size_t>(size);
  }
  return {Buffer(copy_of(out)), std::move(unit_sizes)};
}

// The first buffer as units, if that is asked for and makes it smaller; whether it was.
bool compress_chunks(Chunks& chunks, const Options& options, const Zstd& zstd) {
  if (!is_general(options.compression) || chunks.buffers[0].size() < MIN_BYTES) return false;
  auto [units, sizes] = compressed(options.compression, options.level, chunks.buffers[0].view(),
                                   chunks.sizes[0], zstd);
  if (units.size() >= chunks.buffers[0].size()) return false;
  chunks.encoding = general(options.compression, options.level, chunks.encoding);
  chunks.buffers[0] = std::move(units);
  chunks.sizes[0] = std::move(sizes);
  return true;
}

// --- values of fixed width ---

// Bits of information in a byte of the first values, as a mean over their places.
double entropy(const FixedIn& values, int64_t count) {
  const int64_t width = values.bits / 8, num = std::min(count, ENTROPY_VALUES);
  if (num == 0) return 0;
  double total = 0;
  for (int64_t place = 0; place < width; ++place) {
    std::array<int64_t, 256> seen{};
    for (int64_t i = 0; i < num; ++i) ++seen[values.data[static_cast<size_t>(i * width + place)]];
    for (const int64_t times : seen) {
      const double share = static_cast<double>(times) / static_cast<double>(num);
      if (times) total -= share * std::log2(share);
    }
  }
  return total / static_cast<double>(width);
}

bool splits(const FixedIn& values, int64_t count, const Options& options) {
  if ((values.bits != 32 && values.bits != 64) || !is_general(options.compression)) return false;
  if (options.split == Split::kAuto) return entropy(values, count) < MAX_ENTROPY;
  return options.split == Split::kOn;
}

Chunks split_chunks(const FixedIn& values, int64_t count) {
  const int64_t width = values.bits / 8;
  Chunks chunks{split(values.bits), counts_of(count, values.bits == 32 ? 1024 : 512), {}, {}};
  Sizes sizes;
  for (const int64_t num : chunks.counts) sizes.push_back(num * width);
  chunks.buffers.emplace_back(split_bytes(
      values.data.data(), pieces(chunks.counts, values.data, values.bits),
      static_cast<int>(values.bits)));
  chunks.sizes.push_back(std::move(sizes));
  return chunks;
}

bool is_countable(int64_t bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

// The chunks without general compression around them.
Chunks plain_chunks(const FixedIn& values, int64_t count, const Options& options) {
  if (!is_countable(values.bits)) return flat_chunks(count, values);
  const int bits = static_cast<int>(values.bits);
  switch (chunk_form(values.data.data(), count, bits, options.most_runs)) {
    case ChunkForm::kPacked: {
      Chunks chunks{packed_inline(bits), counts_of(count, PACKED_VALUES), {}, {}};
      auto packed =
          pack_inline(values.data.data(), pieces(chunks.counts, values.data, bits), bits);
      chunks.sizes.push_back(sizes_of(packed.sizes));
      chunks.buffers.emplace_back(std::move(packed.data));
      return chunks;
    }
    case ChunkForm::kRuns: {
      auto made = encode_runs(values.data.data(), count, bits, MAX_VALUES, MAX_BYTES);
      Chunks chunks{runs(bits), sizes_of(made.counts), {}, {}};
      chunks.sizes.push_back(sizes_of(made.value_sizes));
      chunks.sizes.push_back(sizes_of(made.length_sizes));
      chunks.buffers.emplace_back(std::move(made.values));
      chunks.buffers.emplace_back(std::move(made.lengths));
      return chunks;
    }
    default: return flat_chunks(count, values);
  }
}

Chunks fixed_chunks(const FixedIn& values, int64_t count, const Options& options,
                    const Zstd& zstd) {
  if (options.compression == Compression::kNone) return flat_chunks(count, values);
  if (splits(values, count, options)) {
    Chunks chunks = split_chunks(values, count);
    if (compress_chunks(chunks, options, zstd)) return chunks;
  }
  Chunks chunks = plain_chunks(values, count, options);
  compress_chunks(chunks, options, zstd);
  return chunks;
}

// --- strings ---

template <typename Offset>
StringsIn<Offset> strings_of(const StringsView& view, int64_t count) {
  return strings_in<Offset>({static_cast<const Offset*>(view.offsets),
                             static_cast<size_t>(count) + 1}, view.data, "strings");
}

// Bytes and offsets.
template <typename Offset>
int64_t raw_bytes(const StringsIn<Offset>& strings) {
  return strings.total() + (strings.num + 1) * static_cast<int64_t>(sizeof(Offset));
}

// Whether a symbol table is worth a trial.
template <typename Offset>
bool has_codes(const StringsIn<Offset>& strings, const Options& options) {
  if (options.compression == Compression::kFsst) return true;
  return options.compression == Compression::kAuto && raw_bytes(strings) >= MIN_STRING_BYTES &&
         longest_string(strings.offset, strings.num) >= FSST_LENGTH;
}

template <typename Offset>
Chunks variable_chunks(const StringsIn<Offset>& strings, int64_t chunk_bytes, int minor) {
  const bool is_2_1 = minor == 1;
  if (is_2_1) chunk_bytes = std::min(chunk_bytes, V2_1_CHUNK_BYTES);
  StringChunks cut = chunk_strings(strings, chunk_bytes, MAX_STRINGS);
  Chunks chunks{variable(8 * static_cast<int>(sizeof(Offset))), sizes_of(cut.counts), {}, {}};
  chunks.sizes.push_back(sizes_of(cut.sizes));
  chunks.buffers.emplace_back(std::move(cut.data));
  if (const int64_t most = largest(chunks.sizes[0]); is_2_1 && most > V2_1_MAX_BYTES)
    refuse("mini-blocks of strings: two take " + std::to_string(most) +
           " bytes, a chunk of version 2.1 has " + std::to_string(V2_1_MAX_BYTES) +
           "; use lance-encoding:structural-encoding = fullzip");
  return chunks;
}

// The strings as codes of symbols; nothing if they would hardly be smaller.
template <typename Offset>
std::optional<Chunks> coded_chunks(const StringsIn<Offset>& strings, const Options& options,
                                   int minor) {
  const int64_t num_bytes = strings.total();
  if (num_bytes <= 0 || num_bytes >= MAX_FSST_BYTES) return {};
  LearnedSymbols learned = learn_fsst(strings, SAMPLE_BYTES);
  const double most = WORTH_IT * static_cast<double>(num_bytes) - static_cast<double>(TABLE_BYTES);
  const double share = static_cast<double>(learned.encoded) /
                       static_cast<double>(std::max<int64_t>(learned.plain, 1));
  if (share * static_cast<double>(num_bytes) > most) return {};
  const auto num_symbols = static_cast<size_t>(learned.symbols.size());
  auto coded = encode_fsst<Offset>(strings, {learned.symbols.data(), num_symbols},
                                   {learned.lengths.data(), num_symbols});
  const int64_t size = coded.ends[strings.num];
  if (static_cast<double>(size) > most) return {};
  // The header says that strings are compressed.
  std::string table{static_cast<char>(num_symbols), 0, 0, 1};
  table += "TSSF";
  table.append(reinterpret_cast<const char*>(learned.symbols.data()), 8 * num_symbols);
  table.append(reinterpret_cast<const char*>(learned.lengths.data()), num_symbols);
  table.resize(TABLE_BYTES, '\0');
  const StringsIn<Offset> codes{coded.ends.data(), strings.num, coded.codes.data(), size};
  Chunks chunks = variable_chunks(codes, options.chunk_bytes, minor);
  chunks.encoding = fsst(table, chunks.encoding);
  return chunks;
}

template <typename Offset>
Chunks string_chunks(const StringsIn<Offset>& strings, const Options& options, int minor,
                     const Zstd& zstd) {
  if (has_codes(strings, options))
    if (auto chunks = coded_chunks(strings, options, minor)) return std::move(*chunks);
  Chunks chunks = variable_chunks(strings, options.chunk_bytes, minor);
  compress_chunks(chunks, options, zstd);
  return chunks;
}

// --- dictionaries ---

struct Dictionary {
  Owned<uint32_t> indices;
  Values items;
  std::vector<Buffer> kept;  // what the items are views of
};

int64_t packed_indices(int64_t count, int64_t num_items) {
  const auto width = std::bit_width(static_cast<uint64_t>(num_items - 1));
  return count * std::max<int64_t>(1, width) / 8;
}

int64_t most_items(int64_t count, const Options& options) {
  return std::min(MAX_ITEMS, count / options.dict_divisor);
}

std::optional<Dictionary> dictionary_of(const FixedIn& values, int64_t count,
                                        const Options& options, int minor) {
  const int64_t bits = values.bits, width = bits / 8, raw = count * width;
  if (count < MIN_DICTIONARY_VALUES || !(bits == 128 || (bits == 64 && minor >= 2))) return {};
  int64_t direct = raw, num_runs = count;
  if (bits == 64) {
    const ValueCosts costs = costs_of(values.data.data(), count, 64);
    num_runs = costs.num_runs;
    if (options.compression != Compression::kNone)
      direct = std::min({raw, costs.packed_bytes, num_runs * (width + 1)});
  }
  const int64_t limit = std::min(
      direct - 1, static_cast<int64_t>(options.dict_size_ratio * static_cast<double>(raw)));
  int64_t most = std::min({most_items(count, options), limit / width, num_runs});
  if (options.dict_max_bytes) most = std::min(most, *options.dict_max_bytes / width);
  if (most < 1 || std::min(count / 8, num_runs * RUN_BYTES) > limit) return {};
  auto distinct = distinct_values(values.data.data(), count, static_cast<int>(width), most);
  if (!distinct) return {};
  const int64_t num_items = distinct->items.size() / width;
  const int64_t index_bytes = std::min(packed_indices(count, num_items), num_runs * RUN_BYTES);
  if (index_bytes + distinct->items.size() > limit) return {};
  std::vector<Buffer> kept;
  kept.emplace_back(std::move(distinct->items));
  const Values items{num_items, FixedIn{bits, kept[0].view()}};
  return Dictionary{std::move(distinct->indices), items, std::move(kept)};
}

template <typename Offset>
std::optional<Dictionary> dictionary_of(const StringsIn<Offset>& strings, const Options& options) {
  constexpr int64_t word = sizeof(Offset);
  const int64_t count = strings.num, num_bytes = strings.total();
  if (count < MIN_DICTIONARY_VALUES) return {};
  const int64_t offset_bytes = (count + 1) * word;
  const auto limit = static_cast<int64_t>(options.dict_size_ratio *
                                          static_cast<double>(num_bytes + offset_bytes));
  const int64_t most = std::min(most_items(count, options), limit / word);
  const int64_t most_bytes =
      options.dict_max_bytes ? std::min(limit, *options.dict_max_bytes) : limit;
  if (most < 1) return {};
  auto distinct = distinct_strings(strings, most, most_bytes);
  if (!distinct) return {};
  const int64_t num_items = distinct->ends.size() - 1;
  const int64_t size = packed_indices(count, num_items) + distinct->items.size() +
                       distinct->ends.size() * word;
  if (size > limit) return {};
  if (num_items * FEW > count && has_codes(strings, options)) {
    const LearnedSymbols learned = learn_fsst(strings, SAMPLE_BYTES);
    const double coded = static_cast<double>(num_bytes * learned.encoded) /
                         static_cast<double>(std::max<int64_t>(learned.plain, 1));
    if (static_cast<double>(size) > static_cast<double>(offset_bytes) + coded) return {};
  }
  std::vector<Buffer> kept;
  kept.emplace_back(copy_of(bytes_of<Offset>({distinct->ends.data(),
                                              static_cast<size_t>(num_items) + 1})));
  kept.emplace_back(std::move(distinct->items));
  const Values items{num_items, StringsView{static_cast<int>(word), kept[0].view().data(),
                                            kept[1].view()}};
  return Dictionary{std::move(distinct->indices), items, std::move(kept)};
}

std::optional<Dictionary> dictionary_of(const Input& input) {
  const int64_t count = input.values.count;
  if (const auto* fixed = std::get_if<FixedIn>(&input.values.kind))
    return dictionary_of(*fixed, count, input.options, input.minor);
  if (const auto* view = std::get_if<StringsView>(&input.values.kind))
    return view->offset_bytes == 8 ? dictionary_of(strings_of<int64_t>(*view, count), input.options)
                                   : dictionary_of(strings_of<int32_t>(*view, count), input.options);
  return {};
}

// One block, and what it is.
struct Block {
  ProtoOut encoding;
  Buffer data;
  bool is_final;  // no general compression goes around it
};

// The smallest of runs, bit-packing and the values as they are.
Block fixed_block(const FixedIn& values, int64_t count, int minor) {
  Block best{flat(values.bits), Buffer(values.data), false};
  if (!is_countable(values.bits) || count == 0) return best;
  const int bits = static_cast<int>(values.bits);
  const Sizes counts{count};
  const Pieces whole = pieces(counts, values.data, bits);
  if (count <= PACKED_VALUES) {
    auto packed = pack_inline(values.data.data(), whole, bits);
    if (packed.data.size() < best.data.size())
      best = {packed_inline(bits), Buffer(std::move(packed.data)), true};
  } else {
    const uint64_t all =
        either(values.data.data(), static_cast<int64_t>(values.data.size()), bits);
    const int width = std::max(1, static_cast<int>(std::bit_width(all)));
    if (width < bits) {
      auto packed = pack_blocks(values.data.data(), whole, bits, width);
      if (packed.data.size() < best.data.size())
        best = {packed_apart(bits, width), Buffer(std::move(packed.data)), true};
    }
  }
  if (minor >= 2 && run_block_sizes(values.data.data(), whole, bits)[0] < best.data.size())
    best = {runs(bits), Buffer(run_blocks(values.data.data(), whole, bits)), true};
  return best;
}

// Bits of an offset, where the bytes begin, offsets, bytes.
template <typename Offset>
Block string_block(const StringsIn<Offset>& strings) {
  constexpr int64_t word = sizeof(Offset);
  const Offset start = strings.offset[0];
  std::string out;
  out.reserve(static_cast<size_t>((strings.num + 3) * word + strings.total()));
  append(out, static_cast<Offset>(8 * word));
  append(out, static_cast<Offset>((strings.num + 3) * word));
  for (int64_t i = 0; i <= strings.num; ++i)
    append(out, static_cast<Offset>(strings.offset[i] - start));
  out.append(reinterpret_cast<const char*>(strings.data) + start,
             static_cast<size_t>(strings.total()));
  return {variable(8 * static_cast<int>(word)), Buffer(copy_of(out)), false};
}

Block items_block(const Values& items, const Options& options, int minor, const Zstd& zstd) {
  auto plain = [&]() -> Block {
    if (const auto* fixed = std::get_if<FixedIn>(&items.kind))
      return fixed_block(*fixed, items.count, minor);
    if (const auto* view = std::get_if<StringsView>(&items.kind))
      return view->offset_bytes == 8 ? string_block(strings_of<int64_t>(*view, items.count))
                                     : string_block(strings_of<int32_t>(*view, items.count));
    const auto* rows = std::get_if<RowsIn>(&items.kind);
    if (!rows || rows->parts.size() != 1) corrupt("pages: a dictionary of other values");
    return {ProtoOut(rows->encoding), Buffer(rows->parts[0].data), false};
  };
  Block block = plain();
  if (block.is_final || minor < 2 || !is_general(options.dict_values) || block.data.size() == 0)
    return block;
  auto units = compressed(options.dict_values, options.dict_level, block.data.view(),
                          {block.data.size()}, zstd);
  if (units.first.size() >= block.data.size()) return block;
  return {general(options.dict_values, options.dict_level, block.encoding),
          std::move(units.first), true};
}

// --- levels ---

struct LevelBlocks {
  ProtoOut encoding;
  Sizes sizes;  // of each chunk
  std::function<Buffer()> make;
  Buffer data = View{};
};

// The levels of all chunks, by what takes least; of two equals what is read faster.
LevelBlocks level_blocks(std::span<const uint16_t> levels, const Sizes& counts, uint16_t max_level,
                         int minor) {
  const View data = bytes_of(levels);
  const Pieces parts = pieces(counts, data, LEVEL_BITS);
  const int width = static_cast<int>(
      std::bit_width(either(data.data(), static_cast<int64_t>(data.size()), LEVEL_BITS)));
  if (width > std::bit_width(max_level))
    refuse("levels of " + std::to_string(width) + " bits, at most " + std::to_string(max_level) +
           " is expected");
  std::vector<LevelBlocks> legal;
  auto consider = [&](ProtoOut encoding, Sizes sizes, std::function<Buffer()> make) {
    if (largest(sizes) <= MAX_LEVEL_BYTES)
      legal.push_back({std::move(encoding), std::move(sizes), std::move(make)});
  };
  Sizes flat_sizes;
  for (const int64_t count : counts) flat_sizes.push_back(2 * count);
  const int64_t flat_bytes = 2 * parts.total;
  if (minor >= 2) {
    Owned<int64_t> sizes = run_block_sizes(data.data(), parts, LEVEL_BITS);
    consider(runs(LEVEL_BITS), sizes_of(sizes),
             [&] { return Buffer(run_blocks(data.data(), parts, LEVEL_BITS)); });
  }
  if (parts.total > PACKED_VALUES && width < LEVEL_BITS) {
    const int packed_width = std::max(width, 1);
    const int64_t block_bytes = ROW_BYTES * packed_width;
    Sizes sizes;
    for (const int64_t count : counts)
      sizes.push_back(count / PACKED_VALUES * block_bytes +
                      std::min(2 * (count % PACKED_VALUES), block_bytes));
    consider(packed_apart(LEVEL_BITS, packed_width), std::move(sizes), [&, packed_width] {
      return Buffer(pack_blocks(data.data(), parts, LEVEL_BITS, packed_width).data);
    });
  }
  if (largest(counts) <= PACKED_VALUES) {
    Sizes sizes;
    const uint8_t* at = data.data();
    for (const int64_t count : counts) {
      sizes.push_back(2 + ROW_BYTES * std::bit_width(either(at, 2 * count, LEVEL_BITS)));
      at += 2 * count;
    }
    consider(packed_inline(LEVEL_BITS), std::move(sizes),
             [&] { return Buffer(pack_inline(data.data(), parts, LEVEL_BITS).data); });
  }
  consider(flat(LEVEL_BITS), flat_sizes, [&] { return Buffer(data); });
  if (legal.empty())
    refuse(std::to_string(largest(counts)) + " levels in a chunk of a mini-block");
  auto best = std::min_element(legal.begin(), legal.end(), [](const auto& a, const auto& b) {
    return sum(a.sizes) < sum(b.sizes);
  });
  // Packing has to gain something.
  if (sum(best->sizes) >= flat_bytes) best = legal.end() - 1;
  best->data = best->make();
  return std::move(*best);
}

// --- pages ---

using Entries = std::span<const uint16_t>;

// How many entries there are up to the end of each chunk, by its values.
Sizes entry_ends(const Input& input, const Limits& limits, const Sizes& counts) {
  Sizes ends;
  int64_t values = 0, at = 0, seen = 0;
  const auto& definition = input.levels.definition;
  for (const int64_t count : counts) {
    values += count;
    if (!definition || limits.max_def <= limits.max_visible) {
      ends.push_back(values);
      continue;
    }
    const auto num = static_cast<int64_t>(definition->size());
    while (at < num && seen < values)
      seen += (*definition)[static_cast<size_t>(at++)] <= limits.max_visible;
    if (seen < values) corrupt("pages: fewer entries than values");
    ends.push_back(at);
  }
  if (definition) ends.back() = static_cast<int64_t>(definition->size());
  return ends;
}

// A pair a chunk: rows that end in it, and its entries of a row that goes on behind it.
std::string repetition_index(Entries rep, uint16_t max_rep, const Sizes& ends) {
  std::string out;
  int64_t begun = 0, ended_before = 0, at = 0, last_start = 0;
  for (size_t chunk = 0; chunk < ends.size(); ++chunk) {
    const int64_t start = at;
    for (; at < ends[chunk]; ++at)
      if (rep[static_cast<size_t>(at)] == max_rep) {
        ++begun;
        last_start = at;
      }
    const bool is_whole =
        chunk + 1 == ends.size() || rep[static_cast<size_t>(ends[chunk])] == max_rep;
    const int64_t ended = is_whole ? begun : begun - 1;
    append(out, static_cast<uint64_t>(ended - ended_before));
    append(out, is_whole ? uint64_t{0}
                         : static_cast<uint64_t>(ends[chunk] - std::max(last_start, start)));
    ended_before = ended;
  }
  return out;
}

// Whether the chunks fit this version; false where they have too many levels.
bool fits(const std::vector<Sizes>& sizes, size_t num_levels, bool is_large) {
  if (is_large) return true;
  const auto header = static_cast<int64_t>((2 + 2 * sizes.size() + 7) / 8 * 8);
  int64_t most = 0, most_values = 0;
  for (size_t chunk = 0; chunk < sizes[0].size(); ++chunk) {
    int64_t all = 0, values = 0;
    for (size_t part = 0; part < sizes.size(); ++part) {
      const int64_t padded = (sizes[part][chunk] + 7) / 8 * 8;
      all += padded;
      values += part < num_levels ? 0 : padded;
    }
    most = std::max(most, all);
    most_values = std::max(most_values, values);
  }
  if (most + header <= MAX_CHUNK_BYTES) return true;
  if (num_levels && most_values + header <= MAX_CHUNK_BYTES / 2) return false;
  refuse("mini-block: a chunk of " + std::to_string(most + header) +
         " bytes, files of 2.1 have at most " + std::to_string(MAX_CHUNK_BYTES) +
         "; write full-zip pages or a file of 2.2");
}

// Size and logarithm of the values of each chunk; the last one has no logarithm.
std::string chunk_words(Owned<int64_t>& chunk_bytes, const Sizes& counts, bool is_large) {
  std::string words;
  for (size_t chunk = 0; chunk < counts.size(); ++chunk) {
    auto word = static_cast<uint32_t>(chunk_bytes[static_cast<int64_t>(chunk)] / 8 - 1) << 4;
    if (chunk + 1 < counts.size())
      word |= static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(counts[chunk])) - 1);
    if (is_large)
      append(words, word);
    else
      append(words, static_cast<uint16_t>(word));
  }
  return words;
}

Chunks value_chunks(const Values& values, const Input& input, const Zstd& zstd) {
  const Options& options = input.options;
  if (const auto* fixed = std::get_if<FixedIn>(&values.kind))
    return fixed_chunks(*fixed, values.count, options, zstd);
  if (const auto* rows = std::get_if<RowsIn>(&values.kind)) return row_chunks(values.count, *rows);
  const auto* view = std::get_if<StringsView>(&values.kind);
  if (!view) corrupt("pages: values that chunks do not hold");
  return view->offset_bytes == 8
             ? string_chunks(strings_of<int64_t>(*view, values.count), options, input.minor, zstd)
             : string_chunks(strings_of<int32_t>(*view, values.count), options, input.minor, zstd);
}

Result chunk_page(const Input& input, const Limits& limits, const Values& values,
                  const Values* items, const Zstd& zstd) {
  const bool is_large = input.minor >= 2;
  const auto& rep = input.levels.rep;
  const auto& definition = input.levels.definition;
  std::optional<Block> dictionary;
  if (items) dictionary = items_block(*items, input.options, input.minor, zstd);
  Chunks chunks = value_chunks(values, input, zstd);
  Sizes counts = chunks.counts, ends;
  if (rep) {
    ends = entry_ends(input, limits, counts);
    int64_t before = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      counts[i] = ends[i] - before;
      before = ends[i];
    }
  }
  const bool has_levels = rep || definition;
  const int64_t bits =
      std::bit_width(limits.max_rep) + static_cast<int64_t>(std::bit_width(limits.max_def));
  if (has_levels &&
      largest(counts) > std::min(MAX_ENTRIES, MAX_LEVEL_BITS / std::max<int64_t>(bits, 1)))
    return TooManyLevels{};
  std::vector<LevelBlocks> levels;
  if (rep) levels.push_back(level_blocks(*rep, counts, limits.max_rep, input.minor));
  if (definition)
    levels.push_back(level_blocks(*definition, counts, limits.max_def, input.minor));
  std::vector<Sizes> sizes;
  std::vector<View> buffers;
  for (const LevelBlocks& block : levels) {
    sizes.push_back(block.sizes);
    buffers.push_back(block.data.view());
  }
  for (size_t i = 0; i < chunks.buffers.size(); ++i) {
    sizes.push_back(chunks.sizes[i]);
    buffers.push_back(chunks.buffers[i].view());
  }
  if (!fits(sizes, levels.size(), is_large)) return TooManyLevels{};
  Sizes all_sizes;
  for (const Sizes& part : sizes) all_sizes.insert(all_sizes.end(), part.begin(), part.end());
  if (!has_levels) std::fill(counts.begin(), counts.end(), 0);
  auto content = assemble_chunks(buffers, all_sizes, counts,
                                 static_cast<int64_t>(levels.size()), is_large);
  ProtoOut message;
  if (rep) message.message(1, levels[0].encoding);
  if (definition) message.message(2, levels.back().encoding);
  message.message(3, chunks.encoding);
  if (dictionary) message.message(4, dictionary->encoding);
  if (items && items->count) message.number(5, static_cast<uint64_t>(items->count));
  message.numbers(6, input.levels.layers).number(7, chunks.buffers.size());
  if (rep) message.number(8, 1);
  if (values.count) message.number(9, static_cast<uint64_t>(values.count));
  if (is_large) message.number(10, 1);
  Page page{ProtoOut().message(1, message).text(), {}, true};
  page.buffers.push_back(copy_of(chunk_words(content.sizes, chunks.counts, is_large)));
  page.buffers.push_back(std::move(content.data));
  if (dictionary) page.buffers.push_back(copy_of(dictionary->data.view()));
  if (rep) page.buffers.push_back(copy_of(repetition_index(*rep, limits.max_rep, ends)));
  return page;
}

// --- constants ---

Page constant(const ProtoOut& message, std::vector<Owned<uint8_t>> buffers) {
  return {ProtoOut().message(2, message).text(), std::move(buffers), false};
}

Owned<uint8_t> raw(const std::optional<Entries>& levels) {
  return levels ? copy_of(bytes_of(*levels)) : Owned<uint8_t>(0);
}

Result null_page(const Input& input, const Limits& limits) {
  ProtoOut message;
  message.numbers(5, input.levels.layers);
  const auto& [layers, rep, definition] = input.levels;
  if (layers.size() == 1 && layers[0] == NULLABLE_ITEM) return constant(message, {});
  if (input.minor >= 3) return SparseConstant{};
  std::vector<Owned<uint8_t>> buffers;
  if (input.minor == 1) {
    buffers.push_back(raw(rep));
    buffers.push_back(raw(definition));
    return constant(message, std::move(buffers));
  }
  auto add = [&](const std::optional<Entries>& levels, uint32_t field, uint16_t max_level) {
    if (!levels) return buffers.push_back(Owned<uint8_t>(0));
    const Sizes counts{static_cast<int64_t>(levels->size())};
    LevelBlocks block = level_blocks(*levels, counts, max_level, input.minor);
    message.message(field, block.encoding);
    buffers.push_back(copy_of(block.data.view()));
  };
  add(rep, 7, limits.max_rep);
  add(definition, 8, limits.max_def);
  if (rep && !rep->empty()) message.number(9, rep->size());
  if (definition && !definition->empty()) message.number(10, definition->size());
  return constant(message, std::move(buffers));
}

// Calls `each` with the slots that have a value, until it gives false.
template <typename Each>
bool all_present(const Input& input, const Limits& limits, Each each) {
  if (!input.levels.definition) {
    for (int64_t slot = 0; slot < input.values.count; ++slot)
      if (!each(slot)) return false;
    return true;
  }
  int64_t slot = 0;
  for (const uint16_t level : *input.levels.definition) {
    if (level == 0 && !each(slot)) return false;
    // Without lists every entry has a slot.
    slot += !input.levels.rep || level <= limits.max_visible;
  }
  return true;
}

// The bytes of the value that all have that are not null, and bits of such values.
using Only = std::optional<std::string>;

Only only_fixed(const Input& input, const Limits& limits, const FixedIn& values) {
  const uint8_t* data = values.data.data();
  std::optional<int64_t> first;
  if (values.bits == 1) {
    auto bit = [&](int64_t slot) { return data[slot / 8] >> (slot % 8) & 1; };
    if (!all_present(input, limits, [&](int64_t slot) {
          if (!first) first = slot;
          return bit(slot) == bit(*first);
        }))
      return {};
    return std::string(1, static_cast<char>(bit(*first)));
  }
  if (values.bits % 8) return {};
  const auto width = static_cast<size_t>(values.bits / 8);
  auto at = [&](int64_t slot) { return data + static_cast<size_t>(slot) * width; };
  if (!all_present(input, limits, [&](int64_t slot) {
        if (!first) first = slot;
        return std::memcmp(at(slot), at(*first), width) == 0;
      }))
    return {};
  return std::string(reinterpret_cast<const char*>(at(*first)), width);
}

template <typename Offset>
Only only_string(const Input& input, const Limits& limits, const StringsIn<Offset>& strings) {
  std::optional<int64_t> first;
  int64_t size = 0, next = 0;
  auto at = [&](int64_t slot) { return strings.data + strings.offset[slot]; };
  const bool are_equal = all_present(input, limits, [&](int64_t slot) {
    const int64_t start = strings.offset[slot], own = strings.offset[slot + 1] - start;
    if (!first) {
      first = slot;
      size = own;
      next = start + size;
      return size <= MAX_VALUE_BYTES;
    }
    // Nulls between them hold no bytes.
    if (own != size || start != next) return false;
    next += size;
    return std::memcmp(at(slot), at(*first), static_cast<size_t>(size)) == 0;
  });
  if (!are_equal || !first) return {};
  return std::string(reinterpret_cast<const char*>(at(*first)), static_cast<size_t>(size));
}

Only only_value(const Input& input, const Limits& limits) {
  if (const auto* fixed = std::get_if<FixedIn>(&input.values.kind))
    return only_fixed(input, limits, *fixed);
  const auto* view = std::get_if<StringsView>(&input.values.kind);
  if (!view) return {};
  return view->offset_bytes == 8
             ? only_string(input, limits, strings_of<int64_t>(*view, input.values.count))
             : only_string(input, limits, strings_of<int32_t>(*view, input.values.count));
}

// Whether chunks are smaller: run lengths for the values, and compressed levels.
bool is_smaller_in_chunks(const Input& input, const std::string& value) {
  const auto& [layers, rep, definition] = input.levels;
  const size_t levels = (rep ? rep->size_bytes() : 0) + (definition ? definition->size_bytes() : 0);
  if (static_cast<int64_t>(levels) <= MAX_RAW_LEVELS) return false;
  if (const auto* fixed = std::get_if<FixedIn>(&input.values.kind))
    return fixed->bits == 1 || is_countable(fixed->bits) || fixed->bits == 128;
  return static_cast<int64_t>(value.size()) < WIDE_BYTES;
}

// The value as the buffers of an Arrow array of one.
std::string value_buffer(const Input& input, const std::string& value) {
  std::string out;
  const auto size = static_cast<uint32_t>(value.size());
  if (const auto* view = std::get_if<StringsView>(&input.values.kind)) {
    append(out, uint32_t{2});
    append(out, static_cast<uint32_t>(2 * view->offset_bytes));
    append(out, size);
    for (const uint64_t end : {uint64_t{0}, uint64_t{size}})
      out.append(reinterpret_cast<const char*>(&end), static_cast<size_t>(view->offset_bytes));
  } else {
    append(out, uint32_t{1});
    append(out, size);
  }
  return out + value;
}

Page value_page(const Input& input, const std::string& value) {
  const auto& [layers, rep, definition] = input.levels;
  ProtoOut message;
  std::vector<Owned<uint8_t>> buffers;
  message.numbers(5, layers);
  if (std::holds_alternative<FixedIn>(input.values.kind) && value.size() <= MAX_INLINE_BYTES)
    message.bytes(6, value);
  else
    buffers.push_back(copy_of(value_buffer(input, value)));
  if (rep || definition) {
    buffers.push_back(raw(rep));
    buffers.push_back(raw(definition));
  }
  return constant(message, std::move(buffers));
}

// The page, if one value or none is enough for all items.
std::optional<Result> constant_page(const Input& input, const Limits& limits) {
  const auto& definition = input.levels.definition;
  const bool has_present =
      !definition || std::find(definition->begin(), definition->end(), 0) != definition->end();
  if (std::holds_alternative<NullsIn>(input.values.kind) || input.values.count == 0 || !has_present)
    return null_page(input, limits);
  if (input.minor < 2 || input.items) return {};
  const Only value = only_value(input, limits);
  if (!value || is_smaller_in_chunks(input, *value)) return {};
  if (input.minor < 3) return value_page(input, *value);
  if (!std::holds_alternative<FixedIn>(input.values.kind) || value->size() > MAX_INLINE_BYTES)
    return {};
  if (!input.levels.rep && !definition) return value_page(input, *value);
  return SparseConstant{*value};
}

// Bits of the longest value.
int64_t longest_bits(const Values& values) {
  if (const auto* fixed = std::get_if<FixedIn>(&values.kind)) return fixed->bits;
  const auto* view = std::get_if<StringsView>(&values.kind);
  if (!view) return 0;
  return 8 * (view->offset_bytes == 8
                  ? longest_string(static_cast<const int64_t*>(view->offsets), values.count)
                  : longest_string(static_cast<const int32_t*>(view->offsets), values.count));
}

// Levels are read by the number of values: they have to be of as many.
void check(const Input& input, const Limits& limits) {
  const auto& [layers, rep, definition] = input.levels;
  if (!rep != !limits.max_rep) corrupt("pages: repetition levels of other layers");
  if (rep && definition && rep->size() != definition->size())
    corrupt("pages: levels of different numbers of entries");
  int64_t visible = input.values.count;
  if (definition) {
    visible = static_cast<int64_t>(definition->size());
    if (rep && limits.max_def > limits.max_visible)
      visible = std::count_if(definition->begin(), definition->end(),
                              [&](uint16_t level) { return level <= limits.max_visible; });
  } else if (rep) {
    visible = static_cast<int64_t>(rep->size());
  }
  if (visible != input.values.count && !std::holds_alternative<NullsIn>(input.values.kind))
    corrupt("pages: " + std::to_string(input.values.count) + " values for " +
            std::to_string(visible) + " entries");
}

}  // namespace

std::vector<size_t> search_of(const Page& page) {
  std::vector<size_t> numbers;
  for (size_t number = 0; number < page.buffers.size(); ++number)
    if (!page.has_chunks || number != 1) numbers.push_back(number);
  return numbers;
}

std::optional<DictionaryParts> dictionary_parts(const Input& input) {
  auto dictionary = dictionary_of(input);
  if (!dictionary) return {};
  std::vector<Owned<uint8_t>> items;
  for (const Buffer& buffer : dictionary->kept) items.push_back(copy_of(buffer.view()));
  return DictionaryParts{std::move(dictionary->indices), std::move(items)};
}

Result page_of(const Input& input, const Zstd& zstd) {
  const Limits limits(input.levels.layers);
  check(input, limits);
  if (!input.chunks_only) {
    if (auto page = constant_page(input, limits)) return std::move(*page);
    if (input.is_sparse || std::holds_alternative<OthersIn>(input.values.kind)) return Left{};
    if (!input.items) {
      if (auto dictionary = dictionary_of(input)) {
        const Values indices{
            input.values.count,
            FixedIn{32, bytes_of<uint32_t>({dictionary->indices.data(),
                                            static_cast<size_t>(input.values.count)})}};
        return chunk_page(input, limits, indices, &dictionary->items, zstd);
      }
      if (longest_bits(input.values) >= input.zip_bits) return Left{};
    }
  }
  return chunk_page(input, limits, input.values, input.items ? &*input.items : nullptr, zstd);
}

}  // namespace alance::pages
