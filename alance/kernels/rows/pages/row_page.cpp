// Decoding of rows of mini-block and full-zip pages, value by value or in runs; see row_page.hpp.
#include "rows/pages/row_page.hpp"

#include <algorithm>

#include "rows/pages/units.hpp"

namespace alance {

using namespace cells;

namespace {

constexpr int64_t kRun = 32;  // neighbouring rows; fewer are decoded one by one
constexpr size_t kBlobBytes = 16;         // of a description

}  // namespace

RowPage::RowPage(std::shared_ptr<const ChunkTable> table, int64_t start, int64_t size,
                 int64_t num_rows, const PageKind& kind, std::shared_ptr<const Symbols> symbols)
    : RowPage(table->rows(), table->first_bytes, start, size, num_rows, kind) {
  if (kind.max_rep != 0) {
    carries_ = table->carries.data();
    keep_lists(table->first_values, kind);
  }
  table_ = std::move(table);
  symbols_ = std::move(symbols);
}

RowPage::RowPage(Positions first_rows, Positions first_bytes, int64_t start, int64_t size,
                 int64_t num_rows, const PageKind& kind)
    : first_rows_(first_rows), first_bytes_(first_bytes), start_(start), size_(size),
      num_rows_(num_rows), num_chunks_(std::ssize(first_rows) - 1),
      values_(static_cast<Values>(kind.values)), bits_(kind.bits),
      nulls_(static_cast<Nulls>(kind.nulls)), level_bits_(kind.level_bits),
      max_level_(kind.max_level), large_(kind.large), masks_(kind.masks), scheme_(kind.scheme),
      null_items_(kind.null_items), coding_(kind.coding), coded_reps_(kind.coded_reps),
      coded_defs_(kind.coded_defs) {
  const int values = kind.values, bits = kind.bits, nulls = kind.nulls, level_bits = kind.level_bits;
  if (start < 0 || size < 0 || num_rows < 0 || start > INT64_MAX - size)
    corrupt("a page of ", num_rows, " rows in ", size, " bytes");
  if (values < 0 || values > static_cast<int>(Values::rows) || nulls < 0 ||
      nulls > static_cast<int>(Nulls::blocks))
    corrupt("a page of an unknown form");
  if (masks_.size() > kMostDepths || (!masks_.empty() && values_ != Values::flat && !is_zipped()) ||
      scheme_ < 0 || scheme_ > units::kZstd || std::any_of(masks_.begin(), masks_.end(), [](int64_t count) { return count < 0 || count > INT32_MAX; }))
    corrupt("lists of an unknown form");
  if (values_ == Values::rows) return;  // `of_zipped` checks them
  if (values_ == Values::zipped) {
    if (bits < 8 || bits % 8 || level_bits < 0 || level_bits > 4 ||
        size % (level_bits + bits / 8) || size / (level_bits + bits / 8) != num_rows)
      corrupt("zipped rows of ", bits, " bits");
    if (mask_bytes() > bits / 8) corrupt("lists without room for their validity");
    num_chunks_ = num_rows;
    return;
  }
  const bool words = values_ == Values::packed || values_ == Values::runs;
  const bool strings = values_ == Values::strings || values_ == Values::fsst;
  if ((words && !is_word(bits)) || (strings && bits != 32 && bits != 64) ||
      (values_ == Values::split && bits != 32 && bits != 64) ||
      (values_ == Values::flat && bits < 1))
    corrupt("values of ", bits, " bits");
  if (nulls_ == Nulls::blocks && (level_bits < 0 || level_bits > 15))
    corrupt("levels of ", level_bits, " bits");
}

// Indices must be whole words.
void RowPage::check_indices() const {
  if (values_ == Values::constant && !is_null_) return;
  if (values_ > Values::split || !is_word(bits_))
    corrupt("a dictionary for values of ", bits_, " bits that are no indices");
}

void RowPage::keep_items(std::span<const uint8_t> items, int64_t width) {
  check_indices();
  if (width < 1 || std::ssize(items) % width) corrupt("items of no whole width");
  items_ = items;
  item_width_ = width;
  num_items_ = std::ssize(items) / width;
  items_kind_ = Items::kFixed;
}

template <typename T>
void RowPage::keep_strings(std::span<const T> offsets, std::span<const uint8_t> items) {
  check_indices();
  if (offsets.size() == 0 || offsets.data()[0] < 0) corrupt("strings without offsets");
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    if (offsets.data()[i + 1] < offsets.data()[i]) corrupt("strings whose offsets decrease");
  if (static_cast<uint64_t>(offsets.data()[offsets.size() - 1]) > items.size())
    corrupt("strings behind the end of their bytes");
  items_ = items;
  num_items_ = std::ssize(offsets) - 1;
  if constexpr (std::is_same_v<T, int32_t>) {
    offsets_32_ = offsets;
    items_kind_ = Items::kStrings32;
  } else {
    offsets_64_ = offsets;
    items_kind_ = Items::kStrings64;
  }
}

void RowPage::set_item_masks(std::vector<int64_t> masks) {
  if (items_kind_ != Items::kFixed || masks.size() > kMostDepths || bytes_of_masks(masks) > item_width_)
    corrupt("items without room for their validity");
  masks_ = std::move(masks);
}

void RowPage::set_own_items(ItemBlock items) {
  items.keep();
  own_items_ = std::make_shared<const ItemBlock>(std::move(items));
  const ItemBlock& own = *own_items_;
  const std::span data(own.block + own.data_start, static_cast<size_t>(own.data_size));
  const size_t num_offsets = static_cast<size_t>(own.form.count) + 1;
  const uint8_t* offsets = own.block + own.offsets_start;  // aligned: the block is ours
  if (!own.form.strings)
    keep_items(data, own.form.bits / 8);
  else if (own.form.bits == 32)
    keep_strings(std::span(reinterpret_cast<const int32_t*>(offsets), num_offsets), data);
  else
    keep_strings(std::span(reinterpret_cast<const int64_t*>(offsets), num_offsets), data);
}

int64_t RowPage::width() const {
  if (items_kind_ == Items::kFixed) return item_width_ - mask_bytes();
  if (items_kind_ != Items::kNone || is_string(values_)) return 0;
  if (is_zipped()) return length_bytes_ != 0 ? 0 : bits_ / 8 - mask_bytes();
  return value_bytes();  // a bit becomes a byte
}

int64_t RowPage::chunk_of(int64_t row, int64_t from) const {
  if (is_zipped() && !has_runs_) return row;
  const int64_t* rows = first_rows_.data();
  // Requested rows ascend: the next chunk is near, so a galloping search starts there.
  int64_t step = 1;
  for (; step <= num_chunks_ - from && rows[from + step] <= row; step *= 2) from += step;
  return std::upper_bound(rows + from, rows + from + std::min(step, num_chunks_ - from + 1), row) -
         rows - 1;
}

int64_t RowPage::begin_of(int64_t chunk) const {
  if (values_ == Values::zipped) return chunk * (level_bits_ + bits_ / 8);
  return first_bytes_.data()[has_runs_ ? 2 * chunk : chunk];
}

int64_t RowPage::rows_until(int64_t chunk) const {
  if (has_runs_) return cut_.entries[static_cast<size_t>(chunk)];
  return is_zipped() ? chunk + 1 : first_rows_.data()[chunk + 1];
}

int64_t RowPage::rows_from(int64_t chunk) const {
  return is_zipped() && !has_runs_ ? chunk : first_rows_.data()[chunk];
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
  if (values_ == Values::constant) {
    const size_t at = static_cast<size_t>(number);
    const int64_t first = cut_.entries[at], entries = cut_.entries[at + 1] - first;
    const auto part = [&](const std::vector<uint16_t>& levels) {
      return levels.empty() ? Part{} : Part{reinterpret_cast<const uint8_t*>(levels.data() + first), 2 * entries};
    };
    return {number, entries, num_values(number, number + 1), part(cut_.reps), part(cut_.defs), {}, {}};
  }
  const int num_levels = (reps_ != Nulls::none) + (nulls_ != Nulls::none);
  const auto num_masks = has_items() ? 0 : static_cast<int>(masks_.size() - static_cast<size_t>(std::count(masks_.begin(), masks_.end(), 0)));
  const int num_buffers = num_levels + num_masks + num_value_buffers();
  const int64_t width = large_ ? 4 : 2;
  const int64_t header = 2 + 2 * num_levels + width * (num_buffers - num_levels);
  if (bytes.size < header) fail(bytes.size, " bytes, its header has ", header);
  Part parts[3 + kMostDepths] = {};
  const uint8_t* at = bytes.data + 2;
  int64_t position = (header + 7) / 8 * 8;
  for (int i = 0; i < num_buffers; ++i) {
    const bool narrow = i < num_levels || !large_;
    const int64_t size = narrow ? load<uint16_t>(at) : load<uint32_t>(at);
    at += narrow ? 2 : 4;
    if (size > bytes.size - position)
      fail("buffer ", i, " of ", size, " bytes at ", position, ", the chunk has ", bytes.size);
    parts[i] = {bytes.data + position, size};
    position += (size + 7) / 8 * 8;
  }
  const int64_t values = num_values(number, number + 1);
  const int64_t entries = num_levels ? load<uint16_t>(bytes.data) : values;
  if (max_rep_ == 0 && entries != values) fail(entries, " levels, expected ", values);
  const int nulls = reps_ != Nulls::none ? 1 : 0;
  if ((scheme_ != 0 || coding_ || coded_reps_ || coded_defs_) && content == nullptr) corrupt("a compressed chunk");
  if (scheme_ != 0)
    parts[num_levels] = units::decompressed(scheme_, parts[num_levels], most_bytes(values), content->values);
  Chunk chunk{number,       entries,           values, parts[0], parts[nulls],
              parts[num_levels + num_masks], parts[num_buffers - 1]};
  chunk.masks.assign(parts + num_levels, parts + num_levels + num_masks);
  if (coded_reps_ || coded_defs_) decode_levels(chunk, *content);
  if (coding_) recode(chunk, content->values);
  return chunk;
}

// Largest size of the first buffer for so many values.
int64_t RowPage::most_bytes(int64_t num_values) const {
  if (values_ == Values::strings || values_ == Values::fsst) return units::kMostUnit;
  const int64_t packed = value_bytes() + kRowBytes * bits_;  // a whole block
  if (coding_) return product(num_values, value_bytes(), "chunk") + packed;
  return std::max(packed, product(num_values, value_bytes() + mask_bytes() + 1, "chunk"));
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
    if (max_rep_ == 0 || values.def[i] <= max_visible_) add(values.def[i] == 0);
  sink.rep.append(values.rep.data(), values.rep.size());
  sink.def.append(values.def.data(), values.def.size());
}

void RowPage::set_blobs(int max_level) {
  if (max_level < 0 || max_level > UINT16_MAX || max_level_ != 0 || max_rep_ != 0 || has_items() ||
      is_constant() || width() != kBlobBytes)
    corrupt("descriptions of blobs of another form");
  max_blob_level_ = max_level;
}

void RowPage::decode(int64_t number, Part bytes, const Rows& rows, bool open, Sink& sink) const {
  const size_t first = sink.bytes.size();
  decode_entries(number, bytes, rows, open, sink);
  if (max_blob_level_ >= 0) mark_null_blobs(first, sink);
}

// Mark as null the blobs from byte `first` of the values on whose descriptions say so.
void RowPage::mark_null_blobs(size_t first, Sink& sink) const {
  const size_t count = (sink.bytes.size() - first) / kBlobBytes;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* value = sink.bytes.data() + first + kBlobBytes * i;
    const uint64_t position = load<uint64_t>(value), level = position >> 16;
    if (position == 0 || load<uint64_t>(value + 8) != 0) continue;
    if (position % (1 << 16) != 0 || level > static_cast<uint64_t>(max_blob_level_))
      corrupt("blob: empty value at ", position, ", which is no level up to ", max_blob_level_);
    sink.has_nulls = true;
    if (sink.with_levels)
      sink.def.data()[sink.def.size() - count + i] = static_cast<uint16_t>(level);
    else
      sink.valid.data()[sink.valid.size() - count + i] = 0;
  }
}

void RowPage::decode_entries(int64_t number, Part bytes, const Rows& rows, bool open,
                             Sink& sink) const {
  if (sink.distinct && !has_items() && !is_null_)
    return decode_distinct(number, bytes, rows, open, sink);
  if (!masks_.empty()) check_masks(masks_, sink);
  if (values_ == Values::rows) return decode_run(bytes, rows.count, sink);
  if (values_ == Values::zipped) return decode_zipped(bytes, sink);
  if (is_null_ && nulls_ == Nulls::none) {
    if (sink.with_levels) sink.def.fill(static_cast<size_t>(rows.count), static_cast<uint16_t>(null_level_));
    return sink.nulls(rows.count);
  }
  if (rows.by_value && is_bare(number)) return decode_bare(bytes, rows, sink);
  const Chunk chunk = open_chunk(number, bytes, &sink.content);
  if (max_rep_ != 0) return decode_lists(chunk, rows, open, sink);
  cells::Walk levels, values;
  const int64_t origin = first_rows_.data()[number];
  const uint16_t* all = nullptr;  // levels of the chunk
  for (int64_t k = 0, end = 0; k < rows.count; k = end) {
    end = rows.run_end(k);
    if (end - k < kRun) {
      for (int64_t at = k; at < end; ++at) {
        const int64_t i = rows[at] - origin;
        const uint64_t level =
            rows.levels ? rows.levels[at] : level_at(nulls_, level_bits_, chunk.nulls, chunk.entries, i, levels);
        if (sink.with_levels) sink.def.push_back(static_cast<uint16_t>(level));
        if (level != 0)
          absent(level, sink);
        else
          emit(chunk, i, values, sink);
      }
      continue;
    }
    if (all == nullptr && rows.levels == nullptr) {
      all = levels_of(nulls_, level_bits_, chunk.nulls, chunk.entries, sink.chunk_def);
      check_level(static_cast<uint64_t>(highest(all, chunk.entries)));
    }
    const uint16_t* own = rows.levels ? rows.levels + k : all + (rows[k] - origin);
    if (sink.with_levels) sink.def.append(own, static_cast<size_t>(end - k));
    emit_values(chunk, rows[k] - origin, end - k, own, values, sink);
  }
}

void RowPage::decode_bare(Part bytes, const Rows& rows, Sink& sink) const {
  const int64_t width = bits_ / 8, first = rows[0];
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
  if (is_null_) return sink.nulls(count);
  if (count >= kRun && emit_run(chunk, first, count, levels, sink)) return;
  for (int64_t i = 0; i < count; ++i)
    if (levels[i] == 0)
      emit(chunk, first + i, walk, sink);
    else
      sink.null();
}

void RowPage::check_level(uint64_t level) const {
  if (level > static_cast<uint64_t>(max_level_))
    corrupt("definition level ", level, ", the layers use ", max_level_);
}

void RowPage::absent(uint64_t level, Sink& sink) const {
  if (!slots_) check_level(level);
  sink.null();
}

void RowPage::check_flat(const Chunk& chunk) const {
  if (chunk.first.size != bytes_of_bits(chunk.values * bits_))
    corrupt("flat: ", chunk.first.size, " bytes of ", chunk.values, " values of ", bits_, " bits");
}

void RowPage::emit(const Chunk& chunk, int64_t i, cells::Walk& walk, Sink& sink) const {
  const Part first = chunk.first, second = chunk.second;
  const int64_t count = chunk.values;
  if (i >= count) corrupt("value ", i, " of a chunk of ", count);
  switch (values_) {
    case Values::packed: return emit_bits(packed_at(first, bits_, count, i), sink);
    case Values::runs: {
      if (first.size / (bits_ / 8) != second.size || first.size % (bits_ / 8))
        corrupt("rle: ", first.size, " bytes of values, ", second.size, " runs");
      return emit_bits(load_bits(first.data + walk.find(second, i) * (bits_ / 8), bits_),
                       sink);
    }
    case Values::split: {
      if (first.size != count * (bits_ / 8))
        corrupt("byte stream split: ", first.size, " bytes of ", count, " values");
      uint64_t value = 0;
      for (int b = 0; b < bits_ / 8; ++b)
        value |= static_cast<uint64_t>(first.data[b * count + i]) << (8 * b);
      return emit_bits(value, sink);
    }
    case Values::strings:
    case Values::fsst: return emit_string(first, count, i, sink);
    case Values::constant: return emit_item(0, sink);
    default: break;
  }
  check_flat(chunk);
  if (bits_ == 1) {
    const uint8_t bit = first.data[i / 8] >> (i % 8) & 1;
    sink.value(&bit);
    return emit_masks(chunk, i, 1, sink);
  }
  if (bits_ % 8) {  // lists of bits
    copy_bits(first.data, i * bits_, bits_, sink.begin_run(1));
    sink.end_run(nullptr, 1);
    return emit_masks(chunk, i, 1, sink);
  }
  const uint8_t* at = first.data + i * (bits_ / 8);
  if (items_kind_ != Items::kNone) return emit_item(load_bits(at, bits_), sink);
  sink.value(at);
  if (!masks_.empty()) emit_masks(chunk, i, 1, sink);
}

// Append the validity of the items of values that were just appended.
void RowPage::emit_masks(const Chunk& chunk, int64_t first, int64_t count, Sink& sink) const {
  size_t next = 0;
  for (size_t depth = 0; depth < masks_.size(); ++depth) {
    const int64_t bits = masks_[depth], step = bytes_of_bits(bits);
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
  if (items_kind_ != Items::kNone) return emit_item(value, sink);
  uint8_t bytes[8];
  store(bytes, value);
  sink.value(bytes);
}

void RowPage::emit_item(uint64_t index, Sink& sink) const {
  if (index >= static_cast<uint64_t>(num_items_))
    corrupt("dictionary index ", index, ", the dictionary has ", num_items_, " items");
  if (sink.distinct) return sink.number(sink.distinct->of_item(index, [&] { return item(index); }));
  const std::string_view value = item(index);
  const auto* from = reinterpret_cast<const uint8_t*>(value.data());
  if (items_kind_ == Items::kFixed) return emit_masked(masks_, from, sink);
  sink.string(from, std::ssize(value));
}

void RowPage::enter(Sink& sink, int64_t num_rows) const {
  if (!sink.distinct || !has_items()) return;
  with_offsets([&](const auto* offsets) { sink.distinct->enter(this, items_.data(), offsets, num_items_, num_rows); });
}

// Item of the dictionary; `index` is checked.
std::string_view RowPage::item(uint64_t index) const {
  const auto* items = reinterpret_cast<const char*>(items_.data());
  const auto part = [=](int64_t start, int64_t end) { return std::string_view(items + start, size_t(end - start)); };
  const auto i = static_cast<int64_t>(index);
  if (items_kind_ == Items::kFixed) return part(i * item_width_, (i + 1) * item_width_);
  return with_offsets([=](const auto* offsets) { return part(offsets[i], offsets[i + 1]); });
}

void RowPage::emit_string(Part values, int64_t count, int64_t i, Sink& sink) const {
  const int64_t word = bits_ / 8;
  if (values.size / word < count + 1)
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
