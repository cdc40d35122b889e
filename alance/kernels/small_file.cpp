// Files of few rows and plain columns, from an Arrow batch to all their bytes: pages, statistics,
// column metadata and footer, in the order and at the places that format/encode/container.py says.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "encode.hpp"
#include "proto_out.hpp"
#include "small_page.hpp"

namespace alance::small {
namespace {

constexpr size_t ALIGNMENT = 64;
constexpr char FILLER = 0x48;
constexpr size_t SEARCH_BYTES = 1 << 20;  // what readers need first: more is not kept back
constexpr size_t MAX_FILE_BYTES = 16 << 20;

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

ProtoOut direct(std::string_view any) {
  return ProtoOut().message(2, ProtoOut().bytes(1, any));
}

struct Place {
  uint64_t start, size;
};

struct PlacedPage {
  Page page;
  std::vector<uint64_t> starts, sizes;
  size_t search_bytes = 0;
};

// A batch that is given by its owner, and goes when this does.
class Given {
 public:
  ArrowArray array{};
  ~Given() {
    if (array.release) array.release(&array);
  }
};

class Builder {
 public:
  // The place of bytes that go next; those of no size take none.
  Place place(const std::string& content) {
    const Place at{bytes_.size(), content.size()};
    bytes_ += content;
    bytes_.append(-bytes_.size() % ALIGNMENT, FILLER);
    return at;
  }

  void add_page(Page page) {
    PlacedPage& placed = pages_.emplace_back();
    for (size_t i = 0; i < page.buffers.size(); ++i) {
      const bool is_kept = i < page.num_search && !page.buffers[i].empty();
      placed.starts.push_back(is_kept ? 0 : place(page.buffers[i]).start);
      placed.sizes.push_back(page.buffers[i].size());
      if (i < page.num_search) placed.search_bytes += page.buffers[i].size();
    }
    search_bytes_ += placed.search_bytes;
    placed.page = std::move(page);
  }

  void add_buffer(const std::string& content) { buffers_.push_back(place(content)); }

  bool is_small() const {
    return search_bytes_ <= SEARCH_BYTES && bytes_.size() <= MAX_FILE_BYTES;
  }

  // The search-cache buffer: what readers need first, smaller pages last, and where it is.
  void end_search() {
    std::vector<PlacedPage*> kept;
    for (PlacedPage& page : pages_)
      if (page.search_bytes) kept.push_back(&page);
    if (kept.empty()) return;
    std::stable_sort(kept.begin(), kept.end(), [](const PlacedPage* a, const PlacedPage* b) {
      return a->search_bytes > b->search_bytes;
    });
    const uint64_t start = bytes_.size();
    std::string table;
    uint32_t count = 0;
    for (PlacedPage* placed : kept) {
      for (size_t i = 0; i < placed->page.num_search; ++i) {
        const std::string& content = placed->page.buffers[i];
        if (content.empty()) continue;
        placed->starts[i] = place(content).start;
        append(table, placed->starts[i]);
        append(table, static_cast<uint32_t>(content.size()));
        append(table, crc_of(content));
        ++count;
      }
    }
    append(table, count);
    append(table, uint16_t{1});
    append(table, uint16_t{0});
    table += "alancesc";
    const Place at = place(table);
    buffers_.push_back({start, at.start + at.size - start});
  }

  std::string end(const std::string& descriptor, const std::string& column_encoding,
                  const std::string& page_url, uint64_t num_rows, uint16_t major, uint16_t minor) {
    end_search();
    buffers_[0] = {bytes_.size(), descriptor.size()};
    bytes_ += descriptor;
    const uint64_t metadata_start = bytes_.size();
    std::vector<Place> columns;
    for (const PlacedPage& placed : pages_) {
      const ProtoOut any = ProtoOut().bytes(1, page_url).bytes(2, placed.page.layout);
      ProtoOut page;
      page.numbers(1, placed.starts).numbers(2, placed.sizes).number(3, num_rows);
      page.message(4, direct(any.text()));
      const ProtoOut column = ProtoOut().bytes(1, column_encoding).message(2, page);
      columns.push_back({bytes_.size(), column.text().size()});
      bytes_ += column.text();
    }
    const uint64_t columns_start = bytes_.size();
    add_table(columns);
    const uint64_t buffers_start = bytes_.size();
    add_table(buffers_);
    append(bytes_, metadata_start);
    append(bytes_, columns_start);
    append(bytes_, buffers_start);
    append(bytes_, static_cast<uint32_t>(buffers_.size()));
    append(bytes_, static_cast<uint32_t>(columns.size()));
    append(bytes_, major);
    append(bytes_, minor);
    bytes_ += "LANC";
    return std::move(bytes_);
  }

 private:
  void add_table(const std::vector<Place>& places) {
    for (const Place& at : places) {
      append(bytes_, at.start);
      append(bytes_, at.size);
    }
  }

  std::string bytes_;
  std::vector<PlacedPage> pages_;
  std::vector<Place> buffers_{{0, 0}};
  size_t search_bytes_ = 0;
};

// What all small files of one schema and version have in common.
class SmallFiles {
 public:
  SmallFiles(const nb::list& kinds, const nb::bytes& schema, const nb::bytes& column_encoding,
             std::string page_url, uint16_t major, uint16_t minor)
      : schema_(schema.c_str(), schema.size()),
        column_encoding_(column_encoding.c_str(), column_encoding.size()),
        page_url_(std::move(page_url)),
        major_(major),
        minor_(minor) {
    for (nb::handle item : kinds) {
      const auto [bits, offset_bytes, number, place, is_nullable] =
          nb::cast<std::tuple<int, int, int, int, bool>>(item);
      const bool is_text = bits == 0 && (offset_bytes == 4 || offset_bytes == 8);
      const bool is_power = bits > 0 && !(bits & (bits - 1));
      const bool is_fixed = bits == 1 || (is_power && bits >= 8 && bits <= 128);
      if (!is_text && !is_fixed)
        corrupt("small files: values of " + std::to_string(bits) + " bits");
      if (number == 'f' && bits < 32) corrupt("small files: bounds of half floats");
      kinds_.push_back(
          {bits, offset_bytes, static_cast<char>(number), static_cast<uint8_t>(place), is_nullable});
    }
    if (kinds_.empty()) corrupt("small files: no columns");
  }

  // The bytes of a file of these rows; None where some column is not small and plain.
  nb::object encode(const nb::object& batch, bool statistics) const {
    Given given;
    batch.attr("_export_to_c")(reinterpret_cast<uintptr_t>(&given.array));
    const std::string content = file_of(given.array, statistics);
    if (content.empty()) return nb::none();
    return nb::bytes(content.data(), content.size());
  }

 private:
  std::string file_of(const ArrowArray& batch, bool statistics) const {
    nb::gil_scoped_release release;
    if (batch.n_children != static_cast<int64_t>(kinds_.size()) || batch.offset)
      return {};
    const bool is_2_1 = minor_ == 1;
    std::vector<Rows> columns;
    Builder builder;
    for (size_t i = 0; i < kinds_.size(); ++i) {
      auto rows = rows_of(*batch.children[i], kinds_[i]);
      if (!rows || rows->count != batch.length) return {};
      builder.add_page(page_of(*rows, is_2_1));
      if (!builder.is_small()) return {};
      columns.push_back(std::move(*rows));
    }
    if (statistics)
      if (const std::string buffer = statistics_of(columns); !buffer.empty())
        builder.add_buffer(buffer);
    const auto num_rows = static_cast<uint64_t>(batch.length);
    const std::string descriptor = schema_ + ProtoOut().number(2, num_rows).text();
    return builder.end(descriptor, column_encoding_, page_url_, num_rows, major_, minor_);
  }

  std::vector<Kind> kinds_;
  std::string schema_, column_encoding_, page_url_;
  uint16_t major_, minor_;
};

}  // namespace
}  // namespace alance::small

void register_small_file(nanobind::module_& m) {
  using namespace alance;
  nb::class_<small::SmallFiles>(m, "SmallFiles")
      .def(nb::init<const nb::list&, const nb::bytes&, const nb::bytes&, std::string, uint16_t,
                    uint16_t>())
      .def("encode", &small::SmallFiles::encode, nb::arg("batch"), nb::arg("statistics"));
}
