// Zipped rows, of values of one width or of any length, each behind its levels.
#include <algorithm>

#include "rows/pages/range_sink.hpp"
#include "rows/pages/row_page.hpp"
#include "rows/pages/units.hpp"

namespace alance {

using namespace cells;

void RowPage::decode_zipped(Part bytes, Sink& sink) const {
  uint64_t word = 0;
  for (int i = 0; i < level_bits_; ++i) word |= uint64_t{bytes.data[i]} << (8 * i);
  if (sink.with_levels) sink.def.push_back(static_cast<uint16_t>(word));
  if (word != 0) return absent(word, sink);
  emit_zipped(bytes.data + level_bits_, sink);
}

// Append a value of one width, which follows the validity of its items.
void RowPage::emit_zipped(const uint8_t* from, Sink& sink) const {
  sink.value(from + mask_bytes());
  for (size_t depth = 0; depth < masks_.size(); ++depth) {
    const int64_t size = bytes_of_bits(masks_[depth]);
    if (size != 0) std::copy_n(from, size, sink.begin_mask(depth, 1));
    from += size;
  }
}

std::unique_ptr<RowPage> RowPage::zipped(Positions ends, int64_t start, int64_t size,
                                         int64_t num_rows, const ZippedForm& form,
                                         const PageKind& kind, std::shared_ptr<const Symbols> symbols) {
  const auto& [width, bits_rep, bits_def, members] = form;
  const auto is_length = [](int64_t bytes) { return bytes == -4 || bytes == -8; };
  if (bits_rep < 0 || bits_def < 0 || bits_rep > 16 || bits_def > 16 || kind.max_rep < 0 ||
      kind.max_level < 0 || kind.max_visible < 0 || width == 0 || (width < 0 && !is_length(width)) ||
      width > INT32_MAX / 8)
    corrupt("zipped rows of an unknown form");
  for (const auto& [own, own_symbols, scheme] : members)
    if (width > 0 || own == 0 || own > INT32_MAX / 8 || (own < 0 && !is_length(own)) || scheme < 0 ||
        scheme > units::kZstd)
      corrupt("packed structs of an unknown form");
  PageKind of_rows = kind;
  of_rows.values = static_cast<int>(Values::rows);
  of_rows.bits = static_cast<int>(8 * std::max<int64_t>(width, 0));
  const int bits = bits_rep + bits_def;
  of_rows.level_bits = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  std::unique_ptr<RowPage> page(new RowPage(ends, ends, start, size, num_rows, of_rows));
  page->bits_def_ = bits_def;
  page->length_bytes_ = std::max<int64_t>(-width, 0);
  page->max_rep_ = kind.max_rep;
  page->max_visible_ = kind.max_visible;
  page->symbols_ = std::move(symbols);
  page->members_ = members;
  if (width > 0 && page->mask_bytes() > width) corrupt("lists without room for their validity");
  return page;
}

// Decode the entries of a row, which fill these bytes.
void RowPage::decode_row(Part bytes, Sink& sink) const {
  const uint8_t *at = bytes.data, *const end = bytes.data + bytes.size;
  const auto take = [&](int64_t size, const char* what) {
    if (size > end - at) corrupt(std::string("full-zip: a row ends inside of ") + what);
    const uint8_t* from = at;
    at += size;
    return from;
  };
  int64_t entries = 0;
  do {
    uint64_t word = 0;
    std::memcpy(&word, take(level_bits_, "levels"), static_cast<size_t>(level_bits_));
    const auto rep = static_cast<int64_t>(word >> bits_def_);
    const auto def = static_cast<int64_t>(word & ((uint64_t{1} << bits_def_) - 1));
    if (rep > max_rep_ || def > max_level_)
      corrupt("full-zip: levels " + text(rep) + " and " + text(def));
    if ((rep == max_rep_) != (entries == 0)) corrupt("full-zip: a row of repetition level " + text(rep));
    ++entries;
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
    if (size > static_cast<uint64_t>(end - at)) corrupt("full-zip: a value of " + std::to_string(size) + " bytes");
    const Part value{take(static_cast<int64_t>(size), "a value"), static_cast<int64_t>(size)};
    if (members_.empty())
      emit_zipped_string(scheme_, symbols_.get(), value, end, sink);
    else
      emit_members(value, end, sink);
  } while (max_rep_ != 0 && at != end);
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
void RowPage::emit_members(Part value, const uint8_t* end, Sink& sink) const {
  const uint8_t *at = value.data, *const stop = value.data + value.size;
  for (size_t i = 0; i < members_.size(); ++i) {
    const PackedMember& member = members_[i];
    Sink& own = sink.members[i];  // as many: see `holds`
    const int64_t head = std::abs(member.width);
    if (head > stop - at) corrupt("packed rows: a row ends inside a value");
    if (member.width > 0) {
      own.value(at);
      at += head;
      continue;
    }
    uint64_t size = 0;
    std::memcpy(&size, at, static_cast<size_t>(head));
    at += head;
    if (size > static_cast<uint64_t>(stop - at))
      corrupt("packed rows: a value of " + std::to_string(size) + " bytes where the row has " + text(stop - at));
    const Part content{at, static_cast<int64_t>(size)};
    emit_zipped_string(member.scheme, member.symbols.get(), content, end, own);
    at += size;
  }
  if (at != stop) corrupt("packed rows: " + text(stop - at) + " bytes are left in a row");
  sink.string_ends();
}

bool RowPage::holds(const RangeForm& form) const {
  if (is_null_ || (members_.empty() && !form.is_packed_string())) return holds(form.width);
  bool fits = form.is_packed_string() && members_.size() == form.members.size();
  for (size_t i = 0; fits && i < members_.size(); ++i) {
    const int64_t own = members_[i].width, width = form.members[i].width;
    fits = own > 0 ? own == width : width < 0;
  }
  return fits;
}

}  // namespace alance
