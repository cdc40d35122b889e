// Pages of columns of many files that are read together: their tables by one call, of open files or
// of whole small ones of 2.1 and later, and one record batch of what they hold by another.
//
// Whatever is unusual, wrong bytes too, is left to the caller, who goes page by page and says what
// is wrong.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "rows/column_pages.hpp"
#include "rows/footer.hpp"
#include "base/lists.hpp"
#include "rows/page_form.hpp"
#include "rows/range_sink.hpp"
#include "base/unlocked.hpp"
#include "base/utf8.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 64;  // of buffers in files of 2.1 and later
constexpr size_t kChunks = 1;   // the buffer of a mini-block page that holds the chunks
constexpr int64_t kConstantBytes = int64_t{16} << 20;  // of a constant page, which needs none itself

using Forms = std::vector<std::shared_ptr<PageForm>>;

// Byte strings that are the same have one number.
template <typename Text>
struct Interned {
  std::unordered_map<Text, size_t> numbers;
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

struct File {
  const uint8_t* data;
  uint64_t size;

  std::string_view view(uint64_t start, uint64_t stop) const {
    return {reinterpret_cast<const char*>(data + start), static_cast<size_t>(stop - start)};
  }

  // The footer of the whole file, with all that it names inside of the file.
  Footer footer() const {
    const Footer footer = Footer::read(data, size);
    footer.check(size);
    auto skip = [](int64_t, int64_t) {};
    Footer::places(data + footer.columns, footer.num_columns, size, 1, "column metadata", skip);
    Footer::places(data + footer.buffers, footer.num_buffers, size, kAlign, "global buffer", skip);
    return footer;
  }
};

// The pages of some columns of some files, by column, then by file.
class FilePages : public arrow::Exported {
 public:
  // Of whole files; null: open them one by one.
  static std::unique_ptr<FilePages> of_files(const nb::list& contents, const In<int64_t>& columns) {
    auto pages = std::make_unique<FilePages>();
    pages->contents_ = buffers_of(contents);
    nb::gil_scoped_release release;
    return pages->read(columns.data(), columns.size()) ? std::move(pages) : nullptr;
  }

  // Of columns of open files, of each column those of `num_files` files.
  static std::unique_ptr<FilePages> of_columns(std::vector<std::shared_ptr<ColumnPages>> columns,
                                               size_t num_files) {
    if (num_files == 0 || columns.size() % num_files) corrupt("file pages: columns of other files");
    auto pages = std::make_unique<FilePages>();
    pages->num_files_ = num_files;
    pages->columns_ = std::move(columns);
    const Unlocked unlocked(static_cast<int64_t>(pages->columns_.size()) << 8);
    for (const auto& column : pages->columns_) pages->add(*column);
    return pages;
  }

  uint32_t version() const { return version_; }
  nb::list encodings() const { return encodings_.list(); }
  nb::list column_encodings() const { return column_encodings_.list(); }

  // Each description once; of those that differ in symbols of strings alone the first.
  nb::list descriptions() {
    describe();
    return described_.list();
  }

  size_t num_pages() const { return table_.rows.size(); }

  // (pages of each column of each file; of each page its rows, the number of its encoding, the end
  // of its buffers; starts and sizes of these)
  nb::tuple tables() const {
    return nb::make_tuple(numpy_of(counts_), numpy_of(table_.rows), numpy_of(kinds_),
                          numpy_of(table_.ends), numpy_of(table_.starts), numpy_of(table_.sizes));
  }

  // The rows of each column of each file.
  nb::object stored() const {
    std::vector<int64_t> rows;
    size_t page = 0;
    for (const int64_t count : counts_) {
      int64_t sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += table_.rows[page++];
      rows.push_back(sum);
    }
    return nb::cast(numpy_of(rows));
  }

  // The columns of which `decode` makes arrays of these widths (as of `RangeForm`, one a column; -1:
  // of none). `forms`: of each description; None: its pages are none that the kernel takes.
  std::vector<size_t> fitting(const Forms& forms, const std::vector<int64_t>& widths) {
    check_forms(forms, widths.size());
    std::vector<size_t> columns;
    for (size_t column = 0; column < widths.size(); ++column)
      if (widths[column] != -1 && fits(column, forms, widths[column])) columns.push_back(column);
    return columns;
  }

  // Some columns as a batch of so many rows. Page i is in `contents[numbers[i]]`, which begins at
  // `firsts[numbers[i]]` of its file. ValueError: bytes that contradict the format.
  void decode(const std::vector<size_t>& columns, const Forms& forms,
              const std::vector<int64_t>& widths, const std::vector<bool>& texts,
              const nb::list& contents, const In<int64_t>& numbers, const In<int64_t>& firsts,
              int64_t num_rows) {
    check_forms(forms, widths.size());
    if (texts.size() != widths.size() || firsts.size() != nb::len(contents) ||
        numbers.size() != table_.rows.size() || num_rows < 0)
      corrupt("file pages: arrays of unequal length");
    const std::vector<Bytes> buffers = buffers_of(contents);
    const auto num_columns = static_cast<int64_t>(columns.size());
    const Unlocked unlocked(product(num_rows, num_columns, "file pages"));
    // Rows are counted by the chunks that hold them before there is memory for them.
    std::vector<Rows> pages;
    RangeColumns batch(num_rows);
    for (const size_t column : columns) {
      if (column >= widths.size()) corrupt("file pages: no such column");
      bool has_nulls = false;
      int64_t left = num_rows;
      for (size_t page = bound(column); page < bound(column + 1); ++page) {
        const int64_t number = numbers.data()[page];
        if (number < 0 || number >= static_cast<int64_t>(buffers.size()))
          corrupt("file pages: no such content");
        pages.push_back(rows_of(page, forms, buffers[static_cast<size_t>(number)],
                                firsts.data()[number], widths[column]));
        has_nulls |= pages.back().has_nulls();
        left -= pages.back().count;
        if (left < 0) break;
      }
      if (left != 0) corrupt("file pages: columns of another number of rows");
      batch.place({widths[column], texts[column]}, has_nulls);
    }
    batch.allocate();
    auto next = pages.begin();
    for (size_t i = 0; i < columns.size(); ++i) {
      RangeSink sink = batch.next();
      for (; sink.row() < num_rows; ++next) next->decode(sink);
      batch.add(sink);
    }
    give(batch.batch());
  }

 private:
  bool read(const int64_t* wanted, size_t num_wanted) {
    num_files_ = contents_.size();
    std::vector<File> files;
    std::vector<Footer> footers;
    try {
      for (const Bytes& content : contents_) {
        files.push_back({content.data(), content.size()});
        footers.push_back(files.back().footer());
      }
    } catch (const std::invalid_argument&) {
      return false;
    }
    if (files.empty()) return false;
    version_ = uint32_t{footers[0].major} << 16 | footers[0].minor;
    for (const Footer& footer : footers)
      if ((uint32_t{footer.major} << 16 | footer.minor) != version_) return false;
    for (size_t c = 0; c < num_wanted; ++c)
      for (size_t f = 0; f < files.size(); ++f) {
        if (wanted[c] < 0 || wanted[c] >= footers[f].num_columns) return false;
        const uint8_t* entry = files[f].data + footers[f].columns + 16 * wanted[c];
        const uint64_t start = load<uint64_t>(entry);
        if (!add(files[f].view(start, start + load<uint64_t>(entry + 8)), files[f])) return false;
      }
    return true;
  }

  bool add(std::string_view content, const File& file) {
    const size_t before = table_.rows.size();
    bool usual = true;
    auto describe = [&](std::string_view encoding) {
      usual = usual && !encoding.empty();
      kinds_.push_back(static_cast<int64_t>(encodings_.number(encoding, encoding)));
    };
    if (!ColumnWire(table_, static_cast<int64_t>(file.size), kAlign, describe).read(content))
      return false;
    if (!usual || !table_.column_encoding) return false;
    column_encodings_.number(*table_.column_encoding, *table_.column_encoding);
    counts_.push_back(static_cast<int64_t>(table_.rows.size() - before));
    return true;
  }

  void add(const ColumnPages& column) {
    const PageTable& own = column.table();
    const int64_t before = table_.ends.back();
    counts_.push_back(column.count());
    table_.rows.insert(table_.rows.end(), own.rows.begin(), own.rows.end());
    table_.starts.insert(table_.starts.end(), own.starts.begin(), own.starts.end());
    table_.sizes.insert(table_.sizes.end(), own.sizes.begin(), own.sizes.end());
    for (size_t page = 0; page < own.rows.size(); ++page) {
      table_.ends.push_back(before + own.ends[page + 1]);
      const std::string_view encoding = column.description(page);
      kinds_.push_back(static_cast<int64_t>(encodings_.number(encoding, encoding)));
    }
  }

  // Which encodings have one form, and what of each is its own; and the pages before each column.
  void describe() {
    if (!bounds_.empty()) return;
    for (const std::string_view& encoding : encodings_.values) {
      symbols_.push_back(symbols_in(encoding));
      alike_.push_back(described_.number(without(encoding, symbols_.back()), encoding));
    }
    int64_t before = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (i % num_files_ == 0) bounds_.push_back(static_cast<size_t>(before));
      before += counts_[i];
    }
    bounds_.push_back(static_cast<size_t>(before));
  }

  void check_forms(const Forms& forms, size_t num_columns) {
    describe();
    if (forms.size() != described_.values.size() || num_columns + 1 != bounds_.size())
      corrupt("file pages: forms of other pages");
  }

  // The first page of a column, or the one behind the last.
  size_t bound(size_t column) const { return bounds_[column]; }

  bool fits(size_t column, const Forms& forms, int64_t width) const {
    if (bound(column) == bound(column + 1)) return false;
    for (size_t page = bound(column); page < bound(column + 1); ++page) {
      const PageForm* form = forms[alike_[static_cast<size_t>(kinds_[page])]].get();
      if (form == nullptr || !fits(page, *form, width)) return false;
    }
    return true;
  }

  bool fits(size_t page, const PageForm& form, int64_t width) const {
    if (form.is_constant) return fits_constant(page, form, width);
    return form.fits(width) && table_.rows[page] != 0 &&
           table_.ends[page + 1] - table_.ends[page] >= static_cast<int64_t>(form.num_buffers());
  }

  // A page without levels: its value is in the description, or its only buffer; or all are null.
  bool fits_constant(size_t page, const PageForm& form, int64_t width) const {
    const auto begin = static_cast<size_t>(table_.ends[page]);
    const int64_t count = table_.ends[page + 1] - table_.ends[page], rows = table_.rows[page];
    const int64_t size = form.value ? static_cast<int64_t>(form.value->size())
                                    : count == 1 ? table_.sizes[begin] : 0;
    if (form.value ? count != 0 || size != std::max<int64_t>(width, 1) || width < 0
                   : count > 1 || (count == 0 && form.kind.max_level == 0))
      return false;
    const int64_t most = std::max({size, std::abs(width), int64_t{1}});
    return rows > 0 && rows <= kConstantBytes / most;
  }

  // Rows of a page, and what they are decoded of.
  struct Rows {
    int64_t count;
    std::unique_ptr<RowPage> page;  // none: of a constant one
    Part bytes;                     // the chunks, or the value; null: all rows are

    bool has_nulls() const { return page ? page->has_nulls() : bytes.data == nullptr; }

    void decode(RangeSink& sink) const {
      if (page) return page->decode_range(0, count, bytes, sink);
      if (has_nulls()) {
        const std::vector<uint16_t> levels(static_cast<size_t>(count), 1);
        sink.levels(levels.data(), count, sink.row());
      }
      if (sink.form.width == -4)
        repeat<int32_t>(sink);
      else if (sink.form.width == -8)
        repeat<int64_t>(sink);
      else if (sink.form.width == 0)
        sink.bits(std::vector<uint8_t>(static_cast<size_t>(bytes_of_bits(count)),
                                       bytes.data && *bytes.data & 1 ? 0xFF : 0).data(), 0, count);
      else
        repeat(sink.values(), sink.form.width);
      sink.advance(count);
    }

   private:
    void repeat(uint8_t* to, int64_t size) const {
      if (bytes.data == nullptr || size == 0) {
        std::memset(to, 0, static_cast<size_t>(count * size));
        return;
      }
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * size, bytes.data, static_cast<size_t>(size));
    }

    template <typename Offset>
    void repeat(RangeSink& sink) const {
      if (sink.form.is_text && !is_utf8(bytes.data, bytes.data + bytes.size))
        corrupt("a value that is no UTF-8");
      const int64_t total = count * bytes.size;
      RangeStrings<Offset> strings{Owned<Offset>(count + 1), Owned<uint8_t>(total), count, total};
      for (int64_t i = 0; i <= count; ++i) strings.offsets[i] = static_cast<Offset>(i * bytes.size);
      if (total != 0) repeat(strings.bytes.data(), bytes.size);
      sink.strings<Offset>().push_back(std::move(strings));
    }
  };

  // The value in the buffer of a constant page: u32 n, n times the u32 size of an Arrow buffer, then
  // the buffers of an array of one value.
  static Part value_in(Part buffer, int64_t width) {
    const int64_t num_buffers = width < 0 ? 2 : 1, header = 4 + 4 * num_buffers;
    if (buffer.size < header || load<uint32_t>(buffer.data) != num_buffers)
      corrupt("a value of other buffers");
    const int64_t first_size = load<uint32_t>(buffer.data + 4);
    if (width >= 0) {
      if (first_size != std::max<int64_t>(width, 1) || buffer.size != header + first_size)
        corrupt("a value of another width");
      return {buffer.data + header, first_size};
    }
    const int64_t size = load<uint32_t>(buffer.data + 8);
    if (first_size != -2 * width || buffer.size != header + first_size + size)
      corrupt("a value of other sizes");
    const uint8_t* offsets = buffer.data + header;
    const int64_t start = width == -4 ? load<int32_t>(offsets) : load<int64_t>(offsets);
    const int64_t stop = width == -4 ? load<int32_t>(offsets + 4) : load<int64_t>(offsets + 8);
    if (start < 0 || stop < start || stop > size) corrupt("a value outside of its buffer");
    return {offsets + first_size + start, stop - start};
  }

  Rows rows_of(size_t page, const Forms& forms, const Bytes& content, int64_t first,
               int64_t width) const {
    const auto kind = static_cast<size_t>(kinds_[page]);
    const PageForm* form = forms[alike_[kind]].get();
    if (form == nullptr || !fits(page, *form, width)) corrupt("file pages: a page of another form");
    const auto begin = static_cast<size_t>(table_.ends[page]);
    const int64_t rows = table_.rows[page];
    if (form->value)
      return {rows, nullptr,
              {reinterpret_cast<const uint8_t*>(form->value->data()),
               static_cast<int64_t>(form->value->size())}};
    if (form->is_constant)
      return {rows, nullptr,
              table_.ends[page] == table_.ends[page + 1]
                  ? Part{nullptr, 0}
                  : value_in(part(begin, content, first), width)};
    const Part words = part(begin, content, first), chunks = part(begin + kChunks, content, first);
    auto table = std::make_shared<ChunkTable>(words, nullptr, form->kind.large, form->num_items, rows,
                                              chunks.size);
    auto symbols = form->symbols;
    if (symbols && !symbols_[kind].empty())
      symbols = std::make_shared<const Symbols>(
          reinterpret_cast<const uint8_t*>(symbols_[kind].data()));
    const int64_t start = table_.starts[begin + kChunks];
    return {rows,
            std::make_unique<RowPage>(std::move(table), start, chunks.size, rows, form->kind,
                                      std::move(symbols)),
            chunks};
  }

  Part part(size_t buffer, const Bytes& content, int64_t first) const {
    const int64_t start = table_.starts[buffer] - first, size = table_.sizes[buffer];
    check_span(start, size, static_cast<int64_t>(content.size()), "file pages");
    return {content.data() + start, size};
  }

  size_t num_files_ = 0;
  uint32_t version_ = 0;  // major << 16 | minor
  PageTable table_;
  std::vector<int64_t> counts_;  // pages of each (column, file)
  std::vector<int64_t> kinds_;   // the number of each page's encoding
  Interned<std::string_view> encodings_, column_encodings_;
  Interned<std::string> described_;
  std::vector<std::string_view> symbols_;  // of each encoding; may be empty
  std::vector<size_t> alike_;              // of each encoding, the number of its description
  std::vector<size_t> bounds_;             // pages before each column, and all
  // What the views are of.
  std::vector<Bytes> contents_;
  std::vector<std::shared_ptr<ColumnPages>> columns_;
};

}  // namespace
}  // namespace alance

void register_file_pages(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  nb::class_<FilePages>(m, "FilePages")
      .def_static("of_files", &FilePages::of_files, arg("contents"), arg("columns").noconvert())
      .def_static("of_columns", &FilePages::of_columns, arg("columns"), arg("num_files"))
      .def_prop_ro("version", &FilePages::version)
      .def_prop_ro("num_pages", &FilePages::num_pages)
      .def_prop_ro("encodings", &FilePages::encodings)
      .def_prop_ro("column_encodings", &FilePages::column_encodings)
      .def_prop_ro("descriptions", &FilePages::descriptions)
      .def_prop_ro("tables", &FilePages::tables)
      .def_prop_ro("stored", &FilePages::stored)
      .def_prop_ro("address", &FilePages::address)
      .def("fitting", &FilePages::fitting, arg("forms"), arg("widths"))
      .def("decode", &FilePages::decode, arg("columns"), arg("forms"), arg("widths"), arg("texts"),
           arg("contents"), arg("numbers").noconvert(), arg("firsts").noconvert(), arg("num_rows"));
}
