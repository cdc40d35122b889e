// Pairs of values: edit distances (Levenshtein) of texts, sums over vectors, and set operations of
// lists.
//
// If the shorter text has at most 64 characters, one word holds a column of the distance matrix (G.
// Myers, "A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic
// Programming", 1999). Longer texts take the matrix row by row (R. Wagner, M. Fischer, "The
// String-to-String Correction Problem", 1974). Sets of items are made by a hash table.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "base/ends.hpp"
#include "base/hashes.hpp"
#include "base/lists.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

constexpr int64_t kWordBits = 64;

// Hash table of the keys of one pair. Slots hold the number of their pair, so that nothing is
// cleared between pairs. `Hash` spreads keys over the lowest bits.
template <typename Key, typename Value, typename Hash>
class PairTable {
 public:
  // Begin a pair: no keys, room for `most`.
  void begin(int64_t most) {
    const size_t size = std::bit_ceil(2 * static_cast<size_t>(most));
    if (slots_.size() < size) slots_.assign(size, Slot{}), pair_ = 0;
    mask_ = size - 1;
    ++pair_;
  }

  // Value of a key, 0 if the key is new; to be set at once.
  Value& operator[](Key key) {
    Slot& slot = slots_[find(key)];
    if (slot.pair != pair_) slot = {key, pair_, Value{}};
    return slot.value;
  }

  Value of(Key key) const {
    const Slot& slot = slots_[find(key)];
    return slot.pair == pair_ ? slot.value : Value{};
  }

 private:
  struct Slot {
    Key key{};
    int64_t pair = 0;
    Value value{};
  };

  // Slot of a key, or a free slot; at most half of the slots are in use.
  size_t find(Key key) const {
    size_t at = hash_(key) & mask_;
    while (slots_[at].pair == pair_ && slots_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  Hash hash_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;  // of the slots of this pair
  int64_t pair_ = 0;
};

// Positions of each character in a short text, a bit a position.
using Places = PairTable<uint32_t, uint64_t, std::identity>;

int64_t short_distance(const uint32_t* text, int64_t size, const uint32_t* other, int64_t length,
                       Places& places) {
  places.begin(kWordBits);
  for (int64_t i = 0; i < size; ++i) places[text[i]] |= uint64_t{1} << i;
  const uint64_t last = uint64_t{1} << (size - 1);
  uint64_t more = ~uint64_t{0}, less = 0;  // cells that are one more, or less, than the one above
  int64_t distance = size;
  for (int64_t i = 0; i < length; ++i) {
    const uint64_t equal = places.of(other[i]);
    const uint64_t down = equal | less;
    const uint64_t along = (((equal & more) + more) ^ more) | equal;
    uint64_t up = less | ~(along | more), off = more & along;
    distance += (up & last) != 0;
    distance -= (off & last) != 0;
    up = up << 1 | 1;
    off <<= 1;
    more = off | ~(down | up);
    less = up & down;
  }
  return distance;
}

// Extend a row of edit distances, of each prefix of `text` to a prefix of the other text, by
// `other`, the characters behind that prefix.
void extend_row(const uint32_t* text, int64_t size, const uint32_t* other, int64_t length,
                int64_t* row) {
  for (int64_t j = 0; j < length; ++j) {
    int64_t before = row[0]++;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t changed = before + (text[i] != other[j]);
      before = row[i + 1];
      row[i + 1] = std::min({changed, before + 1, row[i] + 1});
    }
  }
}

int64_t long_distance(const uint32_t* text, int64_t size, const uint32_t* other, int64_t length,
                      std::vector<int64_t>& row) {
  row.resize(size + 1);
  for (int64_t i = 0; i <= size; ++i) row[i] = i;
  extend_row(text, size, other, length, row.data());
  return row[size];
}

Owned<int64_t> edit_row(const In<int64_t>& row, const In<uint32_t>& codes,
                        const In<uint32_t>& other_codes) {
  if (row.size() != codes.size() + 1) corrupt("distances: the row needs a number for each prefix");
  Owned<int64_t> out(std::ssize(row));
  std::copy_n(row.data(), row.size(), out.data());
  extend_row(codes.data(), std::ssize(codes), other_codes.data(), std::ssize(other_codes),
             out.data());
  return out;
}

Owned<int64_t> edit_distances(const In<int64_t>& ends, const In<uint32_t>& codes,
                              const In<int64_t>& other_ends, const In<uint32_t>& other_codes) {
  if (ends.size() == 0 || other_ends.size() != ends.size()) corrupt("distances: one text for each");
  const int64_t count = checked_count(ends, std::ssize(codes), "characters");
  checked_count(other_ends, std::ssize(other_codes), "characters");
  Owned<int64_t> out(count);
  Places places;
  std::vector<int64_t> row;
  for (int64_t i = 0; i < count; ++i) {
    int64_t start = ends.data()[i], stop = ends.data()[i + 1];
    int64_t begin = other_ends.data()[i], end = other_ends.data()[i + 1];
    const uint32_t *text = codes.data(), *other = other_codes.data();
    while (start < stop && begin < end && text[start] == other[begin]) ++start, ++begin;
    while (start < stop && begin < end && text[stop - 1] == other[end - 1]) --stop, --end;
    text += start, other += begin;
    int64_t size = stop - start, length = end - begin;
    if (size > length) std::swap(text, other), std::swap(size, length);
    out[i] = size == 0           ? length
             : size <= kWordBits ? short_distance(text, size, other, length, places)
                                 : long_distance(text, size, other, length, row);
  }
  return out;
}

// Lists of numbers or keys, one a row; a single list stands for every row.
template <typename T>
struct Lists {
  const int64_t* ends;
  const T* values;
  bool is_single;

  Lists(const In<int64_t>& ends_, const In<T>& values_, int64_t rows)
      : ends(ends_.data()), values(values_.data()), is_single(ends_.size() == 2) {
    const int64_t count = checked_count(ends_, std::ssize(values_), "items");
    if (count != rows && count != 1) corrupt("lists: one list for each");
  }

  std::pair<int64_t, int64_t> at(int64_t row) const {
    const int64_t place = is_single ? 0 : row;
    return {ends[place], ends[place + 1]};
  }
};

// Number of rows of two columns of lists.
inline int64_t rows_of(const In<int64_t>& ends, const In<int64_t>& other_ends, const char* what) {
  if (ends.size() == 0 || other_ends.size() == 0) corrupt(what, ": no ends");
  return std::ssize(ends.size() == 2 ? other_ends : ends) - 1;
}

// All rows of a sum follow each other.
template <typename T, typename U>
Owned<double> vector_sums(const In<int64_t>& ends, const In<T>& values,
                          const In<int64_t>& other_ends, const In<U>& other_values,
                          const Bytes& present, bool apart) {
  const int64_t rows = rows_of(ends, other_ends, "vectors");
  const Validity is_present(present, rows, "vectors");
  const Lists<T> vectors(ends, values, rows);
  const Lists<U> others(other_ends, other_values, rows);
  Owned<double> sums(product(rows, apart ? 1 : 3, "sums"));
  for (int64_t row = 0; row < rows; ++row) {
    double first = apart ? -0.0 : 0.0, second = 0, third = 0;
    if (is_present[row]) {
      const auto [start, stop] = vectors.at(row);
      const auto [begin, end] = others.at(row);
      if (end - begin != stop - start) corrupt("vectors of different lengths");
      const T* left = vectors.values + start;
      const U* right = others.values + begin;
      for (int64_t i = 0; i < stop - start; ++i) {
        const auto a = static_cast<double>(left[i]), b = static_cast<double>(right[i]);
        first += apart ? (a - b) * (a - b) : a * b;
        if (apart) continue;
        second += a * a, third += b * b;
      }
    }
    sums[row] = first;
    if (!apart) sums[rows + row] = second, sums[2 * rows + row] = third;
  }
  return sums;
}

enum Kind : int { kUnion = 0, kShared = 1, kDifference = 2 };

struct ItemHash {
  const hashes::Secret& secret = hashes::Secret::own();
  size_t operator()(int64_t key) const { return secret.of(static_cast<uint64_t>(key)); }
};

// Of items with equal keys the first is taken.
//
// kUnion: items of the first list, then of the other one. kShared: items of the longer list (of the
// first, if both are as long) that the other one has, too. kDifference: items of the first list
// that the other one lacks.
std::tuple<Owned<int64_t>, Owned<int64_t>> item_sets(int kind, const In<int64_t>& ends,
                                                     const In<int64_t>& keys,
                                                     const In<int64_t>& other_ends,
                                                     const In<int64_t>& other_keys,
                                                     const Bytes& present) {
  if (kind < kUnion || kind > kDifference) corrupt("item sets of kind ", kind);
  const int64_t rows = rows_of(ends, other_ends, "item sets");
  const Validity is_present(present, rows, "item sets");
  const Lists<int64_t> lists(ends, keys, rows), others(other_ends, other_keys, rows);
  const int64_t behind = std::ssize(keys);
  Owned<int64_t> counts(rows);
  std::vector<int64_t> places;
  PairTable<int64_t, int, ItemHash> marks;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t before = places.size();
    if (is_present[row]) {
      auto [start, stop] = lists.at(row);
      auto [begin, end] = others.at(row);
      marks.begin(stop - start + end - begin);
      const int64_t *own = keys.data(), *other = other_keys.data();
      int64_t shift = 0;
      if (kind == kShared && end - begin > stop - start) {
        std::swap(start, begin), std::swap(stop, end), std::swap(own, other);
        shift = behind;
      }
      if (kind != kUnion)
        for (int64_t i = begin; i < end; ++i) marks[other[i]] = 1;
      const auto take = [&](int64_t key, int64_t place) {
        int& mark = marks[key];
        if (mark == (kind == kShared ? 1 : 0)) mark = 2, places.push_back(place);
      };
      for (int64_t i = start; i < stop; ++i) take(own[i], shift + i);
      if (kind == kUnion)
        for (int64_t i = begin; i < end; ++i) take(other[i], behind + i);
    }
    counts[row] = static_cast<int64_t>(places.size() - before);
  }
  return {owned_of(places), std::move(counts)};
}

}  // namespace
}  // namespace alance

void register_pairs(nanobind::module_& m) {
  using namespace alance;
  m.def("edit_distances", &edit_distances, "ends"_a, "codes"_a, "other_ends"_a, "other_codes"_a,
        NoGil());
  m.def("edit_row", &edit_row, "row"_a, "codes"_a, "other_codes"_a, NoGil());
  const auto add_sums = [&m](auto* sums) {
    m.def("vector_sums", sums, "ends"_a, "values"_a, "other_ends"_a, "other_values"_a, "present"_a,
          "apart"_a, NoGil());
  };
  add_sums(&vector_sums<float, float>);
  add_sums(&vector_sums<float, double>);
  add_sums(&vector_sums<double, float>);
  add_sums(&vector_sums<double, double>);
  m.def("item_sets", &item_sets, "kind"_a, "ends"_a, "keys"_a, "other_ends"_a, "other_keys"_a,
        "present"_a, NoGil());
}
