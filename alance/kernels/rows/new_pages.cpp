// Pages of many columns, learned in one call: the bytes that tell where their chunks lie, and the
// pages that are made of these bytes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "rows/column_pages.hpp"
#include "base/lists.hpp"
#include "base/text_hash.hpp"
#include "io/coalesce.hpp"
#include "rows/page_form.hpp"

namespace alance {
namespace {

class NewPages {
 public:
  // Pages `unknown[i].second` of `tables[unknown[i].first]`; table i is of a column of `files[i]`.
  NewPages(std::vector<std::shared_ptr<RowTable>> tables,
           const std::vector<std::pair<size_t, size_t>>& unknown, const std::vector<size_t>& files)
      : tables_(std::move(tables)) {
    if (files.size() != tables_.size()) corrupt("new pages: arrays of unequal length");
    std::unordered_map<std::string, size_t, TextHash> seen;
    for (const auto& [table, number] : unknown) {
      if (table >= tables_.size() || !tables_[table] || number >= tables_[table]->count())
        corrupt("new pages: no such page");
      Page& page = pages_.emplace_back();
      page.column = dynamic_cast<ColumnPages*>(tables_[table].get());
      page.number = number;
      page.file = files[table];
      if (page.column == nullptr) continue;
      const std::string_view description = page.column->description(number);
      page.symbols = symbols_in(description);
      const auto [place, is_new] = seen.emplace(without(description, page.symbols), seen.size());
      if (is_new) descriptions_.push_back(description);
      page.description = place->second;
    }
  }

  // Distinct descriptions; of those that differ in symbols alone the first.
  nb::list descriptions() const {
    nb::list all;
    for (const std::string_view& text : descriptions_) all.append(nb::bytes(text.data(), text.size()));
    return all;
  }

  // Find the bytes that must be known of the pages. `forms`: of each description; None: its pages
  // are not learned here. `tails`: position from which on a file's bytes are at hand.
  void find(std::vector<std::shared_ptr<PageForm>> forms, const std::vector<int64_t>& tails) {
    if (forms.size() != descriptions_.size()) corrupt("new pages: forms of other descriptions");
    forms_ = std::move(forms);
    spans_.clear();
    for (size_t i = 0; i < pages_.size(); ++i) {
      Page& page = pages_[i];
      if (page.file >= tails.size()) corrupt("new pages: no such file");
      page.form = nullptr;
      if (page.column == nullptr || page.column->has_state(page.number)) continue;
      const PageForm* form = forms_[page.description].get();
      if (form == nullptr || !form->layers || !add(i, *form)) continue;
      page.form = form;
      page.is_far = std::any_of(spans_.begin() + static_cast<int64_t>(page.first), spans_.end(),
                                [&](const Span& span) { return span.start < tails[page.file]; });
    }
    order();
  }

  // Pages that are not learned here.
  std::vector<size_t> skipped() const {
    return where([](const Page& page) { return page.form == nullptr; });
  }
  // Pages whose bytes must be read.
  std::vector<size_t> far() const {
    return where([](const Page& page) { return page.form != nullptr && page.is_far; });
  }
  // Exclude some pages after all.
  void leave(const std::vector<size_t>& numbers) {
    for (const size_t number : numbers) {
      if (number >= pages_.size()) corrupt("new pages: no such page");
      pages_[number].form = nullptr;
    }
    std::erase_if(sorted_, [this](size_t i) { return pages_[spans_[i].page].form == nullptr; });
  }

  // Far pages inside of ascending spans of rows, whose buffers have at most so many bytes.
  std::vector<size_t> small(const std::vector<std::pair<int64_t, int64_t>>& spans, int64_t most_bytes) const {
    return where([&](const Page& page) {
      if (page.form == nullptr || !page.is_far) return false;
      const std::vector<int64_t>& bounds = page.column->first_rows();
      const int64_t times = page.column->times();
      const int64_t first = bounds[page.number] / times, last = (bounds[page.number + 1] + times - 1) / times;
      const auto above = std::upper_bound(spans.begin(), spans.end(), std::pair{first, INT64_MAX});
      if (above == spans.begin() || std::prev(above)->second < last) return false;
      const PageTable& table = page.column->table();
      int64_t num_bytes = 0;  // those of all pages fit
      for (int64_t i = table.ends[page.number]; i < table.ends[page.number + 1]; ++i)
        num_bytes += table.sizes[static_cast<size_t>(i)];
      return num_bytes <= most_bytes;
    });
  }

  // Bytes of pages beside those to know, coalesced: (file, start, stop) of each range.
  nb::list rest(const std::vector<size_t>& numbers, uint64_t max_gap_bytes, uint64_t max_bytes) const {
    std::map<size_t, std::vector<ByteRange>> ranges;  // by file
    for (const size_t number : numbers) {
      if (number >= pages_.size() || pages_[number].column == nullptr) corrupt("new pages: no such page");
      const Page& page = pages_[number];
      PageBuffers buffers;
      page_buffers(page.column->table(), page.number, buffers);
      for (size_t i = 0; i < buffers.size(); ++i) {
        const bool is_known = std::any_of(
            spans_.begin() + static_cast<int64_t>(page.first), spans_.begin() + static_cast<int64_t>(page.last),
            [&](const Span& span) { return span.buffer == i; });
        if (!is_known && buffers[i].size > 0)
          ranges[page.file].push_back({buffers[i].start, buffers[i].start + buffers[i].size});
      }
    }
    nb::list all;
    for (const auto& [file, own] : ranges)
      for (const auto& [start, stop] : coalesce(own, {max_gap_bytes, max_bytes}).spans)
        all.append(nb::make_tuple(file, start, stop));
    return all;
  }

  // Bytes to know of far pages, or of the others: files, end of each file's spans, starts, stops,
  // total size.
  nb::tuple spans(bool far) const {
    nb::list files, ends;
    std::vector<int64_t> starts, stops;
    int64_t total = 0;
    size_t file = 0;
    for (const size_t i : sorted_) {
      const Span& span = spans_[i];
      const Page& page = pages_[span.page];
      if (page.is_far != far) continue;
      if (!starts.empty() && page.file != file) {
        files.append(file);
        ends.append(starts.size());
      }
      file = page.file;
      starts.push_back(span.start);
      stops.push_back(span.start + span.size);
      total += span.size;
    }
    if (!starts.empty()) {
      files.append(file);
      ends.append(starts.size());
    }
    return nb::make_tuple(files, ends, numpy_of(starts), numpy_of(stops), total);
  }

  // Learn pages from those bytes, one after the other; returns (file, bytes of memory) for each
  // file of which more is known.
  nb::list learn(const Bytes& content, bool far) {
    int64_t at = 0;
    std::vector<const uint8_t*> bytes(spans_.size());
    for (const size_t number : sorted_) {
      if (pages_[spans_[number].page].is_far != far) continue;
      check_span(at, spans_[number].size, static_cast<int64_t>(content.size()), "new pages");
      bytes[number] = content.data() + at;
      at += spans_[number].size;
    }
    std::vector<std::shared_ptr<RowPage>> learned(pages_.size());
    {
      nb::gil_scoped_release release;
      for (page_ = 0; page_ < pages_.size(); ++page_) {
        const Page& page = pages_[page_];
        if (page.form != nullptr && page.is_far == far) learned[page_] = page_of(page, bytes);
      }
    }
    std::map<size_t, int64_t> grown;  // by file
    for (size_t i = 0; i < pages_.size(); ++i) {
      const Page& page = pages_[i];
      if (learned[i])
        grown[page.file] += page.column->learn(page.number, std::move(learned[i]), *page.form->layers);
    }
    nb::list files;
    for (const auto& [file, num_bytes] : grown) files.append(nb::make_tuple(file, num_bytes));
    return files;
  }

  // Page that is being made: an error is in it.
  size_t page() const { return page_; }

 private:
  struct Page {
    ColumnPages* column = nullptr;  // null: the table is of another kind
    size_t number = 0, file = 0, description = 0;
    std::string_view symbols;        // of its own; may be empty
    const PageForm* form = nullptr;  // null: not learned here
    bool is_far = false;             // not all of its bytes are at hand
    size_t first = 0, last = 0;      // its spans
  };
  struct Span {
    size_t page, buffer;
    int64_t start, size;
  };

  template <typename Is>
  std::vector<size_t> where(const Is& is) const {
    std::vector<size_t> all;
    for (size_t i = 0; i < pages_.size(); ++i)
      if (is(pages_[i])) all.push_back(i);
    return all;
  }

  size_t file_of(size_t span) const { return pages_[spans_[span].page].file; }

  // Add the spans of a page; false if the kernel does not know such pages.
  bool add(size_t number, const PageForm& form) {
    Page& page = pages_[number];
    const PageTable& table = page.column->table();
    PageBuffers buffers;
    page_buffers(table, page.number, buffers);
    const auto needed = form.needed(buffers, table.rows[page.number]);
    if (!needed) return false;
    page.first = spans_.size();
    for (const size_t i : *needed) spans_.push_back({number, i, buffers[i].start, buffers[i].size});
    page.last = spans_.size();
    return true;
  }

  // Order the bytes by file and position. Pages that share bytes are not learned here.
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

  std::shared_ptr<RowPage> page_of(const Page& page, const std::vector<const uint8_t*>& bytes) const {
    const PageTable& pages = page.column->table();
    PageBuffers buffers;
    page_buffers(pages, page.number, buffers);
    for (size_t i = page.first; i < page.last; ++i) buffers[spans_[i].buffer].data = bytes[i];
    return page.form->page_of(buffers, pages.rows[page.number], page.symbols);
  }

  std::vector<std::shared_ptr<RowTable>> tables_;
  std::vector<std::shared_ptr<PageForm>> forms_;
  std::vector<std::string_view> descriptions_;
  std::vector<Page> pages_;
  std::vector<Span> spans_;
  std::vector<size_t> sorted_;
  size_t page_ = 0;
};

// Symbols of compressed strings and their lengths, and the scheme, as in `PageKind`.
using StringForm = std::tuple<std::optional<std::tuple<In<uint64_t>, Bytes>>, int>;

std::shared_ptr<const Symbols> symbols_of(const StringForm& form) {
  const auto& symbols = std::get<0>(form);
  if (!symbols) return nullptr;
  return std::make_shared<const Symbols>(std::get<0>(*symbols), std::get<1>(*symbols));
}

// `members`: width, form and masks of each.
std::shared_ptr<PageForm> zipped_form(int64_t width, std::pair<int, int> bits,
                                      const std::tuple<int, int, int>& maxima, std::vector<int64_t> masks,
                                      const StringForm& strings,
                                      const std::vector<std::tuple<int64_t, StringForm, std::vector<int64_t>>>& members,
                                      uint64_t num_items, int64_t most_index_bytes) {
  ZippedForm rows{width, bits.first, bits.second, {}};
  for (const auto& [bytes, own, of_items] : members)
    rows.members.push_back({bytes, symbols_of(own), std::get<1>(own), of_items});
  auto form = PageForm::of_rows(rows, maxima, symbols_of(strings), num_items, most_index_bytes);
  form->set_masks(std::move(masks));
  form->set_scheme(std::get<1>(strings));
  return form;
}

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
          [](const std::optional<nb::bytes>& value, const std::tuple<int, int, int>& maxima,
             int null_level, const LevelsForm& reps, const LevelsForm& defs) {
            std::optional<std::string_view> own;
            if (value) own.emplace(value->c_str(), value->size());
            return PageForm::constant(own, maxima, null_level, reps, defs);
          },
          nb::arg("value").none(), nb::arg("maxima"), nb::arg("null_level"), nb::arg("reps").none(),
          nb::arg("defs").none())
      .def_static("zipped", &zipped_form, nb::arg("width"), nb::arg("bits"), nb::arg("maxima"),
                  nb::arg("masks"), nb::arg("strings"), nb::arg("members"), nb::arg("num_items"),
                  nb::arg("most_index_bytes"))
      .def("ignore_buffers", &PageForm::ignore_buffers)
      .def(
          "set_layers",
          [](PageForm& form, uint64_t inner, const nb::bytes& outer) {
            form.set_layers({inner, std::string(outer.c_str(), outer.size())});
          },
          nb::arg("inner"), nb::arg("outer") = nb::bytes("", 0))
      .def("set_masks", &PageForm::set_masks, nb::arg("masks"))
      .def("set_null_items", &PageForm::set_null_items)
      .def("set_scheme", &PageForm::set_scheme, nb::arg("scheme"))
      .def("set_blobs", &PageForm::set_blobs, nb::arg("max_level"))
      .def("set_symbols", &PageForm::set_symbols, nb::arg("symbols"), nb::arg("lengths"))
      .def(
          "set_items",
          [](PageForm& form, bool compressed, bool strings, int bits, int64_t count) {
            form.set_items({compressed, strings, bits, count});
          },
          nb::arg("compressed"), nb::arg("strings"), nb::arg("bits"), nb::arg("count"))
      .def("page", &PageForm::page, nb::arg("chunks"), nb::arg("start"), nb::arg("size"),
           nb::arg("num_rows"));
  nb::class_<NewPages>(m, "NewPages")
      .def(nb::init<std::vector<std::shared_ptr<RowTable>>,
                    const std::vector<std::pair<size_t, size_t>>&, const std::vector<size_t>&>(),
           nb::arg("tables"), nb::arg("unknown"), nb::arg("files"))
      .def_prop_ro("descriptions", &NewPages::descriptions)
      .def_prop_ro("skipped", &NewPages::skipped)
      .def_prop_ro("far", &NewPages::far)
      .def_prop_ro("page", &NewPages::page)
      .def("spans", &NewPages::spans, nb::arg("far"))
      .def("find", &NewPages::find, nb::arg("forms"), nb::arg("tails"))
      .def("leave", &NewPages::leave, nb::arg("numbers"))
      .def("small", &NewPages::small, nb::arg("spans"), nb::arg("most_bytes"))
      .def("rest", &NewPages::rest, nb::arg("numbers"), nb::arg("max_gap_bytes"), nb::arg("max_bytes"))
      .def("learn", &NewPages::learn, nb::arg("content"), nb::arg("far"));
}
