// Many files at once: what their last bytes say of them, and of whole small files of 2.1 and later
// where the pages of some columns lie.
//
// In whole files, whatever is unusual, wrong bytes too, gives None: the caller then opens file by file, which says
// what is wrong.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "column_pages.hpp"
#include "footer.hpp"
#include "owned.hpp"
#include "spans.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 64;  // of buffers in files of 2.1 and later

// Byte strings that are the same have one number.
struct Interned {
  std::unordered_map<std::string_view, int64_t> numbers;
  std::vector<std::string_view> values;

  int64_t number(std::string_view value) {
    const auto [found, is_new] = numbers.try_emplace(value, static_cast<int64_t>(values.size()));
    if (is_new) values.push_back(value);
    return found->second;
  }

  nb::list list() const {
    nb::list found;
    for (const auto& one : values) found.append(nb::bytes(one.data(), one.size()));
    return found;
  }
};

struct File {
  const uint8_t* data;
  uint64_t size;

  std::string_view view(uint64_t start, uint64_t stop) const {
    return {reinterpret_cast<const char*>(data + start), static_cast<size_t>(stop - start)};
  }
};

struct Pages {
  PageTable table;
  std::vector<int64_t> counts;  // pages of each (column, file)
  std::vector<int64_t> kinds;   // the number of each page's description
  Interned encodings, column_encodings;
  uint32_t version = 0;  // major << 16 | minor

  bool column(std::string_view content, const File& file) {
    const size_t before = table.rows.size();
    bool usual = true;
    auto describe = [&](std::string_view encoding) {
      usual = usual && !encoding.empty();
      kinds.push_back(encodings.number(encoding));
    };
    if (!ColumnWire(table, static_cast<int64_t>(file.size), kAlign, describe).read(content))
      return false;
    if (!usual || !table.column_encoding) return false;
    column_encodings.number(*table.column_encoding);
    counts.push_back(static_cast<int64_t>(table.rows.size() - before));
    return true;
  }
};

Numpy<int64_t> numpy_of(const std::vector<int64_t>& values) {
  Owned<int64_t> found(static_cast<int64_t>(values.size()));
  if (!values.empty()) std::memcpy(found.data(), values.data(), values.size() * sizeof(int64_t));
  return found.numpy();
}

// The footer of a whole file, with all that it names inside of the file.
Footer whole_footer(const File& whole) {
  const Footer footer = Footer::read(whole.data, whole.size);
  footer.check(whole.size);
  auto skip = [](int64_t, int64_t) {};
  Footer::places(whole.data + footer.columns, footer.num_columns, whole.size, 1, "column metadata", skip);
  Footer::places(whole.data + footer.buffers, footer.num_buffers, whole.size, kAlign, "global buffer", skip);
  return footer;
}

std::vector<Bytes> buffers_of(const nb::list& list) {
  std::vector<Bytes> found;
  found.reserve(list.size());
  for (nb::handle one : list) found.push_back(nb::cast<Bytes>(one));
  return found;
}

// What the last bytes of a file say of it, as far as they say it.
struct End {
  std::string wrong;           // with the file; empty: nothing
  std::optional<Footer> footer;
  bool has_tables = false;     // the tables that the footer names are in the bytes
  std::vector<int64_t> columns, buffers;  // starts and stops by turns
  int64_t keep = 0;            // where the first part begins that the bytes have, or the bytes

  End(const Bytes& tail, int64_t file_bytes) {
    try {
      parse(tail, file_bytes);
    } catch (const std::invalid_argument& error) {
      wrong = error.what();
    }
  }

  // (major, minor, what is wrong, (columns, buffers, where to keep bytes from) if they are there,
  // column metadata, the first of the tables), or what is wrong with the footer.
  nb::object told() const {
    if (!footer) return nb::str(wrong.data(), wrong.size());
    nb::object error = nb::none(), tables = nb::none();
    if (!wrong.empty())
      error = nb::str(wrong.data(), wrong.size());
    else if (has_tables)
      tables = nb::make_tuple(numpy_of(columns), numpy_of(buffers), keep);
    return nb::make_tuple(footer->major, footer->minor, error, tables, footer->metadata,
                          std::min(footer->columns, footer->buffers));
  }

 private:
  void parse(const Bytes& tail, int64_t file_bytes) {
    const uint64_t size = static_cast<uint64_t>(file_bytes);
    if (file_bytes < 0 || tail.size() > size) corrupt("a tail of no file");
    footer.emplace(Footer::read(tail.data(), tail.size()));
    footer->check(size);
    const uint64_t first = size - tail.size();
    if (footer->columns < first || footer->buffers < first) return;
    const bool is_structural = footer->major > 2 || (footer->major == 2 && footer->minor > 0);
    int64_t least = file_bytes;
    auto places = [&](uint64_t at, uint32_t count, int64_t align, const char* what,
                      std::vector<int64_t>& found) {
      found.reserve(2 * size_t{count});
      Footer::places(tail.data() + (at - first), count, size, static_cast<uint64_t>(align), what,
                     [&](int64_t start, int64_t stop) {
                       found.insert(found.end(), {start, stop});
                       if (start >= static_cast<int64_t>(first)) least = std::min(least, start);
                     });
    };
    places(footer->columns, footer->num_columns, 1, "column metadata", columns);
    places(footer->buffers, footer->num_buffers, is_structural ? kAlign : 1, "global buffer", buffers);
    keep = least == file_bytes ? static_cast<int64_t>(first) : least;
    has_tables = true;
  }
};

// What the last bytes of files say of them: `End::told` of each.
nb::list file_ends(const nb::list& tails, const In<int64_t>& file_bytes) {
  const std::vector<Bytes> buffers = buffers_of(tails);
  if (file_bytes.size() != buffers.size()) corrupt("ends of files: one size a file");
  std::vector<End> ends;
  ends.reserve(buffers.size());
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < buffers.size(); ++i) ends.emplace_back(buffers[i], file_bytes.data()[i]);
  }
  nb::list told;
  for (const End& end : ends) told.append(end.told());
  return told;
}

// The pages of columns of whole files: (version, pages of each column of each file, rows of each
// page, number of its description, ends of its buffers, their starts, their sizes, descriptions,
// descriptions of the columns). Pages go by column, then by file. None: open them one by one.
nb::object file_pages(const nb::list& contents, const In<int64_t>& columns) {
  const std::vector<Bytes> buffers = buffers_of(contents);
  const int64_t* wanted = columns.data();
  const size_t num_wanted = columns.size();
  Pages pages;
  bool usual = !buffers.empty();
  {
    nb::gil_scoped_release release;
    std::vector<File> files;
    std::vector<Footer> footers;
    try {
      for (const Bytes& buffer : buffers) {
        files.push_back({buffer.data(), buffer.size()});
        footers.push_back(whole_footer(files.back()));
      }
    } catch (const std::invalid_argument&) {
      usual = false;
    }
    for (size_t f = 0; usual && f < footers.size(); ++f)
      usual = footers[f].major == footers[0].major && footers[f].minor == footers[0].minor;
    for (size_t c = 0; usual && c < num_wanted; ++c) {
      for (size_t f = 0; usual && f < files.size(); ++f) {
        usual = wanted[c] >= 0 && wanted[c] < footers[f].num_columns;
        if (!usual) break;
        const uint8_t* entry = files[f].data + footers[f].columns + 16 * wanted[c];
        const uint64_t start = load<uint64_t>(entry);
        usual = pages.column(files[f].view(start, start + load<uint64_t>(entry + 8)), files[f]);
      }
    }
    if (usual) pages.version = uint32_t{footers[0].major} << 16 | footers[0].minor;
  }
  if (!usual) return nb::none();
  return nb::make_tuple(pages.version, numpy_of(pages.counts), numpy_of(pages.table.rows),
                        numpy_of(pages.kinds), numpy_of(pages.table.ends),
                        numpy_of(pages.table.starts), numpy_of(pages.table.sizes), pages.encodings.list(),
                        pages.column_encodings.list());
}

// The same of columns of open files, in the order in which they are given: (pages of each column,
// rows of each page, number of its description, ends of its buffers, their starts, their sizes,
// descriptions).
nb::tuple pages_together(const nb::list& columns) {
  std::vector<const ColumnPages*> given;
  given.reserve(columns.size());
  for (nb::handle one : columns) given.push_back(&nb::cast<const ColumnPages&>(one));
  Pages pages;
  PageTable& table = pages.table;
  {
    nb::gil_scoped_release release;
    for (const ColumnPages* column : given) {
      const PageTable& own = column->table();
      const int64_t before = table.ends.back();
      pages.counts.push_back(column->count());
      table.rows.insert(table.rows.end(), own.rows.begin(), own.rows.end());
      table.starts.insert(table.starts.end(), own.starts.begin(), own.starts.end());
      table.sizes.insert(table.sizes.end(), own.sizes.begin(), own.sizes.end());
      for (size_t page = 0; page < own.rows.size(); ++page) {
        table.ends.push_back(before + own.ends[page + 1]);
        pages.kinds.push_back(pages.encodings.number(column->description(page)));
      }
    }
  }
  return nb::make_tuple(numpy_of(pages.counts), numpy_of(table.rows), numpy_of(pages.kinds),
                        numpy_of(table.ends), numpy_of(table.starts), numpy_of(table.sizes),
                        pages.encodings.list());
}

// Spans of buffers, one behind the other: span i is bytes of buffer `numbers[i]`.
Numpy<uint8_t> gather_spans(const nb::list& contents, const In<int64_t>& numbers,
                            const In<int64_t>& starts, const In<int64_t>& sizes) {
  const std::vector<Bytes> buffers = buffers_of(contents);
  const size_t count = numbers.size();
  if (starts.size() != count || sizes.size() != count)
    corrupt("spans: one start and one size a span");
  auto run = [&] {
    nb::gil_scoped_release release;
    int64_t total = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = numbers.data()[i];
      if (number < 0 || number >= static_cast<int64_t>(buffers.size()))
        corrupt("spans: buffer " + std::to_string(number) + " of " +
                std::to_string(buffers.size()));
      check_span(starts.data()[i], sizes.data()[i],
                 static_cast<int64_t>(buffers[static_cast<size_t>(number)].size()), "spans");
      if (__builtin_add_overflow(total, sizes.data()[i], &total)) corrupt("spans: sizes overflow");
    }
    Owned<uint8_t> out(total);
    uint8_t* at = out.data();
    for (size_t i = 0; i < count; ++i) {
      const size_t size = static_cast<size_t>(sizes.data()[i]);
      const Bytes& buffer = buffers[static_cast<size_t>(numbers.data()[i])];
      if (size) std::memcpy(at, buffer.data() + starts.data()[i], size);
      at += size;
    }
    return out;
  };
  return run().numpy();
}

}  // namespace
}  // namespace alance

void register_small_files(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  m.def("file_pages", &file_pages, arg("contents"), arg("columns").noconvert());
  m.def("file_ends", &file_ends, arg("tails"), arg("file_bytes").noconvert());
  m.def("pages_together", &pages_together, arg("columns"));
  m.def("gather_spans", &gather_spans, arg("contents"), arg("numbers").noconvert(),
        arg("starts").noconvert(), arg("sizes").noconvert());
}
