// Which chunks of a page hold rows of a take, and which of these chunks are read together.
#pragma once
#include <vector>

#include "row_page.hpp"

namespace alance::needs {

// A chunk that is needed. `first` to `last` are positions in the list of rows: the rows that begin
// in it. `open`: a row of the take begins in an earlier chunk and continues at its start.
struct Need {
  int64_t chunk, first, last;
  bool open;
};

// Chunks of a page that are read together, as positions in the list of needs, and their bytes.
struct Run {
  int64_t first, last;
  int64_t begin, end;
};

inline std::vector<Need> needs_of(const RowPage& page, const int64_t* rows, int64_t first, int64_t last) {
  std::vector<Need> needs;
  int64_t chunk = 0;
  bool open = false;
  for (int64_t i = first; open || i < last;) {
    chunk = open ? chunk + 1 : page.chunk_of(rows[i], chunk);
    const int64_t behind = page.rows_until(chunk);
    int64_t next = i;
    while (next < last && rows[next] < behind) ++next;
    needs.push_back({chunk, i, next, open});
    // A row may end in a later chunk only if no other begins behind it in this one: so may the last
    // wanted row that begins here, or the open one, where none begins here at all.
    const bool goes_on = next > i ? rows[next - 1] + 1 == behind
                                  : open && behind == page.rows_from(chunk);
    open = goes_on && chunk + 1 < page.num_chunks() && page.carries(chunk + 1);
    i = next;
  }
  return needs;
}

// Chunks with gaps of at most `gap` bytes become one run of at most `room` bytes. A run may be
// larger if a row continues in the next chunk, because a row is decoded from one buffer.
inline std::vector<Run> runs_of(const RowPage& page, const std::vector<Need>& needs, int64_t gap,
                                int64_t room) {
  std::vector<Run> runs;
  for (size_t i = 0; i < needs.size(); ++i) {
    const int64_t begin = page.begin_of(needs[i].chunk), end = page.begin_of(needs[i].chunk + 1);
    const int64_t at = static_cast<int64_t>(i);
    const bool fits = !runs.empty() && (needs[i].open || end - runs.back().begin <= room);
    if (fits && begin - runs.back().end <= gap) {
      runs.back().end = end;
      runs.back().last = at + 1;
    } else {
      runs.push_back({at, at + 1, begin, end});
    }
  }
  return runs;
}

}  // namespace alance::needs
