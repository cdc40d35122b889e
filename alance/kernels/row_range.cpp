// Ranges of rows of many columns: where their bytes are, and one record batch of them, in one call
// each, whatever the number of columns, ranges and pages.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "coalesce.hpp"
#include "held.hpp"
#include "lists.hpp"
#include "range_sink.hpp"
#include "row_table.hpp"
#include "source.hpp"

namespace alance {
namespace {

class RangePlan {
 public:
  struct Hit {
    const RowPage* kernel;
    int64_t first, last;   // rows of the page
    int64_t start, stop;   // bytes of the file
  };

  // Rows from the first to behind the last.
  using Span = std::pair<int64_t, int64_t>;

  // The columns' pages that hold the rows of some spans, which ascend. Of a column with a page that
  // is not plain, or of another form than it is to have, there are none.
  RangePlan(const std::vector<const RowTable*>& tables, const std::vector<int64_t>& widths,
            const std::vector<bool>& texts, const std::vector<Span>& spans)
      : num_rows(count(spans)) {
    if (widths.size() != tables.size() || texts.size() != tables.size())
      corrupt("plan_range: forms of other columns");
    for (size_t i = 0; i < widths.size(); ++i) {
      const int64_t width = widths[i];
      if (width > (int64_t{1} << 31) || (width < 0 && width != -4 && width != -8))
        corrupt("plan_range: values of " + std::to_string(width) + " bytes");
      forms.push_back({width, texts[i]});
    }
    for (size_t column = 0; column < tables.size(); ++column) {
      const size_t before = hits.size();
      if (!add(*tables[column], column, spans)) hits.resize(before);
      pages.resize(hits.size());
      ends.push_back(hits.size());
    }
  }

  size_t first_hit(size_t column) const { return column ? ends[column - 1] : 0; }

  nb::list unknown() const {
    nb::list all;
    for (const auto& [column, page] : unknown_) all.append(nb::make_tuple(column, page));
    return all;
  }

  // Columns whose rows are not here, though their pages are known.
  std::vector<size_t> others() const {
    std::vector<size_t> all;
    for (size_t column = 0; column < ends.size(); ++column)
      if (first_hit(column) == ends[column]) all.push_back(column);
    return all;
  }

  // Of all pages, column by column: the column, and where its bytes start and stop.
  nb::tuple ranges() const {
    std::vector<int64_t> columns, starts, stops;
    for (size_t column = 0; column < ends.size(); ++column)
      columns.resize(ends[column], static_cast<int64_t>(column));
    for (const Hit& hit : hits) {
      starts.push_back(hit.start);
      stops.push_back(hit.stop);
    }
    return nb::make_tuple(numpy_of(columns), numpy_of(starts), numpy_of(stops));
  }

  int64_t num_bytes() const {
    int64_t total = 0;
    for (const Hit& hit : hits) total += hit.stop - hit.start;
    return total;
  }

  // What is not held of the pages: coalesced pieces, file by file, and where those of each end.
  nb::tuple missing(const std::vector<const HeldFile*>& held, const In<int64_t>& files,
                    uint64_t max_gap_bytes) const {
    if (files.size() != ends.size()) corrupt("row range: files of other columns");
    std::vector<std::vector<ByteRange>> pieces(held.size());
    for (size_t column = 0; column < ends.size(); ++column) {
      const size_t file = static_cast<size_t>(files.data()[column]);  // a negative one is too large
      if (file >= held.size()) corrupt("row range: no such file");
      for (size_t hit = first_hit(column); hit < ends[column]; ++hit)
        if (!held[file]->holds(hits[hit].start, hits[hit].stop))
          pieces[file].push_back({hits[hit].start, hits[hit].stop});
    }
    std::vector<int64_t> starts, stops;
    nb::list bounds;
    for (const auto& own : pieces) {
      for (const auto& [start, stop] : coalesce(own, {max_gap_bytes}).spans) {
        starts.push_back(start);
        stops.push_back(stop);
      }
      bounds.append(stops.size());
    }
    return nb::make_tuple(bounds, numpy_of(starts), numpy_of(stops));
  }

  nb::object page(size_t hit) const {
    if (hit >= pages.size()) corrupt("row range: no such page");
    return pages[hit];
  }

  const int64_t num_rows;
  std::vector<RangeForm> forms;   // of the columns
  std::vector<Hit> hits;
  std::vector<nb::object> pages;  // of the hits: they keep the kernels alive
  std::vector<size_t> ends;       // where the hits of each column end

 private:
  static int64_t count(const std::vector<Span>& spans) {
    int64_t total = 0, last = 0;
    for (const auto& [start, stop] : spans) {
      if (start < last || stop <= start) corrupt("plan_range: no rows");
      total += stop - start;
      last = stop;
    }
    if (total == 0) corrupt("plan_range: no rows");
    return total;
  }

  bool add(const RowTable& table, size_t column, const std::vector<Span>& spans) {
    if (spans.back().second > table.first_rows().back()) corrupt("plan_range: rows of no page");
    bool is_plain = true;
    for (const auto& [start, stop] : spans) is_plain &= add(table, column, start, stop);
    return is_plain;
  }

  bool add(const RowTable& table, size_t column, int64_t start, int64_t stop) {
    const std::vector<int64_t>& bounds = table.first_rows();
    auto above = std::upper_bound(bounds.begin(), bounds.end(), start);
    bool is_plain = true;
    for (int64_t row = start; row < stop; ++above) {
      const size_t page = static_cast<size_t>(above - bounds.begin()) - 1;
      const int64_t last = std::min(stop, *above);
      if (last == row) continue;  // of no rows
      const RowTable::Entry& entry = table.entry(page);
      if (entry.kernel == nullptr) {
        const std::pair<size_t, size_t> place{column, page};  // maybe that of the span before
        if (unknown_.empty() || unknown_.back() != place) unknown_.push_back(place);
      } else if (!nests::is_plain(entry.layers) || !entry.kernel->fits(forms[column].width)) {
        is_plain = false;
      } else {
        const int64_t first = row - bounds[page];
        const auto [begin, end] = entry.kernel->bytes_of(first, last - bounds[page]);
        const int64_t origin = entry.kernel->start();
        hits.push_back({entry.kernel, first, last - bounds[page], origin + begin, origin + end});
        pages.resize(hits.size());
        pages.back() = entry.page;
      }
      row = last;
    }
    return is_plain;
  }

  std::vector<std::pair<size_t, size_t>> unknown_;  // column, page
};

// The bytes of a column's pages, which a source reads just before they are decoded.
class Read {
 public:
  // `files`: of each column, the number that the source knows it by.
  Read(Source& source, const In<int64_t>& files) : source_(source), files_(files.data()) {}

  // One part a page; false: they cannot be read.
  bool bring(const RangePlan& plan, size_t column, std::vector<Part>& parts) {
    pieces_.clear();
    int64_t total = 0;
    for (size_t hit = plan.first_hit(column); hit < plan.ends[column]; ++hit) {
      const RangePlan::Hit& page = plan.hits[hit];
      pieces_.push_back({static_cast<size_t>(files_[column]), page.start, page.stop});
      total += page.stop - page.start;
    }
    for (const Piece& piece : pieces_)
      if (const uint8_t* bytes = source_.view(piece)) parts.push_back({bytes, size(piece)});
    if (parts.size() == pieces_.size()) return true;
    parts.clear();
    const uint8_t* bytes = source_.read(pieces_.data(), pieces_.size(), total);
    if (bytes == nullptr) return false;
    for (const Piece& piece : pieces_) {
      parts.push_back({bytes, size(piece)});
      bytes += size(piece);
    }
    return true;
  }

 private:
  static int64_t size(const Piece& piece) { return piece.stop - piece.start; }

  Source& source_;
  const int64_t* files_;
  std::vector<Piece> pieces_;
};

// The columns of a plan as one struct array, for `RecordBatch._import_from_c`.
class RangeBatch : public arrow::Exported {
 public:
  // The number of the page, in the plan's list, that was decoded last: an error is in it.
  size_t page() const { return page_; }

  // False: the source failed.
  bool read(const RangePlan& plan, const In<int64_t>& files, Source& source) {
    if (files.size() != plan.ends.size()) corrupt("row range: files of other columns");
    Read content(source, files);
    nb::gil_scoped_release release;
    RangeColumns columns(plan.num_rows);
    for (size_t column = 0; column < plan.ends.size(); ++column) {
      const auto begin = plan.hits.begin() + static_cast<int64_t>(plan.first_hit(column));
      const auto end = plan.hits.begin() + static_cast<int64_t>(plan.ends[column]);
      if (begin == end) continue;
      columns.place(plan.forms[column],
                    std::any_of(begin, end, [](const auto& hit) { return hit.kernel->has_nulls(); }));
    }
    columns.allocate();
    std::vector<Part> parts;
    for (size_t column = 0; column < plan.ends.size(); ++column) {
      const size_t first = plan.first_hit(column), last = plan.ends[column];
      if (first == last) continue;
      page_ = first;
      parts.clear();
      if (!content.bring(plan, column, parts)) return false;
      RangeSink sink = columns.next();
      for (size_t hit = first; hit < last; ++hit) {
        page_ = hit;
        const RangePlan::Hit& page = plan.hits[hit];
        page.kernel->decode_range(page.first, page.last, parts[hit - first], sink);
      }
      columns.add(sink);
    }
    give(columns.batch());
    return true;
  }

 private:
  size_t page_ = 0;
};

}  // namespace
}  // namespace alance

void register_row_range(nanobind::module_& m) {
  using namespace alance;
  using Tables = std::vector<const RowTable*>;
  nb::class_<RangePlan>(m, "RangePlan")
      .def(nb::init<const Tables&, const std::vector<int64_t>&, const std::vector<bool>&,
                    const std::vector<RangePlan::Span>&>(),
           nb::arg("tables"), nb::arg("widths"), nb::arg("texts"), nb::arg("spans"))
      .def_prop_ro("unknown", &RangePlan::unknown)
      .def_prop_ro("others", &RangePlan::others)
      .def_prop_ro("ranges", &RangePlan::ranges)
      .def_prop_ro("num_bytes", &RangePlan::num_bytes)
      .def("missing", &RangePlan::missing, nb::arg("held"), nb::arg("files"),
           nb::arg("max_gap_bytes"))
      .def("page", &RangePlan::page);
  nb::class_<RangeBatch>(m, "RangeBatch")
      .def(nb::init<>())
      .def_prop_ro("address", &RangeBatch::address)
      .def_prop_ro("page", &RangeBatch::page)
      .def("read", &RangeBatch::read, nb::arg("plan"), nb::arg("files"), nb::arg("source"));
}
