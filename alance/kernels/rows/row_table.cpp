// Location of rows in many files, in one call: the pages of one column of each file, and the bytes
// of the chunks that hold the rows.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "io/held.hpp"
#include "base/lists.hpp"
#include "base/unlocked.hpp"
#include "rows/file_columns.hpp"
#include "rows/planner.hpp"

namespace alance {
namespace {

using Span = Planner::Span;
using Fragments = std::vector<const LeafTables*>;

// Tables of some leaves of fragments, leaf by leaf.
std::vector<std::shared_ptr<ColumnPages>> tables_of(const Fragments& fragments, const std::vector<size_t>& leaves,
                                                 size_t count) {
  if (fragments.size() != count) corrupt("row plan: rows of other fragments");
  std::vector<std::shared_ptr<ColumnPages>> tables;
  tables.reserve(leaves.size() * count);
  for (const size_t leaf : leaves)
    for (const LeafTables* own : fragments) {
      tables.push_back(own->column(leaf));
      if (!tables.back()) corrupt("row plan: a leaf without a table");
    }
  return tables;
}

// For each leaf, rows of its column per row; the tables are those of `count` fragments, leaf by leaf.
std::vector<int64_t> times_of(const std::vector<std::shared_ptr<ColumnPages>>& tables, size_t num_leaves,
                              size_t count) {
  std::vector<int64_t> times(num_leaves, 1);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (i % count == 0) times[i / count] = tables[i]->times();
    if (tables[i]->times() != times[i / count]) corrupt("row plan: lists of several lengths");
  }
  return times;
}

// Rows of a column that has `times` rows for each of these rows.
std::vector<int64_t> multiples_of(const In<int64_t>& rows, int64_t times) {
  std::vector<int64_t> multiples;
  multiples.reserve(rows.size() * static_cast<size_t>(times));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t first = product(rows.data()[i], times, "plan_rows");
    for (int64_t at = 0; at < times; ++at) multiples.push_back(first + at);
  }
  return multiples;
}

// Plan the same rows of several leaves of fragments. The rows of fragment t end at `ends[t]` in
// `rows`; those of a fragment are ascending and distinct. Each leaf is a column of the plan. Tables
// are numbered column by column. `held`: held bytes of each table's file; empty if there are none.
// `is_partial`: also plan the rows of known pages that follow an unknown page.
RowPlan plan_rows(const Fragments& fragments, const std::vector<size_t>& leaves, const In<int64_t>& rows,
                  const std::vector<int64_t>& ends, Planner::Files held, bool is_partial) {
  const int64_t count = std::ssize(rows);
  auto tables = tables_of(fragments, leaves, ends.size());
  int64_t before = 0;
  for (const int64_t end : ends) {
    if (end < before || end > count) corrupt("plan_rows: ends of rows");
    before = end;
  }
  if (before != count) corrupt("plan_rows: rows of no table");
  const std::vector<int64_t> times = times_of(tables, leaves.size(), ends.size());
  std::vector<int64_t> multiples;
  int64_t total = 0;
  for (const int64_t own : times)
    if (__builtin_add_overflow(total, product(count, own, "plan_rows"), &total)) corrupt("plan_rows: too many rows");
  Planner planner(count, static_cast<size_t>(total), std::move(held), is_partial);
  planner.reserve(tables.size());
  const Unlocked unlocked(count << 6);
  for (size_t c = 0; c < leaves.size(); ++c) {
    if (times[c] > 1) multiples = multiples_of(rows, times[c]);
    planner.begin_column(times[c] > 1 ? multiples.data() : rows.data(), count * times[c]);
    int64_t first = 0;
    for (size_t t = 0; t < ends.size(); ++t) {
      const size_t table = c * ends.size() + t;
      planner.add(*tables[table], table, first * times[c], ends[t] * times[c]);
      first = ends[t];
    }
    planner.end_column();
  }
  planner.plan.tables = std::move(tables);
  return std::move(planner.plan);
}

// Plan ranges of rows of several leaves of fragments: the spans of fragment t end at `ends[t]` in
// `spans`; those of a fragment ascend, and none is empty. Unknown pages are left out.
RowPlan plan_spans(const Fragments& fragments, const std::vector<size_t>& leaves, const std::vector<Span>& spans,
                   const std::vector<size_t>& ends, Planner::Files held) {
  auto tables = tables_of(fragments, leaves, ends.size());
  int64_t count = 0;
  for (size_t t = 0, at = 0; t < ends.size(); ++t) {
    if (ends[t] < at || ends[t] > spans.size()) corrupt("plan_spans: ends of spans");
    for (int64_t last = 0; at < ends[t]; last = spans[at++].second) {
      if (spans[at].first < last || spans[at].second <= spans[at].first ||
          __builtin_add_overflow(count, spans[at].second - spans[at].first, &count))
        corrupt("plan_spans: no rows");
    }
  }
  if (spans.size() != (ends.empty() ? 0 : ends.back())) corrupt("plan_spans: spans of no table");
  Planner planner(count, std::move(held));
  planner.reserve(tables.size());
  const std::vector<int64_t> times = times_of(tables, leaves.size(), ends.size());
  for (size_t c = 0; c < leaves.size(); ++c) {
    for (size_t t = 0, at = 0; t < ends.size(); ++t)
      for (const size_t table = c * ends.size() + t; at < ends[t]; ++at)
        planner.add(*tables[table], table,
                    {product(spans[at].first, times[c], "plan_spans"),
                     product(spans[at].second, times[c], "plan_spans")});
    planner.end_column();
  }
  planner.plan.tables = std::move(tables);
  return std::move(planner.plan);
}

// Join the tables of fragments, as if these were one fragment in one file. `begins`: for each leaf of
// each fragment, leaf by leaf, where its file begins in the joined file.
std::unique_ptr<LeafTables> joined_tables(const Fragments& fragments, const std::vector<int64_t>& begins) {
  if (fragments.empty() || begins.size() % fragments.size()) corrupt("joined tables: leaves of other files");
  std::vector<LeafTables::Listed> tables;
  for (size_t at = 0; at < begins.size();) {
    auto table = std::make_shared<PageTable>();
    int64_t times = 1;
    for (const LeafTables* own : fragments) {
      const auto column = own->column(at / fragments.size());
      if (!column) corrupt("joined tables: a leaf without a column");
      times = column->times();  // depends on the type alone, so it is equal in all fragments
      table->add(column->table(), begins[at++]);
    }
    tables.push_back(LeafTables::listed(std::move(table), times));
  }
  return std::make_unique<LeafTables>(tables);
}

// Ranges (file, start, stop) of the pages of joined tables that are not held, coalesced. `begins`: start
// of each file, ascending; the gaps between files are wider than `max_gap_bytes`.
nb::list page_spans(const LeafTables& tables, const std::vector<int64_t>& begins, const HeldFile& held,
                    uint64_t max_gap_bytes) {
  std::vector<ByteRange> ranges;
  for (size_t leaf = 0; leaf < tables.count(); ++leaf) {
    const auto column = tables.column(leaf);
    if (!column) corrupt("page spans: a leaf without a column");
    const PageTable& pages = column->table();
    for (size_t page = 0; page < pages.rows.size(); ++page) {
      const auto begin = static_cast<size_t>(pages.ends[page]), end = static_cast<size_t>(pages.ends[page + 1]);
      ByteRange range{INT64_MAX, 0};
      for (size_t i = begin; i < end; ++i) {
        range.start = std::min(range.start, pages.starts[i]);
        range.stop = std::max(range.stop, pages.starts[i] + pages.sizes[i]);
      }
      if (range.start < range.stop && !held.holds(range.start, range.stop)) ranges.push_back(range);
    }
  }
  nb::list spans;
  for (const auto& [start, stop] : coalesce(ranges, {max_gap_bytes}).spans) {
    const auto above = std::upper_bound(begins.begin(), begins.end(), start);
    if (above == begins.begin()) corrupt("page spans: pages of no file");
    spans.append(nb::make_tuple(above - begins.begin() - 1, start, stop));
  }
  return spans;
}

// Pieces of a plan that are not held, or with `places` the index entries that it lacks, coalesced: the
// end of each file's ranges, starts, stops. `files`: for each table of the plan, the number of its
// file in `held`.
nb::tuple missing_of(const RowPlan& plan, const std::vector<const HeldFile*>& held,
                     const std::vector<size_t>& files, uint64_t max_gap_bytes, bool places) {
  std::vector<std::vector<ByteRange>> pieces(held.size());
  for (const Piece& piece : places ? plan.places : plan.pieces) {
    if (piece.table >= files.size() || files[piece.table] >= held.size())
      corrupt("row plan: files of other tables");
    const size_t file = files[piece.table];
    if (!held[file]->holds(piece.start, piece.stop)) pieces[file].push_back({piece.start, piece.stop});
  }
  std::vector<int64_t> starts, stops;
  nb::list ends;
  for (const auto& own : pieces) {
    for (const auto& [start, stop] : coalesce(own, {max_gap_bytes}).spans) {
      starts.push_back(start);
      stops.push_back(stop);
    }
    ends.append(stops.size());
  }
  return nb::make_tuple(ends, numpy_of(starts), numpy_of(stops));
}

// Pieces of some groups: their tables, the end of each table's pieces, starts, stops, total size. A
// table comes up again in each group.
nb::tuple pieces_of(const RowPlan& plan, size_t first, size_t last) {
  plan.check_groups(first, last);
  const size_t begin = plan.first_piece(first);
  const int64_t count = static_cast<int64_t>(plan.first_piece(last) - begin);
  Owned<int64_t> starts(count), stops(count);
  nb::list tables, ends;
  size_t group = first;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = begin + static_cast<size_t>(i);
    starts[i] = plan.pieces[at].start;
    stops[i] = plan.pieces[at].stop;
    while (plan.groups[group].pieces_end <= at) ++group;  // groups without pieces
    const bool ends_group = at + 1 == plan.groups[group].pieces_end;
    if (ends_group || plan.pieces[at + 1].table != plan.pieces[at].table) {
      tables.append(plan.pieces[at].table);
      ends.append(i + 1);
    }
  }
  return nb::make_tuple(tables, ends, starts.numpy(), stops.numpy(),
                        plan.first_byte(last) - plan.first_byte(first));
}

// First group of a column, and the group behind its last.
std::pair<size_t, size_t> groups_of(const RowPlan& plan, size_t column) {
  if (column >= plan.columns.size()) corrupt("row plan: no such column");
  return {plan.first_group(column), plan.columns[column]};
}

nb::list unknown_of(const RowPlan& plan) {
  nb::list holes;
  for (const RowPlan::Unknown& hole : plan.unknown)
    holes.append(nb::make_tuple(hole.table, hole.page));
  return holes;
}

// Rows of an unknown page of a plan of single rows, counted from the page's first row.
Numpy<int64_t> unknown_rows(const RowPlan& plan, size_t number) {
  if (number >= plan.unknown.size()) corrupt("row plan: no such page");
  const RowPlan::Unknown& page = plan.unknown[number];
  const auto begin = plan.rows.begin();
  return numpy_of(std::vector<int64_t>(begin + page.first, begin + page.last));
}

int64_t bytes_of(const RowPlan& plan, size_t first, size_t last) {
  plan.check_groups(first, last);
  return plan.first_byte(last) - plan.first_byte(first);
}

// First page whose values do not fit its field: number of the leaf, number of a part with the page,
// and what is wrong; None if all pages fit. `columns`: the leaves of the fields. `widths`, `shapes`:
// form of each leaf's values, as in `RangeForm`.
std::optional<std::tuple<size_t, size_t, std::string>> misfit(
    const RowPlan& plan, const nests::Trees& trees, const std::vector<size_t>& columns,
    const std::vector<int64_t>& widths, const std::optional<std::vector<std::vector<int64_t>>>& shapes) {
  if (widths.size() != columns.size() || (shapes && shapes->size() != columns.size()) ||
      nests::num_leaves(trees, 0, trees.size()) != columns.size())
    corrupt("row plan: widths of other columns");
  for (size_t node = 0, leaf = 0; node < trees.size();) {
    const size_t end = nests::end_of(trees, node), last = leaf + nests::num_leaves(trees, node, end);
    for (; leaf < last; ++leaf) {
      const auto form = RangeForm::of(widths[leaf], false, shapes ? (*shapes)[leaf] : std::vector<int64_t>());
      if (const auto wrong = plan.misfit(columns[leaf], form, end - node > 1))
        return std::tuple{leaf, wrong->first, wrong->second};
    }
    node = end;
  }
  return std::nullopt;
}

// Bytes of each column; single values count as the bytes that cost as much.
std::vector<int64_t> column_bytes(const RowPlan& plan) {
  std::vector<int64_t> sizes;
  size_t part = 0;
  for (const size_t end : plan.columns) {
    int64_t& size = sizes.emplace_back(0);
    for (; part < plan.first_part(end); ++part) {
      const RowPlan::Part& own = plan.parts[part];
      const int64_t least = own.by_value ? static_cast<int64_t>(own.num_pieces) * RowPlan::kValueBytes : 0;
      size += std::max(own.num_bytes, least);
    }
  }
  return sizes;
}

// Table of the page of a part, and position of the page in its file.
std::pair<size_t, int64_t> place_of(const RowPlan& plan, size_t part) {
  if (part >= plan.parts.size()) corrupt("row plan: no such part");
  return {plan.parts[part].table, plan.parts[part].page->page_start};
}

}  // namespace
}  // namespace alance

void register_row_table(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowPlan>(m, "RowPlan")
      .def_ro("is_ranges", &RowPlan::is_ranges)
      .def_ro("num_rows", &RowPlan::num_rows)
      .def_prop_ro("unknown", &unknown_of)
      .def_prop_ro("lacks_places", [](const RowPlan& plan) { return !plan.places.empty(); })
      .def("unknown_rows", &unknown_rows, "number"_a)
      .def_prop_ro("num_groups", [](const RowPlan& plan) { return plan.groups.size(); })
      .def_prop_ro("column_bytes", &column_bytes)
      .def("misfit", &misfit, "trees"_a, "columns"_a, "widths"_a, "shapes"_a = nb::none())
      .def("place", &place_of)
      .def("groups", &groups_of, "column"_a)
      .def("pieces", &pieces_of)
      .def("num_bytes", &bytes_of)
      .def("missing", &missing_of, "held"_a, "files"_a, "max_gap_bytes"_a, "places"_a = false);
  m.def("plan_rows", &plan_rows, "fragments"_a, "leaves"_a, "rows"_a, "ends"_a,
        "held"_a = Planner::Files(), "is_partial"_a = false);
  m.def("plan_spans", &plan_spans, "fragments"_a, "leaves"_a, "spans"_a, "ends"_a,
        "held"_a = Planner::Files());
  m.def("joined_tables", &joined_tables, "fragments"_a, "begins"_a);
  m.def("page_spans", &page_spans, "tables"_a, "begins"_a, "held"_a, "max_gap_bytes"_a);
}
