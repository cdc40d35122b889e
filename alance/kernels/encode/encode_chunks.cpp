// Chunks of values in their smallest form: run-length coded, bit-packed, byte stream split, FSST or
// flat; and dictionaries, if they save bytes. Values are bit patterns, without zig-zag or frame of
// reference: one negative number makes its block of 1024 full-width.
//
// Source: docs/format/encodings.md, "Chunk limits" and "What pylance 14.0.2 chooses".
#include "encode/encode_chunks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "encode/container.hpp"

namespace alance::pages {
namespace {

// --- chunks of values ---
constexpr int64_t kMaxValues = 4096;  // of a chunk: more would make taking one row costly
// Bytes of a chunk, which has less than 8 KiB with header and padding.
constexpr int64_t kMaxBytes = 8186;
constexpr int64_t kMinBytes = 4096;  // general compression does not pay for smaller pages
constexpr int64_t kEntropyValues = 64;  // sample that decides whether splitting bytes helps
constexpr double kMaxEntropy = 4.0;  // bits of information a byte, mean over the bytes of a value

// --- strings ---
constexpr int64_t kMaxStrings = 2048;         // of a chunk
constexpr int64_t kV21ChunkBytes = 16384;  // of 32 KiB in all: the other half is for levels
constexpr int64_t kV21MaxBytes = 32000;
constexpr int64_t kFsstLength = 5;  // bytes: symbols do not shorten shorter strings
constexpr int64_t kSampleBytes = 32768;  // a larger sample finds hardly better symbols
constexpr int64_t kMaxFsstBytes = 1 << 30;  // escapes may double them, and offsets have 32 bits
constexpr size_t kTableBytes = 2312;  // of a stored symbol table

// --- dictionaries ---
constexpr int64_t kMinDictionaryValues = 100;
constexpr int64_t kMaxItems = 100000;  // a page is read with all of its items
constexpr int64_t kRunBytes = 5;       // of a run of indices
constexpr int64_t kWidthBytes = 4;  // of the width of each 1024 packed indices
constexpr int64_t kManyRepeats = 16;  // values an item: no other encoding comes near

ProtoOut split(int64_t bits) {
  return ProtoOut().message(9, ProtoOut().message(1, flat(bits)));
}
Sizes counts_of(int64_t num_values, int64_t per_chunk) {
  Sizes counts(static_cast<size_t>((num_values + per_chunk - 1) / per_chunk), per_chunk);
  if (num_values % per_chunk) counts.back() = num_values % per_chunk;
  return counts;
}

// Power of two of values in a chunk of flat values.
int64_t values_per_chunk(int64_t bits_per_value) {
  // Values that are not whole bytes count twice, as in other writers.
  const int64_t bits = bits_per_value % 8 ? 2 * bits_per_value : bits_per_value;
  int64_t count = kMaxValues;
  while (count > 1 && count * bits >= 8 * kMaxBytes) count /= 2;
  if (count < 2)
    refuse("mini-blocks of values of ", bits_per_value / 8, " bytes: two must fit ", kMaxBytes,
           " bytes; use lance-encoding:structural-encoding = fullzip");
  return count;
}

void add_flat(Chunks& chunks, const FixedIn& values) {
  if (!chunks.counts.empty() && chunks.counts[0] * values.bits % 8) {
    auto cut = cut_bits({chunks.counts, values});
    chunks.sizes.push_back(std::move(cut.sizes));
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

Chunks row_chunks(int64_t count, Rows rows) {
  Chunks chunks{rows.encoding, counts_of(count, values_per_chunk(rows.row_bits)), {}, {}};
  for (const FixedIn& part : rows.parts) add_flat(chunks, part);
  if (rows.zipped && chunks.buffers[0].size()) chunks.buffers[0] = Buffer(std::move(*rows.zipped));
  return chunks;
}

// --- general compression ---

// Compress the first buffer to units, if the options ask for it and it saves bytes; true if done.
bool compress_chunks(Chunks& chunks, const Options& options, const Compress& zstd) {
  if (!is_general(options.compression) || chunks.buffers[0].size() < kMinBytes) return false;
  auto [units, sizes] = compressed(options.compression, options.level, chunks.buffers[0].view(),
                                   chunks.sizes[0], zstd);
  if (units.size() >= chunks.buffers[0].size()) return false;
  chunks.encoding = general(options.compression, options.level, chunks.encoding);
  chunks.buffers[0] = std::move(units);
  chunks.sizes[0] = std::move(sizes);
  return true;
}

// --- values of fixed width ---

// Entropy of the first values: bits of information a byte, mean over the bytes of a value.
double entropy(const FixedIn& values, int64_t count) {
  const int64_t width = values.bits / 8, num = std::min(count, kEntropyValues);
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
  if (options.split == Split::kAuto) return entropy(values, count) < kMaxEntropy;
  return options.split == Split::kOn;
}

Chunks split_chunks(const FixedIn& values, int64_t count) {
  const int64_t width = values.bits / 8;
  Chunks chunks{split(values.bits), counts_of(count, values.bits == 32 ? 1024 : 512), {}, {}};
  Sizes sizes;
  for (const int64_t num : chunks.counts) sizes.push_back(num * width);
  chunks.buffers.emplace_back(split_bytes({chunks.counts, values}));
  chunks.sizes.push_back(std::move(sizes));
  return chunks;
}

// Chunks before general compression.
Chunks plain_chunks(const FixedIn& values, int64_t count, const Options& options) {
  if (!is_countable(values.bits)) return flat_chunks(count, values);
  const int bits = static_cast<int>(values.bits);
  switch (chunk_form(values.data.data(), count, bits, options.most_runs)) {
    case ChunkForm::kPacked: {
      Chunks chunks{packed_inline(bits), counts_of(count, kPackedValues), {}, {}};
      auto packed = pack_inline({chunks.counts, values});
      chunks.sizes.push_back(std::move(packed.sizes));
      chunks.buffers.emplace_back(std::move(packed.data));
      return chunks;
    }
    case ChunkForm::kRuns: {
      auto encoded = encode_runs(values.data.data(), count, bits, kMaxValues, kMaxBytes);
      Chunks chunks{runs(bits), std::move(encoded.counts), {}, {}};
      chunks.sizes = {std::move(encoded.value_sizes), std::move(encoded.length_sizes)};
      chunks.buffers.emplace_back(copy_of(View{encoded.values}));
      chunks.buffers.emplace_back(copy_of(View{encoded.lengths}));
      return chunks;
    }
    default: return flat_chunks(count, values);
  }
}

Chunks fixed_chunks(const FixedIn& values, int64_t count, const Options& options,
                    const Compress& zstd) {
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

// True if a symbol table is worth a trial.
template <typename Offset>
bool has_codes(const Strings<Offset>& strings, const Options& options) {
  if (options.compression == Compression::kFsst) return true;
  return options.compression == Compression::kAuto && raw_bytes(strings) >= kMinStringBytes &&
         strings.longest() >= kFsstLength;
}

template <typename Offset>
Chunks variable_chunks(const Strings<Offset>& strings, int64_t chunk_bytes, int minor) {
  const bool is_2_1 = minor == 1;
  if (is_2_1) chunk_bytes = std::min(chunk_bytes, kV21ChunkBytes);
  StringChunks cut = chunk_strings(strings, chunk_bytes, kMaxStrings);
  Chunks chunks{variable(8 * static_cast<int>(sizeof(Offset))), std::move(cut.counts), {}, {}};
  chunks.sizes.push_back(std::move(cut.sizes));
  chunks.buffers.emplace_back(std::move(cut.data));
  if (const int64_t most = largest(chunks.sizes[0]); is_2_1 && most > kV21MaxBytes)
    refuse("mini-blocks of strings: two take ", most, " bytes, a chunk of version 2.1 has ",
           kV21MaxBytes, "; use lance-encoding:structural-encoding = fullzip");
  return chunks;
}

template <typename Offset>
Chunks string_chunks(const Strings<Offset>& strings, const Options& options, int minor,
                     const Compress& zstd) {
  if (auto codes = codes_of(strings, options)) {
    const Strings<Offset> coded{codes->strings.ends.data(), codes->strings.codes.data(),
                                strings.count, codes->num_bytes};
    Chunks chunks = variable_chunks(coded, options.chunk_bytes, minor);
    chunks.encoding = fsst(codes->table, chunks.encoding);
    return chunks;
  }
  Chunks chunks = variable_chunks(strings, options.chunk_bytes, minor);
  compress_chunks(chunks, options, zstd);
  return chunks;
}

// --- dictionaries ---

int64_t packed_indices(int64_t count, int64_t num_items) {
  const auto width = std::bit_width(static_cast<uint64_t>(num_items - 1));
  return count * std::max<int64_t>(1, width) / 8 + count / kPackedValues * kWidthBytes;
}

int64_t index_bytes(int64_t count, int64_t num_items, int64_t num_runs) {
  return std::min(packed_indices(count, num_items), num_runs * kRunBytes);
}

// Largest number of items, at most `most`, that take at most `limit` bytes with their indices.
int64_t items_that_pay(int64_t most, int64_t count, int64_t num_runs, int64_t width,
                       int64_t limit) {
  while (most > 0) {
    const auto narrower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most - 1)));
    const int64_t items = (limit - index_bytes(count, most, num_runs)) / width;
    if (items > narrower) return std::min(most, items);
    most = narrower;
  }
  return 0;
}

int64_t most_items(int64_t count, const Options& options) {
  return std::min(kMaxItems, count / options.dict_divisor);
}

std::optional<Dictionary> dictionary_of(const FixedIn& values, int64_t count,
                                        const Options& options, int minor) {
  const int64_t bits = values.bits, width = bits / 8, raw = count * width;
  if (count < kMinDictionaryValues || !(bits == 128 || (bits == 64 && minor >= 2))) return {};
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
  most = items_that_pay(most, count, num_runs, width, limit);
  if (most < 1) return {};
  auto distinct = distinct_values(values.data.data(), count, static_cast<int>(width), most);
  if (!distinct) return {};
  const int64_t num_items = distinct->items.size() / width;
  std::vector<Buffer> buffers;
  buffers.emplace_back(std::move(distinct->items));
  const Values items{num_items, FixedIn{bits, buffers[0].view()}};
  return Dictionary{std::move(distinct->indices), items, std::move(buffers)};
}

template <typename Offset>
std::optional<Dictionary> dictionary_of(const Strings<Offset>& strings, const Options& options) {
  constexpr int64_t kWord = sizeof(Offset);
  const int64_t count = strings.count, num_bytes = strings.total();
  if (count < kMinDictionaryValues) return {};
  const int64_t offset_bytes = (count + 1) * kWord;
  const auto limit = static_cast<int64_t>(options.dict_size_ratio *
                                          static_cast<double>(num_bytes + offset_bytes));
  const int64_t most = std::min(most_items(count, options), limit / kWord);
  const int64_t most_bytes =
      options.dict_max_bytes ? std::min(limit, *options.dict_max_bytes) : limit;
  if (most < 1) return {};
  auto distinct = distinct_strings(strings, most, most_bytes);
  if (!distinct) return {};
  const int64_t num_items = distinct->ends.size() - 1;
  const int64_t size = packed_indices(count, num_items) + distinct->items.size() +
                       distinct->ends.size() * kWord;
  if (size > limit) return {};
  if (num_items * kManyRepeats > count && has_codes(strings, options)) {
    const LearnedSymbols learned = learn_fsst(strings, kSampleBytes);
    const double coded = static_cast<double>(num_bytes * learned.encoded) /
                         static_cast<double>(std::max<int64_t>(learned.plain, 1));
    if (static_cast<double>(size) > static_cast<double>(offset_bytes) + coded) return {};
  }
  std::vector<Buffer> buffers;
  buffers.emplace_back(copy_of(bytes_of<Offset>({distinct->ends.data(),
                                              static_cast<size_t>(num_items) + 1})));
  buffers.emplace_back(std::move(distinct->items));
  const Values items{num_items, StringsView{static_cast<int>(kWord), buffers[0].view().data(),
                                            buffers[1].view()}};
  return Dictionary{std::move(distinct->indices), items, std::move(buffers)};
}

// Smallest of bit-packed, run-length coded (from 2.2 on) and flat values.
Block fixed_block(const FixedIn& values, int64_t count, int minor) {
  Block best{flat(values.bits), Buffer(values.data), false};
  if (!is_countable(values.bits) || count == 0) return best;
  const int bits = static_cast<int>(values.bits);
  const Sizes counts{count};
  const Pieces whole(counts, values);
  if (count <= kPackedValues) {
    auto packed = pack_inline(whole);
    if (packed.data.size() < best.data.size())
      best = {packed_inline(bits), Buffer(std::move(packed.data)), true};
  } else {
    const uint64_t all = either(values.data.data(), std::ssize(values.data), bits);
    const int width = std::max(1, static_cast<int>(std::bit_width(all)));
    if (width < bits) {
      auto packed = pack_blocks(whole, width);
      if (packed.data.size() < best.data.size())
        best = {packed_apart(bits, width), Buffer(std::move(packed.data)), true};
    }
  }
  if (minor >= 2 && run_block_sizes(whole)[0] < best.data.size())
    best = {runs(bits), Buffer(run_blocks(whole)), true};
  return best;
}

// Block of strings: bits of an offset, start of the bytes, offsets, bytes.
template <typename Offset>
Block string_block(const Strings<Offset>& strings) {
  constexpr int64_t kWord = sizeof(Offset);
  const Offset start = strings.ends[0];
  std::string out;
  out.reserve(static_cast<size_t>((strings.count + 3) * kWord + strings.total()));
  append(out, static_cast<Offset>(8 * kWord));
  append(out, static_cast<Offset>((strings.count + 3) * kWord));
  for (int64_t i = 0; i <= strings.count; ++i)
    append(out, static_cast<Offset>(strings.ends[i] - start));
  out.append(reinterpret_cast<const char*>(strings.content) + start,
             static_cast<size_t>(strings.total()));
  return {variable(8 * static_cast<int>(kWord)), Buffer(copy_of(out)), false};
}

}  // namespace

ProtoOut variable(int offset_bits) {
  return ProtoOut().message(2, ProtoOut().message(1, flat(offset_bits)));
}
ProtoOut fsst(std::string_view table, const ProtoOut& values) {
  return ProtoOut().message(6, ProtoOut().bytes(1, table).message(2, values));
}
ProtoOut general(Compression scheme, std::optional<int32_t> level, const ProtoOut& values) {
  ProtoOut compression;
  compression.number(1, scheme == Compression::kLz4 ? 1 : 2);
  if (level) compression.number(2, static_cast<uint64_t>(int64_t{*level}));
  return ProtoOut().message(10, ProtoOut().message(1, compression).message(3, values));
}

std::pair<Buffer, Sizes> compressed(Compression scheme, std::optional<int32_t> level, View data,
                                    const Sizes& sizes, const Compress& zstd) {
  if (scheme == Compression::kLz4) {
    auto units = encode_lz4({sizes, {8, data}});
    return {Buffer(std::move(units.data)), std::move(units.sizes)};
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

template <typename Offset>
std::optional<Codes<Offset>> codes_of(const Strings<Offset>& strings, const Options& options) {
  const int64_t num_bytes = strings.total();
  if (!has_codes(strings, options) || num_bytes <= 0 || num_bytes >= kMaxFsstBytes) return {};
  LearnedSymbols learned = learn_fsst(strings, kSampleBytes);
  const double most =
      kWorthIt * static_cast<double>(num_bytes) - static_cast<double>(kTableBytes);
  const double share = static_cast<double>(learned.encoded) /
                       static_cast<double>(std::max<int64_t>(learned.plain, 1));
  if (share * static_cast<double>(num_bytes) > most) return {};
  const auto num_symbols = static_cast<size_t>(learned.symbols.size());
  auto coded = encode_fsst<Offset>(strings, {learned.symbols.data(), num_symbols},
                                   {learned.lengths.data(), num_symbols});
  const int64_t size = coded.ends[strings.count];
  if (static_cast<double>(size) > most) return {};
  // Header: the strings are compressed.
  std::string table{static_cast<char>(num_symbols), 0, 0, 1};
  table += "TSSF";
  table.append(reinterpret_cast<const char*>(learned.symbols.data()), 8 * num_symbols);
  table.append(reinterpret_cast<const char*>(learned.lengths.data()), num_symbols);
  table.resize(kTableBytes, '\0');
  return Codes<Offset>{std::move(table), std::move(coded), size};
}

template std::optional<Codes<int32_t>> codes_of(const Strings<int32_t>&, const Options&);
template std::optional<Codes<int64_t>> codes_of(const Strings<int64_t>&, const Options&);

std::optional<Dictionary> dictionary_of(const Input& input) {
  const int64_t count = input.values.count;
  if (const auto* fixed = std::get_if<FixedIn>(&input.values.kind))
    return dictionary_of(*fixed, count, input.options, input.minor);
  const auto* view = std::get_if<StringsView>(&input.values.kind);
  if (!view) return {};
  return with_strings(*view, count, [&](const auto& strings) {
    return dictionary_of(strings, input.options);
  });
}

Block items_block(const Values& items, const Options& options, int minor, const Compress& zstd) {
  auto plain = [&]() -> Block {
    if (const auto* fixed = std::get_if<FixedIn>(&items.kind))
      return fixed_block(*fixed, items.count, minor);
    if (const auto* view = std::get_if<StringsView>(&items.kind))
      return with_strings(*view, items.count,
                          [](const auto& strings) { return string_block(strings); });
    Rows rows = rows_of(items);
    ProtoOut encoding = rows.encoding;
    return {std::move(encoding), zipped(std::move(rows), items.count), false};
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

Chunks value_chunks(const Values& values, const Input& input, const Compress& zstd) {
  const Options& options = input.options;
  if (const auto* fixed = std::get_if<FixedIn>(&values.kind))
    return fixed_chunks(*fixed, values.count, options, zstd);
  if (const auto* view = std::get_if<StringsView>(&values.kind))
    return with_strings(*view, values.count, [&](const auto& strings) {
      return string_chunks(strings, options, input.minor, zstd);
    });
  return row_chunks(values.count, rows_of(values));
}

}  // namespace alance::pages
