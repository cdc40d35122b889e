// Phrase matching in the positions of one document.
#pragma once
#include <algorithm>
#include <vector>

#include "text/text_lists.hpp"

namespace alance::text {

// Token of a phrase in one document: its positions, relative to its place in the phrase.
struct Slot {
  const uint32_t* at;
  const uint32_t* end;
  int64_t place;

  bool is_done() const { return at == end; }
  int64_t relative() const { return static_cast<int64_t>(*at) - place; }
  void move_to(int64_t relative) {
    at = std::lower_bound(at, end, std::max<int64_t>(0, relative + place));
  }
};

// True if each token stands after the one before it, with at most `slop` positions in between. When
// two tokens do not fit, all tokens move forward to the next position at which these may fit. With
// a slop, this misses some arrangements, as in pylance's indices.
inline bool is_phrase_of_index(std::vector<Slot>& slots, int64_t slop) {
  for (;;) {
    int64_t least = INT64_MIN;
    bool fits = true;
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].is_done()) return false;
    for (size_t i = 1; i < slots.size() && fits; ++i) {
      const int64_t before = slots[i - 1].relative(), here = slots[i].relative();
      const int64_t next = !slop || before > here ? std::max(before, here)
                                                  : std::max(before + 1, here - slop);
      least = std::max(least, next);
      fits = before <= here && here <= before + slop;
    }
    if (fits) return true;
    for (Slot& slot : slots) slot.move_to(least);
  }
}

// The same, but finds all arrangements, as pylance does in texts that it searches without an index.
inline bool is_phrase(const std::vector<Slot>& slots, int64_t slop) {
  std::vector<int64_t> ends, next;  // positions at which the tokens so far may end
  for (size_t i = 0; i < slots.size(); ++i) {
    next.clear();
    size_t before = 0;
    for (const uint32_t* at = slots[i].at; at < slots[i].end; ++at) {
      const int64_t here = static_cast<int64_t>(*at) - slots[i].place;
      while (before < ends.size() && ends[before] < here - slop) ++before;
      if (i == 0 || (before < ends.size() && ends[before] <= here)) next.push_back(here);
    }
    ends.swap(next);
  }
  return !ends.empty();
}

}  // namespace alance::text
