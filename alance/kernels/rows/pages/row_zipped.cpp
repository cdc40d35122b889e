// Zipped rows: each is its levels, then a value of fixed or variable width.
//
// Source: docs/format/file.md, "Full-zip layout".
#include <algorithm>

#include "rows/pages/range_sink.hpp"
#include "rows/pages/row_page.hpp"
#include "rows/pages/units.hpp"

namespace alance {

namespace {

bool are_held(const std::vector<PackedMember>& members, const std::vector<RangeForm>& forms) {
  return std::equal(members.begin(), members.end(), forms.begin(), forms.end(),
                    [](const PackedMember& member, const RangeForm& form) { return member.holds(form); });
}

}  // namespace

using namespace cells;

// Append a value of fixed width.
void RowPage::emit_zipped(const uint8_t* from, Sink& sink) const {
  if (!kind_->null_items) return emit_masked(kind_->masks, from, sink);
  std::fill_n(sink.begin_run(1), sink.width, uint8_t{0});
  sink.end_run(nullptr, 1);
  for (size_t depth = 0; depth < sink.masks.size(); ++depth) {
    const bool has_mask = depth < kind_->masks.size() && kind_->masks[depth] != 0;
    const bool is_last = depth + 1 == sink.masks.size();
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

void RowPage::set_file_index(const FileIndex& index) {
  if (index.start < 0 || index.width < 1 || index.width > 8 || num_rows_ < 1 ||
      (INT64_MAX - index.start) / index.width <= num_rows_)
    corrupt("an index of other rows");
  index_ = index;
}

std::shared_ptr<const RowPage> RowPage::of_runs(std::vector<int64_t> firsts, std::vector<int64_t> lasts,
                                                std::vector<int64_t> bytes) const {
  for (size_t i = 0; i < firsts.size(); ++i)
    if (bytes[2 * i] < (i ? bytes[2 * i - 1] : 0) || bytes[2 * i] > bytes[2 * i + 1] || bytes[2 * i + 1] > size_)
      corrupt("page at byte ", start_, ": repetition index: rows ", firsts[i], " to ", lasts[i],
              " lie from ", bytes[2 * i], " to ", bytes[2 * i + 1], ", their buffer has ", size_);
  auto page = std::make_shared<RowPage>(kind_, start_, size_, num_rows_, ChunkTable(), symbols_);
  ChunkTable runs;
  runs.first_rows = std::move(firsts);
  runs.first_rows.push_back(num_rows_);
  runs.entries = std::move(lasts);
  runs.first_bytes = std::move(bytes);
  page->set_chunks(std::move(runs));
  page->num_chunks_ = std::ssize(page->chunks_.entries);
  page->has_runs_ = true;
  page->page_start = page_start;
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
  while (kind_->max_rep != 0 ? at != end || begun == 0 : begun < count) {
    uint64_t word = 0;
    std::memcpy(&word, take(kind_->level_bits, "levels"), static_cast<size_t>(kind_->level_bits));
    const auto rep = static_cast<int64_t>(word >> kind_->bits_def);
    const auto def = static_cast<int64_t>(word & ((uint64_t{1} << kind_->bits_def) - 1));
    if (rep > kind_->max_rep || def > kind_->max_level) corrupt("full-zip: levels ", rep, " and ", def);
    if (rep == kind_->max_rep ? begun == count : begun == 0)
      corrupt("full-zip: a row of repetition level ", rep);
    begun += rep == kind_->max_rep;
    if (sink.with_levels) {
      if (kind_->max_rep != 0) sink.rep.push_back(static_cast<uint16_t>(rep));
      sink.def.push_back(static_cast<uint16_t>(def));
    }
    const bool is_shown = kind_->max_rep == 0 || def <= kind_->max_visible;
    if (kind_->length_bytes == 0) {
      if (!is_shown) continue;
      const uint8_t* from = take(kind_->value_bytes(), "a value");
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
    std::memcpy(&size, take(kind_->length_bytes, "a length"), static_cast<size_t>(kind_->length_bytes));
    if (size > static_cast<uint64_t>(end - at)) corrupt("full-zip: a value of ", size, " bytes");
    const Part value{take(static_cast<int64_t>(size), "a value"), static_cast<int64_t>(size)};
    if (kind_->members.empty())
      emit_zipped_string(kind_->scheme, symbols_.get(), value, end, sink);
    else
      emit_members(kind_->members, value, end, sink);
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
  if (!kind_->members.empty()) return "structs of " + text(std::ssize(kind_->members)) + " members";
  if (has_strings()) return "strings";
  if (has_items()) return "values of " + text(items_->width()) + " bytes";
  if (kind_->is_zipped()) return "values of " + text(width()) + " bytes";
  return "values of " + text(kind_->bits) + " bits";
}

bool RowPage::holds(int64_t width) const {
  if (kind_->null_items) return width > 0;
  if (is_null()) return true;
  if (has_strings()) return width < 0;
  if (is_constant() && width == 0) return items_->width() == 1 && items_->values()[0] <= 1;  // a bit has a byte
  if (kind_->is_zipped()) return width >= 0 && std::max<int64_t>(width, 1) == this->width();
  return width == (!has_items() && kind_->bits == 1 ? 0 : this->width());
}

bool RowPage::holds(const RangeForm& form) const {
  if (is_null() || (kind_->members.empty() && !form.is_packed_string()))
    return kind_->null_items ? form.is_list() : holds(form.is_list() && form.item_bits * form.num_items(form.dims.size() - 1) == 1 ? 0 : form.width);
  return form.is_packed_string() && are_held(kind_->members, form.members);
}

bool PackedMember::holds(const RangeForm& form) const {
  if (width > 0) return form.width >= 0 && width - bytes_of_masks(masks) == std::max<int64_t>(form.width, 1);
  if (members.empty()) return form.width < 0 && form.members.empty();
  return form.is_packed_string() && are_held(members, form.members);
}

}  // namespace alance
