// Single rows of many pages of one column: found, read and decoded in one call without the GIL.
//
// A page is read from a file, or from memory that holds its chunks one behind the other. From a
// file, neighbouring chunks go through a small buffer that stays in the processor's cache.
#include <nanobind/stl/vector.h>

#include "positioned.hpp"
#include "row_needs.hpp"
#include "row_page.hpp"

#include <fcntl.h>

namespace alance {
namespace {

using needs::Need;
using needs::needs_of;
using needs::Run;
using needs::runs_of;

constexpr int64_t kGap = 4 << 10;         // bytes that are read in vain as fast as a call is made
constexpr int64_t kScratch = 160 << 10;   // of chunks that are read together

void decode(const RowPage& page, const Need& need, const uint8_t* bytes, const int64_t* rows,
            Sink& sink) {
  const int64_t size = page.begin_of(need.chunk + 1) - page.begin_of(need.chunk);
  page.decode(need.chunk, {bytes, size}, rows + need.first, need.last - need.first, need.open,
              sink);
}

// Rows of one page from a file.
int take_from_file(const RowPage& page, int fd, const int64_t* rows, int64_t first, int64_t last,
                   bool nowait, Sink& sink) {
  thread_local std::vector<uint8_t> scratch;
  const std::vector<Need> needs = needs_of(page, rows, first, last);
  const std::vector<Run> runs = runs_of(page, needs, kGap, kScratch);
  bool hinted = nowait;
  for (const Run& run : runs) {
    const int64_t size = run.end - run.begin;
    if (scratch.size() < static_cast<size_t>(size)) scratch.resize(static_cast<size_t>(size));
    int status = kWouldBlock;
    if (nowait || !hinted)
      status = read_span(fd, page.start() + run.begin, size, scratch.data(), true);
    if (status != kDone && nowait) return status;
    if (status != kDone) {
#if defined(POSIX_FADV_WILLNEED)
      if (!hinted)  // the disk gets all requests of the page at once
        for (const Run& later : runs)
          posix_fadvise(fd, page.start() + later.begin, later.end - later.begin,
                        POSIX_FADV_WILLNEED);
#endif
      hinted = true;
      status = read_span(fd, page.start() + run.begin, size, scratch.data(), false);
      if (status != kDone) return status;
    }
    for (int64_t i = run.first; i < run.last; ++i) {
      const Need& need = needs[static_cast<size_t>(i)];
      decode(page, need, scratch.data() + (page.begin_of(need.chunk) - run.begin), rows, sink);
    }
  }
  return kDone;
}

// Rows of one page from the bytes of the chunks that hold them, one behind the other.
void take_from_memory(const RowPage& page, const Bytes& content, const int64_t* rows,
                      int64_t first, int64_t last, Sink& sink) {
  int64_t position = 0;
  for (const Need& need : needs_of(page, rows, first, last)) {
    const int64_t size = page.begin_of(need.chunk + 1) - page.begin_of(need.chunk);
    check_span(position, size, static_cast<int64_t>(content.size()), "chunk");
    decode(page, need, content.data() + position, rows, sink);
    position += size;
  }
}

// The bytes of a file that hold rows of a page: starts and stops of runs of neighbours.
nb::tuple row_ranges(const RowPage& page, const In<int64_t>& rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  page.check_rows(rows.data(), count);
  const std::vector<Run> runs =
      runs_of(page, needs_of(page, rows.data(), 0, count), 0, INT64_MAX);
  Owned<int64_t> starts(static_cast<int64_t>(runs.size()));
  Owned<int64_t> stops(static_cast<int64_t>(runs.size()));
  for (size_t i = 0; i < runs.size(); ++i) {
    starts[static_cast<int64_t>(i)] = page.start() + runs[i].begin;
    stops[static_cast<int64_t>(i)] = page.start() + runs[i].end;
  }
  return nb::make_tuple(starts.numpy(), stops.numpy());
}

template <typename T>
nb::object numpy_of(const std::vector<T>& values) {
  Owned<T> found(static_cast<int64_t>(values.size()));
  if (!values.empty()) std::memcpy(found.data(), values.data(), values.size() * sizeof(T));
  return nb::cast(found.numpy());
}

// Rows of the pages of one column, in the order of the pages.
//
// `rows` are those of all pages, page by page, each ascending and counted from the page's first;
// those of page p end at `ends[p]`. A page is read from the descriptor `fds[p]`, or if that is
// negative from `contents[p]`. Gives a status (0; -1: a byte is not in the page cache and `nowait`;
// -2: a file is too short; else an error's number), the page where it came up, values (bytes),
// offsets (None: values of one width), and with `levels` repetition and definition levels, else
// None and validity (a byte a row; None: all valid).
nb::tuple take_rows(const std::vector<const RowPage*>& pages, const In<int64_t>& rows,
                    const In<int64_t>& ends, const In<int64_t>& fds,
                    const std::vector<Bytes>& contents, bool nowait, bool levels) {
  const int64_t num_pages = static_cast<int64_t>(pages.size());
  const int64_t count = static_cast<int64_t>(rows.size());
  if (num_pages == 0 || static_cast<int64_t>(ends.size()) != num_pages ||
      static_cast<int64_t>(fds.size()) != num_pages || contents.size() != pages.size())
    corrupt("take_rows: arrays of unequal length");
  Sink sink;
  sink.width = pages[0]->width();
  sink.with_levels = levels;
  int64_t before = 0;
  for (int64_t p = 0; p < num_pages; ++p) {
    if (pages[p]->width() != sink.width) corrupt("take_rows: pages of different width");
    if (ends.data()[p] < before || ends.data()[p] > count) corrupt("take_rows: ends of rows");
    pages[p]->check_rows(rows.data() + before, ends.data()[p] - before);
    before = ends.data()[p];
  }
  if (before != count) corrupt("take_rows: rows of no page");
  int status = kDone;
  int64_t page = 0;
  {
    nb::gil_scoped_release release;
    sink.bytes.reserve(static_cast<size_t>(product(count, sink.width, "take_rows")));
    if (sink.width == 0) sink.offsets.push_back(0);
    for (int64_t first = 0; page < num_pages; ++page) {
      const int64_t last = ends.data()[page], fd = fds.data()[page];
      if (fd >= 0)
        status = take_from_file(*pages[page], static_cast<int>(fd), rows.data(), first, last,
                                nowait, sink);
      else
        take_from_memory(*pages[page], contents[page], rows.data(), first, last, sink);
      if (status != kDone) break;
      first = last;
    }
  }
  const nb::object none = nb::none();
  if (status != kDone) return nb::make_tuple(status, page, none, none, none, none);
  const nb::object offsets = sink.width != 0 ? none : numpy_of(sink.offsets);
  if (levels)
    return nb::make_tuple(status, page, numpy_of(sink.bytes), offsets, numpy_of(sink.rep),
                          numpy_of(sink.def));
  return nb::make_tuple(status, page, numpy_of(sink.bytes), offsets, none,
                        sink.has_nulls ? numpy_of(sink.valid) : none);
}

}  // namespace
}  // namespace alance

void register_take(nanobind::module_& m) {
  using namespace alance;
  nb::class_<RowPage>(m, "RowPage")
      .def(nb::init<In<int64_t>, In<int64_t>, int64_t, int64_t, int64_t, int, int, int, int, int,
                    bool>(),
           nb::arg("first_rows"), nb::arg("first_bytes"), nb::arg("start"), nb::arg("size"),
           nb::arg("num_rows"), nb::arg("values"), nb::arg("bits"), nb::arg("nulls"),
           nb::arg("level_bits"), nb::arg("max_level"), nb::arg("large"))
      .def("set_symbols", &RowPage::set_symbols)
      .def("set_items", &RowPage::set_items)
      .def("set_strings_32", &RowPage::set_strings_32)
      .def("set_strings_64", &RowPage::set_strings_64)
      .def("set_lists", &RowPage::set_lists)
      .def_prop_ro("width", &RowPage::width);
  m.def("row_ranges", &row_ranges, nb::arg("page"), nb::arg("rows"));
  m.def("take_rows", &take_rows, nb::arg("pages"), nb::arg("rows"), nb::arg("ends"),
        nb::arg("fds"), nb::arg("contents"), nb::arg("nowait"), nb::arg("levels"));
}
