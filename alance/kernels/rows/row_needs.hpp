// Bytes of a page that hold rows of a take, coalesced to reads: chunks, or single values of chunks
// whose values lie bare.
#pragma once
#include <vector>

#include "io/coalesce.hpp"
#include "rows/pages/row_page.hpp"

namespace alance::needs {

// Chunk that is needed, or bare values of it. `first` to `last` are positions in the list of rows: the
// rows that begin in these bytes. `open`: a row of the take begins in an earlier chunk and continues at
// its start.
struct Need {
  int64_t chunk, first, last;
  bool open;
  ByteRange bytes;
};

// Needs of a page that are read together: the rows that begin in them, as in `Need`, and their bytes.
struct Run {
  int64_t first, last;
  ByteRange bytes;
};

// Gap between bare values that is read as a part of the values around it. A wider one costs more to copy
// than a further buffer of the same call does.
constexpr int64_t kBareGap = 512;

// Add bare values: rows `first` to `last` of the list, which are in one chunk.
inline void add_bare(const RowPage& page, const Rows& rows, int64_t chunk, int64_t first, int64_t last,
                     std::vector<Need>& needs) {
  for (int64_t i = first; i < last; ++i) {
    const auto [start, stop] = page.bare_bytes(chunk, rows[i]);
    if (i != first && start - needs.back().bytes.stop <= kBareGap) {
      needs.back().last = i + 1;
      needs.back().bytes.stop = stop;
    } else {
      needs.push_back({chunk, i, i + 1, false, {start, stop}});
    }
  }
}

// Store the needs of rows in `needs`.
inline void find_needs(const RowPage& page, const Rows& rows, std::vector<Need>& needs) {
  needs.clear();
  int64_t chunk = 0;
  bool open = false;
  for (int64_t i = 0; open || i < rows.count;) {
    chunk = open ? chunk + 1 : page.chunk_of(rows[i], chunk);
    const int64_t behind = page.rows_until(chunk);
    const int64_t next = rows.reaching(behind, i);
    if (rows.by_value && page.is_bare(chunk)) {
      add_bare(page, rows, chunk, i, next, needs);
      i = next;
      continue;
    }
    needs.push_back({chunk, i, next, open, {page.begin_of(chunk), page.end_of(chunk)}});
    // Only the last row of a chunk can continue in the next chunk: the last requested row that
    // begins here, if no other row begins after it; or the open row, if no row begins here.
    const bool goes_on = next > i ? rows[next - 1] + 1 == behind
                                  : open && behind == page.rows_from(chunk);
    open = goes_on && chunk + 1 < page.num_chunks() && page.carries(chunk + 1);
    i = next;
  }
}
inline std::vector<Need> needs_of(const RowPage& page, const Rows& rows) {
  std::vector<Need> needs;
  find_needs(page, rows, needs);
  return needs;
}

// Coalesce needs, which ascend. A row that continues in the next chunk is decoded from one buffer,
// whatever the limits.
inline void find_runs(const std::vector<Need>& needs, const Coalescing& rule, std::vector<Run>& runs) {
  runs.clear();
  for (const auto& [number, first, last, open, bytes] : needs) {
    if (runs.empty() || !(open || rule.joins(runs.back().bytes, bytes)))
      runs.push_back({first, last, bytes});
    runs.back().last = last;
    runs.back().bytes.stop = bytes.stop;
  }
}

}  // namespace alance::needs
