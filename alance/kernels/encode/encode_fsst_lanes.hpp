// FSST encoding of strings, interleaved in two lanes; see encode_fsst.cpp.
#pragma once

#include <cstdint>

#include "encode/encode_fsst.hpp"

namespace alance {
namespace fsst {

// Neighbouring strings on their way to codes. Finding one code waits for the one before, so
// several lanes go side by side; everything is local, or stores to bytes would reload it.
template <typename Offset>
struct Lane {
  const uint8_t* at;
  const uint8_t* stop;  // of the string under way
  uint8_t* out;
  uint8_t* begin;  // of the codes of this lane
  int64_t i, last;  // the string under way, and the end of this lane's strings

  bool runs() const { return i < last; }

  // Goes to the next string that has bytes left.
  void advance(const Offset* offset, const uint8_t* data, Offset* ends) {
    while (at == stop && i < last) {
      ends[i + 1] = static_cast<Offset>(out - begin);
      if (++i < last) stop = data + offset[i + 1];
    }
  }

  void step(const Finder::View& view, uint64_t word) {
    const Finder::Found found = view.find(word, stop - at);
    out[0] = static_cast<uint8_t>(found.code);
    out[1] = static_cast<uint8_t>(word);
    out += 1 + (found.code == ESCAPE);
    at += found.length;
  }
};

// Both lanes until one has come to its end, or to strings behind `safe`.
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
void run_one(Lane<Offset>& lane, const Finder& finder, const Offset* offset, const uint8_t* data,
             const uint8_t* end, Offset* ends) {
  const Finder::View view = finder.view();
  while (lane.runs()) {
    lane.step(view, word_of(lane.at, lane.stop - lane.at, end));
    lane.advance(offset, data, ends);
  }
}

}  // namespace fsst
}  // namespace alance
