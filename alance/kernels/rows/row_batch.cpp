// Rows of many columns as one record batch, in one call.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>

#include "rows/decoded_rows.hpp"
#include "rows/group_bytes.hpp"
#include "rows/row_needs.hpp"
#include "rows/sparse_rows.hpp"

namespace alance {
namespace {

// Decode the rows of a part from its bytes. Calls `done` after each chunk.
template <typename Done>
void take_part(const RowPlan& plan, const RowPlan::Part& part, cells::Part own, Sink& sink, const Done& done) {
  const RowPage& page = *part.page;
  if (!page.gives(sink.distinct ? sink.distinct->width : sink.width))
    corrupt("row sink: pages of different width");
  const Rows rows = plan.rows_of(part);
  page.prepare();
  page.enter(sink, rows.count);
  const uint8_t *bytes = own.data, *const end = own.data + own.size;
  if (page.slots() != nullptr) {
    sparse::take(page, rows, bytes, end, sink);
    return done(part);
  }
  for (const needs::Need& need : needs::needs_of(page, rows)) {
    const int64_t size = need.bytes.stop - need.bytes.start;
    check_span(0, size, end - bytes, "chunk");
    page.decode(need.chunk, {bytes, size}, rows.part(need.first, need.last), need.open, sink);
    bytes += size;
    done(part);
  }
}

// Nested field. Its leaves are decoded first; each knows the lists and structs around it, and the
// leaves of a field must agree.
class Nested {
 public:
  struct Leaf {
    RangeForm form{};
    Sink sink{};
    std::vector<nests::Depth> depths;  // innermost first
    int64_t times = 1;  // structs per row, because of the fixed-size lists above the leaf

    // Check a decoded leaf: it must have a value for each slot.
    void check() const {
      const size_t slots = static_cast<size_t>(depths[0].count());
      if (sink.width == 0 ? sink.offsets.size() != slots + 1
                           : sink.bytes.size() != slots * static_cast<size_t>(sink.width))
        corrupt("values of other slots");
    }
    // Depth counted from the outside.
    const nests::Depth& at(size_t depth) const { return depths[depths.size() - 1 - depth]; }
    // Number of the leaf's slots at a depth for each of the field's `num_slots` slots there. It is
    // above 1 in dense pages: they repeat a slot for each item of the fixed-size lists below it.
    int64_t stride(size_t depth, int64_t num_slots) const {
      const int64_t own = at(depth).count();
      if (own == num_slots) return 1;
      if (num_slots == 0 || own < num_slots || at(depth).is_list() || own % num_slots ||
          times % (own / num_slots))
        corrupt(std::to_string(own) + " slots, expected " + std::to_string(num_slots));
      return own / num_slots;
    }
  };

  // Field that begins at `node`.
  Nested(const nests::Trees& trees, size_t node) : trees_(trees), first_(node) {
    std::vector<bool> are_lists;
    add_leaves(node, are_lists, 1);
  }

  std::vector<Leaf> leaves;  // with their depths, to be decoded

  arrow::Column column(int64_t num_rows, const Order& order, arrow::Batch& batch) {
    size_t node = first_, leaf = 0;
    return column_of(node, leaf, 0, num_rows, order, batch);
  }

 private:
  // `are_lists`: of the nodes above, outermost first.
  void add_leaves(size_t& node, std::vector<bool>& are_lists, int64_t times) {
    if (are_lists.size() == nests::kMostLayers) corrupt("row batch: fields too deep");
    const int kind = trees_[node++];
    are_lists.push_back(nests::has_offsets(kind));
    if (const int64_t length = nests::length_of(kind)) times = product(times, length, "row batch: lists");
    if (kind == nests::kLeaf) {
      Leaf& leaf = leaves.emplace_back();
      leaf.times = times;
      leaf.depths.reserve(are_lists.size());
      for (size_t i = are_lists.size(); i-- > 0;) leaf.depths.emplace_back(are_lists[i]);
    }
    for (size_t i = 0; i < nests::num_children(kind); ++i) add_leaves(node, are_lists, times);
    are_lists.pop_back();
  }

  // Column of the field at `node`, whose leaves begin at `leaf`; moves both behind it.
  arrow::Column column_of(size_t& node, size_t& leaf, size_t depth, int64_t num_slots,
                          const Order& order, arrow::Batch& batch) {
    const size_t end = nests::end_of(trees_, node), first = leaf;
    const size_t last = first + nests::num_leaves(trees_, node, end);
    for (size_t i = first; i < last; ++i) leaves[i].stride(depth, num_slots);
    const int kind = trees_[node++];
    if (kind == nests::kLeaf) {
      Leaf& own = leaves[leaf++];
      if (own.at(depth).count() != num_slots) corrupt("values of more slots than the field has");
      return Column(Decoded(own.sink, own.depths[0]), own.form, order, batch).finish();
    }
    arrow::Column column{order.size(), 0, {nullptr}};
    if (kind > 0) {
      add_validity(depth, first, last, num_slots, order, column, batch);
      for (int i = 0; i < kind; ++i)
        column.children.push_back(column_of(node, leaf, depth + 1, num_slots, order, batch));
      return column;
    }
    if (const int64_t length = nests::length_of(kind)) {
      add_validity(depth, first, last, num_slots, order, column, batch);
      const int64_t num_items = product(num_slots, length, "row batch: lists");
      const Order items(order, num_items, [=](size_t list) { return static_cast<int64_t>(list) * length; });
      column.children.push_back(column_of(node, leaf, depth + 1, num_items, items, batch));
      return column;
    }
    const Growing<int64_t>& offsets = leaves[first].at(depth).offsets();
    for (size_t i = first + 1; i < last; ++i)
      if (!std::equal(offsets.data(), offsets.data() + offsets.size(),
                      leaves[i].at(depth).offsets().data()))
        corrupt("its leaves disagree on its lists");
    add_validity(depth, first, first + 1, num_slots, order, column, batch);
    const Order items(order, offsets.back(), [&](size_t list) { return offsets[list]; });
    column.buffers.push_back(kind == nests::kList ? ends<int32_t>(offsets, order, items, batch)
                                                  : ends<int64_t>(offsets, order, items, batch));
    column.children.push_back(column_of(node, leaf, depth + 1, offsets.back(), items, batch));
    return column;
  }

  // A slot is null if all leaves say so: the file of a member that was added later knows of that
  // member alone.
  void add_validity(size_t depth, size_t first, size_t last, int64_t num_slots, const Order& order,
                    arrow::Column& column, arrow::Batch& batch) const {
    for (size_t i = first; i < last; ++i)
      if (!leaves[i].at(depth).has_nulls()) return;
    Owned<uint8_t> valid(order.size());
    std::fill_n(valid.data(), valid.size(), uint8_t{0});
    for (size_t j = first; j < last; ++j) {
      const uint8_t* own = leaves[j].at(depth).valid();
      const auto stride = static_cast<size_t>(leaves[j].stride(depth, num_slots));
      for (int64_t i = 0; i < order.size(); ++i) valid[i] |= own[stride * order[i]];
    }
    for (int64_t i = 0; i < order.size(); ++i) column.num_nulls += !valid[i];
    column.buffers[0] = batch.keep(packed(valid.data(), order.size()));
  }

  template <typename Offset>
  static const void* ends(const Growing<int64_t>& offsets, const Order& lists,
                          const Order& items, arrow::Batch& batch) {
    if (items.size() > std::numeric_limits<Offset>::max())
      throw std::overflow_error("items of too many lists for their offsets");
    Owned<Offset> ends(lists.size() + 1);
    ends[0] = 0;
    for (int64_t i = 0; i < lists.size(); ++i)
      ends[i + 1] = static_cast<Offset>(ends[i] + (offsets[lists[i] + 1] - offsets[lists[i]]));
    return batch.keep(std::move(ends));
  }

  const nests::Trees& trees_;
  size_t first_;
};

// Rows of a plan as one struct array, for `RecordBatch._import_from_c`.
class RowBatch : public arrow::Exported {
 public:
  enum State : int { kFailed, kGoesOn, kDone };

  // `trees`: fields, whose leaves are `columns` of the plan and fit `widths` (`RowPlan.misfit`);
  // `texts`: true for UTF-8. `order`: numbers of the rows to return, for a plan of single rows;
  // without it all rows in the order of the plan. `shares`: number of threads among which the groups
  // of each column are divided; 1 for nested fields, indices and ranges of rows. `shapes`: shape of
  // each column, as in `RangeForm`; without it all are plain.
  RowBatch(nests::Trees trees, std::vector<size_t> columns, const std::vector<int64_t>& widths,
           const std::vector<bool>& texts, std::optional<In<int64_t>> order, size_t shares,
           const std::optional<std::vector<std::vector<int64_t>>>& shapes)
      : trees_(std::move(trees)),
        columns_(std::move(columns)),
        order_(std::move(order)),
        shares_(shares),
        num_pending_(shares) {
    if (widths.size() != columns_.size() || texts.size() != columns_.size() ||
        (shapes && shapes->size() != columns_.size()))
      corrupt("row batch: forms of other columns");
    for (size_t node = 0, end = 0; node < trees_.size(); node = end) {
      end = nests::end_of(trees_, node);
      is_nested_.resize(is_nested_.size() + nests::num_leaves(trees_, node, end), end - node > 1);
    }
    if (is_nested_.size() != columns_.size()) corrupt("row batch: fields of other columns");
    if (shares == 0) corrupt("row batch: no shares");
    if (shares > 1 && trees_.size() != columns_.size()) corrupt("row batch: shares of nested fields");
    for (size_t i = 0; i < widths.size(); ++i) {
      forms_.push_back(RangeForm::of(widths[i], texts[i], shapes ? (*shapes)[i] : std::vector<int64_t>()));
      if (shares > 1 && (forms_[i].index != 0 || forms_[i].is_packed_string()))
        corrupt("row batch: shares of distinct values, or of packed structs of any length");
    }
  }
  // Of a share: number of the part that was decoded last (an error is in its page), and position of its
  // column among the requested ones.
  std::pair<size_t, size_t> place(size_t number) const {
    const Share& share = share_of(number);
    return {share.part, share.column};
  }

  // Slots of other values that were looked at for values of indices.
  int64_t num_probes() const { return num_probes_; }

  // `content` has the bytes of all groups of the plan; there is one share.
  void decode(const RowPlan& plan, const Bytes& content) { run(plan, {plan, content}, 0); }

  // Decode a share, once. Returns a state: the source failed, some shares are not decoded, or this
  // was the last and the batch is ready.
  int read(const RowPlan& plan, Source& source, size_t number) {
    return run(plan, {plan, source}, number);
  }

 private:
  struct Share {
    size_t part = 0, column = 0;
    bool is_begun = false;
    std::vector<Sink> sinks;  // of the columns
  };

  const Share& share_of(size_t number) const {
    if (number >= shares_.size()) corrupt("row batch: no such share");
    return shares_[number];
  }

  State run(const RowPlan& plan, const Groups& groups, size_t number) {
    if (share_of(number).is_begun && shares_.size() > 1) corrupt("row batch: a share again");
    for (size_t i = 0; i < columns_.size(); ++i)
      if (plan.misfit(columns_[i], forms_[i], is_nested_[i])) corrupt("row batch: rows of another form");
    if (!plan.unknown.empty() || !plan.places.empty()) corrupt("row batch: rows of unknown pages");
    Share& share = shares_[number];
    share.is_begun = true;
    if (plan.is_ranges && (order_ || shares_.size() > 1)) corrupt("row batch: ranges in another order");
    nb::gil_scoped_release release;
    if (shares_.size() == 1) return run_alone(plan, groups, share);
    share.sinks.resize(columns_.size());
    for (share.column = 0; share.column < columns_.size(); ++share.column)
      if (!decode_column(plan, groups, number, share.sinks[share.column])) return kFailed;
    if (num_pending_.fetch_sub(1) != 1) return kGoesOn;
    const Order order(order_, plan.num_rows);
    auto batch = std::make_unique<arrow::Batch>(order.size());
    for (share.column = 0; share.column < columns_.size(); ++share.column) {
      std::vector<Sink*> sinks;
      for (Share& own : shares_) sinks.push_back(&own.sinks[share.column]);
      add(share.column, std::move(sinks), order, plan.num_rows, *batch);
      for (Share& own : shares_) own.sinks[share.column] = Sink();
    }
    give(std::move(batch));
    return kDone;
  }

  // Decode all columns, one after the other. Ranges of plain values are decoded into memory of their
  // exact size, all such columns in one block.
  State run_alone(const RowPlan& plan, const Groups& groups, Share& share) {
    const Order order(order_, plan.num_rows);
    RangeColumns columns(order.size());
    share.column = 0;
    for (size_t node = 0, end = 0; node < trees_.size(); node = end) {
      end = nests::end_of(trees_, node);
      if (trees_[node] == nests::kLeaf && is_simple(plan, share.column) && !is_raw(plan, share.column))
        columns.place(forms_[share.column], has_nulls(plan, columns_[share.column]));
      share.column += nests::num_leaves(trees_, node, end);
    }
    columns.allocate();
    arrow::Batch& batch = columns.memory();
    Sink sink;
    share.column = 0;
    for (size_t node = 0, end = 0; node < trees_.size(); node = end) {
      end = nests::end_of(trees_, node);
      const bool is_leaf = trees_[node] == nests::kLeaf, is_view = is_leaf && is_raw(plan, share.column);
      if (!is_leaf || is_view) {
        auto column = is_view ? raw_column(plan, groups, share, batch)
                              : nested_column(plan, groups, share, node, order, batch);
        if (!column) return kFailed;
        batch.add(*std::move(column));
      } else if (!is_simple(plan, share.column)) {
        if (!decode_column(plan, groups, 0, sink)) return kFailed;
        add(share.column, {&sink}, order, plan.num_rows, batch);
      } else {
        RangeSink values = columns.next();
        if (!decode_range(plan, groups, share, values)) return kFailed;
        columns.add(values);
      }
      share.column += is_leaf;
    }
    give(columns.batch());
    return kDone;
  }

  // Decode ranges of plain values of a column. Returns false if their bytes cannot be read.
  bool decode_range(const RowPlan& plan, const Groups& groups, Share& share,
                    RangeSink& sink) const {
    std::vector<Part> bytes;
    std::vector<uint8_t> joined;
    const size_t column = columns_[share.column];
    for (size_t group = plan.first_group(column); group < plan.columns[column]; ++group) {
      const size_t first = plan.first_part(group);
      share.part = first;
      if (!groups.bring_pieces(group, bytes)) return false;
      for (size_t i = first, piece = 0; i < plan.groups[group].parts_end; ++i) {
        const RowPlan::Part& part = plan.parts[i];
        share.part = i;
        part.page->decode_range(part.first, part.last, bytes_of(part, bytes, piece, joined), sink);
      }
    }
    return true;
  }

  // Bytes of the next part of a group of ranges. They are its next piece, or several pieces of a sparse
  // page, whose concatenation is stored in `joined`.
  static Part bytes_of(const RowPlan::Part& part, const std::vector<Part>& pieces, size_t& next,
                       std::vector<uint8_t>& joined) {
    if (part.num_pieces == 0) return {&kNoBytes, 0};
    if (part.num_pieces > pieces.size() - next) corrupt("row batch: a page without bytes");
    if (part.num_pieces == 1) return pieces[next++];
    joined.clear();
    for (size_t i = 0; i < part.num_pieces; ++i) {
      const Part& own = pieces[next++];
      joined.insert(joined.end(), own.data, own.data + own.size);
    }
    return {joined.data(), static_cast<int64_t>(joined.size())};
  }

  bool is_simple(const RowPlan& plan, size_t number) const {
    return plan.is_ranges && plan.is_simple(columns_[number], forms_[number]);
  }

  // True if the pages of a column have only values, in their form in memory.
  bool is_raw(const RowPlan& plan, size_t number) const {
    const size_t column = columns_[number], group = plan.first_group(column);
    if (!is_simple(plan, number) || forms_[number].is_string() || plan.columns[column] != group + 1) return false;
    for (size_t i = plan.first_part(group); i < plan.groups[group].parts_end; ++i)
      if (!plan.parts[i].page->is_raw()) return false;
    return true;
  }

  // Column for which `is_raw` is true: a view of bytes that are in memory in one piece, else a copy.
  // Nothing if the bytes cannot be read.
  std::optional<arrow::Column> raw_column(const RowPlan& plan, const Groups& groups, Share& share,
                                          arrow::Batch& batch) const {
    const RangeForm& form = forms_[share.column];
    const size_t group = plan.first_group(columns_[share.column]);
    share.part = plan.first_part(group);
    const int64_t num_bytes = plan.groups[group].bytes_end - plan.first_byte(group);
    if (num_bytes != product(plan.num_rows, form.width, "row batch")) corrupt("a column of other rows");
    HeldBytes held;
    if (plan.groups[group].pieces_end - plan.first_piece(group) == 1) held = groups.hold(group);
    if (held.data != nullptr && reinterpret_cast<uintptr_t>(held.data) % alignment_of(form) == 0) {
      batch.keep(std::move(held.owner));
    } else {
      Owned<uint8_t> copy(num_bytes);
      if (!groups.copy(group, copy.data())) return std::nullopt;
      held.data = batch.keep(std::move(copy));
    }
    arrow::Column own{plan.num_rows, 0, {nullptr}};
    if (form.is_list())
      add_lists(form, own, std::vector<const void*>(form.dims.size(), nullptr), held.data);
    else
      own.buffers.push_back(held.data);
    return own;
  }

  // Alignment of values, or of the items of lists: 1 if the size is no power of two.
  static uintptr_t alignment_of(const RangeForm& form) {
    const auto size = static_cast<uint64_t>(form.is_list() ? form.item_bits / 8 : form.width);
    return std::has_single_bit(size) ? std::min<uintptr_t>(size, 8) : 1;
  }

  static bool has_nulls(const RowPlan& plan, size_t column) {
    for (size_t i = plan.first_part(plan.first_group(column)); i < plan.first_part(plan.columns[column]); ++i)
      if (plan.parts[i].page->has_nulls()) return true;
    return false;
  }

  // Nested field that begins at `node`; nothing if its bytes cannot be read.
  std::optional<arrow::Column> nested_column(const RowPlan& plan, const Groups& groups,
                                             Share& share, size_t node, const Order& order,
                                             arrow::Batch& batch) {
    Nested nested(trees_, node);
    const size_t first = share.column;
    for (size_t i = 0; i < nested.leaves.size(); ++i) {
      share.column = first + i;
      Nested::Leaf& leaf = nested.leaves[i];
      leaf.form = forms_[share.column];
      if (!decode_column(plan, groups, 0, leaf.sink, &leaf.depths)) return std::nullopt;
      leaf.check();
    }
    arrow::Column column = nested.column(plan.num_rows, order, batch);
    ++share.column;
    return column;
  }

  // Decode a share's groups of a column, about as many bytes for each share. `depths`: of a leaf of
  // a nested field.
  bool decode_column(const RowPlan& plan, const Groups& groups, size_t number, Sink& sink,
                     std::vector<nests::Depth>* depths = nullptr) {
    Share& share = shares_[number];
    const RangeForm& form = forms_[share.column];
    const size_t column = columns_[share.column];
    const size_t first = cut(plan, column, number), last = cut(plan, column, number + 1);
    const int64_t num_values = this->num_values(plan, first, last);
    const int64_t width = form.is_string() ? 0 : std::max<int64_t>(form.width, 1);
    sink.clear(form.index ? 4 : width, num_values);
    if (form.index) sink.distinct = std::make_unique<Distinct>(width);
    add_masks(form, sink);
    add_members(form, num_values, sink);
    if (form.is_string() && !form.index && form.members.empty()) {
      sink.offsets.reserve(static_cast<size_t>(num_values) + 1);
      sink.bytes.reserve(static_cast<size_t>(plan.first_byte(last) - plan.first_byte(first)));
    }
    sink.with_levels = depths != nullptr;
    size_t num_known = 0;  // rows whose validity is final
    const auto done = [&](const RowPlan::Part& part) {
      const RowPage& page = *part.page;
      if (depths && page.slots()) {
        sink.def.clear();
        page.slots()->structure.add_to(plan.rows_of(part), *depths, page.is_null() && !form.is_empty);
      } else if (depths) {
        nests::unravel(page.layers(), sink.rep, sink.def, *depths, form.is_empty);
      } else if (form.is_empty) {  // dense pages mark all such structs as null
        std::fill(sink.valid.data() + num_known, sink.valid.end(), uint8_t{1});
        const std::vector<uint8_t> valid = page.slots() ? page.slots()->structure.valid(plan.rows_of(part)) : std::vector<uint8_t>();
        std::copy(valid.begin(), valid.end(), sink.valid.data() + num_known);
      }
      num_known = sink.valid.size();
    };
    std::vector<Part> pieces;
    std::vector<uint8_t> joined;
    for (size_t group = first; group < last; ++group) {
      const uint8_t* bytes = nullptr;  // of all parts, for single rows
      if (plan.is_ranges ? !groups.bring_pieces(group, pieces) : (bytes = groups.bring(group)) == nullptr) return false;
      for (size_t i = plan.first_part(group), piece = 0; i < plan.groups[group].parts_end; ++i) {
        const RowPlan::Part& part = plan.parts[i];
        share.part = i;
        const Part own = plan.is_ranges ? bytes_of(part, pieces, piece, joined) : Part{bytes, part.num_bytes};
        take_part(plan, part, own, sink, done);
        if (!plan.is_ranges) bytes += part.num_bytes;
      }
    }
    if (sink.distinct) num_probes_ += sink.distinct->num_probes();
    return true;
  }

  // Sinks for the members of packed structs of any length.
  static void add_members(const RangeForm& form, int64_t num_values, Sink& sink) {
    if (!form.is_packed_string()) return;
    for (const RangeForm& member : form.members) {
      Sink& own = sink.members.emplace_back();
      own.clear(member.is_string() ? 0 : std::max<int64_t>(member.width, 1), num_values);
      add_masks(member, own);
      add_members(member, num_values, own);
    }
  }

  static void add_masks(const RangeForm& form, Sink& sink) {
    for (size_t depth = 0; depth < form.dims.size(); ++depth) sink.masks.push_back({form.num_items(depth)});
  }

  // Number of values in groups: in ranges of lists those of all chunks, for other rows one each.
  static int64_t num_values(const RowPlan& plan, size_t first, size_t last) {
    int64_t count = 0;
    for (size_t group = first; group < last && !plan.is_ranges; ++group)
      count += plan.groups[group].num_rows;
    for (size_t i = plan.first_part(first); plan.is_ranges && i < plan.first_part(last); ++i) {
      const RowPlan::Part& part = plan.parts[i];
      const RowPage& page = *part.page;
      page.prepare();
      if (!page.has_lists() && !page.slots()) {
        count += part.last - part.first;
        continue;
      }
      if (page.slots()) {
        count += sparse::count_of(page.slots()->structure.leaf_slots(plan.rows_of(part)));
        continue;
      }
      const auto [begin, end] = page.chunks_of(part.first, part.last);
      count += page.num_values(begin, end);
    }
    return count;
  }

  // First group of a share.
  size_t cut(const RowPlan& plan, size_t column, size_t number) const {
    const size_t first = plan.first_group(column), last = plan.columns[column];
    if (number == shares_.size()) return last;
    const int64_t begin = plan.first_byte(first);
    const double size = static_cast<double>(plan.first_byte(last) - begin);
    const double before = size * static_cast<double>(number) / static_cast<double>(shares_.size());
    size_t group = first;
    while (group < last && static_cast<double>(plan.first_byte(group) - begin) < before) ++group;
    return group;
  }

  void add(size_t column, std::vector<Sink*> sinks, const Order& order, int64_t num_rows,
           arrow::Batch& batch) const {
    const Decoded rows(sinks, num_rows);
    batch.add(Column(rows, forms_[column], order, batch).finish());
  }

  nests::Trees trees_;
  std::vector<size_t> columns_;
  std::vector<RangeForm> forms_;
  std::vector<bool> is_nested_;
  std::optional<In<int64_t>> order_;
  std::vector<Share> shares_;
  std::atomic<size_t> num_pending_;  // shares that are not decoded
  int64_t num_probes_ = 0;
};

}  // namespace
}  // namespace alance

void register_row_batch(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowBatch>(m, "RowBatch")
      .def(nb::init<nests::Trees, std::vector<size_t>, const std::vector<int64_t>&,
                    const std::vector<bool>&, std::optional<In<int64_t>>, size_t,
                    const std::optional<std::vector<std::vector<int64_t>>>&>(),
           nb::arg("trees"), nb::arg("columns"), nb::arg("widths"), nb::arg("texts"), nb::arg("order") = nb::none(),
           nb::arg("shares") = 1, nb::arg("shapes") = nb::none())
      .def_prop_ro("address", &RowBatch::address)
      .def_prop_ro("num_probes", &RowBatch::num_probes)
      .def("place", &RowBatch::place, nb::arg("share") = 0)
      .def("decode", &RowBatch::decode, nb::arg("plan"), nb::arg("content"))
      .def("read", &RowBatch::read, nb::arg("plan"), nb::arg("source"), nb::arg("share") = 0);
}
