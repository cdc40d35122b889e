// Neighbouring rows of a page, chunk by chunk: all that a scan decodes of it.
#include <algorithm>
#include <limits>
#include <optional>

#include "codecs/dictionary.hpp"
#include "codecs/fsst_streams.hpp"
#include "rows/pages/range_sink.hpp"
#include "rows/pages/row_page.hpp"
#include "rows/pages/sequences.hpp"
#include "codecs/string_chunks.hpp"
#include "codecs/unpack.hpp"
#include "base/utf8.hpp"

namespace alance {

using namespace cells;

namespace {

// Unpack values `first` to `last` of a block; `out` has room for these alone.
void unpack_some(int bits, int width, const uint8_t* in, int64_t first, int64_t last,
                 uint8_t* out) {
  if (first == 0 && last == kBlockValues) return fastlanes::unpackers(bits)[width](in, out);
  alignas(64) uint8_t whole[kBlockValues * 8];
  fastlanes::unpackers(bits)[width](in, whole);
  std::memcpy(out, whole + first * bits / 8, static_cast<size_t>((last - first) * bits / 8));
}

// Expand values `first` to `last` of runs with `count` values; the last run may exceed them.
template <typename T>
void expand_runs(Part values, Part lengths, int64_t count, int64_t first, int64_t last, T* out) {
  if (values.size % static_cast<int64_t>(sizeof(T)) ||
      values.size / static_cast<int64_t>(sizeof(T)) != lengths.size)
    corrupt("rle: ", values.size, " bytes of values");
  int64_t at = 0;
  for (int64_t run = 0; run < lengths.size; ++run) {
    const int64_t end = at + lengths.data[run];
    if (end == at || at >= count) corrupt("rle: runs of other lengths");
    const int64_t begin = std::max(at, first), stop = std::min(end, last);
    if (begin < stop)
      std::fill(out + (begin - first), out + (stop - first),
                load<T>(values.data + static_cast<int64_t>(sizeof(T)) * run));
    at = end;
  }
  if (at < count) corrupt("rle: runs of ", at, " values, expected ", count);
}

// Strings of a chunk, from value `first` to `last`, which are checked.
template <typename Offset>
struct ChunkStrings {
  static constexpr int64_t kWord = sizeof(Offset);
  const uint8_t *data, *offsets;  // chunk, from whose start the offsets count
  int64_t count, begin, end;      // bytes of the strings

  ChunkStrings(Part chunk, int64_t num_values, int64_t first, int64_t last)
      : data(chunk.data), offsets(chunk.data + kWord * first), count(last - first) {
    string_span<Offset>(data, chunk.size, num_values);
    if (!rises<Offset>(offsets, count)) corrupt("variable: offsets decrease");
    begin = offset(0);
    end = offset(count);
    if (begin < kWord * (num_values + 1) || end > chunk.size)
      corrupt("variable: values from ", begin, " to ", end, " in a chunk of ", chunk.size, " bytes");
  }
  Offset offset(int64_t i) const { return load<Offset>(offsets + kWord * i); }
  fsst::Stream stream() const { return {data + begin, data + end, offsets, count}; }
};

// Copy strings without symbols.
template <typename Offset>
RangeStrings<Offset> copied(const std::vector<ChunkStrings<Offset>>& parts, int64_t count) {
  int64_t total = 0;
  for (const auto& part : parts) total += part.end - part.begin;
  if (total > std::numeric_limits<Offset>::max())
    throw std::overflow_error("strings of too many bytes for their offsets");
  RangeStrings<Offset> out{Owned<Offset>(count + 1), Owned<uint8_t>(total), count, total};
  Offset* offset = out.offsets.data();
  Offset at = 0;
  for (const auto& part : parts) {
    const auto begin = static_cast<Offset>(part.begin), size = static_cast<Offset>(part.end - part.begin);
    for (int64_t i = 0; i < part.count; ++i) *offset++ = static_cast<Offset>(part.offset(i) - begin + at);
    if (size) std::memcpy(out.bytes.data() + at, part.data + begin, static_cast<size_t>(size));
    at = static_cast<Offset>(at + size);
  }
  *offset = at;
  return out;
}

}  // namespace

void read_levels(Nulls kind, int bits, Part part, int64_t count, uint16_t* out) {
  using sequences::Numbers;
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  switch (kind) {
    case Nulls::packed: return Numbers{Numbers::kPacked, 16}.read(part, count, bytes);
    case Nulls::blocks: return Numbers{Numbers::kBlocks, 16, static_cast<uint64_t>(bits)}.read(part, count, bytes);
    case Nulls::runs: {
      const auto [values, lengths] = sequences::two_parts(part, "rle");
      return expand_runs(values, lengths, count, 0, count, out);
    }
    default:
      if (part.size != 2 * count) corrupt(part.size, " bytes of ", count, " levels");
      if (count != 0) std::memcpy(out, part.data, static_cast<size_t>(part.size));
  }
}

// Requested part of a chunk.
struct RowPage::Slice {
  Chunk chunk;
  int64_t first, last;  // values of the chunk

  int64_t count() const { return last - first; }
};

bool RowPage::is_simple(int64_t width) const {
  const PageKind& kind = *kind_;
  return kind.masks.empty() && !is_null() && !kind.null_items && kind.scheme == 0 && !kind.coding && !kind.coded_reps &&
         !kind.coded_defs && !slots_ && kind.max_blob_level < 0 && kind.values != Values::rows &&
         (kind.bits == 1 || kind.bits % 8 == 0) && !((kind.values == Values::zipped || is_constant()) && width == 0) &&
         !(is_string(kind.values) && !has_items() && width != -(kind.bits / 8));
}

void RowPage::decode_range(int64_t first, int64_t last, Part bytes, RangeSink& sink) const {
  if (!fits(sink.form.width)) corrupt("rows of another form");
  if (kind_->values == Values::zipped) return zipped_range(first, last, bytes, sink);
  std::vector<Slice> slices;
  prepare();
  const int64_t begin = chunk_of(first, 0), origin = begin_of(begin);
  for (int64_t c = begin; c < num_chunks_ && rows_from(c) < last; ++c) {
    const int64_t start = begin_of(c) - origin, size = begin_of(c + 1) - begin_of(c);
    check_span(start, size, bytes.size, "chunk");
    const int64_t from = std::max(first, rows_from(c)) - rows_from(c);
    const int64_t to = std::min(last, rows_until(c)) - rows_from(c);
    if (from < to) slices.push_back({open_chunk(c, {bytes.data + start, size}), from, to});
  }
  if (nulls() != Nulls::none) read_nulls(slices, sink);
  if (sink.form.is_string()) {
    if (sink.form.width == -4)
      string_range<int32_t>(slices, last - first, bytes, sink);
    else
      string_range<int64_t>(slices, last - first, bytes, sink);
    return sink.advance(last - first);
  }
  if (has_fixed_items()) return gather_items(slices, sink);
  for (const Slice& slice : slices) {
    if (kind_->bits == 1) {
      sink.bits(slice.chunk.first.data, slice.first, slice.count());
    } else {
      read_words(slice, sink.values());
    }
    sink.advance(slice.count());
  }
}

void RowPage::read_nulls(const std::vector<Slice>& slices, RangeSink& sink) const {
  std::vector<uint16_t> levels;
  int64_t row = sink.row();
  for (const Slice& slice : slices) {
    const uint16_t* own = levels_of(nulls(), kind_->level_bits, slice.chunk.nulls, slice.chunk.entries, levels);
    check_level(static_cast<uint64_t>(highest(own, slice.chunk.entries)));
    sink.levels(own + slice.first, slice.count(), row);
    row += slice.count();
  }
}

// Append neighbouring values of a chunk; null, and zeros, where their level is not 0. False if they
// must be appended one by one: nulls among strings have bytes.
bool RowPage::emit_run(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                       Sink& sink) const {
  if (count > chunk.values - first)
    corrupt("value ", first + count - 1, " of a chunk of ", chunk.values);
  if (highest(levels, count) == 0) levels = nullptr;
  if (has_items()) {
    if (!kind_->masks.empty()) return false;
    emit_items(chunk, first, count, levels, sink);
  } else if (sink.width == 0) {
    if (!(kind_->bits == 32 ? emit_strings<int32_t>(chunk, first, count, levels, sink)
                      : emit_strings<int64_t>(chunk, first, count, levels, sink)))
      return false;
  } else {
    uint8_t* out = sink.begin_run(count);
    if (kind_->bits == 1) {  // a list of one bit has a byte, too
      for (int64_t i = 0; i < count; ++i)
        out[i] = chunk.first.data[(first + i) / 8] >> ((first + i) % 8) & 1;
    } else {
      read_words({chunk, first, first + count}, out);
    }
    for (int64_t i = 0; levels && i < count; ++i)
      if (levels[i] != 0) std::fill_n(out + i * sink.width, sink.width, uint8_t{0});
    if (!kind_->masks.empty()) emit_masks(chunk, first, count, sink);
  }
  sink.end_run(levels, count);
  return true;
}

// Append strings of a chunk; false as in `emit_run`.
template <typename Offset>
bool RowPage::emit_strings(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                           Sink& sink) const {
  const ChunkStrings<Offset> strings(chunk.first, chunk.values, first, first + count);
  for (int64_t i = 0; levels && i < count; ++i)
    if (levels[i] != 0 && strings.offset(i) != strings.offset(i + 1)) return false;
  if (symbols_) {
    auto decoded = fsst::decode_streams<Offset>(symbols_->table, symbols_->num_codes, {strings.stream()}, count,
                                                chunk.first.data + chunk.first.size);
    sink.string_run(decoded.bytes.data(), decoded.size, count,
                    [&](int64_t i) { return decoded.offsets[i]; });
  } else {
    sink.string_run(strings.data + strings.begin, strings.end - strings.begin, count,
                    [&](int64_t i) { return strings.offset(i); });
  }
  return true;
}

// Append the items that indices of a chunk stand for.
void RowPage::emit_items(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                         Sink& sink) const {
  const auto is_valid = [=](int64_t i) { return levels == nullptr || levels[i] == 0; };
  Owned<uint8_t> words(count * (kind_->bits / 8));
  read_words({chunk, first, first + count}, words.data());
  with_word(words.data(), [&](auto* indices) {
    dictionary::settle(indices, count, items_->count(), is_valid);
    if (sink.distinct) {
      uint8_t* out = sink.begin_run(count);
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t index = indices[i];
        const bool is_item = is_valid(i) && items_->count() != 0;
        store(out + 4 * i, is_item ? sink.distinct->of_item(index, [&] { return (*items_)[index]; })
                                   : uint32_t{0});
      }
      return;
    }
    const auto expand = [&](const auto* offsets) {
      const dictionary::Strings items(offsets, items_->count(), items_->values(), items_->num_bytes());
      auto [starts, bytes] = items.template expand<int64_t>(indices, count, is_valid);
      sink.string_run(bytes.data(), starts[count], count, [&](int64_t i) { return starts[i]; });
    };
    if (items_->are_strings()) return items_->with_offsets(expand);
    const int64_t width = items_->width();
    uint8_t* out = sink.begin_run(count);
    if (items_->count()) dictionary::gather(items_->values(), width, indices, count, out);
    for (int64_t i = 0; i < count; ++i)
      if (!is_valid(i)) std::fill_n(out + i * width, width, uint8_t{0});
  });
}

// Read values of a slice, each in whole bytes.
void RowPage::read_words(const Slice& slice, uint8_t* out) const {
  const auto& [chunk, first, last] = slice;
  const int64_t width = kind_->bits / 8;
  switch (kind_->values) {
    case Values::flat:
      if (kind_->bits % 8) {
        for (int64_t i = first; i < last; ++i, out += kind_->value_bytes())
          copy_bits(chunk.first.data, i * kind_->bits, kind_->bits, out);
        return;
      }
      std::memcpy(out, chunk.first.data + first * width,
                  static_cast<size_t>(slice.count() * width));
      return;
    case Values::packed: {
      const int packed = width_of(chunk.first, kind_->bits, chunk.values);
      return unpack_some(kind_->bits, packed, chunk.first.data + width, first, last, out);
    }
    case Values::runs:
      return with_word(out, [&](auto* to) {
        expand_runs(chunk.first, chunk.second, chunk.values, first, last, to);
      });
    case Values::split:
      for (int64_t b = 0; b < width; ++b) {
        const uint8_t* from = chunk.first.data + b * chunk.values + first;
        for (int64_t i = 0; i < slice.count(); ++i) out[i * width + b] = from[i];
      }
      return;
    case Values::constant:
      std::memset(out, 0, static_cast<size_t>(slice.count()));  // indices of the only item
      return;
    default: corrupt("values of no width");
  }
}

template <typename Work>
void RowPage::with_word(uint8_t* out, const Work& work) const {
  by_width(kind_->bits, [&](auto word) { work(reinterpret_cast<decltype(word)*>(out)); });
}

// Pass the indices of slices, one after the other from `words` on, to `work`; all are of items.
template <typename Work>
void RowPage::with_indices(uint8_t* words, int64_t count, const RangeSink& sink,
                           const Work& work) const {
  with_word(words, [&](auto* indices) {
    const auto settled = [&](const auto& is_valid) {
      dictionary::settle(indices, count, items_->count(), is_valid);
      work(static_cast<const std::remove_pointer_t<decltype(indices)>*>(indices), is_valid);
    };
    if (sink.has_nulls())
      settled([&sink](int64_t i) { return sink.is_valid(sink.row() + i); });
    else
      settled(dictionary::AllValid());
  });
}

void RowPage::gather_items(const std::vector<Slice>& slices, RangeSink& sink) const {
  int64_t most = 0;
  for (const Slice& slice : slices) most = std::max(most, slice.count());
  Owned<uint8_t> words(most * (kind_->bits / 8));
  for (const Slice& slice : slices) {
    read_words(slice, words.data());
    with_indices(words.data(), slice.count(), sink, [&](const auto* indices, const auto&) {
      if (items_->count())  // else all are null
        dictionary::gather(items_->values(), items_->width(), indices, slice.count(), sink.values());
    });
    sink.advance(slice.count());
  }
}

template <typename Offset>
void RowPage::string_range(const std::vector<Slice>& slices, int64_t count, Part bytes,
                           RangeSink& sink) const {
  auto& strings = sink.strings<Offset>();
  bool is_text = !sink.form.is_text;  // true, too, if it need not be
  if (has_items()) {
    strings.push_back(expanded<Offset>(slices, count, sink));
    is_text = is_text || has_text_items();  // a bad item may be one that no row uses
  } else {
    std::vector<ChunkStrings<Offset>> parts;
    for (const auto& [chunk, first, last] : slices) parts.emplace_back(chunk.first, chunk.values, first, last);
    if (!symbols_) {
      strings.push_back(copied(parts, count));
    } else {
      std::vector<fsst::Stream> streams;
      for (const auto& part : parts) streams.push_back(part.stream());
      auto decoded = fsst::decode_streams<Offset>(symbols_->table, symbols_->num_codes, streams, count,
                                                  bytes.data + bytes.size);
      is_text |= decoded.is_ascii;
      strings.push_back({std::move(decoded.offsets), std::move(decoded.bytes), count, decoded.size});
    }
  }
  if (!is_text) check_text(strings.back(), sink);
}

template <typename Offset>
void RowPage::check_text(RangeStrings<Offset>& strings, const RangeSink& sink) const {
  const Offset* offsets = strings.offsets.data();
  const uint8_t* bytes = strings.bytes.data();
  if (are_utf8(offsets, strings.count, bytes)) return;
  for (int64_t i = 0; i < strings.count; ++i)
    if (sink.is_valid(sink.row() + i) && !is_utf8(bytes + offsets[i], bytes + offsets[i + 1]))
      corrupt("value ", sink.row() + i, " of the rows read is no UTF-8");
}

template <typename Offset>
RangeStrings<Offset> RowPage::expanded(const std::vector<Slice>& slices, int64_t count,
                                       const RangeSink& sink) const {
  Owned<uint8_t> words(count * (kind_->bits / 8));
  uint8_t* to = words.data();
  for (const Slice& slice : slices) {
    read_words(slice, to);
    to += slice.count() * (kind_->bits / 8);
  }
  std::optional<RangeStrings<Offset>> strings;
  with_indices(words.data(), count, sink, [&](const auto* indices, const auto& is_valid) {
    const auto expand = [&](const auto* offsets) {
      const dictionary::Strings items(offsets, items_->count(), items_->values(), items_->num_bytes());
      auto [starts, bytes] = items.template expand<Offset>(indices, count, is_valid);
      const int64_t size = starts[count];
      strings.emplace(RangeStrings<Offset>{std::move(starts), std::move(bytes), count, size});
    };
    items_->with_offsets(expand);
  });
  return *std::move(strings);
}

bool RowPage::has_text_items() const {
  signed char known = text_items_.load(std::memory_order_relaxed);
  if (known < 0) {
    known = items_->with_offsets(
        [this](const auto* offsets) { return are_utf8(offsets, items_->count(), items_->values()); });
    text_items_.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

void RowPage::zipped_range(int64_t first, int64_t last, Part bytes, RangeSink& sink) const {
  const int64_t width = kind_->bits / 8, step = kind_->level_bits + width;
  check_span(0, product(last - first, step, "rows"), bytes.size, "rows");
  if (kind_->level_bits == 0) {
    std::memcpy(sink.values(), bytes.data, static_cast<size_t>((last - first) * width));
    return sink.advance(last - first);
  }
  for (int64_t i = 0; i < last - first; ++i) {
    const uint8_t* from = bytes.data + i * step;
    uint32_t word = 0;
    std::memcpy(&word, from, static_cast<size_t>(kind_->level_bits));
    if (word > static_cast<uint32_t>(kind_->max_level)) corrupt("definition level ", word);
    const uint16_t level = static_cast<uint16_t>(word);
    if (level) sink.levels(&level, 1, sink.row());
    std::memcpy(sink.values(), from + kind_->level_bits, static_cast<size_t>(width));
    sink.advance(1);
  }
}

}  // namespace alance
