// Decoding of rows of mini-block and full-zip pages, value by value or in runs; see row_page.hpp.
#include "rows/pages/row_page.hpp"

#include <algorithm>

#include "rows/pages/sparse.hpp"

namespace alance {

using namespace cells;

namespace {

constexpr int64_t kRun = 32;  // neighbouring rows; fewer are decoded one by one

bool is_length(int64_t bytes) { return bytes == -4 || bytes == -8; }

// Members of values of a width.
void check_members(int64_t width, const std::vector<PackedMember>& members) {
  for (const auto& [own, symbols, scheme, masks, inner] : members) {
    if (width > 0 || own == 0 || own > INT32_MAX / 8 || (own < 0 && !is_length(own)) || scheme < 0 ||
        scheme > units::kZstd || masks.size() > kMostDepths || (!masks.empty() && bytes_of_masks(masks) > own))
      corrupt("packed structs of an unknown form");
    check_members(own, inner);
  }
}

// Check that positions ascend within the buffer; each row has at least one byte.
void check_ends(const std::vector<int64_t>& ends, int64_t size) {
  for (size_t i = 0; i < ends.size(); ++i)
    if (const int64_t end = ends[i]; end < (i ? ends[i - 1] + 1 : 0) || end > size)
      corrupt("full-zip: positions of rows that are not ascending: row ", i, " begins at ", end, " of ", size);
}

}  // namespace

void PageKind::check() const {
  if (values < Values::flat || values > Values::rows || nulls < Nulls::none || nulls > Nulls::blocks)
    corrupt("a page of an unknown form");
  const auto is_no_count = [](int64_t count) { return count < 0 || count > INT32_MAX; };
  if (masks.size() > kMostDepths || scheme < 0 || scheme > units::kZstd ||
      std::any_of(masks.begin(), masks.end(), is_no_count))
    corrupt("lists of an unknown form");
  if (values == Values::rows) {
    const int64_t width = length_bytes != 0 ? -length_bytes : bits / 8;
    if (bits_def < 0 || bits_def > 16 || level_bits < 0 || level_bits > 4 || max_rep < 0 || max_level < 0 ||
        max_visible < 0 || bits < 0 || width == 0 || (width < 0 && !is_length(width)))
      corrupt("zipped rows of an unknown form");
    check_members(width, members);
  }
  if (values == Values::zipped && (bits < 8 || bits % 8 || level_bits < 0 || level_bits > 4))
    corrupt("zipped rows of ", bits, " bits");
  if (is_zipped() && length_bytes == 0 && mask_bytes() > bits / 8) corrupt("lists without room for their validity");
  if (is_zipped() || is_constant()) return;
  const bool are_words = values == Values::packed || values == Values::runs;
  if (bits < 1 || (are_words && !is_word(bits)) ||
      ((is_string(values) || values == Values::split) && bits != 32 && bits != 64))
    corrupt("values of ", bits, " bits");
  if (nulls == Nulls::blocks && (level_bits < 0 || level_bits > 15)) corrupt("levels of ", level_bits, " bits");
  if (has_lists() && (reps <= Nulls::none || reps > Nulls::blocks || max_rep < 1 || max_visible < 0 ||
                      (reps == Nulls::blocks && (rep_bits < 0 || rep_bits > 15))))
    corrupt("lists of an unknown form");
}

RowPage::RowPage(std::shared_ptr<const PageKind> kind, int64_t start, int64_t size, int64_t num_rows, ChunkTable chunks,
                 std::shared_ptr<const Symbols> symbols)
    : kind_(std::move(kind)), start_(start), size_(size), num_rows_(num_rows), symbols_(std::move(symbols)) {
  if (start < 0 || size < 0 || num_rows < 0 || start > INT64_MAX - size)
    corrupt("a page of ", num_rows, " rows in ", size, " bytes");
  kind_->check();
  const int64_t step = kind_->level_bits + kind_->bits / 8;
  if (kind_->values == Values::zipped && (size % step || size / step != num_rows))
    corrupt("zipped rows of ", kind_->bits, " bits");
  if (kind_->values == Values::rows) check_ends(chunks.first_bytes, size);
  if (kind_->max_blob_level >= 0 && (kind_->max_blob_level > UINT16_MAX || has_nulls() || has_lists() ||
                                     is_constant() || width() != kBlobBytes))
    corrupt("descriptions of blobs of another form");
  set_chunks(std::move(chunks));
}

void RowPage::set_chunks(ChunkTable chunks) {
  chunks_ = std::move(chunks);
  rows_ = chunks_.rows().data();
  bytes_ = chunks_.first_bytes.data();
  num_chunks_ = kind_->is_zipped() ? num_rows_ : std::ssize(chunks_.rows()) - 1;
}

// Indices must be whole words.
void RowPage::set_items(Items items) {
  if (!is_constant() && (kind_->values > Values::split || !is_word(kind_->bits)))
    corrupt("a dictionary for values of ", kind_->bits, " bits that are no indices");
  if (!kind_->masks.empty() && (items.are_strings() || kind_->mask_bytes() > items.width()))
    corrupt("items without room for their validity");
  if (kind_->max_blob_level >= 0) corrupt("descriptions of blobs of another form");
  items_ = std::make_unique<const Items>(std::move(items));
}

void RowPage::set_slots(std::shared_ptr<const sparse::Slots> slots) {
  slots_ = std::move(slots);
  num_rows_ = slots_->structure.num_rows();
}

int64_t RowPage::width() const {
  if (has_strings()) return 0;
  if (has_items()) return items_->width() - kind_->mask_bytes();
  return kind_->value_bytes() - (kind_->is_zipped() ? kind_->mask_bytes() : 0);  // a bit becomes a byte
}

int64_t RowPage::chunk_of(int64_t row, int64_t from) const {
  if (kind_->is_zipped() && !has_runs_) return row;
  // Requested rows ascend: the next chunk is near, so a galloping search starts there.
  int64_t step = 1;
  for (; step <= num_chunks_ - from && rows_[from + step] <= row; step *= 2) from += step;
  return std::upper_bound(rows_ + from, rows_ + from + std::min(step, num_chunks_ - from + 1), row) - rows_ - 1;
}

int64_t RowPage::begin_of(int64_t chunk) const {
  if (kind_->values == Values::zipped) return chunk * (kind_->level_bits + kind_->bits / 8);
  return bytes_[has_runs_ ? 2 * chunk : chunk];
}

int64_t RowPage::rows_until(int64_t chunk) const {
  if (has_runs_) return chunks_.entries[static_cast<size_t>(chunk)];
  return kind_->is_zipped() ? chunk + 1 : rows_[chunk + 1];
}

int64_t RowPage::rows_from(int64_t chunk) const {
  return kind_->is_zipped() && !has_runs_ ? chunk : rows_[chunk];
}

void RowPage::check_rows(const int64_t* rows, int64_t count) const {
  int64_t previous = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i] <= previous || rows[i] >= num_rows_)
      corrupt("row ", rows[i], " after ", previous, " of ", num_rows_);
    previous = rows[i];
  }
}

RowPage::Chunk RowPage::open_chunk(int64_t number, Part bytes, Sink::Content* content) const {
  const auto fail = [&](const auto&... what) { corrupt("chunk ", number, ": ", what...); };
  if (kind_->values == Values::constant) {
    const size_t at = static_cast<size_t>(number);
    const int64_t first = chunks_.entries[at], entries = chunks_.entries[at + 1] - first;
    const auto part = [&](const std::vector<uint16_t>& levels) {
      return levels.empty() ? Part{} : Part{reinterpret_cast<const uint8_t*>(levels.data() + first), 2 * entries};
    };
    return {number, entries, num_values(number, number + 1), part(chunks_.reps), part(chunks_.defs), {}, {}};
  }
  const int num_levels = (reps() != Nulls::none) + (nulls() != Nulls::none);
  const std::vector<int64_t>& masks = kind_->masks;
  const auto num_masks =
      has_items() ? 0 : static_cast<int>(std::ssize(masks) - std::count(masks.begin(), masks.end(), 0));
  const int num_buffers = num_levels + num_masks + kind_->num_value_buffers();
  const int64_t width = kind_->large ? 4 : 2;
  const int64_t header = 2 + 2 * num_levels + width * (num_buffers - num_levels);
  if (bytes.size < header) fail(bytes.size, " bytes, its header has ", header);
  Part parts[3 + kMostDepths] = {};
  const uint8_t* at = bytes.data + 2;
  int64_t position = (header + 7) / 8 * 8;
  for (int i = 0; i < num_buffers; ++i) {
    const bool narrow = i < num_levels || !kind_->large;
    const int64_t size = narrow ? load<uint16_t>(at) : load<uint32_t>(at);
    at += narrow ? 2 : 4;
    if (size > bytes.size - position)
      fail("buffer ", i, " of ", size, " bytes at ", position, ", the chunk has ", bytes.size);
    parts[i] = {bytes.data + position, size};
    position += (size + 7) / 8 * 8;
  }
  const int64_t values = num_values(number, number + 1);
  const int64_t entries = num_levels ? load<uint16_t>(bytes.data) : values;
  if (kind_->max_rep == 0 && entries != values) fail(entries, " levels, expected ", values);
  const int nulls = reps() != Nulls::none ? 1 : 0;
  if ((kind_->scheme != 0 || kind_->coding || kind_->coded_reps || kind_->coded_defs) && content == nullptr)
    corrupt("a compressed chunk");
  if (kind_->scheme != 0)
    parts[num_levels] = units::decompressed(kind_->scheme, parts[num_levels], most_bytes(values), content->values);
  Chunk chunk{number,       entries,           values, parts[0], parts[nulls],
              parts[num_levels + num_masks], parts[num_buffers - 1]};
  chunk.masks.assign(parts + num_levels, parts + num_levels + num_masks);
  if (kind_->coded_reps || kind_->coded_defs) decode_levels(chunk, *content);
  if (kind_->coding) recode(chunk, content->values);
  const int64_t bits = kind_->bits, size = chunk.first.size, num_runs = chunk.second.size;
  switch (kind_->values) {
    case Values::flat:
      if (size != bytes_of_bits(values * bits))
        fail("flat: ", size, " bytes of ", values, " values of ", bits, " bits");
      break;
    case Values::split:
      if (size != values * (bits / 8)) fail("byte stream split: ", size, " bytes of ", values, " values");
      break;
    case Values::runs:
      if (size % (bits / 8) || size / (bits / 8) != num_runs)
        fail("rle: ", size, " bytes of values, ", num_runs, " runs");
      break;
    default: break;
  }
  return chunk;
}

void RowPage::recode(Chunk& chunk, std::vector<uint8_t>& content) const {
  const bool has_second = kind_->coding->num_buffers() == 2;
  const Part first = has_second ? chunk.first : Part{};
  std::vector<uint8_t> recoded = kind_->coding->runs ? kind_->coding->flat(first, chunk.second, chunk.values)
                                               : kind_->coding->strings(first, chunk.second, chunk.values);
  content.swap(recoded);
  chunk.first = {content.data(), static_cast<int64_t>(content.size())};
}

void RowPage::decode_levels(Chunk& chunk, Sink::Content& content) const {
  const auto decode = [&](const std::optional<WordCoding>& coding, Part& levels, std::vector<uint8_t>& words) {
    if (!coding) return;
    words = coding->words(levels, chunk.entries);
    levels = {words.data(), static_cast<int64_t>(words.size())};
  };
  if (reps() != Nulls::none) decode(kind_->coded_reps, chunk.reps, content.reps);
  if (nulls() != Nulls::none) decode(kind_->coded_defs, chunk.nulls, content.defs);
}

// Largest size of the first buffer for so many values.
int64_t RowPage::most_bytes(int64_t num_values) const {
  if (kind_->values == Values::strings || kind_->values == Values::fsst) return units::kMostUnit;
  const int64_t packed = kind_->value_bytes() + kRowBytes * kind_->bits;  // a whole block
  if (kind_->coding) return product(num_values, kind_->value_bytes(), "chunk") + packed;
  return std::max(packed, product(num_values, kind_->value_bytes() + kind_->mask_bytes() + 1, "chunk"));
}

// Decode values without a dictionary to their numbers among the distinct values.
void RowPage::decode_distinct(int64_t number, Part bytes, const Rows& rows, bool open,
                              Sink& sink) const {
  Sink values;
  values.clear(width(), rows.count);
  values.with_levels = sink.with_levels;
  decode(number, bytes, rows, open, values);
  size_t slot = 0;
  const auto add = [&](bool is_valid) {
    const size_t i = slot++;
    if (!is_valid) return sink.null();
    const auto* from = reinterpret_cast<const char*>(values.bytes.data());
    const auto size = static_cast<size_t>(values.width);
    sink.number(sink.distinct->of(
        size != 0 ? std::string_view(from + i * size, size)
                  : std::string_view(from + values.offsets[i],
                                     static_cast<size_t>(values.offsets[i + 1] - values.offsets[i]))));
  };
  if (!sink.with_levels) {
    for (size_t i = 0; i < values.valid.size(); ++i) add(values.valid[i] != 0);
    return;
  }
  for (size_t i = 0; i < values.def.size(); ++i)
    if (kind_->max_rep == 0 || values.def[i] <= kind_->max_visible) add(values.def[i] == 0);
  sink.rep.append(values.rep.data(), values.rep.size());
  sink.def.append(values.def.data(), values.def.size());
}

void RowPage::decode(int64_t number, Part bytes, const Rows& rows, bool open, Sink& sink) const {
  const size_t first = sink.bytes.size();
  decode_entries(number, bytes, rows, open, sink);
  if (kind_->max_blob_level >= 0) mark_null_blobs(first, sink);
}

// Mark as null the blobs from byte `first` of the values on whose descriptions say so.
void RowPage::mark_null_blobs(size_t first, Sink& sink) const {
  const size_t count = (sink.bytes.size() - first) / kBlobBytes;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* value = sink.bytes.data() + first + kBlobBytes * i;
    const uint64_t position = load<uint64_t>(value), level = position >> 16;
    if (position == 0 || load<uint64_t>(value + 8) != 0) continue;
    if (position % (1 << 16) != 0 || level > static_cast<uint64_t>(kind_->max_blob_level))
      corrupt("blob: empty value at ", position, ", which is no level up to ", kind_->max_blob_level);
    sink.has_nulls = true;
    if (sink.with_levels)
      sink.def.data()[sink.def.size() - count + i] = static_cast<uint16_t>(level);
    else
      sink.valid.data()[sink.valid.size() - count + i] = 0;
  }
}

void RowPage::decode_entries(int64_t number, Part bytes, const Rows& rows, bool open,
                             Sink& sink) const {
  const PageKind& kind = *kind_;
  const Nulls nulls = this->nulls();
  if (sink.distinct && !has_items() && !is_null())
    return decode_distinct(number, bytes, rows, open, sink);
  if (!kind.masks.empty()) check_masks(kind.masks, sink);
  if (kind.is_zipped()) return decode_run(bytes, rows.count, sink);
  if (is_null() && nulls == Nulls::none) {
    if (sink.with_levels) sink.def.fill(static_cast<size_t>(rows.count), static_cast<uint16_t>(kind.null_level));
    return sink.nulls(rows.count);
  }
  if (rows.by_value && is_bare(number)) return decode_bare(bytes, rows, sink);
  const Chunk chunk = open_chunk(number, bytes, &sink.content);
  if (kind.max_rep != 0) return decode_lists(chunk, rows, open, sink);
  cells::Walk levels, values;
  const int64_t origin = rows_[number];
  const uint16_t* all = nullptr;  // levels of the chunk
  for (int64_t k = 0, end = 0; k < rows.count; k = end) {
    end = rows.run_end(k);
    if (end - k < kRun) {
      for (int64_t next = end; next - end < kRun && end < rows.count; next = rows.run_end(end)) end = next;
      decode_single(chunk, rows.part(k, end), levels, values, sink);
      continue;
    }
    if (all == nullptr && rows.levels == nullptr) {
      all = levels_of(nulls, kind.level_bits, chunk.nulls, chunk.entries, sink.chunk_def);
      check_level(static_cast<uint64_t>(highest(all, chunk.entries)));
    }
    const uint16_t* own = rows.levels ? rows.levels + k : all + (rows[k] - origin);
    if (sink.with_levels) sink.def.append(own, static_cast<size_t>(end - k));
    emit_values(chunk, rows[k] - origin, end - k, own, values, sink);
  }
}

// Decode rows of a chunk one by one.
void RowPage::decode_single(const Chunk& chunk, const Rows& rows, cells::Walk& levels, cells::Walk& values,
                            Sink& sink) const {
  const Nulls nulls = this->nulls();
  const int64_t origin = rows_[chunk.number];
  for (int64_t at = 0; at < rows.count; ++at) {
    const int64_t i = rows[at] - origin;
    const uint64_t level =
        rows.levels ? rows.levels[at] : level_at(nulls, kind_->level_bits, chunk.nulls, chunk.entries, i, levels);
    if (sink.with_levels) sink.def.push_back(static_cast<uint16_t>(level));
    if (level != 0)
      absent(level, sink);
    else
      emit(chunk, i, values, sink);
  }
}

void RowPage::decode_bare(Part bytes, const Rows& rows, Sink& sink) const {
  const int64_t width = kind_->bits / 8, first = rows[0];
  check_span(0, (rows[rows.count - 1] + 1 - first) * width, bytes.size, "values");
  uint8_t* out = sink.begin_run(rows.count);
  for (int64_t i = 0; i < rows.count; ++i, out += width)
    std::memcpy(out, bytes.data + (rows[i] - first) * width, static_cast<size_t>(width));
  if (sink.with_levels) sink.def.fill(static_cast<size_t>(rows.count), 0);
  sink.end_run(nullptr, rows.count);
}

// Append values one by one, or as a run if they are many; null where their level is not 0.
void RowPage::emit_values(const Chunk& chunk, int64_t first, int64_t count, const uint16_t* levels,
                          cells::Walk& walk, Sink& sink) const {
  if (is_null()) return sink.nulls(count);
  if (count >= kRun && emit_run(chunk, first, count, levels, sink)) return;
  for (int64_t i = 0; i < count; ++i)
    if (levels[i] == 0)
      emit(chunk, first + i, walk, sink);
    else
      sink.null();
}

void RowPage::check_level(uint64_t level) const {
  if (level > static_cast<uint64_t>(kind_->max_level))
    corrupt("definition level ", level, ", the layers use ", kind_->max_level);
}

void RowPage::absent(uint64_t level, Sink& sink) const {
  if (!slots_) check_level(level);
  sink.null();
}

void RowPage::emit(const Chunk& chunk, int64_t i, cells::Walk& walk, Sink& sink) const {
  const PageKind& kind = *kind_;
  const int bits = kind.bits;
  const Part &first = chunk.first, &second = chunk.second;
  const int64_t count = chunk.values;
  if (i >= count) corrupt("value ", i, " of a chunk of ", count);
  switch (kind.values) {
    case Values::packed: return emit_bits(packed_at(first, bits, count, i), sink);
    case Values::runs: return emit_bits(load_bits(first.data + walk.find(second, i) * (bits / 8), bits), sink);
    case Values::split: {
      uint64_t value = 0;
      for (int b = 0; b < bits / 8; ++b)
        value |= static_cast<uint64_t>(first.data[b * count + i]) << (8 * b);
      return emit_bits(value, sink);
    }
    case Values::strings:
    case Values::fsst: return emit_string(first, count, i, sink);
    case Values::constant: return emit_item(0, sink);
    default: break;
  }
  if (bits == 1) {
    const uint8_t bit = first.data[i / 8] >> (i % 8) & 1;
    sink.value(&bit);
    return emit_masks(chunk, i, 1, sink);
  }
  if (bits % 8) {  // lists of bits
    copy_bits(first.data, i * bits, bits, sink.begin_run(1));
    sink.end_run(nullptr, 1);
    return emit_masks(chunk, i, 1, sink);
  }
  const uint8_t* at = first.data + i * (bits / 8);
  if (has_items()) return emit_item(load_bits(at, bits), sink);
  sink.value(at);
  if (!kind.masks.empty()) emit_masks(chunk, i, 1, sink);
}

// Append the validity of the items of values that were just appended.
void RowPage::emit_masks(const Chunk& chunk, int64_t first, int64_t count, Sink& sink) const {
  size_t next = 0;
  for (size_t depth = 0; depth < kind_->masks.size(); ++depth) {
    const int64_t bits = kind_->masks[depth], step = bytes_of_bits(bits);
    if (bits == 0) continue;
    const Part part = chunk.masks[next++];
    if (part.size != bytes_of_bits(chunk.values * bits))
      corrupt("validity of items: ", part.size, " bytes of ", chunk.values, " lists");
    uint8_t* out = sink.begin_mask(depth, count);
    if (bits % 8 == 0)
      std::memcpy(out, part.data + first * step, static_cast<size_t>(count * step));
    else
      for (int64_t i = first; i < first + count; ++i, out += step) copy_bits(part.data, i * bits, bits, out);
  }
}

void RowPage::check_masks(const std::vector<int64_t>& masks, const Sink& sink) {
  bool fits = masks.size() == sink.masks.size();
  for (size_t i = 0; fits && i < masks.size(); ++i)
    fits = masks[i] == 0 || masks[i] == sink.masks[i].num_items;
  if (!fits) corrupt("lists of other lengths than those of the type");
}

void RowPage::emit_bits(uint64_t value, Sink& sink) const {
  if (has_items()) return emit_item(value, sink);
  uint8_t bytes[8];
  store(bytes, value);
  sink.value(bytes);
}

void RowPage::emit_item(uint64_t index, Sink& sink) const {
  if (index >= static_cast<uint64_t>(items_->count()))
    corrupt("dictionary index ", index, ", the dictionary has ", items_->count(), " items");
  if (sink.distinct) return sink.number(sink.distinct->of_item(index, [&] { return (*items_)[index]; }));
  const std::string_view value = (*items_)[index];
  const auto* from = reinterpret_cast<const uint8_t*>(value.data());
  if (!items_->are_strings()) return emit_masked(kind_->masks, from, sink);
  sink.string(from, std::ssize(value));
}

void RowPage::enter(Sink& sink, int64_t num_rows) const {
  if (!sink.distinct || !has_items()) return;
  items_->with_offsets([&](const auto* offsets) {
    sink.distinct->enter(this, items_->values(), offsets, items_->count(), num_rows);
  });
}

void RowPage::emit_string(Part values, int64_t count, int64_t i, Sink& sink) const {
  const int64_t word = kind_->bits / 8;
  if (values.size < word * (count + 1))
    corrupt("variable: ", values.size, " bytes of ", count, " values");
  const uint8_t* at = values.data + word * i;
  const int64_t start = word == 4 ? int64_t{load<int32_t>(at)} : load<int64_t>(at);
  const int64_t stop = word == 4 ? int64_t{load<int32_t>(at + 4)} : load<int64_t>(at + 8);
  if (start < word * (count + 1) || stop < start || stop > values.size)
    corrupt("variable: a value from ", start, " to ", stop, " in a chunk of ", values.size,
            " bytes");
  if (!symbols_) return sink.string(values.data + start, stop - start);
  emit_codes(*symbols_, {values.data + start, stop - start}, values.data + values.size, sink);
}

// Append the string of codes; codes can be read up to `end`.
void RowPage::emit_codes(const Symbols& symbols, Part codes, const uint8_t* end, Sink& sink) {
  const uint8_t* stop = codes.data + codes.size;
  const uint64_t size = fsst::decoded_size(symbols.table, codes.data, stop);
  if (size >= fsst::kInvalid) corrupt("fsst: a code without a symbol");
  uint8_t* room = sink.bytes.extend(static_cast<size_t>(size) + fsst::kMaxSymbolBytes);
  const uint8_t* filled = fsst::decode(symbols.table, codes.data, stop, end, room);
  sink.bytes.shrink(static_cast<size_t>(filled - sink.bytes.data()));
  sink.string_ends();
}

}  // namespace alance
