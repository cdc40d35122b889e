// Whole small files of 2.1 and later: where the pages of some columns lie, of many files at once.
//
// Whatever is unusual, wrong bytes too, gives None: the caller then opens file by file, which says
// what is wrong.
#include <string_view>
#include <unordered_map>
#include <vector>

#include "column_wire.hpp"
#include "owned.hpp"
#include "spans.hpp"

namespace alance {
namespace {

constexpr int64_t kFooter = 40;
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

// The footer of a file, its tables checked.
struct Footer {
  uint64_t columns_at = 0;
  uint32_t num_columns = 0, version = 0;

  static bool table(const File& file, uint64_t at, uint64_t count, uint64_t limit, int64_t align) {
    if (at > limit || count > (limit - at) / 16) return false;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t start = load<uint64_t>(file.data + at + 16 * i);
      const uint64_t size = load<uint64_t>(file.data + at + 16 * i + 8);
      if (start > limit || size > limit - start || start % static_cast<uint64_t>(align))
        return false;
    }
    return true;
  }

  bool read(const File& file) {
    if (file.size < kFooter) return false;
    const uint64_t limit = file.size - kFooter;
    const uint8_t* at = file.data + limit;
    const uint64_t metadata = load<uint64_t>(at);
    columns_at = load<uint64_t>(at + 8);
    const uint32_t num_buffers = load<uint32_t>(at + 24);
    num_columns = load<uint32_t>(at + 28);
    version = uint32_t{load<uint16_t>(at + 32)} << 16 | load<uint16_t>(at + 34);
    return std::memcmp(at + 36, "LANC", 4) == 0 && num_buffers > 0 && metadata <= columns_at &&
           table(file, columns_at, num_columns, limit, 1) &&
           table(file, load<uint64_t>(at + 16), num_buffers, limit, kAlign);
  }
};

std::vector<Bytes> buffers_of(const nb::list& list) {
  std::vector<Bytes> found;
  found.reserve(list.size());
  for (nb::handle one : list) found.push_back(nb::cast<Bytes>(one));
  return found;
}

Numpy<int64_t> numpy_of(const std::vector<int64_t>& values) {
  Owned<int64_t> found(static_cast<int64_t>(values.size()));
  if (!values.empty()) std::memcpy(found.data(), values.data(), values.size() * sizeof(int64_t));
  return found.numpy();
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
    std::vector<Footer> footers(buffers.size());
    for (size_t f = 0; usual && f < buffers.size(); ++f) {
      files.push_back({buffers[f].data(), buffers[f].size()});
      usual = footers[f].read(files[f]) && footers[f].version == footers[0].version;
    }
    for (size_t c = 0; usual && c < num_wanted; ++c) {
      for (size_t f = 0; usual && f < files.size(); ++f) {
        usual = wanted[c] >= 0 && wanted[c] < footers[f].num_columns;
        if (!usual) break;
        const uint8_t* entry = files[f].data + footers[f].columns_at + 16 * wanted[c];
        const uint64_t start = load<uint64_t>(entry);
        usual = pages.column(files[f].view(start, start + load<uint64_t>(entry + 8)), files[f]);
      }
    }
    if (usual) pages.version = footers[0].version;
  }
  if (!usual) return nb::none();
  return nb::make_tuple(pages.version, numpy_of(pages.counts), numpy_of(pages.table.rows),
                        numpy_of(pages.kinds), numpy_of(pages.table.ends),
                        numpy_of(pages.table.starts), numpy_of(pages.table.sizes), pages.encodings.list(),
                        pages.column_encodings.list());
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
  m.def("gather_spans", &gather_spans, arg("contents"), arg("numbers").noconvert(),
        arg("starts").noconvert(), arg("sizes").noconvert());
}
