// Form of a page, from its description, wherever the page lies.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "rows/column_pages.hpp"
#include "rows/guess.hpp"
#include "rows/sparse_form.hpp"

namespace alance {

// Part of a message at a path of field numbers; empty if a field of the path is missing or repeated.
inline std::string_view part_at(std::string_view part, std::initializer_list<uint32_t> path) {
  for (const uint32_t field : path)
    if (only(part, field, part) == nullptr) return {};
  return part;
}

// Symbols in the description of a mini-block page of compressed strings: each page has its own, and
// they are most of it. Empty if there are none, or they are unusual.
inline std::string_view symbols_in(std::string_view description) {
  // Any.value, PageLayout.mini_block_layout, its value_compression, their fsst, its symbol_table; or
  // Any.value, PlanarLayout.values, their chunked, its compression, its fsst, its symbol_table
  std::string_view part = part_at(description, {2, 1, 3, 6, 1});
  if (part.empty()) part = part_at(description, {2, 2, 1, 1, 6, 1});
  if (part.empty()) return {};
  const auto* table = reinterpret_cast<const uint8_t*>(part.data());
  if (part.size() != Symbols::kTableBytes || part.substr(4, 4) != "TSSF" || !(table[3] & 1)) return {};
  const uint8_t* lengths = table + Symbols::kHeader + 8 * size_t{table[0]};
  const bool is_good = std::all_of(lengths, lengths + table[0], [](uint8_t length) {
    return length >= 1 && length <= fsst::kMaxSymbolBytes;
  });
  return is_good ? part : std::string_view{};
}

// Description without a part of it.
inline std::string without(std::string_view description, std::string_view part) {
  if (part.empty()) return std::string(description);
  const size_t start = static_cast<size_t>(part.data() - description.data());
  std::string rest(description.substr(0, start));
  rest += description.substr(start + part.size());
  return rest;
}

// Buffer of a page in its file; `data`: its bytes, if they are at hand.
struct PageBuffer {
  int64_t start, size;
  const uint8_t* data = nullptr;
  bool is_needed = false;  // to learn the page

  Part bytes() const { return {data, size}; }
};
using PageBuffers = std::vector<PageBuffer>;

// Collect the buffers of a page in a list that is reused.
inline void page_buffers(const PageTable& pages, size_t number, PageBuffers& buffers) {
  buffers.clear();
  for (int64_t i = pages.ends[number]; i < pages.ends[number + 1]; ++i) {
    const size_t at = static_cast<size_t>(i);
    buffers.push_back({pages.starts[at], pages.sizes[at]});
  }
}

// Encoding of a constant page's levels: kind, packed width, count; empty: raw.
using LevelsForm = std::optional<std::tuple<int, int, int64_t>>;

// Form that all pages of a description have.
class PageForm {
 public:
  PageForm(const std::tuple<int, int, int, int, int, bool>& own,
           const std::optional<std::tuple<int, int, int, int>>& lists, uint64_t num_items, bool has_items)
      : num_items(num_items), has_items(has_items) {
    int values = 0, nulls = 0, reps = 0;
    std::tie(values, kind->bits, nulls, kind->level_bits, kind->max_level, kind->large) = own;
    if (lists) std::tie(reps, kind->rep_bits, kind->max_rep, kind->max_visible) = *lists;
    kind->values = static_cast<Values>(values);
    kind->nulls = static_cast<Nulls>(nulls);
    kind->reps = static_cast<Nulls>(reps);
    if (kind->values == Values::zipped) kind->bits_def = 8 * std::clamp(kind->level_bits, 0, 4);
  }
  // `maxima`: highest repetition level, definition level, and definition level of a value's slot.
  PageForm(Values values, const std::tuple<int, int, int>& maxima, uint64_t num_items)
      : num_items(num_items), has_items(false) {
    kind->values = values;
    std::tie(kind->max_rep, kind->max_level, kind->max_visible) = maxima;
  }

  // Form of pages whose items all have one value, or none; `value` if it is in the description.
  // `maxima`: as above; `null_level`: as in `PageKind`.
  static std::shared_ptr<PageForm> constant(const std::optional<std::string_view>& value,
                                            const std::tuple<int, int, int>& maxima, int null_level,
                                            const LevelsForm& reps, const LevelsForm& defs) {
    for (const LevelsForm* levels : {&reps, &defs})
      if (*levels && (std::get<0>(**levels) < 1 || std::get<0>(**levels) > static_cast<int>(Nulls::blocks) ||
                      std::get<1>(**levels) < 0 || std::get<1>(**levels) > 15))
        corrupt("levels of an unknown form");
    auto form = std::make_shared<PageForm>(Values::constant, maxima, 0);
    form->kind->bits = 8;
    form->kind->null_level = null_level;
    if (value) form->value_.emplace(*value);
    form->reps_ = reps;
    form->defs_ = defs;
    return form;
  }

  // Form of pages of zipped rows of any length: bytes of a value, or minus the bytes of the length in
  // front of it; bits of the repetition and of the definition level; members of values that are packed
  // structs of any length. An index of more than `most_bytes` bytes stays in the file.
  static std::shared_ptr<PageForm> of_rows(int64_t width, std::pair<int, int> bits, std::vector<PackedMember> members,
                                           const std::tuple<int, int, int>& maxima, uint64_t num_items,
                                           int64_t most_bytes) {
    auto form = std::make_shared<PageForm>(Values::rows, maxima, num_items);
    PageKind& kind = *form->kind;
    const int sum = bits.first + bits.second;
    // -1: refused with the first page.
    kind.bits = width > INT32_MAX / 8 ? -1 : static_cast<int>(8 * std::max<int64_t>(width, 0));
    kind.bits_def = bits.second;
    kind.level_bits = sum == 0 ? 0 : sum <= 8 ? 1 : sum <= 16 ? 2 : sum <= 32 ? 4 : -1;
    kind.length_bytes = std::max<int64_t>(-width, 0);
    kind.members = std::move(members);
    form->most_index_bytes_ = most_bytes;
    return form;
  }

  // Ignore the buffers of a constant page, because its description has everything.
  void ignore_buffers() { has_buffers_ = false; }

  void set_symbols(const In<uint64_t>& table, const Bytes& lengths) {
    symbols = std::make_shared<const Symbols>(table, lengths);
  }
  // Form of a dictionary's items; without it, pages with a dictionary are not known here.
  void set_items(const ItemsForm& of_pages) { items_ = of_pages; }

  // Levels are encoded as words that are decoded first, and are flat from then on; `set_coded_items`
  // is the same for the items of a dictionary.
  void set_coded_levels(WordCoding coding, bool reps) {
    if (coding.bits() != 16) corrupt("levels of another width");
    (reps ? kind->coded_reps : kind->coded_defs) = std::move(coding);
  }
  void set_coded_items(WordCoding coding, int64_t count) {
    items_ = {false, coding.bits(), count};
    coded_items_ = std::move(coding);
  }
  // Pages are sparse: this object is then the form of their values, and `form` has the layers.
  void set_sparse(sparse::Form form) { sparse_ = std::move(form); }

  // Mark the buffers whose bytes tell where rows of a page are. ValueError: the page contradicts its
  // description.
  void mark_needed(PageBuffers& buffers, int64_t num_rows) const {
    if (has_items && !items_) corrupt("a dictionary without a form");
    if (sparse_) return mark_sparse(buffers);
    if (is_constant()) {
      const size_t count = has_buffers_ ? buffers.size() : 0;
      check_constant(count);
      for (size_t i = 0; i < count; ++i) buffers[i].is_needed = buffers[i].size != 0;
      return;
    }
    if (kind->is_zipped()) {
      check_count(buffers, has_index() ? 2 : 1, "a full-zip page");
      if (!has_index())
        check_rows(buffers[0].size, num_rows);
      else if (index_width(buffers[kIndex].size, num_rows) == 0)
        corrupt("full-zip: repetition index of ", buffers[kIndex].size, " bytes for ", num_rows,
                " rows");
      if (!has_lists() && num_items != static_cast<uint64_t>(num_rows))
        corrupt("full-zip: ", num_items, " entries in ", num_rows, " rows without lists");
      if (has_index()) buffers[kIndex].is_needed = buffers[kIndex].size <= most_index_bytes_;
      return;
    }
    check_count(buffers, size_t{2} + has_items + has_lists(), "a mini-block page");
    buffers[kWords].is_needed = true;
    if (has_items) buffers[kItems].is_needed = true;
    if (has_lists()) buffers[kItems + has_items].is_needed = true;
  }

  // Number of the buffer over which the rows of a page are spread, and how they are spread. Nothing
  // for sparse pages, and for constant pages and rows of equal length, which need no guess.
  std::optional<std::pair<size_t, guesses::Buffer>> spread(const PageBuffers& buffers) const {
    if (sparse_ || is_constant() || kind->values == Values::zipped) return std::nullopt;
    if (has_index()) return std::pair{size_t{0}, guesses::Buffer{buffers[0].size, guesses::kMargin, guesses::kSpread}};
    const int64_t size = buffers[kChunks].size;
    const auto num_chunks = static_cast<double>(std::max<int64_t>(1, buffers[kWords].size / (kind->large ? 4 : 2)));
    const bool are_strings = kind->scheme == 0 && is_string(kind->values);
    const double margin = std::min<double>(guesses::kMargin, static_cast<double>(size) / num_chunks);
    return std::pair{kChunks, guesses::Buffer{size, guesses::kChunksBeside * margin,
                                              are_strings ? guesses::kSpread : guesses::kFixedSpread}};
  }

  // Page whose needed buffers are at hand. `own_symbols`: the symbols in its own description.
  // ValueError: bytes that contradict the description.
  std::shared_ptr<RowPage> page_of(const PageBuffers& buffers, int64_t num_rows,
                                   std::string_view own_symbols) const {
    if (sparse_) return sparse_page(buffers, num_rows, own_symbols);
    if (is_constant()) return constant_page(buffers, num_rows);
    if (kind->is_zipped())
      return zipped_page(buffers[0], has_index() ? buffers[kIndex] : PageBuffer{}, num_rows);
    return chunked_page(buffers, num_rows, num_items, own_symbols);
  }

  static constexpr size_t kSparseItems = 1;  // buffer of indexed items; the next has their offsets

  bool is_constant() const { return kind->is_constant(); }
  bool has_lists() const { return kind->has_lists(); }
  // True if zipped rows have any length, so that an index has their positions.
  bool has_index() const { return kind->values == Values::rows; }

  // Of all pages; does not change once there are any.
  const std::shared_ptr<PageKind> kind = std::make_shared<PageKind>();
  const uint64_t num_items;
  const bool has_items;
  std::shared_ptr<const Symbols> symbols;

 private:
  static constexpr size_t kWords = 0, kChunks = 1, kItems = 2;  // buffers
  static constexpr size_t kIndex = 1;  // buffer of the index of zipped rows
  static constexpr int64_t kMostItemBytes = int64_t{1} << 20;  // items and offsets to read with the indices

  static void check_count(const PageBuffers& buffers, size_t count, const char* what) {
    if (buffers.size() < count)
      corrupt(what, " needs ", count, " buffers, the page has ", buffers.size());
  }

  // Check the size of zipped rows of one length.
  void check_rows(int64_t size, int64_t num_rows) const {
    const int64_t row = kind->level_bits + kind->bits / 8;
    if (size % row || size / row != num_rows)
      corrupt("full-zip: ", num_rows, " rows of ", row, " bytes in a buffer of ", size);
  }

  // Check that a constant page with `count` buffers has a value, and levels if it needs them.
  void check_constant(size_t count) const {
    if (count > 3 || (value_ && count % 2 != 0))
      corrupt("constant: ", count, " buffers ", (value_ ? "with" : "without"), " an inline value");
    if (value_ && value_->empty()) corrupt("constant: a value of 0 bytes");
    if (count < 2 && has_lists()) corrupt("constant: layers have lists, but there are no levels of them");
    if (count == 0 && !value_ && kind->max_level == 0)
      corrupt("constant: neither a value nor a layer that can be null");
  }

  // `index`: of rows of any length.
  std::shared_ptr<RowPage> zipped_page(const PageBuffer& rows, const PageBuffer& index, int64_t num_rows) const {
    ChunkTable places;
    const bool is_held = index.size <= most_index_bytes_;
    if (has_index() && is_held) places.first_bytes = ends_in(index.bytes(), rows.size, num_rows);
    auto page = std::make_shared<RowPage>(kind, rows.start, rows.size, num_rows, std::move(places), symbols);
    if (has_index() && !is_held) page->set_file_index({index.start, index_width(index.size, num_rows)});
    return page;
  }

  std::shared_ptr<RowPage> chunked_page(const PageBuffers& buffers, int64_t num_rows, uint64_t num_items,
                                        std::string_view own_symbols) const {
    const Part index = has_lists() ? buffers[kItems + has_items].bytes() : Part{};
    const PageBuffer& chunks = buffers[kChunks];
    ChunkTable table(buffers[kWords].bytes(), has_lists() ? &index : nullptr, kind->large, num_items, num_rows,
                     chunks.size);
    auto of_page = symbols;
    if (of_page && !own_symbols.empty())
      of_page = std::make_shared<const Symbols>(reinterpret_cast<const uint8_t*>(own_symbols.data()));
    auto page = std::make_shared<RowPage>(kind, chunks.start, chunks.size, num_rows, std::move(table),
                                          std::move(of_page));
    if (!has_items) return page;
    Part items = buffers[kItems].bytes();
    std::vector<uint8_t> words;
    if (coded_items_) {
      words = coded_items_->words(items, items_->count);
      items = {words.data(), std::ssize(words)};
    }
    page->set_items({items, *items_});
    return page;
  }

  // Indices and items, offsets of zipped rows, or words and items of chunks; then the buffers of the sets.
  void mark_sparse(PageBuffers& buffers) const {
    const size_t num_values = sparse_->num_value_buffers;
    const auto mark = [&](size_t i) {
      if (i < buffers.size()) buffers[i].is_needed = buffers[i].size != 0;
    };
    if (sparse_->values == sparse::Slots::kIndexed && buffers.size() > kSparseItems + 1) {
      mark(0);
      if (buffers[kSparseItems].size <= kMostItemBytes - std::min(buffers[kSparseItems + 1].size, kMostItemBytes))
        mark(kSparseItems);
      mark(kSparseItems + 1);
    } else {
      for (size_t i = 0; i < num_values; ++i)
        if (i != data_buffer()) mark(i);
    }
    for (size_t i = 0; i < sparse_->num_payloads(); ++i) mark(num_values + i);
  }
  // Buffer of a sparse page's values, which only rows need; for pages without indices.
  size_t data_buffer() const { return kind->is_zipped() ? 0 : kChunks; }

  std::shared_ptr<RowPage> sparse_page(const PageBuffers& buffers, int64_t num_rows, std::string_view own_symbols) const {
    const size_t num_values = sparse_->num_value_buffers, count = num_values + sparse_->num_payloads();
    check_count(buffers, count, "a sparse page");
    std::vector<Part> sets;
    for (size_t i = num_values; i < count; ++i) sets.push_back(buffers[i].bytes());
    auto slots = std::make_shared<sparse::Slots>(sparse_->structure(num_rows, sets), sparse_->values);
    const int64_t num_slots = slots->structure.leaf().num_slots, num_valid = slots->structure.leaf().num_valid();
    std::shared_ptr<RowPage> page;
    if (slots->values == sparse::Slots::kEach) {
      page = is_constant() ? constant_page({}, num_slots)
                           : chunked_page(buffers, num_slots, static_cast<uint64_t>(num_slots), own_symbols);
    } else {
      const bool has_indices = slots->values == sparse::Slots::kIndexed;
      if (!has_indices && num_items != static_cast<uint64_t>(num_valid))
        corrupt("sparse: ", num_items, " zipped values for ", num_valid, " valid slots");
      if (has_indices && num_items == 0 && num_valid != 0)
        corrupt("sparse: no items for ", num_valid, " valid slots");
      page = sparse_values(buffers[has_indices ? kSparseItems : 0],
                           has_index() ? buffers[has_indices ? kSparseItems + 1 : kIndex] : PageBuffer{});
      if (has_indices) slots->set_indices(sparse_->indices.decode(buffers[0].bytes(), num_slots), num_items);
      if (has_indices && (buffers[kSparseItems].data != nullptr || buffers[kSparseItems].size == 0))
        slots->keep_items(buffers[kSparseItems].bytes());
    }
    page->set_slots(std::move(slots));
    return page;
  }

  // Page of zipped values, as many as the description says.
  std::shared_ptr<RowPage> sparse_values(const PageBuffer& rows, const PageBuffer& index) const {
    const auto count = static_cast<int64_t>(num_items);  // below 2^32
    if (has_index() && index_width(index.size, count) == 0)
      corrupt("index of ", index.size, " bytes for ", count, " zipped values");
    return zipped_page(rows, index, count);
  }

  // Bytes of a number in the index of zipped rows; 0 if it is no such index.
  static int64_t index_width(int64_t size, int64_t num_rows) {
    const int64_t width = size % (num_rows + 1) ? 0 : size / (num_rows + 1);
    return width == 1 || width == 2 || width == 4 || width == 8 ? width : 0;
  }
  // Positions of zipped rows: unsigned numbers that ascend from 0 to the size of the rows.
  static std::vector<int64_t> ends_in(Part index, int64_t size, int64_t num_rows) {
    const int64_t width = index_width(index.size, num_rows);
    std::vector<int64_t> ends(static_cast<size_t>(num_rows) + 1);
    for (size_t i = 0; i < ends.size(); ++i)  // little-endian; the page refuses what is negative
      std::memcpy(&ends[i], index.data + static_cast<int64_t>(i) * width, static_cast<size_t>(width));
    if (ends.front() != 0 || ends.back() != size)
      corrupt("repetition index from ", ends.front(), " to ", ends.back(),
              ", expected ascending positions from 0 to ", size);
    return ends;
  }

  std::unique_ptr<RowPage> constant_page(const PageBuffers& buffers, int64_t num_rows) const {
    const size_t count = has_buffers_ ? buffers.size() : 0;
    const Part reps = count >= 2 ? buffers[count - 2].bytes() : Part{};
    const Part defs = count >= 2 ? buffers[count - 1].bytes() : Part{};
    std::optional<Items> item;
    if (value_)
      item.emplace(value_of({reinterpret_cast<const uint8_t*>(value_->data()), std::ssize(*value_)}));
    else if (count % 2 != 0)
      item.emplace(value_in(buffers[0].bytes()));
    return RowPage::constant(kind, num_rows, levels(reps_, reps), levels(defs_, defs), std::move(item));
  }

  static EncodedLevels levels(const LevelsForm& form, Part bytes) {
    if (bytes.size == 0) return {Nulls::none, 0, 0, {}};
    if (!form && bytes.size % 2) corrupt(bytes.size, " bytes of levels");
    const auto [kind, bits, count] =
        form.value_or(std::make_tuple(static_cast<int>(Nulls::flat), 0, bytes.size / 2));
    if (count < 1) corrupt(count, " levels");
    return {static_cast<Nulls>(kind), bits, count, bytes};
  }

  // Value of fixed width.
  static Items value_of(Part value) {
    if (value.size == 0) corrupt("constant: a value of 0 bytes");
    return {value, {false, static_cast<int>(8 * value.size), 1}};
  }

  // Value in the buffer of a constant page: u32 n, n sizes of Arrow buffers (u32), then the buffers
  // of an array of length 1.
  static Items value_in(Part buffer) {
    const auto is_bad = [&](int64_t size) {
      corrupt("constant: ", buffer.size, " bytes of a value, its header has ", size);
    };
    if (buffer.size < 4) is_bad(8);
    const int64_t num_buffers = load<uint32_t>(buffer.data), header = 4 + 4 * num_buffers;
    if (num_buffers != 1 && num_buffers != 2)
      corrupt("constant: value of ", num_buffers, " Arrow buffers, expected 1 or 2");
    if (buffer.size < header) is_bad(header);
    const int64_t first_size = load<uint32_t>(buffer.data + 4);
    const int64_t size = num_buffers == 2 ? int64_t{load<uint32_t>(buffer.data + 8)} : 0;
    if (buffer.size != header + first_size + size)
      corrupt("constant: value of [", first_size,
              (num_buffers == 2 ? ", " + std::to_string(size) : ""), "] bytes in a buffer of ",
              buffer.size, ", ", header, " are header");
    const uint8_t* at = buffer.data + header;
    if (num_buffers == 1) return value_of({at, first_size});
    if (first_size != 8 && first_size != 16)
      corrupt("constant: offsets of ", first_size, " bytes, expected 8 or 16");
    const int64_t start = first_size == 8 ? load<int32_t>(at) : load<int64_t>(at);
    const int64_t stop = first_size == 8 ? load<int32_t>(at + 4) : load<int64_t>(at + 8);
    if (start < 0 || stop < start || stop > size)
      corrupt("constant: value at ", start, " to ", stop, " of ", size, " bytes");
    const Part string{at + first_size + start, stop - start};
    return first_size == 8 ? Items::of_string<int32_t>(string) : Items::of_string<int64_t>(string);
  }

  std::optional<std::string> value_;  // of a constant page; empty: in its buffer, or all are null
  bool has_buffers_ = true;  // false: the buffers of a constant page are ignored
  int64_t most_index_bytes_ = 0;
  LevelsForm reps_, defs_;
  std::optional<sparse::Form> sparse_;
  std::optional<ItemsForm> items_;
  std::optional<WordCoding> coded_items_;
};

}  // namespace alance
