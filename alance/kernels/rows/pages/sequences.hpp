// Sequences (2.3): unsigned numbers whose count is stored elsewhere. format/codecs/sequence.py
// describes the encodings of sequences, format/codecs/words.py those of encoded runs.
#pragma once
#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "codecs/unpack.hpp"
#include "rows/pages/units.hpp"

namespace alance::sequences {

using cells::Part;
using cells::text;
using cells::two_parts;

// Numbers as Python describes them: kind, bits, start or packed width, step, true if the description has
// no number, compression.
using Described = std::tuple<int, int, uint64_t, uint64_t, bool, int>;
// A sequence as Python describes it: kind, `first`, `second` and `number` of `Sequence`.
using DescribedSequence = std::tuple<int, Described, Described, uint64_t>;

// Encoding of numbers: equally spaced numbers, which have no bytes, or a block.
struct Numbers {
  enum Kind : int { kArithmetic, kFlat, kPacked, kBlocks };

  int kind = kArithmetic, bits = 64;
  uint64_t start = 0, step = 0;  // kBlocks: `start` is the packed width
  bool is_empty = false;         // the description has no number
  int scheme = 0;                // compression of the block; 0: none

  static Numbers of(const Described& from) {
    Numbers own;
    std::tie(own.kind, own.bits, own.start, own.step, own.is_empty, own.scheme) = from;
    if (own.kind < kArithmetic || own.kind > kBlocks || !cells::is_word(own.bits) || own.scheme < 0 ||
        own.scheme > units::kZstd || (own.kind == kBlocks && own.start >= static_cast<uint64_t>(own.bits)))
      corrupt("a sequence of an unknown form");
    return own;
  }

  bool has_payload() const { return kind != kArithmetic; }
  int64_t word() const { return bits / 8; }

  // Check that `count` equally spaced numbers fit into their type.
  void check(int64_t count) const {
    if (is_empty && count != 0) corrupt("sequence: " + text(count) + " numbers, the description has none");
    uint64_t last = 0;
    const uint64_t most = bits == 64 ? uint64_t{INT64_MAX} : (uint64_t{1} << bits) - 1;
    if (__builtin_mul_overflow(step, static_cast<uint64_t>(std::max<int64_t>(count - 1, 0)), &last) ||
        __builtin_add_overflow(last, start, &last) || last > most)
      corrupt("sequence: numbers from " + std::to_string(start) + " beyond " + std::to_string(most));
  }

  // Decompressed bytes of at most `count` numbers; they are stored in `content` if they were compressed.
  Part plain(Part payload, int64_t count, std::vector<uint8_t>& content) const {
    if (scheme == 0) return payload;
    return units::decompressed(scheme, payload, product(count, word(), "sequence") + 128 * bits, content);
  }

  fastlanes::Packed packed(int64_t width, int64_t count) const {
    return {fastlanes::unpackers(bits)[width], bits, cells::kRowBytes * width, count,
            kind == kBlocks};
  }

  // Check that a block holds `count` numbers.
  void check_block(Part block, int64_t count) const {
    if (kind == kPacked) {
      if (count != 0 || block.size != 0) cells::width_of(block, bits, count);
    } else if (kind == kBlocks) {
      packed(static_cast<int64_t>(start), count).check(block.size);
    } else if (block.size % word() || block.size / word() != count) {
      corrupt("flat: " + text(block.size) + " bytes for " + text(count) + " values of " + text(bits) + " bits");
    }
  }

  // Read the words of a block without compression.
  void read(Part block, int64_t count, uint8_t* out) const {
    check_block(block, count);
    if (kind == kFlat || count == 0) {
      if (count != 0) std::memcpy(out, block.data, static_cast<size_t>(count * word()));
      return;
    }
    const int64_t head = kind == kPacked ? word() : 0;
    const uint64_t width = head ? cells::load_bits(block.data, bits) : start;
    packed(static_cast<int64_t>(width), count).unpack(block.data + head, block.size - head, out);
  }

  std::vector<int64_t> decode(Part payload, int64_t count) const {
    if (!has_payload()) {
      check(count);
      std::vector<int64_t> numbers(static_cast<size_t>(count));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(start + step * i);
      return numbers;
    }
    std::vector<uint8_t> content;
    const Part block = plain(payload, count, content);
    check_block(block, count);
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    auto* words = reinterpret_cast<uint8_t*>(numbers.data());
    read(block, count, words);
    for (int64_t i = count; bits != 64 && i-- > 0;)  // widen in place, from the last number to the first
      numbers[static_cast<size_t>(i)] = static_cast<int64_t>(cells::load_bits(words + i * word(), bits));
    for (const int64_t number : numbers)
      if (number < 0) corrupt("sequence: a number that is not below 2^63");
    return numbers;
  }
};

// Runs whose values and lengths are blocks, of which one is flat. The last run may exceed the values.
struct CodedRuns {
  Numbers values, lengths;

  // Write the words of `count` values.
  void expand(Part value_part, Part length_part, int64_t count, uint8_t* out) const {
    std::vector<uint8_t> of_values, of_lengths;
    value_part = values.plain(value_part, count, of_values);
    length_part = lengths.plain(length_part, count, of_lengths);
    const bool is_flat = values.kind == Numbers::kFlat;
    const int64_t runs = is_flat ? value_part.size / values.word() : length_part.size / lengths.word();
    if (runs > count || (runs == 0 && count != 0)) corrupt("rle: " + text(runs) + " runs in " + text(count) + " values");
    std::vector<uint8_t> items(static_cast<size_t>(runs * values.word())), sizes(static_cast<size_t>(runs * lengths.word()));
    values.read(value_part, runs, items.data());
    lengths.read(length_part, runs, sizes.data());
    const int64_t word = values.word();
    int64_t at = 0;
    for (int64_t i = 0; i < runs; ++i) {
      const auto length = static_cast<int64_t>(cells::load_bits(sizes.data() + i * lengths.word(), lengths.bits));
      if (length == 0) corrupt("rle: a run of length 0");
      const bool is_last = i + 1 == runs;
      if (is_last ? length < count - at : length >= count - at)
        corrupt("rle: runs hold " + text(at + length) + " values, the chunk has " + text(count));
      for (const int64_t end = is_last ? count : at + length; at < end; ++at)
        std::memcpy(out + at * word, items.data() + i * word, static_cast<size_t>(word));
    }
  }
};

struct Sequence {
  // kRuns: `first` has the values of the runs, `second` their lengths. kDistinct: `first` has the
  // distinct items, `second` the indices.
  enum Kind : int { kPlain, kDelta, kRuns, kDistinct };

  int kind = kPlain;
  Numbers first, second;
  uint64_t number = 0;  // kDelta: first number; kDistinct: number of distinct items

  static Sequence of(const DescribedSequence& from) {
    Sequence own{std::get<0>(from), Numbers::of(std::get<1>(from)), Numbers::of(std::get<2>(from)), std::get<3>(from)};
    if (own.kind < kPlain || own.kind > kDistinct || own.first.bits < 32 || (own.kind >= kRuns && own.second.bits != 32) ||
        (own.kind == kDistinct && own.number > kMostItems))
      corrupt("a sequence of an unknown form");
    return own;
  }

  int bits() const { return first.bits; }
  bool is_arithmetic() const { return kind == kPlain && !first.has_payload(); }
  bool has_payload() const { return first.has_payload() || (kind >= kRuns && second.has_payload()); }

  std::vector<int64_t> decode(Part payload, int64_t count) const {
    switch (kind) {
      case kDelta: return deltas(payload, count);
      case kRuns: return runs(payload, count);
      case kDistinct: return distinct(payload, count);
      default: return first.decode(payload, count);
    }
  }

 private:
  static constexpr uint64_t kMostItems = 4096;

  std::vector<int64_t> deltas(Part payload, int64_t count) const {
    if (count == 0) corrupt("delta: a sequence without numbers");
    std::vector<int64_t> numbers = first.decode(payload, count - 1);
    const int64_t most = bits() == 64 ? INT64_MAX : UINT32_MAX;
    auto sum = static_cast<int64_t>(number);
    numbers.push_back(0);
    for (int64_t& at : numbers) {
      const int64_t delta = at;
      if (sum < 0 || sum > most) corrupt("delta: numbers beyond " + text(most));
      at = sum;
      if (__builtin_add_overflow(sum, delta, &sum)) sum = -1;
    }
    return numbers;
  }

  std::vector<int64_t> runs(Part payload, int64_t count) const {
    Part value_part, length_part;
    if (has_payload()) std::tie(value_part, length_part) = two_parts(payload, "rle");
    const int64_t num_runs = runs_in(count, value_part.size, length_part.size);
    if (num_runs > count) corrupt("runs: " + text(num_runs) + " of them in " + text(count) + " numbers");
    const std::vector<int64_t> lengths = second.decode(length_part, num_runs);
    int64_t sum = 0;
    for (const int64_t length : lengths) {
      sum += length;
      if (length == 0 || sum > count) break;
    }
    if (sum != count || std::find(lengths.begin(), lengths.end(), 0) != lengths.end())
      corrupt("runs: lengths of together " + text(sum) + " in " + text(count) + " numbers");
    const std::vector<int64_t> values = first.decode(value_part, num_runs);
    std::vector<int64_t> numbers;
    numbers.reserve(static_cast<size_t>(count));
    for (size_t i = 0; i < lengths.size(); ++i) numbers.insert(numbers.end(), static_cast<size_t>(lengths[i]), values[i]);
    return numbers;
  }

  // Number of runs: from the size of a payload, or from equally spaced lengths that add up to `count`.
  int64_t runs_in(int64_t count, int64_t value_bytes, int64_t length_bytes) const {
    if (second.has_payload())
      return first.kind == Numbers::kFlat && first.scheme == 0 ? value_bytes / first.word() : length_bytes / second.word();
    if (second.step == 0) return count / static_cast<int64_t>(std::clamp<uint64_t>(second.start, 1, UINT32_MAX));
    int64_t num_runs = 0;
    for (uint64_t sum = 0, length = second.start; sum < static_cast<uint64_t>(count); length += second.step, ++num_runs)
      sum += std::min<uint64_t>(length, UINT32_MAX);
    return num_runs;
  }

  std::vector<int64_t> distinct(Part payload, int64_t count) const {
    Part index_part, item_part;
    if (has_payload()) {
      if (payload.size < 16) corrupt("sequence: a dictionary outside of its bytes");
      const uint64_t indices = load<uint64_t>(payload.data), items = load<uint64_t>(payload.data + 8);
      const auto rest = static_cast<uint64_t>(payload.size - 16);
      if (indices > rest || items > rest - indices) corrupt("sequence: a dictionary with parts outside of its bytes");
      index_part = {payload.data + 16, static_cast<int64_t>(indices)};
      item_part = {payload.data + 16 + indices, static_cast<int64_t>(items)};
    }
    std::vector<int64_t> numbers = second.decode(index_part, count);
    const std::vector<int64_t> items = first.decode(item_part, static_cast<int64_t>(number));
    for (int64_t& at : numbers) {
      if (static_cast<uint64_t>(at) >= number)
        corrupt("index " + text(at) + " into " + std::to_string(number) + " distinct numbers");
      at = items[static_cast<size_t>(at)];
    }
    return numbers;
  }
};

}  // namespace alance::sequences
