// Single rows of a page without lists: which chunks hold them, and where.
#include <algorithm>
#include <vector>

#include "base/lists.hpp"

namespace alance {
namespace {

// For ascending rows: the chunks that hold them (number, values, place among the bytes of all of
// them, bytes), the runs of neighbouring chunks (first byte, behind the last), and the place of
// each row among the values of those chunks. `first_rows` and `first_bytes` have one number a
// chunk and one behind the last.
nb::tuple locate_rows(const In<int64_t>& rows, const In<int64_t>& first_rows,
                      const In<int64_t>& first_bytes) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t chunks = static_cast<int64_t>(first_rows.size()) - 1;
  if (chunks < 0 || first_bytes.size() != first_rows.size())
    corrupt("rows: " + std::to_string(first_rows.size()) + " chunks, places of " +
            std::to_string(first_bytes.size()));
  const int64_t* starts_of = first_rows.data();
  const int64_t* bytes_of = first_bytes.data();
  std::vector<int64_t> numbers, counts, starts, sizes, run_first, run_behind;
  Owned<int64_t> entries(count);
  int64_t chunk = -1, values = 0, bytes = 0, base = 0;
  int64_t previous = starts_of[0] - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows.data()[i];
    if (row <= previous || row >= starts_of[chunks])
      corrupt("rows: " + std::to_string(row) + " after " + std::to_string(previous) + " of " +
              std::to_string(starts_of[chunks]));
    previous = row;
    if (chunk < 0 || row >= starts_of[chunk + 1]) {
      const int64_t* next =
          std::upper_bound(starts_of + chunk + 1, starts_of + chunks + 1, row) - 1;
      const int64_t found = next - starts_of;
      const bool touches = found == chunk + 1 && chunk >= 0;
      chunk = found;
      const int64_t size = bytes_of[chunk + 1] - bytes_of[chunk];
      const int64_t held = starts_of[chunk + 1] - starts_of[chunk];
      if (size < 0) corrupt("rows: chunk " + std::to_string(chunk) + " ends before it begins");
      numbers.push_back(chunk);
      counts.push_back(held);
      starts.push_back(bytes);
      sizes.push_back(size);
      if (touches) {
        run_behind.back() = bytes_of[chunk + 1];
      } else {
        run_first.push_back(bytes_of[chunk]);
        run_behind.push_back(bytes_of[chunk + 1]);
      }
      base = values - starts_of[chunk];
      values += held;
      bytes += size;
    }
    entries[i] = row + base;
  }
  return nb::make_tuple(numpy_of(numbers), numpy_of(counts), numpy_of(starts), numpy_of(sizes),
                        numpy_of(run_first), numpy_of(run_behind), entries.numpy());
}

}  // namespace
}  // namespace alance

void register_rows(nanobind::module_& m) { m.def("locate_rows", &alance::locate_rows); }
