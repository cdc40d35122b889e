// Pages of columns of many fragments, of open files or of whole files (2.1 and later) in memory,
// and the plan of all their rows, without a Python object for each page.
//
// Unusual and damaged files are left to the caller, who goes page by page and reports what is
// wrong.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unordered_map>

#include "base/lists.hpp"
#include "base/text_hash.hpp"
#include "base/unlocked.hpp"
#include "io/coalesce.hpp"
#include "io/held.hpp"
#include "rows/file_columns.hpp"
#include "rows/footer.hpp"
#include "rows/page_form.hpp"
#include "rows/planner.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 64;  // of buffers in files of 2.1 and later
constexpr int kLastMinor = 3;  // of the versions 2.1 and later that are known
constexpr int64_t kValueBytes = 32;  // of the longest value in a description
constexpr int64_t kConstantBytes = int64_t{16} << 20;  // of a constant page, decoded

using Forms = std::vector<std::shared_ptr<PageForm>>;

// Numbers of byte strings; equal strings have one number.
template <typename Text>
struct Interned {
  std::unordered_map<Text, size_t, TextHash> numbers;
  std::vector<std::string_view> values;  // the first of each number

  size_t number(Text key, std::string_view value) {
    const auto [place, is_new] = numbers.try_emplace(std::move(key), values.size());
    if (is_new) values.push_back(value);
    return place->second;
  }

  nb::list list() const {
    nb::list all;
    for (const std::string_view& value : values) all.append(nb::bytes(value.data(), value.size()));
    return all;
  }
};

// Pages of some columns of some fragments, by column, then by fragment.
class FileTables {
 public:
  // Whole files, set by set, each with a file of every fragment. Column c is column `columns[c]` of
  // the files of set `sets[c]`, of `num_rows` times `times[c]` rows. Null: open the files one by
  // one.
  static std::unique_ptr<FileTables> of_files(const nb::list& contents, const In<int64_t>& sets,
                                              const In<int64_t>& columns, const In<int64_t>& times,
                                              const In<int64_t>& num_rows) {
    if (sets.size() != columns.size() || times.size() != columns.size() || num_rows.size() == 0)
      corrupt("file tables: arrays of unequal length");
    auto tables = std::make_unique<FileTables>();
    tables->contents_ = buffers_of(contents);
    tables->times_.assign(times.data(), times.data() + times.size());
    nb::gil_scoped_release release;
    return tables->read(sets, columns, times, num_rows) ? std::move(tables) : nullptr;
  }

  // Leaves of open fragments, all of which have `num_leaves`; `files`: number of the file of each,
  // leaf by leaf.
  static std::unique_ptr<FileTables> of_leaves(const std::vector<const LeafTables*>& fragments, size_t num_leaves,
                                               std::vector<size_t> files) {
    if (fragments.empty() || files.size() != num_leaves * fragments.size())
      corrupt("file tables: columns of other files");
    auto tables = std::make_unique<FileTables>();
    tables->num_fragments_ = fragments.size();
    tables->files_ = std::move(files);
    for (size_t leaf = 0; leaf < num_leaves; ++leaf)
      for (const LeafTables* own : fragments)
        if (!tables->columns_.emplace_back(own->column(leaf))) corrupt("file tables: a leaf without a column");
    for (size_t leaf = 0; leaf < num_leaves; ++leaf)
      tables->times_.push_back(tables->columns_[leaf * fragments.size()]->times());
    const Unlocked unlocked(static_cast<int64_t>(tables->columns_.size()) << 8);
    for (const auto& column : tables->columns_) tables->add(*column);
    return tables;
  }

  // Distinct descriptions; of those that differ in symbols of strings alone the first.
  nb::list descriptions() {
    describe();
    return described_.list();
  }

  // Number of the file of each column of each fragment.
  const std::vector<size_t>& files() const { return files_; }

  // Bytes of all pages, coalesced: (file, start, stop) of each range. Marked files have none.
  nb::list spans(const std::vector<bool>& are_here, uint64_t max_gap_bytes) const {
    std::vector<std::vector<ByteRange>> ranges(are_here.size());
    for (size_t page = 0, table = 0, num_pages = 0; page < table_.rows.size(); ++page, --num_pages) {
      for (; num_pages == 0; ++table) num_pages = static_cast<size_t>(counts_[table]);
      if (files_[table - 1] >= are_here.size()) corrupt("file tables: other files");
      const auto begin = static_cast<size_t>(table_.ends[page]), end = static_cast<size_t>(table_.ends[page + 1]);
      if (begin == end || are_here[files_[table - 1]]) continue;
      ByteRange range{table_.starts[begin], table_.starts[begin]};
      for (size_t i = begin; i < end; ++i) {
        range.start = std::min(range.start, table_.starts[i]);
        range.stop = std::max(range.stop, table_.starts[i] + table_.sizes[i]);
      }
      if (range.start < range.stop) ranges[files_[table - 1]].push_back(range);
    }
    nb::list spans;
    for (size_t file = 0; file < ranges.size(); ++file)
      for (const auto& [start, stop] : coalesce(ranges[file], {max_gap_bytes}).spans)
        spans.append(nb::make_tuple(file, start, stop));
    return spans;
  }

  // Plan of all rows of some columns, whose tables keep their numbers. Pages that the kernel does
  // not know, or not from these bytes, are the plan's `unknown`. `forms`: of each description; None
  // for pages of another kind. `held`: the files.
  RowPlan plan(const std::vector<size_t>& columns, const Forms& forms,
               const std::vector<const HeldFile*>& held, int64_t num_rows) {
    describe();
    if (forms.size() != described_.values.size()) corrupt("file tables: forms of other pages");
    if (std::any_of(files_.begin(), files_.end(), [&](size_t file) { return file >= held.size(); }))
      corrupt("file tables: other files");
    Planner planner(num_rows);
    const nb::gil_scoped_release release;
    planner.reserve(table_.rows.size());
    PageBuffers buffers;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] * num_fragments_ >= counts_.size()) corrupt("file tables: no such column");
      int64_t missing_rows = product(num_rows, times_[columns[i]], "file tables");
      for (size_t fragment = 0; fragment < num_fragments_; ++fragment) {
        const size_t table = columns[i] * num_fragments_ + fragment;
        for (size_t page = bounds_[table]; page < bounds_[table + 1]; ++page) {
          const int64_t rows = table_.rows[page];
          missing_rows -= rows;
          if (rows == 0) continue;
          RowTable::Entry entry = entry_of(table, page, forms, *held[files_[table]], buffers);
          if (entry.kernel)
            planner.add_page(table, std::move(entry), rows);
          else
            planner.plan.unknown.push_back({table, page - bounds_[table]});
        }
      }
      if (missing_rows != 0) corrupt("file tables: columns of another number of rows");
      planner.end_column();
    }
    return std::move(planner.plan);
  }

 private:
  bool read(const In<int64_t>& sets, const In<int64_t>& columns, const In<int64_t>& times,
            const In<int64_t>& num_rows) {
    num_fragments_ = num_rows.size();
    std::vector<Footer> footers;
    try {
      for (const Bytes& content : contents_) footers.push_back(footer_of(content));
    } catch (const std::invalid_argument&) {
      return false;
    }
    for (const Footer& footer : footers)
      if (footer.major != 2 || footer.minor < 1 || footer.minor > kLastMinor) return false;
    for (size_t c = 0; c < sets.size(); ++c)
      for (size_t f = 0; f < num_fragments_; ++f) {
        const int64_t column = columns.data()[c], set = sets.data()[c];
        if (set < 0 || static_cast<size_t>(set) >= contents_.size() / num_fragments_) return false;
        const size_t file = static_cast<size_t>(set) * num_fragments_ + f;
        if (column < 0 || column >= footers[file].num_columns) return false;
        const uint8_t* entry = contents_[file].data() + footers[file].columns + 16 * column;
        const std::string_view metadata(
            reinterpret_cast<const char*>(contents_[file].data() + load<uint64_t>(entry)),
            load<uint64_t>(entry + 8));
        int64_t rows = 0;
        if (__builtin_mul_overflow(num_rows.data()[f], times.data()[c], &rows) ||
            !add(metadata, contents_[file], rows))
          return false;
        files_.push_back(file);
      }
    return true;
  }

  // Footer of a whole file; all that it names is checked to be in the file.
  static Footer footer_of(const Bytes& content) {
    const Footer footer = Footer::read(content.data(), content.size());
    footer.check(content.size());
    auto skip = [](int64_t, int64_t) {};
    Footer::places(content.data() + footer.columns, footer.num_columns, content.size(), 1, "column metadata", skip);
    Footer::places(content.data() + footer.buffers, footer.num_buffers, content.size(), kAlign, "global buffer", skip);
    return footer;
  }

  bool add(std::string_view metadata, const Bytes& content, int64_t num_rows) {
    const size_t before = table_.rows.size();
    bool usual = true;
    auto describe = [&](std::string_view encoding) {
      usual = usual && !encoding.empty();
      kinds_.push_back(encodings_.number(encoding, encoding));
    };
    if (!ColumnWire(table_, static_cast<int64_t>(content.size()), kAlign, describe).read(metadata))
      return false;
    if (!usual || !table_.column_encoding || !is_column_encoding(*table_.column_encoding)) return false;
    counts_.push_back(static_cast<int64_t>(table_.rows.size() - before));
    for (size_t page = before; page < table_.rows.size(); ++page) num_rows -= table_.rows[page];
    return num_rows == 0;
  }

  void add(const ColumnPages& column) {
    const PageTable& own = column.table();
    const int64_t before = table_.ends.back();
    counts_.push_back(static_cast<int64_t>(column.count()));
    table_.rows.insert(table_.rows.end(), own.rows.begin(), own.rows.end());
    table_.starts.insert(table_.starts.end(), own.starts.begin(), own.starts.end());
    table_.sizes.insert(table_.sizes.end(), own.sizes.begin(), own.sizes.end());
    for (size_t page = 0; page < own.rows.size(); ++page) {
      table_.ends.push_back(before + own.ends[page + 1]);
      const std::string_view encoding = column.description(page);
      kinds_.push_back(encodings_.number(encoding, encoding));
    }
  }

  // Group encodings of one form, note the symbols of each, and count the pages before each table.
  void describe() {
    if (!bounds_.empty()) return;
    for (const std::string_view& encoding : encodings_.values) {
      symbols_.push_back(symbols_in(encoding));
      alike_.push_back(described_.number(without(encoding, symbols_.back()), encoding));
    }
    bounds_.push_back(0);
    for (const int64_t count : counts_) bounds_.push_back(bounds_.back() + static_cast<size_t>(count));
  }

  // What is known of a page, or is learned from its bytes; without a kernel if nothing.
  RowTable::Entry entry_of(size_t table, size_t page, const Forms& forms, const HeldFile& file,
                           PageBuffers& buffers) const {
    if (!columns_.empty())
      if (const RowTable::Entry* known = columns_[table]->entry(page - bounds_[table])) return *known;
    const PageForm* form = forms[alike_[kinds_[page]]].get();
    if (form == nullptr || !form->layers) return {};
    page_buffers(table_, page, buffers);
    const auto needed = form->needed(buffers, table_.rows[page]);
    if (!needed || (form->is_constant() && is_long(buffers, table_.rows[page]))) return {};
    for (const size_t i : *needed) {
      buffers[i].data = file.view(buffers[i].start, buffers[i].start + buffers[i].size);
      if (buffers[i].data == nullptr) return {};
    }
    try {
      return {form->page_of(buffers, table_.rows[page], symbols_[kinds_[page]]), *form->layers,
              buffers.empty() ? 0 : buffers[0].start};
    } catch (const std::invalid_argument&) {
      return {};  // the codecs in Python report what is wrong
    }
  }

  // True if so many rows of one value take much memory: a damaged file may state any number.
  static bool is_long(const PageBuffers& buffers, int64_t num_rows) {
    int64_t size = kValueBytes;
    for (const PageBuffer& buffer : buffers) size += buffer.size;
    return num_rows > kConstantBytes / size;
  }

  size_t num_fragments_ = 0;
  std::vector<int64_t> times_;  // rows of each column a row
  PageTable table_;
  std::vector<int64_t> counts_;  // pages of each table, which is a (column, fragment)
  std::vector<size_t> bounds_;  // pages before each table, and of all
  std::vector<size_t> files_;    // of each table
  std::vector<size_t> kinds_;  // number of each page's encoding
  Interned<std::string_view> encodings_;
  Interned<std::string> described_;
  std::vector<std::string_view> symbols_;  // of each encoding; may be empty
  std::vector<size_t> alike_;  // number of each encoding's description
  // Memory of the views.
  std::vector<Bytes> contents_;
  std::vector<std::shared_ptr<ColumnPages>> columns_;
};

}  // namespace
}  // namespace alance

void register_file_tables(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  nb::class_<FileTables>(m, "FileTables")
      .def_static("of_files", &FileTables::of_files, arg("contents"), arg("sets").noconvert(),
                  arg("columns").noconvert(), arg("times").noconvert(), arg("num_rows").noconvert())
      .def_static("of_leaves", &FileTables::of_leaves, arg("fragments"), arg("num_leaves"),
                  arg("files"))
      .def_prop_ro("descriptions", &FileTables::descriptions)
      .def_prop_ro("files", &FileTables::files)
      .def("spans", &FileTables::spans, arg("are_here"), arg("max_gap_bytes"))
      .def("plan", &FileTables::plan, arg("columns"), arg("forms"), arg("held"), arg("num_rows"));
}
