// Chunks of mini-block pages: positions of their buffers, checks of their levels, and the entries
// and values of each row.
//
// Source: docs/format/file.md, "Mini-block layout".
#include <algorithm>

#include "codecs/levels.hpp"
#include "base/unlocked.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ALANCE_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_WIDE
#endif

namespace alance {
namespace {

constexpr int64_t kSkip = 2048;  // entries whose rows are counted at once

std::string chunk_name(int64_t chunk) { return "chunk " + std::to_string(chunk); }

// Reads the header of every chunk and checks that all buffers lie inside it.
//
// A chunk is u16 entries, a u16 size for each of `level_buffers`, a u16 or u32 size for each of
// `value_buffers`, filler to a multiple of 8, then the buffers, each filled up to a multiple of 8.
// `starts` and `sizes` are (level_buffers + value_buffers) rows of one column a chunk.
void split_chunks(const Bytes& data, const In<int64_t>& chunk_starts,
                  const In<int64_t>& chunk_sizes, int64_t level_buffers, int64_t value_buffers,
                  bool large, const Out<int64_t>& entries, const Out<int64_t>& starts,
                  const Out<int64_t>& sizes) {
  const int64_t num_chunks = static_cast<int64_t>(chunk_starts.size());
  const int64_t total = static_cast<int64_t>(data.size());
  if (level_buffers < 0 || level_buffers > 2 || value_buffers < 0 || value_buffers > (1 << 20))
    corrupt("a chunk of " + std::to_string(value_buffers) + " value buffers");
  const int64_t num_buffers = level_buffers + value_buffers;
  if (static_cast<int64_t>(chunk_sizes.size()) != num_chunks ||
      static_cast<int64_t>(entries.size()) != num_chunks ||
      static_cast<int64_t>(starts.size()) != num_buffers * num_chunks ||
      static_cast<int64_t>(sizes.size()) != num_buffers * num_chunks)
    corrupt("split_chunks: arrays of unequal length");
  const Unlocked unlocked(8 * (num_buffers + 1) * num_chunks);
  const int64_t width = large ? 4 : 2;
  const int64_t header = 2 + 2 * level_buffers + width * value_buffers;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const int64_t start = chunk_starts.data()[chunk], size = chunk_sizes.data()[chunk];
    check_span(start, size, total, "chunk");
    if (size < header)
      corrupt(chunk_name(chunk) + ": " + std::to_string(size) + " bytes, its header has " +
              std::to_string(header));
    const uint8_t* at = data.data() + start;
    uint16_t count;
    std::memcpy(&count, at, 2);
    entries.data()[chunk] = count;
    at += 2;
    int64_t position = (header + 7) / 8 * 8;
    for (int64_t buffer = 0; buffer < num_buffers; ++buffer) {
      int64_t bytes;
      if (buffer < level_buffers || !large) {
        uint16_t narrow;
        std::memcpy(&narrow, at, 2);
        bytes = narrow;
        at += 2;
      } else {
        uint32_t wide;
        std::memcpy(&wide, at, 4);
        bytes = wide;
        at += 4;
      }
      // The filler before it may end behind the chunk: then no size is small enough.
      if (bytes > size - position)
        corrupt(chunk_name(chunk) + ": buffer " + std::to_string(buffer) + " of " +
                std::to_string(bytes) + " bytes at " + std::to_string(position) +
                ", the chunk has " + std::to_string(size));
      starts.data()[buffer * num_chunks + chunk] = start + position;
      sizes.data()[buffer * num_chunks + chunk] = bytes;
      position += (bytes + 7) / 8 * 8;
    }
  }
}

ALANCE_WIDE uint16_t largest(const uint16_t* levels, int64_t count) {
  uint16_t result = 0;
  for (int64_t i = 0; i < count; ++i) result = std::max(result, levels[i]);
  return result;
}

ALANCE_WIDE int64_t count_at_most(const uint16_t* levels, int64_t count, uint16_t limit) {
  return count_if(count, [=](int64_t i) { return levels[i] <= limit; });
}

ALANCE_WIDE int64_t count_equal(const uint16_t* levels, int64_t count, uint16_t level) {
  return count_if(count, [=](int64_t i) { return levels[i] == level; });
}

void expect(int64_t found, int64_t expected, int64_t chunk, const char* what) {
  if (found != expected)
    corrupt(chunk_name(chunk) + ": " + std::to_string(found) + " " + what + ", expected " +
            std::to_string(expected));
}

// Checks levels against the layers and, chunk by chunk, against what is known of the chunk.
//
// `rep` and `def` hold the entries of all chunks; an empty one stands for zeros. `values` are the
// visible entries of each chunk, `rows` the entries with repetition `max_rep`, `carries` whether
// the chunk begins inside a row; an empty one is not checked.
void check_levels(const In<uint16_t>& rep, const In<uint16_t>& def, const In<int64_t>& entries,
                  int64_t max_rep, int64_t max_def, int64_t max_visible,
                  const In<int64_t>& values, const In<int64_t>& rows, const Bytes& carries) {
  const int64_t num_chunks = static_cast<int64_t>(entries.size());
  int64_t total = 0;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const int64_t count = entries.data()[chunk];
    if (count < 0 || __builtin_add_overflow(total, count, &total))
      corrupt("a chunk of " + std::to_string(count) + " levels");
  }
  const auto fits = [&](size_t size, int64_t wanted) {
    return size == 0 || static_cast<int64_t>(size) == wanted;
  };
  if (!fits(rep.size(), total) || !fits(def.size(), total))
    corrupt("levels: " + std::to_string(rep.size()) + " repetition and " +
            std::to_string(def.size()) + " definition levels, expected " + std::to_string(total));
  if (!fits(values.size(), num_chunks) || !fits(rows.size(), num_chunks) ||
      !fits(carries.size(), num_chunks))
    corrupt("check_levels: arrays of unequal length");
  const Unlocked unlocked(total + num_chunks);
  int64_t position = 0;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const int64_t count = entries.data()[chunk];
    int64_t visible = count;
    if (def.size() != 0) {
      const uint16_t* levels = def.data() + position;
      if (const int64_t top = largest(levels, count); top > max_def)
        corrupt(chunk_name(chunk) + ": definition level " + std::to_string(top) +
                ", the layers use " + std::to_string(max_def));
      visible = count_at_most(levels, count, static_cast<uint16_t>(max_visible));
    }
    if (values.size() != 0) expect(visible, values.data()[chunk], chunk, "visible entries");
    int64_t starts = max_rep == 0 ? count : 0;
    if (rep.size() != 0) {
      const uint16_t* levels = rep.data() + position;
      if (const int64_t top = largest(levels, count); top > max_rep)
        corrupt(chunk_name(chunk) + ": repetition level " + std::to_string(top) +
                ", the layers have " + std::to_string(max_rep) + " lists");
      starts = count_equal(levels, count, static_cast<uint16_t>(max_rep));
      // The repetition index says which chunks go on with a row; their first level has to agree.
      if (carries.size() != 0 && count != 0 &&
          (levels[0] == max_rep) == (carries.data()[chunk] != 0))
        corrupt(chunk_name(chunk) + ": its first repetition level is " +
                std::to_string(levels[0]) +
                (carries.data()[chunk] ? ", but it begins inside a row"
                                       : ", but it begins with a row"));
    }
    if (rows.size() != 0) expect(starts, rows.data()[chunk], chunk, "rows begin");
    position += count;
  }
}

// Finds rows among levels: for each wanted row its first and last entry and value (half-open).
//
// The entries are runs that end at `breaks` (ascending, the last is the number of entries); rows
// are counted over all runs by their first entry, whose repetition is `max_rep`; a row ends where
// the next begins or its run ends. `wanted` ascends strictly. `spans` is 4 rows, one column a
// wanted row: entry start, entry stop, value start, value stop.
void row_spans(const In<uint16_t>& rep, const In<uint16_t>& def, const In<int64_t>& breaks,
               const In<int64_t>& wanted, int64_t max_rep, int64_t max_visible,
               const Out<int64_t>& spans) {
  const int64_t num_entries = static_cast<int64_t>(rep.size());
  const int64_t num_wanted = static_cast<int64_t>(wanted.size());
  if (def.size() != 0 && def.size() != rep.size())
    corrupt("row_spans: " + std::to_string(rep.size()) + " repetition and " +
            std::to_string(def.size()) + " definition levels");
  if (static_cast<int64_t>(spans.size()) != 4 * num_wanted)
    corrupt("row_spans: arrays of unequal length");
  int64_t* entry_start = spans.data();
  int64_t* entry_stop = entry_start + num_wanted;
  int64_t* value_start = entry_stop + num_wanted;
  int64_t* value_stop = value_start + num_wanted;
  int64_t row = -1, value = 0, found = 0, position = 0;
  bool open = false;
  // Counts compare in 16 bits, so that larger limits, which no level has, cannot be counted by.
  const bool skips = max_rep >= 0 && max_rep <= UINT16_MAX && max_visible >= 0 &&
                     max_visible <= UINT16_MAX;
  const auto close = [&](int64_t at) {
    if (!open) return;
    entry_stop[found] = at;
    value_stop[found] = value;
    ++found;
    open = false;
  };
  for (size_t run = 0; run < breaks.size() && found < num_wanted; ++run) {
    const int64_t stop = breaks.data()[run];
    if (stop < position || stop > num_entries) corrupt("row_spans: breaks out of order");
    while (position < stop) {
      // Rows before a wanted one are counted, not looked at.
      if (skips && !open && stop - position >= kSkip && wanted.data()[found] - row > kSkip) {
        row += count_equal(rep.data() + position, kSkip, static_cast<uint16_t>(max_rep));
        value += def.size() == 0 ? kSkip
                                 : count_at_most(def.data() + position, kSkip,
                                                 static_cast<uint16_t>(max_visible));
        position += kSkip;
        continue;
      }
      if (rep.data()[position] == max_rep) {
        close(position);
        if (found == num_wanted) return;
        if (++row == wanted.data()[found]) {
          entry_start[found] = position;
          value_start[found] = value;
          open = true;
        }
      }
      value += def.size() == 0 || def.data()[position] <= max_visible;
      ++position;
    }
    close(position);
  }
  if (found < num_wanted)
    corrupt("levels: " + std::to_string(row + 1) + " rows begin, row " +
            std::to_string(wanted.data()[found]) + " of them was expected");
}

}  // namespace
}  // namespace alance

void register_chunks(nanobind::module_& m) {
  using namespace alance;
  m.def("split_chunks", &split_chunks, nb::arg("data"), nb::arg("chunk_starts"),
        nb::arg("chunk_sizes"), nb::arg("level_buffers"), nb::arg("value_buffers"),
        nb::arg("large"), nb::arg("entries"), nb::arg("starts"), nb::arg("sizes"));
  m.def("check_levels", &check_levels, nb::arg("rep"), nb::arg("definition"), nb::arg("entries"),
        nb::arg("max_rep"), nb::arg("max_def"), nb::arg("max_visible"), nb::arg("values"),
        nb::arg("rows"), nb::arg("carries"));
  m.def("row_spans", &row_spans, nb::arg("rep"), nb::arg("definition"), nb::arg("breaks"),
        nb::arg("wanted"), nb::arg("max_rep"), nb::arg("max_visible"), nb::arg("spans"),
        nb::call_guard<nb::gil_scoped_release>());
}
