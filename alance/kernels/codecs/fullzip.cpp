// Split of rows of full-zip pages into control words, values and lengths.
//
// Source: docs/format/file.md, "Full-zip layout".
#include <vector>

#include "base/lists.hpp"

namespace alance {
namespace {

// Form of an entry: a control word, then the bytes of a fixed-width value (of a null, too), or the
// length and bytes of a variable-width value that is present.
struct Form {
  int64_t control_bytes;  // 0, 1, 2 or 4
  int64_t bits_def;
  int64_t max_rep;
  int64_t max_def;
  int64_t max_visible;
  int64_t width;  // fixed: bytes of a value; variable: bytes of a length, 4 or 8
  bool fixed;
};

struct Entry {
  int64_t rep;
  int64_t def;
  int64_t value_start;  // -1 if the value has no bytes
  int64_t value_size;
};

void check_form(const Form& form) {
  const bool controls = form.control_bytes == 0 || form.control_bytes == 1 ||
                        form.control_bytes == 2 || form.control_bytes == 4;
  if (!controls || form.bits_def < 0 || form.bits_def > 8 * form.control_bytes ||
      form.width + form.control_bytes <= 0 || form.width < 0 || form.max_rep < 0 || form.max_def < 0 || form.max_visible < 0 ||
      (!form.fixed && form.width != 4 && form.width != 8))
    corrupt("full-zip: a form of entry that cannot be");
}

// Read one entry; returns the position behind it. `stop` lies inside the data.
inline int64_t read_entry(const uint8_t* data, int64_t position, int64_t stop, const Form& form,
                          Entry& entry) {
  if (stop - position < form.control_bytes)
    corrupt("full-zip: a control word of " + std::to_string(form.control_bytes) +
            " bytes ends behind its row at " + std::to_string(stop));
  uint32_t word = 0;
  std::memcpy(&word, data + position, static_cast<size_t>(form.control_bytes));
  position += form.control_bytes;
  entry.rep = static_cast<int64_t>(uint64_t{word} >> form.bits_def);
  entry.def = static_cast<int64_t>(word & ((uint64_t{1} << form.bits_def) - 1));
  if (entry.rep > form.max_rep || entry.def > form.max_def)
    corrupt("full-zip: levels " + std::to_string(entry.rep) + " and " +
            std::to_string(entry.def) + " at " + std::to_string(position) + ", at most " +
            std::to_string(form.max_rep) + " and " + std::to_string(form.max_def) +
            " are possible");
  entry.value_start = -1;
  entry.value_size = 0;
  if (form.fixed ? entry.def > form.max_visible : entry.def != 0) return position;
  uint64_t size = static_cast<uint64_t>(form.width);
  if (!form.fixed) {
    if (stop - position < form.width)
      corrupt("full-zip: a length of " + std::to_string(form.width) +
              " bytes ends behind its row at " + std::to_string(stop));
    size = 0;
    std::memcpy(&size, data + position, static_cast<size_t>(form.width));
    position += form.width;
  }
  if (size > static_cast<uint64_t>(stop - position))
    corrupt("full-zip: a value of " + std::to_string(size) + " bytes at " +
            std::to_string(position) + ", its row ends at " + std::to_string(stop));
  entry.value_start = position;
  entry.value_size = static_cast<int64_t>(size);
  return position + entry.value_size;
}

// Visit all entries of `data`. Its pieces end at `stops` and hold `rows` whole rows each: a piece
// begins with an entry of repetition `max_rep`, and its last entry ends where it does.
template <typename Visit>
void walk(const Bytes& data, const In<int64_t>& stops, const In<int64_t>& rows, const Form& form,
          Visit visit) {
  check_form(form);
  if (stops.size() != rows.size()) corrupt("full-zip: arrays of unequal length");
  int64_t position = 0;
  for (size_t piece = 0; piece < stops.size(); ++piece) {
    const int64_t stop = stops.data()[piece];
    if (stop < position || stop > static_cast<int64_t>(data.size()))
      corrupt("full-zip: rows end at " + std::to_string(stop) + ", expected at least " +
              std::to_string(position) + " and at most " + std::to_string(data.size()));
    int64_t num_rows = 0;
    Entry entry;
    while (position < stop) {
      position = read_entry(data.data(), position, stop, form, entry);
      if (entry.rep == form.max_rep)
        ++num_rows;
      else if (num_rows == 0)
        corrupt("full-zip: rows begin with repetition level " + std::to_string(entry.rep) +
                ", expected " + std::to_string(form.max_rep));
      visit(entry);
    }
    if (num_rows != rows.data()[piece])
      corrupt("full-zip: " + std::to_string(num_rows) + " rows in a piece, expected " +
              std::to_string(rows.data()[piece]));
  }
  if (position != static_cast<int64_t>(data.size()))
    corrupt("full-zip: " + std::to_string(data.size() - static_cast<size_t>(position)) +
            " bytes behind the last row");
}

// Levels of all entries; then start and size of each value that has bytes.
nb::tuple zipped_entries(const Bytes& data, const In<int64_t>& stops, const In<int64_t>& rows,
                         int64_t control_bytes, int64_t bits_def, int64_t max_rep,
                         int64_t max_def, int64_t max_visible, int64_t width, bool fixed) {
  const Form form{control_bytes, bits_def, max_rep, max_def, max_visible, width, fixed};
  std::vector<uint16_t> rep, def;
  std::vector<int64_t> starts, sizes;
  {
    nb::gil_scoped_release release;
    walk(data, stops, rows, form, [&](const Entry& entry) {
      rep.push_back(static_cast<uint16_t>(entry.rep));
      def.push_back(static_cast<uint16_t>(entry.def));
      if (entry.value_start < 0) return;
      starts.push_back(entry.value_start);
      sizes.push_back(entry.value_size);
    });
  }
  return nb::make_tuple(numpy_of(rep), numpy_of(def), numpy_of(starts), numpy_of(sizes));
}

}  // namespace
}  // namespace alance

void register_fullzip(nanobind::module_& m) {
  using namespace alance;
  m.def("zipped_entries", &zipped_entries, nb::arg("data"), nb::arg("stops"), nb::arg("rows"),
        nb::arg("control_bytes"), nb::arg("bits_def"), nb::arg("max_rep"), nb::arg("max_def"),
        nb::arg("max_visible"), nb::arg("width"), nb::arg("fixed"));
}
