// Edit distances (Levenshtein) of many pairs of texts, and distances of pairs of vectors.
//
// If the shorter text has at most 64 characters, one word holds a column of the distance matrix (G.
// Myers, "A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic
// Programming", 1999). Longer texts take the matrix row by row (R. Wagner, M. Fischer, "The
// String-to-String Correction Problem", 1974).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/ends.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kWordBits = 64;

// Positions of each character in a short text, a bit a position.
class Places {
 public:
  void clear() {
    for (const uint32_t slot : used_) masks_[slot] = 0;
    used_.clear();
  }

  void add(uint32_t code, int64_t place) {
    const uint32_t slot = find(code);
    if (masks_[slot] == 0) {
      codes_[slot] = code;
      used_.push_back(slot);
    }
    masks_[slot] |= uint64_t{1} << place;
  }

  uint64_t of(uint32_t code) const { return masks_[find(code)]; }

 private:
  // Slot of a character, or a free slot; at most half of the slots are in use.
  uint32_t find(uint32_t code) const {
    uint32_t slot = code % kSlots;
    while (masks_[slot] != 0 && codes_[slot] != code) slot = (slot + 1) % kSlots;
    return slot;
  }

  static constexpr uint32_t kSlots = 2 * kWordBits;
  std::array<uint32_t, kSlots> codes_{};
  std::array<uint64_t, kSlots> masks_{};
  std::vector<uint32_t> used_;
};

int64_t short_distance(const uint32_t* text, int64_t size, const uint32_t* other, int64_t length,
                       Places& places) {
  places.clear();
  for (int64_t i = 0; i < size; ++i) places.add(text[i], i);
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

// Row after `extend_row`, for callers that compare long texts in steps.
nb::object edit_row(const In<int64_t>& row, const In<uint32_t>& codes,
                    const In<uint32_t>& other_codes) {
  if (row.size() != codes.size() + 1) corrupt("distances: the row needs a number for each prefix");
  const auto size = static_cast<int64_t>(codes.size());
  Owned<int64_t> out(size + 1);
  {
    nb::gil_scoped_release release;
    std::copy(row.data(), row.data() + size + 1, out.data());
    extend_row(codes.data(), size, other_codes.data(), static_cast<int64_t>(other_codes.size()),
               out.data());
  }
  return nb::cast(out.numpy());
}

// Edit distance of each pair of texts: characters to change, add or leave out. Text i lies between
// `ends[i]` and `ends[i + 1]`.
nb::object edit_distances(const In<int64_t>& ends, const In<uint32_t>& codes,
                          const In<int64_t>& other_ends, const In<uint32_t>& other_codes) {
  const auto count = static_cast<int64_t>(ends.size()) - 1;
  if (count < 0 || other_ends.size() != ends.size()) corrupt("distances: one text for each");
  Owned<int64_t> out(count);
  {
    nb::gil_scoped_release release;
    Places places;
    std::vector<int64_t> row;
    for (int64_t i = 0; i < count; ++i) {
      int64_t start = ends.data()[i], stop = ends.data()[i + 1];
      int64_t begin = other_ends.data()[i], end = other_ends.data()[i + 1];
      check_ends(start, stop, static_cast<int64_t>(codes.size()), "characters");
      check_ends(begin, end, static_cast<int64_t>(other_codes.size()), "characters");
      const uint32_t *text = codes.data(), *other = other_codes.data();
      while (start < stop && begin < end && text[start] == other[begin]) ++start, ++begin;
      while (start < stop && begin < end && text[stop - 1] == other[end - 1]) --stop, --end;
      text += start, other += begin;
      int64_t size = stop - start, length = end - begin;
      if (size > length) std::swap(text, other), std::swap(size, length);
      out.data()[i] = size == 0            ? length
                      : size <= kWordBits ? short_distance(text, size, other, length, places)
                                          : long_distance(text, size, other, length, row);
    }
  }
  return nb::cast(out.numpy());
}

// Three sums over each pair of vectors of equal length: of products, of squares of the first, of
// squares of the second vector; all rows of a sum follow each other. `apart`: the sum of squared
// differences alone. `present` has a byte a row, 0 for sums of nothing; no byte: all rows are
// present.
template <typename T, typename U>
nb::object vector_sums(const In<int64_t>& ends, const In<T>& values, const In<int64_t>& other_ends,
                       const In<U>& other_values, const Bytes& present, bool apart) {
  if (ends.size() == 0 || other_ends.size() == 0) corrupt("vectors: no ends");
  const auto rows = static_cast<int64_t>(ends.size() == 2 ? other_ends.size() : ends.size()) - 1;
  if (present.size() != 0 && static_cast<int64_t>(present.size()) != rows)
    corrupt("vectors: a byte for each");
  Owned<double> sums(product(rows, apart ? 1 : 3, "sums"));
  {
    nb::gil_scoped_release release;
    const Lists<T> vectors(ends, values, rows);
    const Lists<U> others(other_ends, other_values, rows);
    for (int64_t row = 0; row < rows; ++row) {
      double first = apart ? -0.0 : 0.0, second = 0, third = 0;
      if (present.size() == 0 || present.data()[row]) {
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
  }
  return nb::cast(sums.numpy());
}

}  // namespace
}  // namespace alance

void register_distances(nanobind::module_& m) {
  using nanobind::arg;
  m.def("edit_distances", &alance::edit_distances, arg("ends"), arg("codes"), arg("other_ends"),
        arg("other_codes"));
  m.def("edit_row", &alance::edit_row, arg("row"), arg("codes"), arg("other_codes"));
  m.def("vector_sums", &alance::vector_sums<float, float>, arg("ends"), arg("values"),
              arg("other_ends"), arg("other_values"), arg("present"), arg("apart"));
  m.def("vector_sums", &alance::vector_sums<float, double>, arg("ends"), arg("values"),
              arg("other_ends"), arg("other_values"), arg("present"), arg("apart"));
  m.def("vector_sums", &alance::vector_sums<double, float>, arg("ends"), arg("values"),
              arg("other_ends"), arg("other_values"), arg("present"), arg("apart"));
  m.def("vector_sums", &alance::vector_sums<double, double>, arg("ends"), arg("values"),
              arg("other_ends"), arg("other_values"), arg("present"), arg("apart"));
}
