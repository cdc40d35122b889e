// Zipped rows: each is its levels, then a value of fixed or variable width.
//
// Source: docs/format/file.md, "Full-zip layout".
#include <algorithm>

#include "rows/pages/range_sink.hpp"
#include "rows/pages/row_page.hpp"
#include "rows/pages/units.hpp"

namespace alance {

namespace {

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

bool are_held(const std::vector<PackedMember>& members, const std::vector<RangeForm>& forms) {
  return std::equal(members.begin(), members.end(), forms.begin(), forms.end(),
                    [](const PackedMember& member, const RangeForm& form) { return member.holds(form); });
}

}  // namespace

using namespace cells;

void RowPage::decode_zipped(Part bytes, Sink& sink) const {
  uint64_t word = 0;
  for (int i = 0; i < level_bits_; ++i) word |= uint64_t{bytes.data[i]} << (8 * i);
  if (sink.with_levels) sink.def.push_back(static_cast<uint16_t>(word));
  if (word != 0) return absent(word, sink);
  emit_zipped(bytes.data + level_bits_, sink);
}

// Append a value of fixed width.
void RowPage::emit_zipped(const uint8_t* from, Sink& sink) const {
  if (!null_items_) return emit_masked(masks_, from, sink);
  std::fill_n(sink.begin_run(1), sink.width, uint8_t{0});
  sink.end_run(nullptr, 1);
  for (size_t depth = 0; depth < sink.masks.size(); ++depth) {
    const bool has_mask = depth < masks_.size() && masks_[depth] != 0, is_last = depth + 1 == sink.masks.size();
    const size_t size = sink.masks[depth].step();
    if (is_last) {
      std::fill_n(sink.begin_mask(depth, 1), size, uint8_t{0});
    } else if (has_mask) {
      std::copy_n(from, size, sink.begin_mask(depth, 1));
      from += size;
    }
  }
}

// Append a value of fixed width, which follows the validity of its items.
void RowPage::emit_masked(const std::vector<int64_t>& masks, const uint8_t* from, Sink& sink) {
  sink.value(from + bytes_of_masks(masks));
  for (size_t depth = 0; depth < masks.size(); ++depth) {
    const int64_t size = bytes_of_bits(masks[depth]);
    if (size != 0) std::copy_n(from, size, sink.begin_mask(depth, 1));
    from += size;
  }
}

namespace {

// Check that positions ascend within the buffer; each row has at least one byte.
void check_ends(Positions ends, int64_t size) {
  for (size_t i = 0; i < ends.size(); ++i)
    if (const int64_t end = ends.data()[i]; end < (i ? ends.data()[i - 1] + 1 : 0) || end > size)
      corrupt("full-zip: positions of rows that are not ascending: row ", i, " begins at ", end,
              " of ", size);
}

}  // namespace

std::unique_ptr<RowPage> RowPage::zipped(std::vector<int64_t> ends, int64_t start, int64_t size,
                                         int64_t num_rows, const ZippedForm& form,
                                         const PageKind& kind, std::shared_ptr<const Symbols> symbols) {
  auto page = of_zipped(ends, ends, start, size, num_rows, form, kind, std::move(symbols));
  if (page->num_chunks_ != num_rows) corrupt("places of other rows");
  check_ends(ends, size);
  page->cut_.bytes = std::move(ends);  // the move keeps the array that the page views
  return page;
}

std::unique_ptr<RowPage> RowPage::zipped(const FileIndex& index, int64_t start, int64_t size,
                                         int64_t num_rows, const ZippedForm& form,
                                         const PageKind& kind, std::shared_ptr<const Symbols> symbols) {
  if (index.start < 0 || index.width < 1 || index.width > 8 || num_rows < 1 ||
      (INT64_MAX - index.start) / index.width <= num_rows)
    corrupt("an index of other rows");
  auto page = of_zipped({}, {}, start, size, num_rows, form, kind, std::move(symbols));
  page->unplaced_ = std::make_unique<const Unplaced>(Unplaced{index, form, kind});
  return page;
}

std::shared_ptr<const RowPage> RowPage::of_runs(std::vector<int64_t> firsts, std::vector<int64_t> lasts,
                                                std::vector<int64_t> bytes) const {
  for (size_t i = 0; i < firsts.size(); ++i)
    if (bytes[2 * i] < (i ? bytes[2 * i - 1] : 0) || bytes[2 * i] > bytes[2 * i + 1] || bytes[2 * i + 1] > size_)
      corrupt("page at byte ", start_, ": repetition index: rows ", firsts[i], " to ", lasts[i],
              " lie from ", bytes[2 * i], " to ", bytes[2 * i + 1], ", their buffer has ", size_);
  Cut cut;
  cut.rows = std::move(firsts);
  cut.rows.push_back(num_rows_);
  cut.entries = std::move(lasts);
  cut.bytes = std::move(bytes);
  std::shared_ptr<RowPage> page = of_zipped(cut.rows, cut.bytes, start_, size_, num_rows_,
                                            unplaced_->form, unplaced_->kind, symbols_);
  page->cut_ = std::move(cut);  // the move keeps the arrays that the page views
  page->has_runs_ = true;
  page->max_blob_level_ = max_blob_level_;
  return page;
}

std::unique_ptr<RowPage> RowPage::of_zipped(Positions rows, Positions bytes, int64_t start, int64_t size,
                                            int64_t num_rows, const ZippedForm& form,
                                            const PageKind& kind, std::shared_ptr<const Symbols> symbols) {
  const auto& [width, bits_rep, bits_def, members] = form;
  if (bits_rep < 0 || bits_def < 0 || bits_rep > 16 || bits_def > 16 || kind.max_rep < 0 ||
      kind.max_level < 0 || kind.max_visible < 0 || width == 0 || (width < 0 && !is_length(width)) ||
      width > INT32_MAX / 8)
    corrupt("zipped rows of an unknown form");
  check_members(width, members);
  PageKind of_rows = kind;
  of_rows.values = static_cast<int>(Values::rows);
  of_rows.bits = static_cast<int>(8 * std::max<int64_t>(width, 0));
  const int bits = bits_rep + bits_def;
  of_rows.level_bits = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  std::unique_ptr<RowPage> page(new RowPage(rows, bytes, start, size, num_rows, of_rows));
  page->bits_def_ = bits_def;
  page->length_bytes_ = std::max<int64_t>(-width, 0);
  page->max_rep_ = kind.max_rep;
  page->max_visible_ = kind.max_visible;
  page->symbols_ = std::move(symbols);
  page->members_ = members;
  if (width > 0 && page->mask_bytes() > width) corrupt("lists without room for their validity");
  return page;
}

// Decode the entries of `count` rows, which take exactly these bytes.
void RowPage::decode_run(Part bytes, int64_t count, Sink& sink) const {
  const uint8_t *at = bytes.data, *const end = bytes.data + bytes.size;
  const auto take = [&](int64_t size, const char* what) {
    if (size > end - at) corrupt("full-zip: a row ends inside of ", what);
    const uint8_t* from = at;
    at += size;
    return from;
  };
  int64_t begun = 0;
  while (max_rep_ != 0 ? at != end || begun == 0 : begun < count) {
    uint64_t word = 0;
    std::memcpy(&word, take(level_bits_, "levels"), static_cast<size_t>(level_bits_));
    const auto rep = static_cast<int64_t>(word >> bits_def_);
    const auto def = static_cast<int64_t>(word & ((uint64_t{1} << bits_def_) - 1));
    if (rep > max_rep_ || def > max_level_) corrupt("full-zip: levels ", rep, " and ", def);
    if (rep == max_rep_ ? begun == count : begun == 0)
      corrupt("full-zip: a row of repetition level ", rep);
    begun += rep == max_rep_;
    if (sink.with_levels) {
      if (max_rep_ != 0) sink.rep.push_back(static_cast<uint16_t>(rep));
      sink.def.push_back(static_cast<uint16_t>(def));
    }
    const bool is_shown = max_rep_ == 0 || def <= max_visible_;
    if (length_bytes_ == 0) {
      if (!is_shown) continue;
      const uint8_t* from = take(value_bytes(), "a value");
      if (def != 0)
        sink.null();
      else
        emit_zipped(from, sink);
      continue;
    }
    if (def != 0) {
      if (is_shown) sink.null();
      continue;
    }
    uint64_t size = 0;
    std::memcpy(&size, take(length_bytes_, "a length"), static_cast<size_t>(length_bytes_));
    if (size > static_cast<uint64_t>(end - at)) corrupt("full-zip: a value of ", size, " bytes");
    const Part value{take(static_cast<int64_t>(size), "a value"), static_cast<int64_t>(size)};
    if (members_.empty())
      emit_zipped_string(scheme_, symbols_.get(), value, end, sink);
    else
      emit_members(members_, value, end, sink);
  }
  if (begun != count) corrupt("full-zip: ", begun, " rows, expected ", count);
  if (at != end) corrupt("full-zip: bytes behind a row");
}

// Append an encoded string; bytes can be read up to `end`.
void RowPage::emit_zipped_string(int scheme, const Symbols* symbols, Part value, const uint8_t* end,
                                 Sink& sink) {
  if (scheme != 0) {
    const size_t before = sink.bytes.size();
    size_t content = 0;
    units::decompress(scheme, value, units::kMostUnit, [&](int64_t num_bytes) {
      content = static_cast<size_t>(num_bytes);
      return sink.bytes.extend(content + static_cast<size_t>(lz4::kBurst));
    });
    sink.bytes.shrink(before + content);
    sink.string_ends();
  } else if (symbols != nullptr) {
    emit_codes(*symbols, value, end, sink);
  } else {
    sink.string(value.data, value.size);
  }
}

// Append a packed struct: the values of its members, which fill these bytes.
void RowPage::emit_members(const std::vector<PackedMember>& members, Part value, const uint8_t* end,
                           Sink& sink) {
  const uint8_t *at = value.data, *const stop = value.data + value.size;
  for (size_t i = 0; i < members.size(); ++i) {
    const PackedMember& member = members[i];
    Sink& own = sink.members[i];  // as many: see `holds`
    const int64_t head = std::abs(member.width);
    if (head > stop - at) corrupt("packed rows: a row ends inside a value");
    if (member.width > 0) {
      if (!member.masks.empty()) check_masks(member.masks, own);
      emit_masked(member.masks, at, own);
      at += head;
      continue;
    }
    uint64_t size = 0;
    std::memcpy(&size, at, static_cast<size_t>(head));
    at += head;
    if (size > static_cast<uint64_t>(stop - at))
      corrupt("packed rows: a value of ", size, " bytes where the row has ", stop - at);
    const Part content{at, static_cast<int64_t>(size)};
    if (member.members.empty())
      emit_zipped_string(member.scheme, member.symbols.get(), content, end, own);
    else
      emit_members(member.members, content, end, own);
    at += size;
  }
  if (at != stop) corrupt("packed rows: ", stop - at, " bytes are left in a row");
  sink.string_ends();
}

std::string RowPage::values_text() const {
  if (!members_.empty()) return "structs of " + text(std::ssize(members_)) + " members";
  if (values_ == Values::rows && length_bytes_ != 0) return "strings";
  if (is_zipped()) return "values of " + text(bits_ / 8 - mask_bytes()) + " bytes";
  if (items_kind_ == Items::kFixed) return "values of " + text(item_width_) + " bytes";
  if (has_items() || is_string(values_)) return "strings";
  return "values of " + text(bits_) + " bits";
}

bool RowPage::holds(const RangeForm& form) const {
  if (is_null_ || (members_.empty() && !form.is_packed_string()))
    return null_items_ ? form.is_list() : holds(form.is_list() && form.item_bits * form.num_items(form.dims.size() - 1) == 1 ? 0 : form.width);
  return form.is_packed_string() && are_held(members_, form.members);
}

bool PackedMember::holds(const RangeForm& form) const {
  if (width > 0) return form.width >= 0 && width - bytes_of_masks(masks) == std::max<int64_t>(form.width, 1);
  if (members.empty()) return form.width < 0 && form.members.empty();
  return form.is_packed_string() && are_held(members, form.members);
}

}  // namespace alance
