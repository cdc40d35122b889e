// What the description of a mini-block page says to kernels, wherever the page lies.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/proto_wire.hpp"
#include "rows/row_table.hpp"

namespace alance {

// The only field of a message with this number; null where there is none, or several.
inline const char* only(std::string_view message, uint32_t field, std::string_view& found) {
  ProtoWire wire(message);
  int count = 0;
  while (wire.next()) {
    if (wire.field != field) {
      wire.skip();
      continue;
    }
    if (wire.wire != 2) return nullptr;
    found = wire.bytes();
    ++count;
  }
  return wire.ok && count == 1 ? found.data() : nullptr;
}

// The symbols in the description of a mini-block page of compressed strings: each page has its own,
// and they are most of it. Empty where there are none, or what is unusual.
inline std::string_view symbols_in(std::string_view description) {
  // Any.value, PageLayout.mini_block_layout, its value_compression, their fsst, its symbol_table
  std::string_view part = description;
  for (const uint32_t field : {2, 1, 3, 6, 1})
    if (only(part, field, part) == nullptr) return {};
  const auto* table = reinterpret_cast<const uint8_t*>(part.data());
  if (part.size() != Symbols::TABLE_BYTES || part.substr(4, 4) != "TSSF" || !(table[3] & 1)) return {};
  const uint8_t* lengths = table + Symbols::HEADER + 8 * size_t{table[0]};
  const bool is_good = std::all_of(lengths, lengths + table[0], [](uint8_t length) {
    return length >= 1 && length <= fsst::MAX_SYMBOL;
  });
  return is_good ? part : std::string_view{};
}

// A description but for a part of it.
inline std::string without(std::string_view description, std::string_view part) {
  if (part.empty()) return std::string(description);
  const size_t start = static_cast<size_t>(part.data() - description.data());
  std::string rest(description.substr(0, start));
  rest += description.substr(start + part.size());
  return rest;
}

// What a description says of its pages, wherever they lie.
class PageForm {
 public:
  PageForm(std::tuple<int, int, int, int, int, bool> kind,
           std::optional<std::tuple<int, int, int, int>> lists, uint64_t num_items, bool has_items)
      : num_items(num_items), has_items(has_items) {
    std::tie(this->kind.values, this->kind.bits, this->kind.nulls, this->kind.level_bits,
             this->kind.max_level, this->kind.large) = kind;
    if (lists)
      std::tie(this->kind.reps, this->kind.rep_bits, this->kind.max_rep, this->kind.max_visible) =
          *lists;
  }

  // The form of pages whose rows all have one value, or none: `value` where it is in the description.
  static std::shared_ptr<PageForm> constant(const std::optional<std::string_view>& value,
                                            int max_level) {
    auto form = std::make_shared<PageForm>(std::make_tuple(0, 8, 0, 0, max_level, false), std::nullopt,
                                           0, false);
    form->is_constant = true;
    if (value) form->value.emplace(*value);
    return form;
  }

  // Layers of the pages; without, they are not looked up in tables.
  void set_layers(nests::Layers of_pages) { layers = of_pages; }
  void set_symbols(const In<uint64_t>& table, const Bytes& lengths) {
    symbols = std::make_shared<const Symbols>(table, lengths);
  }

  // The page of this description whose chunks are in `size` bytes from `start` on.
  std::unique_ptr<RowPage> page(std::shared_ptr<ChunkTable> chunks, int64_t start, int64_t size,
                                int64_t num_rows) const {
    if (is_constant) corrupt("a constant page has no chunks");
    return std::make_unique<RowPage>(std::move(chunks), start, size, num_rows, kind, symbols);
  }

  bool has_lists() const { return kind.max_rep != 0; }
  // Whether chunks alone give rows, as values of a width as of `RangeForm`.
  bool fits(int64_t width) const {
    return !is_constant && !has_items && !has_lists() && kind.values != static_cast<int>(Values::zipped) &&
           values_fit(static_cast<Values>(kind.values), kind.bits, width);
  }
  // Which buffers have to be read: words, items of a dictionary, repetition index.
  size_t num_buffers() const { return size_t{2} + has_items + has_lists(); }

  PageKind kind{};
  const uint64_t num_items;
  const bool has_items;
  bool is_constant = false;
  std::optional<std::string> value;  // of a constant page; none: in its buffer, or all rows are null
  std::shared_ptr<const Symbols> symbols;
  std::optional<nests::Layers> layers;
};

}  // namespace alance
