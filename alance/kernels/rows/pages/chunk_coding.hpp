// Chunks of 2.3 that are decoded as a whole before single values are looked up: strings whose offsets
// are a sequence become strings with plain offsets, and encoded runs become flat values.
#pragma once
#include <optional>

#include "rows/pages/sequences.hpp"

namespace alance {

// Encoding of a block of words that is decoded as a whole: compressed numbers, or encoded runs.
struct WordCoding {
  std::optional<sequences::Numbers> numbers;
  std::optional<sequences::CodedRuns> runs;

  int bits() const { return runs ? runs->values.bits : numbers->bits; }
  std::vector<uint8_t> words(cells::Part block, int64_t count) const {
    const bool is_without_bytes = !runs && numbers->kind == sequences::Numbers::kBlocks && numbers->start == 0;
    if (count > (is_without_bytes ? kMostZeros : kMostWords)) corrupt("a block of " + cells::text(count) + " words");
    std::vector<uint8_t> out(static_cast<size_t>(product(count, bits() / 8, "block")));
    if (runs) {
      const auto [values, lengths] = sequences::two_parts(block, "rle");
      runs->expand(values, lengths, count, out.data());
    } else {
      std::vector<uint8_t> content;
      numbers->read(numbers->plain(block, count, content), count, out.data());
    }
    return out;
  }

 private:
  static constexpr int64_t kMostWords = int64_t{1} << 27;
  static constexpr int64_t kMostZeros = int64_t{1} << 24;  // words in a block of width 0, which has no bytes
};

struct ChunkCoding {
  std::optional<sequences::Sequence> offsets;
  std::optional<sequences::CodedRuns> runs;

  int num_buffers() const { return runs ? 2 : 1 + offsets->has_payload(); }

  // Decode the words of `count` values.
  std::vector<uint8_t> flat(cells::Part values, cells::Part lengths, int64_t count) const {
    std::vector<uint8_t> words(static_cast<size_t>(product(count, runs->values.word(), "chunk")));
    runs->expand(values, lengths, count, words.data());
    return words;
  }
  // Decode `count` strings: offsets from the start of the result, then the bytes.
  std::vector<uint8_t> strings(cells::Part payload, cells::Part bytes, int64_t count) const {
    const std::vector<int64_t> ends = offsets->decode(payload, count + 1);
    if (ends.front() != 0 || ends.back() != bytes.size || !std::is_sorted(ends.begin(), ends.end()))
      corrupt("variable: offsets do not rise from 0 to the end of the bytes");
    const int64_t word = offsets->bits() / 8, start = word * (count + 1);
    if (word == 4 && bytes.size > INT32_MAX - start) corrupt("variable: a chunk of " + cells::text(bytes.size) + " bytes");
    std::vector<uint8_t> out(static_cast<size_t>((start + bytes.size + 7) / 8 * 8));  // padded to whole offsets
    for (size_t i = 0; i < ends.size(); ++i) {
      const int64_t end = ends[i] + start;  // little-endian
      std::memcpy(out.data() + i * static_cast<size_t>(word), &end, static_cast<size_t>(word));
    }
    if (bytes.size != 0) std::memcpy(out.data() + start, bytes.data, static_cast<size_t>(bytes.size));
    return out;
  }
};

}  // namespace alance
