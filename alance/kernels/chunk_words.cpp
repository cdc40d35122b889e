// Chunk words of mini-block pages: where each chunk begins, in bytes and in values.
#include "bounds.hpp"
#include "unlocked.hpp"

namespace alance {
namespace {

constexpr uint64_t MAX_CHUNK_VALUES = 32768;

struct Table {
  int64_t *first_bytes, *first_values;
};

std::string text(int64_t value) { return std::to_string(value); }

// Word: (bytes / 8 - 1) << 4 | log2(values); the last chunk has what is left.
template <typename T>
void parse(const uint8_t* words, int64_t count, uint64_t num_items, int64_t chunk_bytes,
           Table& to) {
  int64_t bytes = 0, unsaid = -1, low = 0;
  uint64_t values = 0;
  for (int64_t i = 0; i < count; ++i) {
    T word;
    std::memcpy(&word, words + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    low = word & 15;
    to.first_bytes[i] = bytes;
    to.first_values[i] = static_cast<int64_t>(values);
    bytes += ((int64_t{word} >> 4) + 1) * 8;
    if (i + 1 < count) {
      // Only the last chunk may leave out how many values it has: no other has a single one.
      if (low == 0 && unsaid < 0) unsaid = i;
      values += uint64_t{1} << low;
    }
  }
  if (bytes != chunk_bytes)
    corrupt("chunks of together " + text(bytes) + " bytes, their buffer has " + text(chunk_bytes));
  if (count == 0 && num_items != 0) corrupt("no chunks for " + std::to_string(num_items) + " values");
  if (unsaid >= 0)
    corrupt("chunk " + text(unsaid) + " of " + text(count) + " does not say how many values it has");
  if (count != 0 && (num_items < values || num_items - values > MAX_CHUNK_VALUES))
    corrupt(std::to_string(values) + " values before the last of " + text(count) + " chunks, " +
            std::to_string(num_items) + " in all");
  if (low != 0 && uint64_t{1} << low != num_items - values)
    corrupt("the last chunk has " + text(int64_t{1} << low) + " values, " +
            std::to_string(num_items - values) + " are left for it");
  to.first_bytes[count] = bytes;
  to.first_values[count] = static_cast<int64_t>(num_items);
}

}  // namespace

// Gives the first byte of each chunk and the end, then its first value and the end: two times
// (chunks + 1) numbers.
void chunk_words(Bytes words, bool large, uint64_t num_items, int64_t chunk_bytes,
                 Out<int64_t> numbers) {
  const int64_t width = large ? 4 : 2, size = static_cast<int64_t>(words.size());
  if (size % width)
    corrupt(text(size) + " bytes of chunk words of " + text(width) + " bytes");
  const int64_t count = size / width;
  if (static_cast<int64_t>(numbers.size()) != 2 * (count + 1))
    corrupt("a table of " + text(numbers.size()) + " numbers for " + text(count) + " chunks");
  Table table{numbers.data(), numbers.data() + count + 1};
  const Unlocked unlocked(2 * count);
  if (large)
    parse<uint32_t>(words.data(), count, num_items, chunk_bytes, table);
  else
    parse<uint16_t>(words.data(), count, num_items, chunk_bytes, table);
}

}  // namespace alance

void register_chunk_words(nanobind::module_& m) {
  using namespace alance;
  m.def("chunk_words", &chunk_words, nb::arg("words"), nb::arg("large"), nb::arg("num_items"),
        nb::arg("chunk_bytes"), nb::arg("table"));
}
