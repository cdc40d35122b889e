// Chunks of a page that hold rows of a take, coalesced to reads.
#pragma once
#include <vector>

#include "io/coalesce.hpp"
#include "rows/pages/row_page.hpp"

namespace alance::needs {

// Chunk that is needed. `first` to `last` are positions in the list of rows: the rows that begin in
// it. `open`: a row of the take begins in an earlier chunk and continues at its start.
struct Need {
  int64_t chunk, first, last;
  bool open;
};

// Chunks of a page that are read together: the rows that begin in them, as in `Need`, and their
// bytes.
struct Run {
  int64_t first, last;
  ByteRange bytes;
};

inline std::vector<Need> needs_of(const RowPage& page, const Rows& rows) {
  std::vector<Need> needs;
  int64_t chunk = 0;
  bool open = false;
  for (int64_t i = 0; open || i < rows.count;) {
    chunk = open ? chunk + 1 : page.chunk_of(rows[i], chunk);
    const int64_t behind = page.rows_until(chunk);
    const int64_t next = rows.reaching(behind, i);
    needs.push_back({chunk, i, next, open});
    // Only the last row of a chunk can continue in the next chunk: the last requested row that
    // begins here, if no other row begins after it; or the open row, if no row begins here.
    const bool goes_on = next > i ? rows[next - 1] + 1 == behind
                                  : open && behind == page.rows_from(chunk);
    open = goes_on && chunk + 1 < page.num_chunks() && page.carries(chunk + 1);
    i = next;
  }
  return needs;
}

// Coalesce chunks, which ascend. A row that continues in the next chunk is decoded from one buffer,
// whatever the limits.
inline std::vector<Run> runs_of(const RowPage& page, const std::vector<Need>& needs,
                                const Coalescing& rule) {
  std::vector<Run> runs;
  for (const auto& [number, first, last, open] : needs) {
    const ByteRange chunk{page.begin_of(number), page.end_of(number)};
    if (runs.empty() || !(open || rule.joins(runs.back().bytes, chunk)))
      runs.push_back({first, last, chunk});
    runs.back().last = last;
    runs.back().bytes.stop = chunk.stop;
  }
  return runs;
}

}  // namespace alance::needs
