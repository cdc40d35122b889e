// Where single rows of many files are: the pages of one column of each file, and the bytes of the
// chunks that hold the rows, in one call.
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "row_needs.hpp"
#include "row_page.hpp"

namespace alance {
namespace {

constexpr int64_t kMany = 1 << 10;  // rows; with fewer, giving the GIL away costs more than it gives

// The pages of a column whose rows can be taken, as far as they are known.
class RowTable {
 public:
  // `first_rows` has one number a page and the total behind them.
  explicit RowTable(const In<int64_t>& first_rows)
      : first_rows_(first_rows.data(), first_rows.data() + first_rows.size()) {
    if (first_rows_.empty() || first_rows_.front() != 0 ||
        !std::is_sorted(first_rows_.begin(), first_rows_.end()))
      corrupt("row table: first rows");
    kernels_.resize(first_rows_.size() - 1);
    pages_.resize(first_rows_.size() - 1);
  }

  // Page `number` is known: `page` is what calls give for it, `kernel` is kept alive by it.
  void set(int64_t number, const RowPage* kernel, nb::object page) {
    if (number < 0 || number >= static_cast<int64_t>(kernels_.size()))
      corrupt("row table: no such page");
    kernels_[static_cast<size_t>(number)] = kernel;
    pages_[static_cast<size_t>(number)] = std::move(page);
  }

  const std::vector<int64_t>& first_rows() const { return first_rows_; }
  const RowPage* kernel(size_t number) const { return kernels_[number]; }
  const nb::object& page(size_t number) const { return pages_[number]; }

 private:
  std::vector<int64_t> first_rows_;
  std::vector<const RowPage*> kernels_;
  std::vector<nb::object> pages_;
};

struct Hit {
  size_t table, page;
};

struct Found {
  std::vector<Hit> hits;
  std::vector<int64_t> ends, piece_ends;  // of each hit
  std::vector<int64_t> starts, stops;     // of pieces
};

// Rows `first` to `last` of a table: false where a page is not known.
bool find(const RowTable& table, size_t number, const int64_t* rows, int64_t first, int64_t last,
          bool with_pieces, int64_t* in_page, Found& found) {
  const std::vector<int64_t>& bounds = table.first_rows();
  for (int64_t i = first; i < last;) {
    const auto above = std::upper_bound(bounds.begin(), bounds.end(), rows[i]);
    if (above == bounds.begin() || above == bounds.end()) corrupt("plan_rows: a row of no page");
    const size_t page = static_cast<size_t>(above - bounds.begin()) - 1;
    const RowPage* kernel = table.kernel(page);
    if (kernel == nullptr) return false;
    int64_t next = i;
    for (; next < last && rows[next] < *above; ++next) in_page[next] = rows[next] - bounds[page];
    kernel->check_rows(in_page + i, next - i);  // ascending, and rows of the page
    if (with_pieces) {
      for (const needs::Run& run :
           needs::runs_of(*kernel, needs::needs_of(*kernel, in_page, i, next), 0, INT64_MAX)) {
        found.starts.push_back(kernel->start() + run.begin);
        found.stops.push_back(kernel->start() + run.end);
      }
    }
    found.hits.push_back({number, page});
    found.ends.push_back(next);
    found.piece_ends.push_back(static_cast<int64_t>(found.starts.size()));
    i = next;
  }
  return true;
}

nb::list list_of(const std::vector<int64_t>& values) {
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return list;
}

// Rows of several tables: those of table t end at `ends[t]` in `rows`, ascending and unique.
//
// None where one of their pages is not known. Else the pages that hold them, the table of each,
// the rows counted from the first of their page and where those of each page end; `with_pieces`
// also the bytes of files that hold them (starts and stops), and where those of each page end.
nb::object plan_rows(const std::vector<const RowTable*>& tables, const In<int64_t>& rows,
                     const std::vector<int64_t>& ends, bool with_pieces) {
  const int64_t count = static_cast<int64_t>(rows.size());
  if (ends.size() != tables.size()) corrupt("plan_rows: arrays of unequal length");
  int64_t before = 0;
  for (const int64_t end : ends) {
    if (end < before || end > count) corrupt("plan_rows: ends of rows");
    before = end;
  }
  if (before != count) corrupt("plan_rows: rows of no table");
  Found found;
  Owned<int64_t> in_page(count);
  const auto run = [&] {
    int64_t first = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      if (!find(*tables[t], t, rows.data(), first, ends[t], with_pieces, in_page.data(), found))
        return false;
      first = ends[t];
    }
    return true;
  };
  bool known = false;
  if (count < kMany) {
    known = run();
  } else {
    nb::gil_scoped_release release;
    known = run();
  }
  if (!known) return nb::none();
  nb::list pages, owners;
  for (const Hit& hit : found.hits) {
    pages.append(tables[hit.table]->page(hit.page));
    owners.append(hit.table);
  }
  Owned<int64_t> page_ends(static_cast<int64_t>(found.ends.size()));
  std::copy(found.ends.begin(), found.ends.end(), page_ends.data());
  return nb::make_tuple(pages, owners, in_page.numpy(), page_ends.numpy(), list_of(found.starts),
                        list_of(found.stops), list_of(found.piece_ends));
}

}  // namespace
}  // namespace alance

void register_row_table(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowTable>(m, "RowTable")
      .def(nb::init<In<int64_t>>(), nb::arg("first_rows"))
      .def("set", &RowTable::set, nb::arg("number"), nb::arg("kernel"), nb::arg("page"));
  m.def("plan_rows", &plan_rows, nb::arg("tables"), nb::arg("rows"), nb::arg("ends"),
        nb::arg("with_pieces") = true);
}
