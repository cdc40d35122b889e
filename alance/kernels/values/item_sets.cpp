// Union, intersection and difference of pairs of lists, without duplicates, by a hash table.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/ends.hpp"
#include "base/hashes.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

enum Kind : int { kUnion = 0, kShared = 1, kDifference = 2 };

// Hash table of the keys of one pair of lists, each with a mark. Slots hold the number of their
// pair, so that nothing is cleared between pairs.
class Keys {
 public:
  // Begin a pair: no keys, room for `most`.
  void begin(int64_t most) {
    int bits = 4;
    while ((int64_t{1} << bits) < 2 * most) ++bits;
    if (slots_.size() < size_t{1} << bits) slots_.assign(size_t{1} << bits, Slot{}), pair_ = 0;
    shift_ = 64 - bits, mask_ = (size_t{1} << bits) - 1;
    ++pair_;
  }

  // Set the mark of a key; returns its previous mark, 0 if the key is new.
  int8_t put(int64_t key, int8_t mark) {
    Slot& slot = find(key);
    const int8_t before = slot.pair == pair_ ? slot.mark : int8_t{0};
    slot = {key, pair_, mark};
    return before;
  }

  int8_t mark_of(int64_t key) {
    const Slot& slot = find(key);
    return slot.pair == pair_ ? slot.mark : int8_t{0};
  }

 private:
  struct Slot {
    int64_t key = 0;
    int64_t pair = 0;
    int8_t mark = 0;
  };

  // Slot of a key, or a free slot; at most half of the slots are in use.
  Slot& find(int64_t key) {
    size_t at = static_cast<size_t>(secret_.of(static_cast<uint64_t>(key)) >> shift_);
    while (slots_[at].pair == pair_ && slots_[at].key != key) at = (at + 1) & mask_;
    return slots_[at];
  }

  const hashes::Secret& secret_ = hashes::Secret::own();
  std::vector<Slot> slots_;
  int64_t pair_ = 0;
  int shift_ = 60;
  size_t mask_ = 0;
};

// Positions of the items in a set operation of each pair of lists, pair after pair, and their
// number for each pair. Items of the other lists are numbered behind all `keys`. Of items with
// equal keys the first is taken. `present` has a byte a pair, 0 for an empty result; no byte: all
// pairs are present.
//
// kUnion: items of the first list, then of the other one. kShared: items of the longer list (of the
// first, if both are as long) that the other one has, too. kDifference: items of the first list
// that the other one lacks.
nb::object item_sets(int kind, const In<int64_t>& ends, const In<int64_t>& keys,
                     const In<int64_t>& other_ends, const In<int64_t>& other_keys,
                     const Bytes& present) {
  if (kind < kUnion || kind > kDifference) corrupt("item sets of kind " + std::to_string(kind));
  if (ends.size() == 0 || other_ends.size() == 0) corrupt("item sets: no ends");
  const auto rows = static_cast<int64_t>(ends.size() == 2 ? other_ends.size() : ends.size()) - 1;
  if (present.size() != 0 && static_cast<int64_t>(present.size()) != rows)
    corrupt("item sets: a byte for each");
  const auto behind = static_cast<int64_t>(keys.size());
  Owned<int64_t> counts(rows);
  std::vector<int64_t> places;
  {
    nb::gil_scoped_release release;
    const Lists<int64_t> lists(ends, keys, rows), others(other_ends, other_keys, rows);
    Keys seen;
    for (int64_t row = 0; row < rows; ++row) {
      const size_t before = places.size();
      if (present.size() == 0 || present.data()[row]) {
        auto [start, stop] = lists.at(row);
        auto [begin, end] = others.at(row);
        seen.begin(stop - start + end - begin);
        const int64_t *own = keys.data(), *other = other_keys.data();
        int64_t shift = 0;
        if (kind == kShared && end - begin > stop - start) {
          std::swap(start, begin), std::swap(stop, end), std::swap(own, other);
          shift = behind;
        }
        if (kind != kUnion)
          for (int64_t i = begin; i < end; ++i) seen.put(other[i], 1);
        for (int64_t i = start; i < stop; ++i) {
          if (kind == kShared ? seen.mark_of(own[i]) != 1 : seen.mark_of(own[i]) != 0) continue;
          seen.put(own[i], 2);
          places.push_back(shift + i);
        }
        if (kind == kUnion)
          for (int64_t i = begin; i < end; ++i)
            if (seen.put(other[i], 2) == 0) places.push_back(behind + i);
      }
      counts[row] = static_cast<int64_t>(places.size() - before);
    }
  }
  Owned<int64_t> out(static_cast<int64_t>(places.size()));
  std::copy(places.begin(), places.end(), out.data());
  return nb::make_tuple(nb::cast(out.numpy()), nb::cast(counts.numpy()));
}

}  // namespace
}  // namespace alance

void register_item_sets(nanobind::module_& m) {
  using nanobind::arg;
  m.def("item_sets", &alance::item_sets, arg("kind"), arg("ends"), arg("keys"), arg("other_ends"),
               arg("other_keys"), arg("present"));
}
