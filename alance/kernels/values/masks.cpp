// Row conditions as bit masks: integers in a range, and true rows.
#include "base/owned.hpp"
#include "base/processor.hpp"
#include "base/unlocked.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

constexpr int64_t kWord = 64;  // rows whose bits are written or read at once

// Mark each value that is at most `span` above `low`, modulo its width, by a bit.
template <typename T>
ALANCE_INLINE void mark(const uint8_t* values, int64_t count, T low, T span, uint8_t* out) {
  for (int64_t i = 0; i < count; i += kWord) {
    uint8_t hits[kWord];
    for (int64_t j = 0; j < kWord; ++j)
      hits[j] = static_cast<T>(load<T>(values + sizeof(T) * static_cast<size_t>(i + j)) - low) <= span;
    // Eight bytes of 0 or 1: the product has their bits in its highest byte.
    for (int64_t j = 0; j < kWord; j += 8)
      *out++ = static_cast<uint8_t>(load<uint64_t>(hits + j) * 0x0102040810204080 >> 56);
  }
}

template <typename T>
void mark_all(const uint8_t* values, int64_t count, uint64_t low, uint64_t span, uint8_t* out) {
  const T least = static_cast<T>(low), most = static_cast<T>(span);
  const int64_t whole = count / kWord * kWord, rest = count - whole;
  const auto mark_best = Versions<mark<T>>::best();
  mark_best(values, whole, least, most, out);
  if (rest == 0) return;
  uint8_t last[kWord * sizeof(T)] = {}, bits[kWord / 8];
  std::memcpy(last, values + sizeof(T) * static_cast<size_t>(whole), sizeof(T) * static_cast<size_t>(rest));
  mark_best(last, kWord, least, most, bits);
  std::memcpy(out + whole / 8, bits, static_cast<size_t>((rest + 7) / 8));
}

// The sign of the integers does not matter.
Owned<uint8_t> within(const Bytes& values, int64_t first, int64_t count, int bits, uint64_t low,
                      uint64_t span) {
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    corrupt("within: numbers of ", bits, " bits");
  const int64_t width = bits / 8;
  if (first < 0 || count < 0) corrupt("within: rows before the first");
  check_span(product(first, width, "within"), product(count, width, "within"), std::ssize(values),
             "within");
  const Unlocked unlocked(count / 4);
  Owned<uint8_t> out((count + 7) / 8);
  const uint8_t* from = values.data() + first * width;
  by_width(bits, [&](auto word) { mark_all<decltype(word)>(from, count, low, span, out.data()); });
  return out;
}

// Eight bytes from `at` on; zeros stand for missing ones.
uint64_t word_at(const Bytes& bits, int64_t at) {
  const int64_t remaining = std::ssize(bits) - at;
  if (remaining >= 8) return load<uint64_t>(bits.data() + at);
  uint64_t word = 0;
  std::memcpy(&word, bits.data() + at, static_cast<size_t>(remaining));
  return word;
}

// Call `work` with the number of a row and the bits of 64 rows from there on; the first row number
// may be negative.
template <typename Work>
void each_word(const Bytes& values, const Bytes& valid, int64_t first, int64_t count, Work work) {
  const int64_t lead = first % 8;
  for (int64_t row = -lead; row < count; row += kWord) {
    const int64_t at = (first + row) / 8;
    uint64_t word = word_at(values, at);
    if (valid.size() != 0) word &= word_at(valid, at);
    if (row < 0) word &= ~uint64_t{0} << lead;
    if (count - row < kWord) word &= (uint64_t{1} << (count - row)) - 1;
    work(row, word);
  }
}

Owned<int64_t> true_rows(const Bytes& values, const Bytes& valid, int64_t first, int64_t count) {
  if (first < 0 || count < 0 || first > INT64_MAX - 7 - count) corrupt("true_rows: no such rows");
  const int64_t num_bytes = (first + count + 7) / 8;
  check_span(0, num_bytes, std::ssize(values), "true_rows");
  if (valid.size() != 0) check_span(0, num_bytes, std::ssize(valid), "true_rows");
  int64_t total = 0;
  each_word(values, valid, first, count,
            [&](int64_t, uint64_t word) { total += __builtin_popcountll(word); });
  const Unlocked unlocked(total);
  Owned<int64_t> rows(total);
  int64_t* to = rows.data();
  each_word(values, valid, first, count, [&](int64_t row, uint64_t word) {
    for (; word; word &= word - 1) *to++ = row + __builtin_ctzll(word);
  });
  return rows;
}

}  // namespace
}  // namespace alance

void register_masks(nanobind::module_& m) {
  using namespace alance;
  m.def("within", &within, "values"_a, "first"_a, "count"_a, "bits"_a, "low"_a, "span"_a);
  m.def("true_rows", &true_rows, "values"_a, "valid"_a, "first"_a, "count"_a);
}
