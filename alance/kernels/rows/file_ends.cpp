// Footers and tables of many files at once, from their last bytes; and spans of bytes.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "rows/footer.hpp"
#include "base/lists.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kAlign = 64;  // of buffers in files of 2.1 and later

// Footer and tables of a file, as far as its last bytes have them.
struct End {
  std::string wrong;  // fault of the file; empty: none
  std::optional<Footer> footer;
  bool has_tables = false;  // the bytes have the tables that the footer names
  std::vector<int64_t> columns, buffers;  // starts and stops by turns
  int64_t keep = 0;  // start of the first part in the bytes, or of the bytes

  End(const Bytes& tail, int64_t file_bytes) {
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
                      std::vector<int64_t>& bounds) {
      bounds.reserve(2 * size_t{count});
      Footer::places(tail.data() + (at - first), count, size, static_cast<uint64_t>(align), what,
                     [&](int64_t start, int64_t stop) {
                       bounds.insert(bounds.end(), {start, stop});
                       if (start >= static_cast<int64_t>(first)) least = std::min(least, start);
                     });
    };
    places(footer->columns, footer->num_columns, 1, "column metadata", columns);
    places(footer->buffers, footer->num_buffers, is_structural ? kAlign : 1, "global buffer", buffers);
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

// Concatenate spans of buffers; span i is in buffer `numbers[i]`.
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

void register_file_ends(nanobind::module_& m) {
  using namespace alance;
  using nanobind::arg;
  m.def("file_ends", &file_ends, arg("tails"), arg("file_bytes").noconvert());
  m.def("gather_spans", &gather_spans, arg("contents"), arg("numbers").noconvert(),
        arg("starts").noconvert(), arg("sizes").noconvert());
}
