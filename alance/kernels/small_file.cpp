// Files of few rows and plain columns, from an Arrow batch to all their bytes.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <numeric>

#include "container.hpp"
#include "encode.hpp"
#include "small_page.hpp"
#include "zones.hpp"

namespace alance::small {
namespace {

constexpr uint64_t MAX_FILE_BYTES = 16 << 20;

// A batch that is given by its owner, and goes when this does.
class Given {
 public:
  ArrowArray array{};
  ~Given() {
    if (array.release) array.release(&array);
  }
};

// What all small files of one schema and version have in common.
class SmallFiles {
 public:
  SmallFiles(const nb::list& kinds, const nb::bytes& schema, const nb::bytes& column_encoding,
             std::string page_url, uint16_t major, uint16_t minor, uint64_t search_bytes,
             int64_t zone_rows)
      : schema_(schema.c_str(), schema.size()),
        encodings_(std::make_shared<const std::vector<std::string>>(
            nb::len(kinds), std::string(column_encoding.c_str(), column_encoding.size()))),
        page_url_(std::move(page_url)),
        version_{major, minor},
        search_bytes_(search_bytes),
        zone_rows_(zone_rows) {
    for (nb::handle item : kinds) {
      const auto [bits, offset_bytes, zones, is_nullable] =
          nb::cast<std::tuple<int, int, std::string, bool>>(item);
      const bool is_text = bits == 0 && (offset_bytes == 4 || offset_bytes == 8);
      const bool is_power = bits > 0 && !(bits & (bits - 1));
      const bool is_fixed = bits == 1 || (is_power && bits >= 8 && bits <= 128);
      if (!is_text && !is_fixed)
        corrupt("small files: values of " + std::to_string(bits) + " bits");
      check_zones(zones, bits);
      kinds_.push_back({bits, offset_bytes, zones, is_nullable});
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
  // Statistics read values by the width of their kind.
  static void check_zones(const std::string& name, int bits) {
    if (name.empty()) return;
    const Zones zones(0, name, 1, 1);
    if (name == "f2") corrupt("small files: bounds of half floats");
    if (zones.is_text() ? bits != 0 : bits != (name == "b" ? 1 : 8 * zones.width()))
      corrupt("small files: bounds " + name + " of values of " + std::to_string(bits) + " bits");
  }

  std::string file_of(const ArrowArray& batch, bool statistics) const {
    nb::gil_scoped_release release;
    if (batch.n_children != static_cast<int64_t>(kinds_.size()) || batch.offset)
      return {};
    const auto num_rows = static_cast<uint64_t>(batch.length);
    std::string out;
    Container container(encodings_, version_, search_bytes_);
    std::vector<std::string_view> buffers;
    std::vector<size_t> search;
    std::vector<Zones> zones;
    zones.reserve(kinds_.size());
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const auto rows = rows_of(*batch.children[i], kinds_[i]);
      if (!rows || rows->count != batch.length) return {};
      const Page page = page_of(*rows, version_.minor == 1);
      buffers.assign(page.buffers.begin(), page.buffers.end());
      search.resize(page.num_search);
      std::iota(search.begin(), search.end(), 0);
      const auto starts =
          container.add_page(i, page_url_, page.layout, buffers, search, num_rows, 0);
      for (size_t k = 0; k < starts.size(); ++k)
        if (starts[k] != Container::KEPT) append_padded(out, page.buffers[k]);
      if (container.num_bytes() > MAX_FILE_BYTES) return {};
      if (statistics && !kinds_[i].zones.empty()) zones.push_back(zones_of(i, *rows));
    }
    std::vector<Zones*> columns;
    for (Zones& column : zones) columns.push_back(&column);
    // One zone of any column is stored as it is.
    const auto buffer = statistics_buffer(columns, [](const std::string& raw) { return raw; });
    if (!buffer.empty()) {
      container.add_buffer(buffer.size());
      append_padded(out, buffer);
    }
    return out + container.end(schema_ + ProtoOut().number(2, num_rows).text());
  }

  Zones zones_of(size_t column, const Rows& rows) const {
    Zones zones(static_cast<uint32_t>(column), rows.kind.zones, zone_rows_, 1);
    const auto* values = reinterpret_cast<const uint8_t*>(rows.values.data());
    const auto* data = reinterpret_cast<const uint8_t*>(rows.data.data());
    if (zones.is_text()) {
      zones.add_texts(rows.ends.data(), data, data + rows.data.size(), rows.count, rows.mask());
    } else if (rows.kind.bits == 1) {
      std::string bytes;
      for (int64_t i = 0; i < rows.count; ++i)
        bytes.push_back(static_cast<char>(values[i / 8] >> (i % 8) & 1));
      zones.add_numbers(reinterpret_cast<const uint8_t*>(bytes.data()), rows.count, rows.mask());
    } else {
      zones.add_numbers(values, rows.count, rows.mask());
    }
    return zones;
  }

  std::vector<Kind> kinds_;
  std::string schema_;
  Container::Encodings encodings_;
  std::string page_url_;
  Container::Version version_;
  uint64_t search_bytes_;
  int64_t zone_rows_;
};

}  // namespace
}  // namespace alance::small

void register_small_file(nanobind::module_& m) {
  using namespace alance;
  nb::class_<small::SmallFiles>(m, "SmallFiles")
      .def(nb::init<const nb::list&, const nb::bytes&, const nb::bytes&, std::string, uint16_t,
                    uint16_t, uint64_t, int64_t>())
      .def("encode", &small::SmallFiles::encode, nb::arg("batch"), nb::arg("statistics"));
}
