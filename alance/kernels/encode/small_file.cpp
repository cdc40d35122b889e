// Small files: from an Arrow batch of plain columns to all bytes of a file, one page a column.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "encode/container.hpp"
#include "encode/encode.hpp"
#include "encode/small_page.hpp"
#include "encode/zones.hpp"

namespace alance::small {
namespace {

constexpr uint64_t kMaxFileBytes = 64 << 20;  // larger files are left to the caller

// Batch exported by its owner; released with this.
class Exported {
 public:
  ArrowArray array{};
  ~Exported() {
    if (array.release) array.release(&array);
  }
};

// Encoder of all small files of one schema and version.
class SmallFiles {
 public:
  SmallFiles(const nb::list& kinds, const nb::bytes& schema, const nb::bytes& column_encoding,
             std::string page_url, uint16_t major, uint16_t minor, uint64_t search_bytes,
             int64_t zone_rows, size_t max_zones, nb::callable compress, nb::callable frame)
      : schema_(schema.c_str(), schema.size()),
        encodings_(std::make_shared<const std::vector<std::string>>(
            nb::len(kinds), std::string(column_encoding.c_str(), column_encoding.size()))),
        page_url_(std::move(page_url)),
        version_{major, minor},
        search_bytes_(search_bytes),
        zone_rows_(zone_rows),
        max_zones_(max_zones),
        compress_(pages::compress_of(std::move(compress))),
        frame_(pages::compress_of(std::move(frame))) {
    for (nb::handle item : kinds) {
      const auto [bits, offset_bytes, zones, is_nullable] =
          nb::cast<std::tuple<int, int, std::string, bool>>(item);
      const bool is_text = bits == 0 && (offset_bytes == 4 || offset_bytes == 8);
      const bool is_power = bits > 0 && !(bits & (bits - 1));
      const bool is_fixed = bits == 1 || (is_power && bits >= 8 && bits <= 128);
      if (!is_text && !is_fixed) corrupt("small files: values of ", bits, " bits");
      kinds_.push_back({bits, offset_bytes, zones, is_nullable});
    }
    if (kinds_.empty()) corrupt("small files: no columns");
  }

  // Bytes of a file of these rows; None if a column is not plain, or too large.
  nb::object encode(const nb::object& batch, bool statistics, int64_t page_bytes) const {
    Exported exported;
    batch.attr("_export_to_c")(reinterpret_cast<uintptr_t>(&exported.array));
    const std::string content = file_of(exported.array, statistics, page_bytes);
    if (content.empty()) return nb::none();
    return nb::bytes(content.data(), content.size());
  }

 private:
  std::string file_of(const ArrowArray& batch, bool statistics, int64_t page_bytes) const {
    nb::gil_scoped_release release;
    if (batch.n_children != std::ssize(kinds_) || batch.offset) return {};
    const auto num_rows = static_cast<uint64_t>(batch.length);
    std::string out;
    Container container(encodings_, version_, search_bytes_);
    std::vector<Zones> zones;
    zones.reserve(kinds_.size());
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const auto rows = Rows::of(*batch.children[i], kinds_[i]);
      if (!rows || rows->count() != batch.length || rows->num_bytes() >= page_bytes) return {};
      auto page = pages::page_of(rows->input(version_.minor), frame_);
      if (!std::holds_alternative<pages::Page>(page)) return {};
      add_page(out, container, i, std::get<pages::Page>(page), num_rows);
      if (container.num_bytes() > kMaxFileBytes) return {};
      if (!statistics || kinds_[i].zones.empty()) continue;
      zones.emplace_back(static_cast<uint32_t>(i), kinds_[i].zones, zone_rows_, max_zones_);
      rows->add_to(zones.back());
    }
    std::vector<Zones*> columns;
    for (Zones& column : zones) columns.push_back(&column);
    const auto buffer = statistics_buffer(columns, compress_);
    if (!buffer.empty()) {
      container.add_buffer(buffer.size());
      append_padded(out, buffer);
    }
    out += container.end(schema_ + ProtoOut().number(2, num_rows).text());
    return out;
  }

  void add_page(std::string& out, Container& container, size_t column, pages::Page& page,
                uint64_t num_rows) const {
    std::vector<std::string_view> buffers;
    for (const pages::Buffer& buffer : page.buffers)
      buffers.emplace_back(reinterpret_cast<const char*>(buffer.view().data()),
                           buffer.view().size());
    const auto starts = container.add_page(column, page_url_, page.layout, buffers,
                                           pages::search_of(page), num_rows, 0);
    for (size_t k = 0; k < starts.size(); ++k)
      if (starts[k] != Container::kDeferred) append_padded(out, buffers[k]);
  }

  std::vector<Kind> kinds_;
  std::string schema_;
  Container::Encodings encodings_;
  std::string page_url_;
  Container::Version version_;
  uint64_t search_bytes_;
  int64_t zone_rows_;
  size_t max_zones_;
  pages::Compress compress_, frame_;
};

}  // namespace
}  // namespace alance::small

void register_small_file(nanobind::module_& m) {
  using namespace alance;
  nb::class_<small::SmallFiles>(m, "SmallFiles")
      .def(nb::init<const nb::list&, const nb::bytes&, const nb::bytes&, std::string, uint16_t,
                    uint16_t, uint64_t, int64_t, size_t, nb::callable, nb::callable>())
      .def("encode", &small::SmallFiles::encode, "batch"_a, "statistics"_a, "page_bytes"_a);
}
