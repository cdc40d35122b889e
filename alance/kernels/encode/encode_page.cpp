// Pages: constants, or chunks of compressed values with their levels, and a dictionary if it saves
// bytes.
//
// Source: docs/format/file.md, "Mini-block layout", "Level budget" and "Constant layout"; the
// choices follow the reference implementation.
#include "encode/encode_page.hpp"

#include <algorithm>
#include <bit>

#include "encode/container.hpp"
#include "encode/encode_chunks.hpp"

namespace alance::pages {
namespace {

constexpr int kLevelBits = 16;

// --- pages ---
constexpr int64_t kMaxEntries = 0xFFFF;  // a chunk stores their number in 16 bits
constexpr int64_t kMaxLevelBits = 131072;  // of all levels of a chunk: half of a 2.1 chunk
constexpr int64_t kMaxLevelBytes = 0xFFFF;
constexpr int64_t kMaxChunkBytes = 32768;  // of 2.1, whose chunk words have 16 bits
constexpr int64_t kMaxRawLevels = 8192;  // bytes: levels beside a constant are not compressed
constexpr int64_t kWideBytes = 256;  // a longer constant is smaller than chunks of it
constexpr int64_t kMaxValueBytes = 1 << 20;  // of a constant, which readers of the page hold
constexpr size_t kMaxInlineBytes = 32;  // of a constant in the page's description

// --- layers ---

constexpr uint8_t kAllValidItem = 1, kAllValidList = 2, kNullableItem = 3, kNullAndEmpty = 6;

bool is_list(uint8_t layer) { return layer != kAllValidItem && layer != kNullableItem; }
int num_levels(uint8_t layer) {
  if (layer == kAllValidItem || layer == kAllValidList) return 0;
  return layer == kNullAndEmpty ? 2 : 1;
}

// --- levels ---

struct LevelBlocks {
  ProtoOut encoding;
  Sizes sizes;  // of each chunk
  std::function<Buffer()> make;
  Buffer data = View{};
};

// Levels of all chunks in their smallest form; on a tie the form that is read faster.
LevelBlocks level_blocks(std::span<const uint16_t> levels, const Sizes& counts, uint16_t max_level,
                         int minor) {
  const View data = bytes_of(levels);
  const Pieces parts(counts, {kLevelBits, data});
  const int width =
      static_cast<int>(std::bit_width(either(data.data(), std::ssize(data), kLevelBits)));
  if (width > std::bit_width(max_level))
    refuse("levels of ", width, " bits, at most ", max_level, " is expected");
  std::vector<LevelBlocks> legal;
  auto consider = [&](ProtoOut encoding, Sizes sizes, std::function<Buffer()> make) {
    if (largest(sizes) <= kMaxLevelBytes)
      legal.push_back({std::move(encoding), std::move(sizes), std::move(make)});
  };
  Sizes flat_sizes;
  for (const int64_t count : counts) flat_sizes.push_back(2 * count);
  const int64_t flat_bytes = 2 * parts.total;
  if (minor >= 2) {
    consider(runs(kLevelBits), run_block_sizes(parts), [&] { return Buffer(run_blocks(parts)); });
  }
  if (parts.total > kPackedValues && width < kLevelBits) {
    const int packed_width = std::max(width, 1);
    const int64_t block_bytes = kRowBytes * packed_width;
    Sizes sizes;
    for (const int64_t count : counts)
      sizes.push_back(count / kPackedValues * block_bytes +
                      std::min(2 * (count % kPackedValues), block_bytes));
    consider(packed_apart(kLevelBits, packed_width), std::move(sizes), [&, packed_width] {
      return Buffer(pack_blocks(parts, packed_width).data);
    });
  }
  if (largest(counts) <= kPackedValues) {
    Sizes sizes;
    const uint8_t* at = data.data();
    for (const int64_t count : counts) {
      sizes.push_back(2 + kRowBytes * std::bit_width(either(at, 2 * count, kLevelBits)));
      at += 2 * count;
    }
    consider(packed_inline(kLevelBits), std::move(sizes),
             [&] { return Buffer(pack_inline(parts).data); });
  }
  consider(flat(kLevelBits), flat_sizes, [&] { return Buffer(data); });
  if (legal.empty()) refuse(largest(counts), " levels in a chunk of a mini-block");
  auto best = std::min_element(legal.begin(), legal.end(), [](const auto& a, const auto& b) {
    return sum(a.sizes) < sum(b.sizes);
  });
  // Packing must save bytes.
  if (sum(best->sizes) >= flat_bytes) best = legal.end() - 1;
  best->data = best->make();
  return std::move(*best);
}

// --- pages ---

using Entries = std::span<const uint16_t>;

// Number of entries up to the end of each chunk, by its values.
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

// Repetition index: for each chunk the rows that end in it, and its entries of a row that continues
// behind it.
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

// True if the chunks fit this version; false if they have too many levels. Throws if values do not
// fit.
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
  if (most + header <= kMaxChunkBytes) return true;
  if (num_levels && most_values + header <= kMaxChunkBytes / 2) return false;
  refuse("mini-block: a chunk of ", most + header, " bytes, files of 2.1 have at most ",
         kMaxChunkBytes, "; write full-zip pages or a file of 2.2");
}

// Chunk words: size and log2 of the number of values; the last chunk has no logarithm.
std::string chunk_words(const Sizes& chunk_bytes, const Sizes& counts, bool is_large) {
  std::string words;
  for (size_t chunk = 0; chunk < counts.size(); ++chunk) {
    auto word = static_cast<uint32_t>(chunk_bytes[chunk] / 8 - 1) << 4;
    if (chunk + 1 < counts.size())
      word |= static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(counts[chunk])) - 1);
    if (is_large)
      append(words, word);
    else
      append(words, static_cast<uint16_t>(word));
  }
  return words;
}

Result chunk_page(const Input& input, const Limits& limits, const Values& values,
                  const Values* items, const Compress& zstd) {
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
      largest(counts) > std::min(kMaxEntries, kMaxLevelBits / std::max<int64_t>(bits, 1)))
    return NoPage::kTooManyLevels;
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
  if (!fits(sizes, levels.size(), is_large)) return NoPage::kTooManyLevels;
  Sizes all_sizes;
  for (const Sizes& part : sizes) all_sizes.insert(all_sizes.end(), part.begin(), part.end());
  if (!has_levels) std::fill(counts.begin(), counts.end(), 0);
  auto content = assemble_chunks(buffers, all_sizes, counts, std::ssize(levels), is_large);
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
  Page page{ProtoOut().message(1, message).text(), {}, 1};
  page.buffers.push_back(copy_of(chunk_words(content.sizes, chunks.counts, is_large)));
  page.buffers.push_back(std::move(content.data));
  if (dictionary) page.buffers.push_back(copy_of(dictionary->data.view()));
  if (rep) page.buffers.push_back(copy_of(repetition_index(*rep, limits.max_rep, ends)));
  return page;
}

// --- constants ---

Page constant(const ProtoOut& message, std::vector<Buffer> buffers) {
  return {ProtoOut().message(2, message).text(), std::move(buffers)};
}

Buffer raw(const std::optional<Entries>& levels) {
  return levels ? Buffer(bytes_of(*levels)) : Buffer(Owned<uint8_t>(0));
}

Result null_page(const Input& input, const Limits& limits) {
  ProtoOut message;
  message.numbers(5, input.levels.layers);
  const auto& [layers, rep, definition] = input.levels;
  if (layers.size() == 1 && layers[0] == kNullableItem) return constant(message, {});
  if (input.minor >= 3) return SparseConstant{};
  std::vector<Buffer> buffers;
  if (input.minor == 1) {
    buffers.push_back(raw(rep));
    buffers.push_back(raw(definition));
    return constant(message, std::move(buffers));
  }
  auto add = [&](const std::optional<Entries>& levels, uint32_t field, uint16_t max_level) {
    if (!levels) return buffers.push_back(raw(levels));
    const Sizes counts{static_cast<int64_t>(levels->size())};
    LevelBlocks block = level_blocks(*levels, counts, max_level, input.minor);
    message.message(field, block.encoding);
    buffers.push_back(std::move(block.data));
  };
  add(rep, 7, limits.max_rep);
  add(definition, 8, limits.max_def);
  if (rep && !rep->empty()) message.number(9, rep->size());
  if (definition && !definition->empty()) message.number(10, definition->size());
  return constant(message, std::move(buffers));
}

// Call `each` with the slots that have a value, until it returns false.
template <typename Each>
bool all_present(const Input& input, const Limits& limits, Each each) {
  const auto& definition = input.levels.definition;
  const size_t num = definition ? definition->size() : static_cast<size_t>(input.values.count);
  int64_t slot = 0;
  for (size_t i = 0; i < num; ++i) {
    const uint16_t level = definition ? (*definition)[i] : 0;
    if (level == 0 && !each(slot)) return false;
    // Without lists every entry has a slot.
    slot += !input.levels.rep || level <= limits.max_visible;
  }
  return true;
}

// Value that all items share that are not null, as bytes; a bit as one byte.
using Only = std::optional<std::string>;

Only only_fixed(const Input& input, const Limits& limits, const FixedIn& values) {
  if (values.bits != 1 && values.bits % 8) return {};
  const uint8_t* data = values.data.data();
  const auto width = static_cast<size_t>(values.bits / 8);
  const auto bit = [&](int64_t slot) { return data[slot / 8] >> (slot % 8) & 1; };
  const auto at = [&](int64_t slot) { return data + static_cast<size_t>(slot) * width; };
  std::optional<int64_t> first;
  const bool are_equal = all_present(input, limits, [&](int64_t slot) {
    if (!first) first = slot;
    return width ? std::memcmp(at(slot), at(*first), width) == 0 : bit(slot) == bit(*first);
  });
  if (!are_equal) return {};
  if (!width) return std::string(1, static_cast<char>(bit(*first)));
  return std::string(reinterpret_cast<const char*>(at(*first)), width);
}

template <typename Offset>
Only only_string(const Input& input, const Limits& limits, const Strings<Offset>& strings) {
  std::optional<int64_t> first;
  int64_t size = 0, next = 0;
  auto at = [&](int64_t slot) { return strings.content + strings.ends[slot]; };
  const bool are_equal = all_present(input, limits, [&](int64_t slot) {
    const int64_t start = strings.ends[slot], own = strings.ends[slot + 1] - start;
    if (!first) {
      first = slot;
      size = own;
      next = start + size;
      return size <= kMaxValueBytes;
    }
    // Nulls between them have no bytes.
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
  return with_strings(*view, input.values.count, [&](const auto& strings) {
    return only_string(input, limits, strings);
  });
}

// True if chunks are smaller, by run lengths of the values and compression of the levels.
bool is_smaller_in_chunks(const Input& input, const std::string& value) {
  const auto& [layers, rep, definition] = input.levels;
  const size_t levels = (rep ? rep->size_bytes() : 0) + (definition ? definition->size_bytes() : 0);
  if (static_cast<int64_t>(levels) <= kMaxRawLevels) return false;
  if (const auto* fixed = std::get_if<FixedIn>(&input.values.kind))
    return fixed->bits == 1 || is_countable(fixed->bits) || fixed->bits == 128;
  return std::ssize(value) < kWideBytes;
}

// Value as the buffers of an Arrow array of length 1.
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
  std::vector<Buffer> buffers;
  message.numbers(5, layers);
  if (std::holds_alternative<FixedIn>(input.values.kind) && value.size() <= kMaxInlineBytes)
    message.bytes(6, value);
  else
    buffers.push_back(copy_of(value_buffer(input, value)));
  if (rep || definition) {
    buffers.push_back(raw(rep));
    buffers.push_back(raw(definition));
  }
  return constant(message, std::move(buffers));
}

// Page without chunks, if all items are null or share one value.
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
  if (!std::holds_alternative<FixedIn>(input.values.kind) || value->size() > kMaxInlineBytes)
    return {};
  if (!input.levels.rep && !definition) return value_page(input, *value);
  return SparseConstant{*value};
}

// Check that levels are as many as readers expect from the number of values.
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
    corrupt("pages: ", input.values.count, " values for ", visible, " entries");
}

}  // namespace

std::vector<size_t> search_of(const Page& page) {
  std::vector<size_t> numbers;
  for (size_t number = 0; number < page.buffers.size(); ++number)
    if (static_cast<int>(number) != page.data) numbers.push_back(number);
  return numbers;
}

Limits::Limits(const std::vector<uint8_t>& layers) {
  for (const uint8_t layer : layers) {
    max_rep = static_cast<uint16_t>(max_rep + is_list(layer));
    max_def = static_cast<uint16_t>(max_def + num_levels(layer));
    if (max_rep == 0) max_visible = max_def;
  }
}

Result page_of(const Input& input, const Compress& zstd) {
  const Limits limits(input.levels.layers);
  check(input, limits);
  const bool is_any = input.mode == Mode::kAny;
  if (is_any || input.mode == Mode::kConstant)
    if (auto page = constant_page(input, limits)) return std::move(*page);
  if (input.mode == Mode::kConstant)
    return is_zipped(input) ? NoPage::kZippedLater : NoPage::kChunkedLater;
  if (input.mode == Mode::kZipped) return zipped_page(input, limits, zstd);
  if (input.items || input.mode == Mode::kChunks)
    return chunk_page(input, limits, input.values, input.items ? &*input.items : nullptr, zstd);
  if (auto dictionary = dictionary_of(input)) {
    const Values indices{
        input.values.count,
        FixedIn{32, bytes_of<uint32_t>({dictionary->indices.data(),
                                        static_cast<size_t>(input.values.count)})}};
    return chunk_page(input, limits, indices, &dictionary->items, zstd);
  }
  if (is_any && is_zipped(input)) return zipped_page(input, limits, zstd);
  return chunk_page(input, limits, input.values, nullptr, zstd);
}

}  // namespace alance::pages
