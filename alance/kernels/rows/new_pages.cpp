// Loading of unknown pages of many columns in one call: lists the bytes that locate the chunks of
// each page (its state), and builds a `RowPage` from these bytes.
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

#include "rows/file_columns.hpp"
#include "base/lists.hpp"
#include "base/hashes.hpp"
#include "base/unlocked.hpp"
#include "io/coalesce.hpp"
#include "io/held.hpp"
#include "rows/page_form.hpp"
#include "rows/pages/units.hpp"
#include "rows/sparse_rows.hpp"

namespace alance {
namespace {

constexpr uint8_t kNoBytes = 0;  // for buffers without bytes

// Unknown pages, and the bytes that are needed to learn them. `find` comes first.
class NewPages {
 public:
  using Forms = std::vector<std::shared_ptr<PageForm>>;

  // Pages `unknown[i].second` of `tables[unknown[i].first]`; table i is of a column of `files[i]`.
  NewPages(std::vector<std::shared_ptr<ColumnPages>> tables,
           const std::vector<std::pair<size_t, size_t>>& unknown, const std::vector<size_t>& files)
      : tables_(std::move(tables)) {
    if (files.size() != tables_.size()) corrupt("new pages: arrays of unequal length");
    Seen seen;
    for (const auto& [table, number] : unknown) {
      if (table >= tables_.size() || !tables_[table] || number >= tables_[table]->count())
        corrupt("new pages: no such page");
      add(table, number, files[table], seen);
    }
  }

  // All unknown pages of some leaves of a fragment, which count as pages of file 0.
  NewPages(const LeafTables& fragment, const std::vector<size_t>& leaves) {
    Seen seen;
    for (const size_t leaf : leaves) {
      const std::shared_ptr<ColumnPages> column = fragment.column(leaf);
      if (!column) corrupt("new pages: a leaf without a column");
      tables_.push_back(column);
      for (size_t page = 0; page < column->count(); ++page)
        if (column->table().rows[page] != 0 && column->known(page) == nullptr)
          add(tables_.size() - 1, page, 0, seen);
    }
  }

  // Distinct descriptions. Of descriptions that differ only in their symbols, the first.
  nb::list descriptions() const {
    nb::list all;
    for (const std::string_view& text : descriptions_) all.append(nb::bytes(text.data(), text.size()));
    return all;
  }
  // First page with this description.
  size_t described_by(size_t description) const {
    const auto is_own = [=](const Page& page) { return page.description == description; };
    const auto first = std::find_if(pages_.begin(), pages_.end(), is_own);
    if (first == pages_.end()) corrupt("new pages: no such description");
    return static_cast<size_t>(first - pages_.begin());
  }

  // Find the bytes that are needed to learn the pages. `forms`: form of each description. ValueError: a
  // page contradicts its description.
  void find(Forms forms) {
    if (forms.size() != descriptions_.size() || std::count(forms.begin(), forms.end(), nullptr))
      corrupt("new pages: forms of other descriptions");
    forms_ = std::move(forms);
    spans_.clear();
    for (page_ = 0; page_ < pages_.size(); ++page_) {
      pages_[page_].form = forms_[pages_[page_].description].get();
      add(page_);
    }
  }

  // Pages that are not learned.
  std::vector<size_t> missing() const {
    return where([](const Page& page) { return !page.is_known; });
  }

  // Number of bytes that are needed to learn a page.
  int64_t num_bytes(size_t number) const {
    if (number >= pages_.size()) corrupt("new pages: no such page");
    int64_t sum = 0;  // cannot overflow: the sum over all pages fits
    for (size_t i = pages_[number].first; i < pages_[number].last; ++i) sum += spans_[i].size;
    return sum;
  }

  // Missing pages inside of ascending spans of rows, if a page's buffers have at most `most_bytes` bytes.
  std::vector<size_t> small(const std::vector<std::pair<int64_t, int64_t>>& spans, int64_t most_bytes) const {
    return where([&](const Page& page) {
      if (page.is_known) return false;
      const std::vector<int64_t>& bounds = page.column->first_rows();
      const int64_t times = page.column->times();
      const int64_t first = bounds[page.number] / times, last = (bounds[page.number + 1] + times - 1) / times;
      const auto above = std::upper_bound(spans.begin(), spans.end(), std::pair{first, INT64_MAX});
      if (above == spans.begin() || std::prev(above)->second < last) return false;
      const PageTable& table = page.column->table();
      int64_t num_bytes = 0;  // cannot overflow: the sum over all pages fits
      for (int64_t i = table.ends[page.number]; i < table.ends[page.number + 1]; ++i)
        num_bytes += table.sizes[static_cast<size_t>(i)];
      return num_bytes <= most_bytes;
    });
  }

  // Ranges of the other bytes of pages, which learning does not need, coalesced: (file, start, stop).
  nb::list rest(const std::vector<size_t>& numbers, uint64_t max_gap_bytes, uint64_t max_bytes) const {
    std::map<size_t, std::vector<ByteRange>> ranges;  // by file
    PageBuffers buffers;
    for (const size_t number : numbers) {
      if (number >= pages_.size()) corrupt("new pages: no such page");
      const Page& page = pages_[number];
      page_buffers(page.column->table(), page.number, buffers);
      for (size_t i = page.first; i < page.last; ++i) buffers[spans_[i].buffer].size = 0;
      for (const PageBuffer& buffer : buffers)
        if (buffer.size > 0) ranges[page.file].push_back({buffer.start, buffer.start + buffer.size});
    }
    nb::list all;
    for (const auto& [file, own] : ranges)
      for (const auto& [start, stop] : coalesce(own, {max_gap_bytes, max_bytes}).spans)
        all.append(nb::make_tuple(file, start, stop));
    return all;
  }

  // Ranges (start, stop) that probably hold rows of a missing page, without the bytes for learning it.
  // `rows`: ascending, counted from the first row of the page.
  nb::list guess(size_t number, const In<int64_t>& rows) const {
    if (number >= pages_.size() || pages_[number].is_known) corrupt("new pages: no such page");
    const Page& page = pages_[number];
    PageBuffers buffers;
    page_buffers(page.column->table(), page.number, buffers);
    nb::list all;
    const auto spread = page.form->spread(buffers);
    if (!spread) return all;
    const auto& [at, buffer] = *spread;
    int64_t num_bytes = 0;  // cannot overflow: the sum over all pages fits
    for (const PageBuffer& own : buffers) num_bytes += own.size;
    const std::vector<ByteRange> ranges =
        num_bytes <= guesses::kWholeBytes
            ? std::vector<ByteRange>{{0, buffer.size}}
            : guesses::spans(buffer, rows.data(), rows.size(), page.column->table().rows[page.number]);
    for (const auto& [start, stop] : ranges)
      if (start < stop) all.append(nb::make_tuple(buffers[at].start + start, buffers[at].start + stop));
    return all;
  }

  // Unions of the spans of bytes that are needed to learn all missing pages: files, end of each file's
  // spans, starts, stops, total size.
  nb::tuple spans() {
    std::vector<Span*> needed;
    for (Span& span : spans_)
      if (span.size != 0 && !pages_[span.page].is_known) needed.push_back(&span);
    std::sort(needed.begin(), needed.end(), [this](const Span* a, const Span* b) {
      return std::pair(file_of(*a), a->start) < std::pair(file_of(*b), b->start);
    });
    std::vector<size_t> files, ends;
    std::vector<int64_t> starts, stops;
    total_ = 0;
    for (Span* span : needed) {
      const bool is_new = files.empty() || files.back() != file_of(*span);
      if (is_new) {
        files.push_back(file_of(*span));
        ends.push_back(starts.size());
      }
      if (is_new || stops.back() <= span->start) {
        starts.push_back(span->start);
        stops.push_back(span->start);
        ++ends.back();
      }
      span->at = total_ - (stops.back() - span->start);
      const int64_t stop = std::max(stops.back(), span->start + span->size);
      total_ += stop - stops.back();
      stops.back() = stop;
    }
    return nb::make_tuple(files, ends, numpy_of(starts), numpy_of(stops), total_);
  }

  // Learn all missing pages whose needed bytes are held. `files`: held bytes of each file. Returns (file,
  // bytes of memory) for each file with learned pages. ValueError: bytes contradict their page; then no
  // page is learned.
  nb::list learn(const std::vector<const HeldFile*>& files) {
    return learn_by([&](const Span& span) {
      if (file_of(span) >= files.size()) corrupt("new pages: no such file");
      return files[file_of(span)]->view(span.start, span.start + span.size);
    });
  }
  // Learn all missing pages. `content`: the concatenated bytes of the latest `spans`. Else as `learn`.
  nb::list learn_read(const Bytes& content) {
    if (std::ssize(content) != total_) corrupt("new pages: bytes of other spans");
    return learn_by([&](const Span& span) { return content.data() + span.at; });
  }

  // After an error, the number of the page that caused it.
  size_t page() const { return page_; }

 private:
  struct Page {
    ColumnPages* column = nullptr;
    size_t number = 0, file = 0, description = 0;
    std::string_view symbols;        // in its own description; may be empty
    const PageForm* form = nullptr;  // of its description
    bool is_known = true;
    bool lacks_items = false;  // true: its column knows the page, except for its items
    size_t first = 0, last = 0;      // its spans
  };
  // Buffer whose bytes are needed to learn a page. `at`: their place in the concatenated `spans`.
  struct Span {
    size_t page, buffer;
    int64_t start, size, at = 0;
  };
  using Seen = std::unordered_map<std::string, size_t, TextHash>;  // numbers of descriptions

  void add(size_t table, size_t number, size_t file, Seen& seen) {
    Page& page = pages_.emplace_back();
    page.column = tables_[table].get();
    page.number = number;
    page.file = file;
    const std::string_view description = page.column->table().description(number);
    if (pages_.size() > 1) {
      const Page& last = pages_[pages_.size() - 2];
      if (last.column->table().description(last.number) == description) {
        page.description = last.description;
        page.symbols = last.symbols;
        return;
      }
    }
    page.symbols = symbols_in(description);
    const auto [place, is_new] = seen.emplace(without(description, page.symbols), seen.size());
    if (is_new) descriptions_.push_back(description);
    page.description = place->second;
  }

  template <typename Is>
  std::vector<size_t> where(const Is& is) const {
    std::vector<size_t> all;
    for (size_t i = 0; i < pages_.size(); ++i)
      if (is(pages_[i])) all.push_back(i);
    return all;
  }

  size_t file_of(const Span& span) const { return pages_[span.page].file; }

  // Add the spans of a page.
  void add(size_t number) {
    Page& page = pages_[number];
    const PageTable& table = page.column->table();
    PageBuffers buffers;
    page_buffers(table, page.number, buffers);
    const RowPage* known = page.column->known(page.number);
    page.is_known = false;
    page.lacks_items = known != nullptr && sparse::lacks_items(*known);
    if (page.lacks_items)
      buffers[PageForm::kSparseItems].is_needed = true;
    else
      page.form->mark_needed(buffers, table.rows[page.number]);
    page.first = spans_.size();
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].is_needed) spans_.push_back({number, i, buffers[i].start, buffers[i].size});
    page.last = spans_.size();
  }

  // Learn all missing pages for whose spans `view` returns bytes. It returns null if they are not in memory.
  template <typename View>
  nb::list learn_by(const View& view) {
    const auto bytes_of = [&](const Span& span) { return span.size == 0 ? &kNoBytes : view(span); };
    std::vector<std::shared_ptr<RowPage>> learned(pages_.size());
    {
      int64_t steps = static_cast<int64_t>(pages_.size()) << 8;  // cannot overflow: the sum over all pages fits
      for (const Span& span : spans_) steps += span.size;
      const Unlocked unlocked(steps);
      PageBuffers buffers;
      for (page_ = 0; page_ < pages_.size(); ++page_) {
        const Page& page = pages_[page_];
        if (page.is_known || page.lacks_items) continue;
        const PageTable& pages = page.column->table();
        page_buffers(pages, page.number, buffers);
        size_t i = page.first;
        for (; i < page.last; ++i)
          if ((buffers[spans_[i].buffer].data = bytes_of(spans_[i])) == nullptr) break;
        if (i == page.last) learned[page_] = page.form->page_of(buffers, pages.rows[page.number], page.symbols);
      }
    }
    std::map<size_t, int64_t> grown;  // by file
    for (size_t i = 0; i < pages_.size(); ++i) {
      Page& page = pages_[i];
      if (learned[i]) {
        grown[page.file] += page.column->learn(page.number, std::move(learned[i]));
      } else {
        if (page.is_known || !page.lacks_items) continue;
        const Span& items = spans_[page.first];
        const uint8_t* data = bytes_of(items);
        if (data == nullptr) continue;
        grown[page.file] += page.column->keep_items(page.number, {data, items.size});
      }
      page.is_known = true;
    }
    nb::list all;
    for (const auto& [file, num_bytes] : grown) all.append(nb::make_tuple(file, num_bytes));
    return all;
  }

  std::vector<std::shared_ptr<ColumnPages>> tables_;
  Forms forms_;
  std::vector<std::string_view> descriptions_;
  std::vector<Page> pages_;
  std::vector<Span> spans_;
  int64_t total_ = 0;  // bytes of the latest `spans`
  size_t page_ = 0;
};

// Symbols of compressed strings with their lengths, and the scheme as in `PageKind`.
using StringForm = std::tuple<std::optional<std::tuple<In<uint64_t>, Bytes>>, int>;

std::shared_ptr<const Symbols> symbols_of(const StringForm& form) {
  const auto& symbols = std::get<0>(form);
  if (!symbols) return nullptr;
  return std::make_shared<const Symbols>(std::get<0>(*symbols), std::get<1>(*symbols));
}

// Member of packed structs: its width, the form of its strings, its masks, and the number of its own
// members, which follow it.
using MemberForm = std::tuple<int64_t, StringForm, std::vector<int64_t>, int64_t>;

// Return the next `count` members, with those inside them.
std::vector<PackedMember> members_of(const std::vector<MemberForm>& forms, int64_t count, size_t& next) {
  std::vector<PackedMember> members;
  for (; count > 0; --count) {
    if (next == forms.size()) corrupt("packed structs of fewer members");
    const auto& [bytes, own, masks, num_inner] = forms[next++];
    members.push_back({bytes, symbols_of(own), std::get<1>(own), masks, members_of(forms, num_inner, next)});
  }
  return members;
}

// `members`: those of the structs themselves, of which there are `num_members`, and those inside.
std::shared_ptr<PageForm> zipped_form(int64_t width, std::pair<int, int> bits,
                                      const std::tuple<int, int, int>& maxima, std::vector<int64_t> masks,
                                      const StringForm& strings,
                                      const std::vector<MemberForm>& members, int64_t num_members,
                                      uint64_t num_items, int64_t most_index_bytes) {
  size_t next = 0;
  auto form = PageForm::of_rows(width, bits, members_of(members, num_members, next), maxima, num_items,
                                most_index_bytes);
  form->symbols = symbols_of(strings);
  form->kind->masks = std::move(masks);
  form->kind->scheme = std::get<1>(strings);
  return form;
}

// Encodings of the values and of the lengths of runs.
using DescribedRuns = std::pair<sequences::Described, sequences::Described>;

// Words of a block, encoded as numbers or as runs.
using DescribedWords = std::pair<std::optional<sequences::Described>, std::optional<DescribedRuns>>;

sequences::CodedRuns runs_of(const DescribedRuns& runs) {
  const sequences::CodedRuns own{sequences::Numbers::of(runs.first), sequences::Numbers::of(runs.second)};
  const auto is_flat = [](const sequences::Numbers& numbers) { return numbers.kind == sequences::Numbers::kFlat; };
  if (!own.values.has_payload() || !own.lengths.has_payload() || !(is_flat(own.values) || is_flat(own.lengths)))
    corrupt("runs of an unknown form");
  return own;
}

void set_sparse(PageForm& form, const std::vector<sparse::DescribedLayer>& layers, int values, size_t num_value_buffers,
                const std::optional<sequences::DescribedSequence>& indices, const std::optional<DescribedRuns>& index_runs) {
  sparse::Form own = sparse::Form::of(layers, values, num_value_buffers);
  if (indices) own.indices.sequence = sequences::Sequence::of(*indices);
  if (index_runs) own.indices.runs = runs_of(*index_runs);
  const bool is_indexed = own.values == sparse::Slots::kIndexed;
  if (is_indexed != (indices || index_runs) || (is_indexed && !form.has_index()))
    corrupt("sparse: values of an unknown form");
  form.set_sparse(std::move(own));
}

WordCoding words_of(const DescribedWords& words) {
  WordCoding coding;
  if (words.first) coding.numbers = sequences::Numbers::of(*words.first);
  if (words.second) coding.runs = runs_of(*words.second);
  if (!words.first == !words.second) corrupt("words of an unknown form");
  return coding;
}

}  // namespace
}  // namespace alance

void register_new_pages(nanobind::module_& m) {
  using namespace alance;
  m.def("set_zstd", [](nb::object decoder) { units::zstd() = std::move(decoder); }, nb::arg("decoder"));
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
                  nb::arg("masks"), nb::arg("strings"), nb::arg("members"), nb::arg("num_members"), nb::arg("num_items"),
                  nb::arg("most_index_bytes"))
      .def("ignore_buffers", &PageForm::ignore_buffers)
      .def(
          "set_layers",
          [](PageForm& form, uint64_t inner, const nb::bytes& outer) {
            form.kind->layers = {inner, std::string(outer.c_str(), outer.size())};
          },
          nb::arg("inner"), nb::arg("outer") = nb::bytes("", 0))
      .def("set_masks", [](PageForm& form, std::vector<int64_t> masks) { form.kind->masks = std::move(masks); },
           nb::arg("masks"))
      .def("set_null_items", [](PageForm& form) { form.kind->null_items = true; })
      .def("set_scheme", [](PageForm& form, int scheme) { form.kind->scheme = scheme; }, nb::arg("scheme"))
      .def("set_blobs", [](PageForm& form, int max_level) { form.kind->max_blob_level = max_level; },
           nb::arg("max_level"))
      .def("set_offsets", [](PageForm& form, const sequences::DescribedSequence& offsets) {
            form.kind->coding = {sequences::Sequence::of(offsets), std::nullopt};
          }, nb::arg("offsets"))
      .def("set_runs", [](PageForm& form, const DescribedRuns& runs) {
            form.kind->coding = {std::nullopt, runs_of(runs)};
          }, nb::arg("runs"))
      .def(
          "set_coded_levels",
          [](PageForm& form, const DescribedWords& words, bool reps) { form.set_coded_levels(words_of(words), reps); },
          nb::arg("words"), nb::arg("reps"))
      .def(
          "set_coded_items",
          [](PageForm& form, const DescribedWords& words, int64_t count) { form.set_coded_items(words_of(words), count); },
          nb::arg("words"), nb::arg("count"))
      .def("set_sparse", &set_sparse, nb::arg("layers"), nb::arg("values"), nb::arg("num_value_buffers"),
           nb::arg("indices").none(), nb::arg("index_runs").none())
      .def("set_symbols", &PageForm::set_symbols, nb::arg("symbols"), nb::arg("lengths"))
      .def(
          "set_items",
          [](PageForm& form, bool strings, int bits, int64_t count, int scheme) {
            form.set_items({strings, bits, count, scheme});
          },
          nb::arg("strings"), nb::arg("bits"), nb::arg("count"), nb::arg("scheme") = 0);
  nb::class_<NewPages>(m, "NewPages")
      .def(nb::init<std::vector<std::shared_ptr<ColumnPages>>,
                    const std::vector<std::pair<size_t, size_t>>&, const std::vector<size_t>&>(),
           nb::arg("tables"), nb::arg("unknown"), nb::arg("files"))
      .def(nb::init<const LeafTables&, const std::vector<size_t>&>(), nb::arg("fragment"), nb::arg("leaves"))
      .def_prop_ro("descriptions", &NewPages::descriptions)
      .def_prop_ro("missing", &NewPages::missing)
      .def_prop_ro("page", &NewPages::page)
      .def("spans", &NewPages::spans)
      .def("described_by", &NewPages::described_by, nb::arg("description"))
      .def("find", &NewPages::find, nb::arg("forms"))
      .def("num_bytes", &NewPages::num_bytes, nb::arg("number"))
      .def("small", &NewPages::small, nb::arg("spans"), nb::arg("most_bytes"))
      .def("rest", &NewPages::rest, nb::arg("numbers"), nb::arg("max_gap_bytes"), nb::arg("max_bytes"))
      .def("guess", &NewPages::guess, nb::arg("number"), nb::arg("rows"))
      .def("learn", &NewPages::learn, nb::arg("files"))
      .def("learn_read", &NewPages::learn_read, nb::arg("content"));
}
