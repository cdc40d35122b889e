// Pages of few rows, byte for byte as alance/format/encode writes them one step after the other:
// constants, or one chunk of runs, packed or plain values, or byte strings, with its levels.
#include "small_page.hpp"

#include <algorithm>
#include <bit>

#include "container.hpp"
#include "encode.hpp"

namespace alance::small {
namespace {

constexpr int64_t CHUNK_BYTES = 4096;   // of byte strings: more make several chunks
constexpr int64_t WIDE_BYTES = 256;     // one value of so many is not for chunks
constexpr size_t MAX_INLINE_BYTES = 32;  // of a constant in the description of its page
constexpr int64_t ROW_BYTES = 128;      // of packed values, for each bit of their width
constexpr char STRING_FILLER = 0x48, CHUNK_FILLER = static_cast<char>(0xFE);
constexpr uint64_t ALL_VALID_ITEM = 1, NULLABLE_ITEM = 3;  // enum RepDefLayer

void pad(std::string& out, size_t to, char filler) { out.append(-out.size() % to, filler); }

const uint8_t* bytes_at(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

bool bit_at(const uint8_t* bits, int64_t place) { return bits[place / 8] >> (place % 8) & 1; }

// --- descriptions: message CompressiveEncoding ---

ProtoOut flat(int bits) {
  return ProtoOut().message(1, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
ProtoOut variable(int offset_bits) {
  return ProtoOut().message(2, ProtoOut().message(1, flat(offset_bits)));
}
ProtoOut inline_packed(int bits) {
  return ProtoOut().message(5, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
ProtoOut runs(int bits) {
  return ProtoOut().message(8, ProtoOut().message(1, flat(bits)).message(2, flat(8)));
}

// --- values ---

// Values of a chunk, as one or two buffers, and what they are.
struct Encoded {
  ProtoOut encoding;
  std::vector<std::string> buffers;
};

template <typename Each>  // called with the first row and the length of each run
int64_t each_run(const std::string& values, size_t width, Each each) {
  const size_t count = values.size() / width;
  int64_t num_runs = 0;
  for (size_t first = 0; first < count; ++num_runs) {
    size_t stop = first + 1;
    while (stop < count && !std::memcmp(&values[first * width], &values[stop * width], width))
      ++stop;
    each(first, stop - first);
    first = stop;
  }
  return num_runs;
}

int64_t count_runs(const std::string& values, size_t width) {
  return each_run(values, width, [](size_t, size_t) {});
}

// The value of each run, and behind them their lengths of one byte.
std::vector<std::string> run_parts(const std::string& values, size_t width) {
  std::string heads, lengths;
  each_run(values, width, [&](size_t first, size_t length) {
    heads.append(values, first * width, width);
    lengths.push_back(static_cast<char>(length));
  });
  return {heads, lengths};
}

int width_of(const std::string& values, int bits) {
  return static_cast<int>(
      std::bit_width(either(bytes_at(values), static_cast<int64_t>(values.size()), bits)));
}

// The width as one value, then one block.
std::string packed(const std::string& values, int bits, int width) {
  std::string out(static_cast<size_t>(bits / 8 + ROW_BYTES * width), '\0');
  out[0] = static_cast<char>(width);
  pack_one(bytes_at(values), static_cast<int64_t>(values.size()) / (bits / 8), bits, width,
           reinterpret_cast<uint8_t*>(out.data()) + bits / 8);
  return out;
}

Encoded fixed_values(const Rows& rows) {
  const int bits = rows.kind.bits;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return {flat(bits), {rows.values}};
  switch (chunk_form(bytes_at(rows.values), rows.count, bits, {})) {
    case ChunkForm::kRuns:
      return {runs(bits), run_parts(rows.values, static_cast<size_t>(bits / 8))};
    case ChunkForm::kPacked:
      return {inline_packed(bits), {packed(rows.values, bits, width_of(rows.values, bits))}};
    default:
      return {flat(bits), {rows.values}};
  }
}

void append_offset(std::string& out, int64_t offset, int width) {
  out.append(reinterpret_cast<const char*>(&offset), static_cast<size_t>(width));
}

Encoded string_values(const Rows& rows) {
  const int word = rows.kind.offset_bytes;
  std::string chunk;
  for (const int64_t end : rows.ends) append_offset(chunk, word * (rows.count + 1) + end, word);
  chunk += rows.data;
  pad(chunk, static_cast<size_t>(word), STRING_FILLER);
  return {variable(8 * word), {chunk}};
}

// --- levels: 1 for a null, else 0 ---

std::string levels_of(const Rows& rows) {
  std::string levels;
  for (const uint8_t valid : rows.valid) append(levels, static_cast<uint16_t>(!valid));
  return levels;
}

Encoded level_values(const std::string& levels, bool is_2_1) {
  const size_t flat_bytes = levels.size(), packed_bytes = 2 + ROW_BYTES;
  if (!is_2_1) {
    const auto run_bytes = static_cast<size_t>(8 + 3 * count_runs(levels, 2));
    if (run_bytes <= packed_bytes && run_bytes < flat_bytes) {
      std::vector<std::string> parts = run_parts(levels, 2);
      std::string block;
      append(block, static_cast<uint64_t>(parts[0].size()));
      return {runs(16), {block + parts[0] + parts[1]}};
    }
  }
  if (packed_bytes < flat_bytes) return {inline_packed(16), {packed(levels, 16, 1)}};
  return {flat(16), {levels}};
}

// --- pages ---

ProtoOut& add_layers(ProtoOut& message, uint32_t field, const Rows& rows) {
  const std::vector<uint64_t> layers{rows.valid.empty() ? ALL_VALID_ITEM : NULLABLE_ITEM};
  return message.numbers(field, layers);
}

Page chunk_page(const Rows& rows, bool is_2_1) {
  Encoded values = rows.kind.bits ? fixed_values(rows) : string_values(rows);
  ProtoOut message;
  std::string chunk;
  std::vector<std::string> parts;
  const bool has_levels = !rows.valid.empty();
  if (has_levels) {
    Encoded levels = level_values(levels_of(rows), is_2_1);
    message.message(2, levels.encoding);
    parts.push_back(std::move(levels.buffers[0]));
  }
  message.message(3, values.encoding);
  add_layers(message, 6, rows).number(7, values.buffers.size());
  message.number(9, static_cast<uint64_t>(rows.count));
  if (!is_2_1) message.number(10, 1);
  for (std::string& buffer : values.buffers) parts.push_back(std::move(buffer));
  append(chunk, static_cast<uint16_t>(has_levels ? rows.count : 0));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (is_2_1 || (has_levels && i == 0))
      append(chunk, static_cast<uint16_t>(parts[i].size()));
    else
      append(chunk, static_cast<uint32_t>(parts[i].size()));
  }
  pad(chunk, 8, CHUNK_FILLER);
  for (const std::string& part : parts) {
    chunk += part;
    pad(chunk, 8, CHUNK_FILLER);
  }
  const auto word = static_cast<uint32_t>((chunk.size() / 8 - 1) << 4);
  std::string words;
  if (is_2_1)
    append(words, static_cast<uint16_t>(word));
  else
    append(words, word);
  return {ProtoOut().message(1, message).text(), {words, chunk}, 1};
}

// The value that all rows have that are not null; nothing if they differ.
std::optional<std::string> only_value(const Rows& rows) {
  std::optional<std::string> only;
  const auto width = static_cast<size_t>(rows.kind.bits / 8);
  for (int64_t row = 0; row < rows.count; ++row) {
    if (rows.is_null(row)) continue;
    const auto at = static_cast<size_t>(row);
    std::string value;
    if (rows.kind.bits == 1)
      value.push_back(static_cast<char>(bit_at(bytes_at(rows.values), row)));
    else if (rows.kind.bits)
      value = rows.values.substr(at * width, width);
    else
      value = rows.data.substr(static_cast<size_t>(rows.ends[at]),
                               static_cast<size_t>(rows.ends[at + 1] - rows.ends[at]));
    if (!only)
      only = std::move(value);
    else if (*only != value)
      return {};
  }
  return only;
}

Page value_page(const Rows& rows, const std::string& value) {
  ProtoOut message;
  std::vector<std::string> buffers;
  add_layers(message, 5, rows);
  if (rows.kind.bits && value.size() <= MAX_INLINE_BYTES) {
    message.bytes(6, value);
  } else {  // the value as the buffers of an Arrow array of one
    const int word = rows.kind.offset_bytes;
    std::string buffer;
    append(buffer, uint32_t{2});
    append(buffer, static_cast<uint32_t>(2 * word));
    append(buffer, static_cast<uint32_t>(value.size()));
    append_offset(buffer, 0, word);
    append_offset(buffer, static_cast<int64_t>(value.size()), word);
    buffers.push_back(buffer + value);
  }
  if (!rows.valid.empty()) {
    buffers.emplace_back();
    buffers.push_back(levels_of(rows));
  }
  const size_t num_search = buffers.size();
  return {ProtoOut().message(2, message).text(), std::move(buffers), num_search};
}

// --- arrays ---

// Bits from `start` on, moved to the first byte unless they begin with one.
std::string bits_from(const uint8_t* bits, int64_t start, int64_t count) {
  const auto num_bytes = static_cast<size_t>(bytes_of_bits(count));
  if (start % 8 == 0) return {reinterpret_cast<const char*>(bits + start / 8), num_bytes};
  std::string out(num_bytes, '\0');
  for (int64_t i = 0; i < count; ++i) {
    char& byte = out[static_cast<size_t>(i / 8)];
    byte = static_cast<char>(byte | bit_at(bits, start + i) << i % 8);
  }
  return out;
}

template <typename Offset>
bool take_strings(Rows& rows, const ArrowArray& array) {
  const auto* offsets = static_cast<const Offset*>(array.buffers[1]);
  const auto* data = static_cast<const char*>(array.buffers[2]);
  rows.ends.assign(1, 0);
  int64_t num_bytes = static_cast<int64_t>(sizeof(Offset)) * (rows.count + 1);
  for (int64_t row = 0; row < rows.count; ++row) {
    int64_t size = 0;
    if (!rows.is_null(row)) {
      const int64_t start = offsets[array.offset + row], stop = offsets[array.offset + row + 1];
      size = stop - start;
      if (start < 0 || size < 0 || size >= WIDE_BYTES) return false;
      if (num_bytes += size; num_bytes > CHUNK_BYTES) return false;
      if (size) rows.data.append(data + start, static_cast<size_t>(size));
    }
    rows.ends.push_back(rows.ends.back() + size);
  }
  return true;
}

}  // namespace

std::optional<Rows> rows_of(const ArrowArray& array, const Kind& kind) {
  Rows rows{kind, array.length, {}, array.length, {}, {}, {}};
  if (array.length < 1 || array.length > MAX_ROWS || array.dictionary || array.n_children ||
      array.n_buffers != (kind.bits ? 2 : 3) || !array.buffers[1])
    return {};
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  if (bits && array.null_count != 0) {
    rows.valid.resize(static_cast<size_t>(rows.count));
    rows.num_valid = 0;
    for (int64_t row = 0; row < rows.count; ++row)
      rows.num_valid += rows.valid[static_cast<size_t>(row)] = bit_at(bits, array.offset + row);
    if (rows.num_valid == rows.count)
      rows.valid.clear();
    else if (!kind.is_nullable)
      return {};  // an error, and who says it knows the field
  }
  const auto* content = static_cast<const uint8_t*>(array.buffers[1]);
  if (kind.bits == 0) {
    const bool fits = kind.offset_bytes == 8 ? take_strings<int64_t>(rows, array)
                                             : take_strings<int32_t>(rows, array);
    if (!fits) return {};
  } else if (kind.bits == 1) {
    rows.values = bits_from(content, array.offset, rows.count);
  } else {
    const int64_t width = kind.bits / 8;
    rows.values.assign(reinterpret_cast<const char*>(content + array.offset * width),
                       static_cast<size_t>(rows.count * width));
  }
  return rows;
}

Page page_of(const Rows& rows, bool is_2_1) {
  if (rows.num_valid == 0) {
    ProtoOut message;
    add_layers(message, 5, rows);
    return {ProtoOut().message(2, message).text(), {}, 0};
  }
  if (!is_2_1)
    if (const auto value = only_value(rows)) return value_page(rows, *value);
  return chunk_page(rows, is_2_1);
}

}  // namespace alance::small
