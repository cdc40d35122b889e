// Footers and tables of many files at once, from their last bytes; and the page tables of fragments
// whose files are completely in memory.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "rows/file_columns.hpp"
#include "rows/footer.hpp"
#include "base/lists.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 64;  // of buffers in files of 2.1 and later
constexpr int kLastMinor = 3;  // of the versions 2.1 and later that are known

// Footer and tables of a file, as far as its last bytes have them.
struct End {
  std::string wrong;  // fault of the file; empty: none
  std::optional<Footer> footer;
  bool has_tables = false;  // the bytes have the tables that the footer names
  std::vector<int64_t> columns, buffers;  // starts and stops by turns
  int64_t keep = 0;  // start of the first part in the bytes, or of the bytes
  int64_t num_bytes;  // of the file

  End(const Bytes& tail, int64_t file_bytes) : num_bytes(file_bytes) {
    try {
      parse(tail, file_bytes);
    } catch (const std::invalid_argument& error) {
      wrong = error.what();
    }
  }

  // (major, minor, fault or None, (columns, buffers, position to keep bytes from) if the tables are
  // there, start of the column metadata, start of the first table), or the fault of the footer.
  nb::object summary() const {
    if (!footer) return nb::str(wrong.data(), wrong.size());
    nb::object error = nb::none(), tables = nb::none();
    if (!wrong.empty())
      error = nb::str(wrong.data(), wrong.size());
    else if (has_tables)
      tables = nb::make_tuple(of_columns(), numpy_of(buffers), keep);
    return nb::make_tuple(footer->major, footer->minor, error, tables, footer->metadata,
                          std::min(footer->columns, footer->buffers));
  }

  std::shared_ptr<FileColumns> of_columns() const {
    return std::make_shared<FileColumns>(columns, num_bytes, alignment());
  }
  // True if the bytes have the tables of a file of a known version, 2.1 or later.
  bool is_usual() const {
    return wrong.empty() && has_tables && footer->major == 2 && footer->minor >= 1 && footer->minor <= kLastMinor;
  }

 private:
  int64_t alignment() const {
    return footer->major > 2 || (footer->major == 2 && footer->minor > 0) ? kAlign : 1;
  }

  void parse(const Bytes& tail, int64_t file_bytes) {
    const uint64_t size = static_cast<uint64_t>(file_bytes);
    if (file_bytes < 0 || tail.size() > size) corrupt("a tail of no file");
    footer.emplace(Footer::read(tail.data(), tail.size()));
    footer->check(size);
    const uint64_t first = size - tail.size();
    if (footer->columns < first || footer->buffers < first) return;
    int64_t least = file_bytes;
    auto places = [&](uint64_t at, uint32_t count, int64_t align, const char* what,
                      std::vector<int64_t>& bounds) {
      bounds.reserve(2 * size_t{count});
      Footer::places(tail.data() + (at - first), count, size, static_cast<uint64_t>(align), what,
                     [&](int64_t start, int64_t stop) {
                       bounds.insert(bounds.end(), {start, stop});
                       if (start >= static_cast<int64_t>(first)) least = std::min(least, start);
                     });
    };
    places(footer->columns, footer->num_columns, 1, "column metadata", columns);
    places(footer->buffers, footer->num_buffers, alignment(), "global buffer", buffers);
    keep = least == file_bytes ? static_cast<int64_t>(first) : least;
    has_tables = true;
  }
};

// `End::summary` of the last bytes of each file.
nb::list file_ends(const nb::list& tails, const In<int64_t>& file_bytes) {
  const std::vector<Bytes> buffers = buffers_of(tails);
  if (file_bytes.size() != buffers.size()) corrupt("ends of files: one size a file");
  std::vector<End> ends;
  ends.reserve(buffers.size());
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < buffers.size(); ++i) ends.emplace_back(buffers[i], file_bytes.data()[i]);
  }
  nb::list parsed;
  for (const End& end : ends) parsed.append(end.summary());
  return parsed;
}

using Owner = std::pair<size_t, int64_t>;  // set of files, and column in each

// Tables of fragments whose files are completely in memory, as if they were one fragment in one
// file, in which file i begins at `begins[i]`. The files are ordered by set; a set has a file of each
// fragment. Leaf l is the column `owners[l]`, which has `times[l]` rows for each row of its fragment.
// Nothing if a file is unusual or has another number of rows: opening the files one by one then
// gives the right error.
std::optional<std::shared_ptr<LeafTables>> whole_tables(
    const nb::list& contents, const std::vector<int64_t>& begins, const std::vector<Owner>& owners,
    const std::vector<int64_t>& times, const std::vector<int64_t>& num_rows) {
  const std::vector<Bytes> buffers = buffers_of(contents);
  const size_t count = num_rows.size();
  if (count == 0 || buffers.size() % count || begins.size() != buffers.size() || times.size() != owners.size())
    corrupt("whole tables: lists of unequal length");
  nb::gil_scoped_release release;
  std::vector<End> files;
  files.reserve(buffers.size());
  for (const Bytes& content : buffers)
    if (!files.emplace_back(content, std::ssize(content)).is_usual()) return std::nullopt;
  std::vector<LeafTables::Listed> tables;
  for (size_t leaf = 0; leaf < owners.size(); ++leaf) {
    const auto [set, column] = owners[leaf];
    if (set >= buffers.size() / count) corrupt("whole tables: no such file");
    auto table = std::make_shared<PageTable>();
    for (size_t fragment = 0; fragment < count; ++fragment) {
      const size_t file = set * count + fragment;
      if (column < 0 || column >= static_cast<int64_t>(files[file].footer->num_columns)) return std::nullopt;
      const size_t before = table->rows.size();
      const int64_t* bounds = files[file].columns.data() + 2 * column;
      const std::string_view text(reinterpret_cast<const char*>(buffers[file].data() + bounds[0]),
                                  static_cast<size_t>(bounds[1] - bounds[0]));
      if (!table->read(text, files[file].num_bytes, kAlign, begins[file])) return std::nullopt;
      int64_t rows = 0;
      if (__builtin_mul_overflow(num_rows[fragment], times[leaf], &rows)) return std::nullopt;
      const std::vector<int64_t>& of_pages = table->rows;
      for (size_t page = before; page < of_pages.size(); ++page) rows -= of_pages[page];
      if (rows != 0) return std::nullopt;
    }
    tables.push_back(LeafTables::listed(std::move(table), times[leaf]));
  }
  return std::make_shared<LeafTables>(tables);
}

}  // namespace
}  // namespace alance

void register_file_ends(nanobind::module_& m) {
  using namespace alance;
  m.def("file_ends", &file_ends, "tails"_a, "file_bytes"_a.noconvert());
  m.def("whole_tables", &whole_tables, "contents"_a, "begins"_a, "owners"_a, "times"_a,
        "num_rows"_a);
}
