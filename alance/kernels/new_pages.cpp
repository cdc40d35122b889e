// Mini-block pages of many columns, learned in one call: which bytes say where their chunks lie,
// and the pages that place rows, made of these bytes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unordered_map>

#include "column_pages.hpp"
#include "page_form.hpp"

namespace alance {
namespace {

constexpr size_t CHUNKS = 1;  // the buffer that holds the chunks

class NewPages {
 public:
  // Page `numbers[i]` of `columns[i]`, which is in the file `files[i]`.
  NewPages(std::vector<std::shared_ptr<ColumnPages>> columns, const std::vector<size_t>& numbers,
           const std::vector<size_t>& files) {
    if (numbers.size() != columns.size() || files.size() != columns.size())
      corrupt("new pages: arrays of unequal length");
    std::unordered_map<std::string, size_t> seen;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (numbers[i] >= columns[i]->table().rows.size()) corrupt("new pages: no such page");
      const std::string_view description = columns[i]->description(numbers[i]);
      const std::string_view symbols = symbols_in(description);
      const auto [place, is_new] = seen.emplace(without(description, symbols), seen.size());
      if (is_new) descriptions_.push_back(description);
      pages_.push_back({columns[i].get(), numbers[i], files[i], place->second, symbols, nullptr, 0, 0});
    }
    columns_ = std::move(columns);
  }

  // Each description once; of those that differ in symbols alone the first.
  nb::list descriptions() const {
    nb::list all;
    for (const std::string_view& text : descriptions_) all.append(nb::bytes(text.data(), text.size()));
    return all;
  }
  std::vector<size_t> described_by() const {
    std::vector<size_t> all;
    for (const Page& page : pages_) all.push_back(page.description);
    return all;
  }

  // Finds the bytes that have to be known of the pages. `forms`: of each description; None: its
  // pages are not learned here. `tails`: from where on a file's bytes are at hand; `far`: pages are
  // learned whose bytes are not all there, else those whose bytes are.
  void find(const std::vector<std::shared_ptr<PageForm>>& forms,
            const std::vector<int64_t>& tails, bool far) {
    if (forms.size() != descriptions_.size()) corrupt("new pages: forms of other descriptions");
    forms_ = forms;
    spans_.clear();
    for (size_t i = 0; i < pages_.size(); ++i) {
      Page& page = pages_[i];
      if (page.file >= tails.size()) corrupt("new pages: no such file");
      page.form = nullptr;
      const PageForm* form = forms_[page.description].get();
      if (form == nullptr || form->is_constant || !add(i, *form)) continue;
      const bool is_here = std::all_of(spans_.begin() + static_cast<int64_t>(page.first), spans_.end(),
                                       [&](const Span& span) { return span.start >= tails[page.file]; });
      if (is_here == far)
        spans_.resize(page.first);
      else
        page.form = form;
    }
    order();
  }

  // Pages that are not learned here.
  std::vector<size_t> left() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < pages_.size(); ++i)
      if (pages_[i].form == nullptr) all.push_back(i);
    return all;
  }

  // The bytes to read: files, where those of each end, starts, stops, their sum.
  nb::tuple spans() const {
    nb::list files, ends;
    Owned<int64_t> starts(static_cast<int64_t>(sorted_.size())), stops(starts.size());
    int64_t total = 0;
    for (size_t i = 0; i < sorted_.size(); ++i) {
      const Span& span = spans_[sorted_[i]];
      starts[static_cast<int64_t>(i)] = span.start;
      stops[static_cast<int64_t>(i)] = span.start + span.size;
      total += span.size;
      const bool is_last = i + 1 == sorted_.size() || file_of(sorted_[i + 1]) != file_of(sorted_[i]);
      if (!is_last) continue;
      files.append(file_of(sorted_[i]));
      ends.append(i + 1);
    }
    return nb::make_tuple(files, ends, starts.numpy(), stops.numpy(), total);
  }

  // The pages from those bytes, one behind the other; None for each that is not learned here.
  nb::list learn(const Bytes& content) {
    int64_t at = 0;
    std::vector<Part> parts(spans_.size());
    for (const size_t number : sorted_) {
      check_span(at, spans_[number].size, static_cast<int64_t>(content.size()), "new pages");
      parts[number] = {content.data() + at, spans_[number].size};
      at += spans_[number].size;
    }
    std::vector<std::unique_ptr<RowPage>> learned(pages_.size());
    {
      nb::gil_scoped_release release;
      for (page_ = 0; page_ < pages_.size(); ++page_)
        if (pages_[page_].form != nullptr) learned[page_] = made(pages_[page_], parts);
    }
    nb::list all;
    for (size_t i = 0; i < pages_.size(); ++i) {
      if (!learned[i]) {
        all.append(nb::none());
        continue;
      }
      const Page& page = pages_[i];
      nb::object items = nb::none();
      if (page.form->has_items)
        items = nb::bytes(parts[page.first + 1].data, static_cast<size_t>(parts[page.first + 1].size));
      all.append(nb::make_tuple(nb::cast(std::move(learned[i])), items));
    }
    return all;
  }

  // The page that was made last: an error is in it.
  size_t page() const { return page_; }

 private:
  struct Page {
    const ColumnPages* column;
    size_t number, file, description;
    std::string_view symbols;  // of its own; may be empty
    const PageForm* form;  // none: not learned here
    size_t first;          // of its spans
    int64_t chunks;        // bytes of its chunks
  };
  struct Span {
    size_t page;
    int64_t start, size;
  };

  size_t file_of(size_t span) const { return pages_[spans_[span].page].file; }

  // The spans of a page; false where it has not the buffers that it needs, or empty ones.
  bool add(size_t number, const PageForm& form) {
    Page& page = pages_[number];
    const PageTable& table = page.column->table();
    const size_t begin = static_cast<size_t>(table.ends[page.number]);
    const size_t count = static_cast<size_t>(table.ends[page.number + 1]) - begin;
    if (count < form.num_buffers()) return false;
    page.first = spans_.size();
    page.chunks = table.sizes[begin + CHUNKS];
    std::vector<size_t> buffers{0};
    if (form.has_items) buffers.push_back(2);
    if (form.has_lists()) buffers.push_back(form.has_items ? 3 : 2);
    for (const size_t buffer : buffers) {
      if (table.sizes[begin + buffer] == 0) {
        spans_.resize(page.first);
        return false;
      }
      spans_.push_back({number, table.starts[begin + buffer], table.sizes[begin + buffer]});
    }
    return true;
  }

  // The order in which bytes are read. Pages that share bytes are not learned here.
  void order() {
    sorted_.resize(spans_.size());
    for (size_t i = 0; i < sorted_.size(); ++i) sorted_[i] = i;
    std::sort(sorted_.begin(), sorted_.end(), [this](size_t a, size_t b) {
      return std::pair(file_of(a), spans_[a].start) < std::pair(file_of(b), spans_[b].start);
    });
    int64_t stop = 0;
    for (size_t i = 0; i < sorted_.size(); ++i) {
      const Span& span = spans_[sorted_[i]];
      if (i != 0 && file_of(sorted_[i]) == file_of(sorted_[i - 1]) && span.start < stop)
        pages_[span.page].form = nullptr;
      else
        stop = span.start + span.size;
    }
    std::erase_if(sorted_, [this](size_t i) { return pages_[spans_[i].page].form == nullptr; });
  }

  std::unique_ptr<RowPage> made(const Page& page, const std::vector<Part>& parts) const {
    const PageForm& form = *page.form;
    const PageTable& pages = page.column->table();
    const int64_t rows = pages.rows[page.number];
    const size_t chunks = static_cast<size_t>(pages.ends[page.number]) + CHUNKS;
    const Part* index = form.has_lists() ? &parts[page.first + 1 + form.has_items] : nullptr;
    auto table = std::make_shared<ChunkTable>(parts[page.first], index, form.kind.large,
                                              form.num_items, rows, page.chunks);
    auto symbols = form.symbols;
    if (symbols && !page.symbols.empty())
      symbols = std::make_shared<const Symbols>(
          reinterpret_cast<const uint8_t*>(page.symbols.data()));
    return std::make_unique<RowPage>(std::move(table), pages.starts[chunks], page.chunks, rows,
                                     form.kind, std::move(symbols));
  }

  std::vector<std::shared_ptr<ColumnPages>> columns_;
  std::vector<std::shared_ptr<PageForm>> forms_;
  std::vector<std::string_view> descriptions_;
  std::vector<Page> pages_;
  std::vector<Span> spans_;
  std::vector<size_t> sorted_;
  size_t page_ = 0;
};

}  // namespace
}  // namespace alance

void register_new_pages(nanobind::module_& m) {
  using namespace alance;
  nb::class_<PageForm>(m, "PageForm")
      .def(nb::init<std::tuple<int, int, int, int, int, bool>,
                    std::optional<std::tuple<int, int, int, int>>, uint64_t, bool>(),
           nb::arg("kind"), nb::arg("lists").none(), nb::arg("num_items"), nb::arg("has_items"))
      .def_static(
          "constant",
          [](const std::optional<nb::bytes>& value, int max_level) {
            if (!value) return PageForm::constant(std::nullopt, max_level);
            return PageForm::constant(std::string_view(value->c_str(), value->size()), max_level);
          },
          nb::arg("value").none(), nb::arg("max_level"))
      .def("set_symbols", &PageForm::set_symbols, nb::arg("symbols"), nb::arg("lengths"))
      .def("page", &PageForm::page, nb::arg("chunks"), nb::arg("start"), nb::arg("size"),
           nb::arg("num_rows"));
  nb::class_<NewPages>(m, "NewPages")
      .def(nb::init<std::vector<std::shared_ptr<ColumnPages>>, const std::vector<size_t>&,
                    const std::vector<size_t>&>(),
           nb::arg("columns"), nb::arg("numbers"), nb::arg("files"))
      .def_prop_ro("descriptions", &NewPages::descriptions)
      .def_prop_ro("described_by", &NewPages::described_by)
      .def_prop_ro("left", &NewPages::left)
      .def_prop_ro("spans", &NewPages::spans)
      .def_prop_ro("page", &NewPages::page)
      .def("find", &NewPages::find, nb::arg("forms"), nb::arg("tails"), nb::arg("far"))
      .def("learn", &NewPages::learn, nb::arg("content"));
}
