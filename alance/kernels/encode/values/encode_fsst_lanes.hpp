// FSST encoding of strings, interleaved in two lanes; see encode_fsst.cpp.
#pragma once

#include <cstdint>

#include "encode/values/encode_fsst.hpp"

namespace alance {
namespace fsst {

// Adjacent strings being encoded. Each code waits for the one before, so two lanes run side by
// side; all state is local, because stores to bytes would force reloads of anything else.
template <typename Offset>
struct Lane {
  const uint8_t* at;
  const uint8_t* stop;  // end of the current string
  uint8_t* out;
  uint8_t* begin;  // of this lane's codes
  int64_t i, last;  // current string, end of this lane's strings

  bool runs() const { return i < last; }

  // Go to the next string that is not empty.
  void advance(const Offset* offset, const uint8_t* data, Offset* ends) {
    while (at == stop && i < last) {
      ends[i + 1] = static_cast<Offset>(out - begin);
      if (++i < last) stop = data + offset[i + 1];
    }
  }

  void step(const Finder::View& view, uint64_t word) {
    const Finder::Match match = view.find(word, stop - at);
    out[0] = static_cast<uint8_t>(match.code);
    out[1] = static_cast<uint8_t>(word);
    out += 1 + (match.code == kEscape);
    at += match.length;
  }
};

// Run both lanes until one ends or reaches a string behind `safe`.
template <typename Offset>
void run_both(Lane<Offset>& first, Lane<Offset>& second, const Finder& finder,
              const Offset* offset, const uint8_t* data, const uint8_t* safe, Offset* ends) {
  const Finder::View view = finder.view();
  Lane<Offset> a = first, b = second;
  while (a.runs() && b.runs() && a.stop <= safe && b.stop <= safe) {
    while (true) {
      a.step(view, word_of(a.at, a.stop - a.at));
      b.step(view, word_of(b.at, b.stop - b.at));
      if (a.at == a.stop || b.at == b.stop) break;
    }
    a.advance(offset, data, ends);
    b.advance(offset, data, ends);
  }
  first = a;
  second = b;
}

template <typename Offset>
void run_lane(Lane<Offset>& lane, const Finder& finder, const Offset* offset, const uint8_t* data,
             const uint8_t* end, Offset* ends) {
  const Finder::View view = finder.view();
  while (lane.runs()) {
    lane.step(view, word_of(lane.at, lane.stop - lane.at, end));
    lane.advance(offset, data, ends);
  }
}

}  // namespace fsst
}  // namespace alance
