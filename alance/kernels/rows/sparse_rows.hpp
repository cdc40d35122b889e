// Rows of sparse pages: which bytes have their values, and how these are decoded. A row has neighbouring
// slots of the leaf, so its bytes are one range. Indexed items are read one by one, unless all are held.
#pragma once
#include "rows/pages/sparse.hpp"
#include "rows/row_needs.hpp"

namespace alance::sparse {

// A read of a 16th of the slots or more loads all items, because later reads probably need them too.
constexpr int64_t kAllItems = 16;

// Slots of the leaf for some rows, with their levels: 1 for nulls, else 0.
struct Leaf {
  Runs runs;
  std::vector<uint16_t> levels;  // empty: all are valid

  Leaf(const Structure& structure, const Rows& rows)
      : runs(structure.leaf_slots(rows)), levels(structure.leaf().marks<uint16_t>(runs, 0, 1)) {}

  // Call `of(slot, is_valid)` for each slot.
  template <typename Of>
  void each(const Of& of) const {
    size_t at = 0;
    for (const auto& [first, last] : runs)
      for (int64_t slot = first; slot < last; ++slot, ++at) of(slot, levels.empty() || levels[at] == 0);
  }
};

// Numbers of the items of valid slots, ascending and distinct.
inline std::vector<int64_t> items_of(const RowPage& page, const Leaf& leaf) {
  const std::vector<uint32_t>& indices = page.slots()->indices;
  std::vector<int64_t> items;
  leaf.each([&](int64_t slot, bool is_valid) {
    if (is_valid) items.push_back(indices[static_cast<size_t>(slot)]);
  });
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return items;
}

// True for a page with indexed items that are not in memory.
inline bool lacks_items(const RowPage& page) {
  const Slots* slots = page.slots();
  return slots != nullptr && slots->values == Slots::kIndexed && slots->items() == nullptr;
}
// True if the rows have so many slots that all items are to be loaded.
inline bool wants_items(const RowPage& page, const Rows& rows) {
  if (!lacks_items(page)) return false;
  const Slots* slots = page.slots();
  return count_of(slots->structure.leaf_slots(rows)) * kAllItems >= slots->structure.leaf().num_slots;
}

// Split rows into runs whose bytes are read together, like `needs::find_runs`. A run without rows is a
// further piece of the run before it.
inline std::vector<needs::Run> runs_of(const RowPage& page, const Rows& rows, int64_t most_bytes) {
  const Slots& slots = *page.slots();
  const Structure& structure = slots.structure;
  const int64_t count = rows.count;
  if (slots.values == Slots::kIndexed) {
    std::vector<needs::Run> runs{{0, count, {0, 0}}};
    if (slots.items() != nullptr) return runs;
    for (const int64_t item : items_of(page, Leaf(structure, rows))) {
      const ByteRange bytes{page.begin_of(item), page.begin_of(item + 1)};
      if (runs.back().bytes.stop == bytes.start && runs.size() > 1)
        runs.back().bytes.stop = bytes.stop;
      else
        runs.push_back({count, count, bytes});
    }
    return runs;
  }
  // Bytes of slots from `first` to `last`. `from`: a chunk at or before the first one; it is moved there.
  const auto bytes_of = [&](int64_t first, int64_t last, int64_t& from) -> ByteRange {
    if (slots.values == Slots::kValid) {
      first = structure.leaf().valid_before(first);
      last = structure.leaf().valid_before(last);
    }
    if (first == last || page.is_constant()) return {0, 0};
    from = page.chunk_of(first, from);
    return {page.begin_of(from), page.begin_of(page.chunk_of(last - 1, from) + 1)};
  };
  std::vector<needs::Run> runs;
  const int64_t step = rows.numbers == nullptr ? std::max<int64_t>(count, 1) : structure.multiplier();
  for (int64_t i = 0, from = 0; i < count; i += step) {
    const int64_t next = std::min(i + step, count);
    const ByteRange bytes = bytes_of(structure.leaf_slot(rows[i]), structure.leaf_slot(rows[next - 1] + structure.multiplier()), from);
    ByteRange* last = runs.empty() ? nullptr : &runs.back().bytes;
    if (last != nullptr && last->size() == 0) *last = bytes;
    const bool joins = last != nullptr && (bytes.size() == 0 || bytes.start < last->stop ||
                                           (bytes.start == last->stop && bytes.stop - last->start <= most_bytes));
    if (!joins) {
      runs.push_back({i, next, bytes});
      continue;
    }
    runs.back().last = next;
    last->stop = std::max(last->stop, bytes.stop);
  }
  return runs;
}

// Decodes chunks, or single zipped values, from bytes that follow each other and end before `end`.
class Bytes {
 public:
  Bytes(const RowPage& page, const uint8_t* at, const uint8_t* end) : page_(&page), at_(at), end_(end) {}

  void decode(int64_t chunk, const Rows& rows, Sink& sink) {
    const int64_t size = page_->begin_of(chunk + 1) - page_->begin_of(chunk);
    check_span(0, size, end_ - at_, "chunk");
    page_->decode(chunk, {at_, size}, rows, false, sink);
    at_ += size;
  }

 private:
  const RowPage* page_;
  const uint8_t* at_;
  const uint8_t* end_;
};

// Append the values of slots with indices of items; the items are strings.
inline void take_items(const RowPage& page, const Leaf& leaf, const uint8_t* at, const uint8_t* end, Sink& sink) {
  const Slots& slots = *page.slots();
  const std::vector<int64_t> numbers = items_of(page, leaf);
  Sink items;
  items.clear(0, 0);
  // The items may have been loaded since the rows were planned: then `at` has some, which are not used.
  const std::vector<uint8_t>* all = slots.items();
  Bytes bytes(page, at, end);
  for (const int64_t number : numbers) {
    if (all != nullptr) bytes = Bytes(page, all->data() + page.begin_of(number), all->data() + all->size());
    bytes.decode(number, {nullptr, number, 1}, items);
  }
  leaf.each([&](int64_t slot, bool is_valid) {
    if (!is_valid) return sink.null();
    const auto place = std::lower_bound(numbers.begin(), numbers.end(), slots.indices[static_cast<size_t>(slot)]);
    const int64_t* offset = items.offsets.data() + (place - numbers.begin());
    const uint8_t* value = items.bytes.data() + offset[0];
    const int64_t size = offset[1] - offset[0];
    if (!sink.distinct) return sink.string(value, size);
    sink.number(sink.distinct->of({reinterpret_cast<const char*>(value), static_cast<size_t>(size)}));
  });
}

// Append the values of rows from the bytes from `at` to `end`.
inline void take(const RowPage& page, const Rows& rows, const uint8_t* at, const uint8_t* end, Sink& sink) {
  const Slots& slots = *page.slots();
  const Leaf leaf(slots.structure, rows);
  if (slots.values == Slots::kIndexed) return take_items(page, leaf, at, end, sink);
  Bytes bytes(page, at, end);
  if (slots.values == Slots::kValid) {
    int64_t num_nulls = 0;
    size_t place = 0;
    for (const auto& [first, last] : leaf.runs) {
      int64_t value = slots.structure.leaf().valid_before(first);
      for (int64_t slot = first; slot < last; ++slot, ++place) {
        if (!leaf.levels.empty() && leaf.levels[place] != 0) {
          ++num_nulls;
          continue;
        }
        if (num_nulls != 0) sink.nulls(std::exchange(num_nulls, 0));
        bytes.decode(value, {nullptr, value, 1}, sink);
        ++value;
      }
    }
    return sink.nulls(num_nulls);
  }
  const int64_t count = count_of(leaf.runs);
  if (count == 0) return;
  std::vector<int64_t> numbers;
  if (leaf.runs.size() > 1)
    leaf.each([&](int64_t slot, bool) { numbers.push_back(slot); });
  const Rows own{numbers.empty() ? nullptr : numbers.data(), leaf.runs[0].first, count,
                 leaf.levels.empty() ? nullptr : leaf.levels.data()};
  for (const needs::Need& need : needs::needs_of(page, own)) bytes.decode(need.chunk, own.part(need.first, need.last), sink);
}

}  // namespace alance::sparse
