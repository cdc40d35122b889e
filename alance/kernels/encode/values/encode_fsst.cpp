// FSST encoding: learns a symbol table from a sample of strings, and replaces strings by codes.
//
// The table is built in rounds. Each round encodes the sample by the current symbols and counts
// codes and pairs of adjacent codes. The symbols, and concatenations of pairs, that save most bytes
// are the symbols of the next round. Early rounds use only a part of the sample.
//
// Source: P. Boncz, T. Neumann, V. Leis, "FSST: Fast Random Access String Compression", PVLDB 13,
// 2020.
#include <algorithm>
#include <limits>

#include "encode/encode.hpp"
#include "encode/values/encode_fsst.hpp"
#include "encode/values/encode_fsst_lanes.hpp"

namespace alance {
namespace {

using namespace fsst;

constexpr int64_t kStretchBytes = 512;  // bytes of the sample from one place
constexpr int kRounds = 5;
constexpr uint32_t kPlain = 256;  // while learning, codes below are bytes without a symbol
constexpr uint32_t kByteFavour = 4;  // gain factor of one-byte symbols: an escape costs two bytes

struct Sample {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> ends;  // of the strings, or of the parts in the sample
};

// Sample of stretches at even distances, each of whole strings if they are short.
template <typename Offset>
Sample sample_of(const Offset* offset, int64_t num, const uint8_t* data, int64_t most) {
  Sample sample;
  const int64_t begin = offset[0], total = offset[num] - begin;
  const int64_t places = std::max<int64_t>(1, std::min(total, most) / kStretchBytes);
  int64_t covered = begin;
  for (int64_t place = 0; place < places; ++place) {
    int64_t at = std::max(covered, begin + total / places * place);
    int64_t budget = total <= most ? total : kStretchBytes;
    int64_t i = std::upper_bound(offset, offset + num + 1, static_cast<Offset>(at)) - offset - 1;
    // Begin with a whole string, unless it is longer than a stretch.
    if (i < num && offset[i] >= covered && offset[i + 1] - offset[i] <= kStretchBytes)
      at = offset[i];
    for (; i < num && budget > 0; ++i) {
      const int64_t from = std::max<int64_t>(at, offset[i]);
      const int64_t size = std::min<int64_t>(offset[i + 1] - from, budget);
      if (size <= 0) continue;
      sample.bytes.insert(sample.bytes.end(), data + from, data + from + size);
      sample.ends.push_back(std::ssize(sample.bytes));
      budget -= size;
      covered = from + size;
    }
  }
  return sample;
}

struct Counts {
  std::vector<uint32_t> single = std::vector<uint32_t>(2 * kPlain);
  std::vector<uint32_t> pair = std::vector<uint32_t>(4 * kPlain * kPlain);
  std::vector<uint32_t> seen;  // pairs with a count
  int64_t size = 0;            // bytes of the codes

  void clear() {
    std::fill(single.begin(), single.end(), 0);
    for (uint32_t code_pair : seen) pair[code_pair] = 0;
    seen.clear();
    size = 0;
  }

  void add_pair(uint32_t first, uint32_t second) {
    const uint32_t code_pair = first * 2 * kPlain + second;
    if (pair[code_pair]++ == 0) seen.push_back(code_pair);
  }
};

// Encode `share` of every 8 strings of the sample, and count codes and pairs.
void count(const Finder& finder, const Sample& sample, int share, Counts& counts) {
  const uint8_t* const data = sample.bytes.data();
  const uint8_t* const end = data + sample.bytes.size();
  const Finder::View view = finder.view();
  int64_t at = 0;
  for (size_t i = 0; i < sample.ends.size(); ++i) {
    const int64_t stop = sample.ends[i];
    if (static_cast<int>(i * 5 % 8) >= share) {
      at = stop;
      continue;
    }
    uint32_t before = 2 * kPlain;
    while (at < stop) {
      const int64_t remaining = stop - at;
      const uint64_t word = word_of(data + at, remaining, end);
      const Finder::Match match = view.find(word, remaining);
      const uint32_t byte = static_cast<uint32_t>(word & 255);
      const bool escaped = match.code == kEscape;
      const uint32_t code = escaped ? byte : kPlain + match.code;
      counts.size += escaped ? 2 : 1;
      ++counts.single[code];
      if (before < 2 * kPlain) counts.add_pair(before, code);
      if (match.length > 1) {
        // Count its first byte, too: alone, and as an extension of the symbol before.
        ++counts.single[byte];
        if (before < 2 * kPlain) counts.add_pair(before, byte);
      }
      before = code;
      at += match.length;
    }
  }
}

struct Candidate {
  Symbol symbol;
  uint64_t gain;
};

// Symbols of the next round, the best first.
std::vector<Candidate> candidates(const Finder& finder, const Counts& counts, int share) {
  std::vector<Candidate> result;
  const uint32_t least = static_cast<uint32_t>(5 * share / 8);  // rarer symbols are chance
  auto symbol_of = [&](uint32_t code) {
    return code < kPlain ? Symbol{code, 1} : finder[code - kPlain];
  };
  auto consider = [&](const Symbol& symbol, uint32_t number) {
    if (number < least || number == 0) return;
    uint64_t gain = uint64_t{number} * static_cast<uint64_t>(symbol.length);
    if (symbol.length == 1) gain *= kByteFavour;
    result.push_back({symbol, gain});
  };
  for (uint32_t code = 0; code < kPlain + static_cast<uint32_t>(finder.size()); ++code)
    consider(symbol_of(code), counts.single[code]);
  if (share < 8) {
    for (uint32_t code_pair : counts.seen) {
      const Symbol first = symbol_of(code_pair / (2 * kPlain));
      const Symbol second = symbol_of(code_pair % (2 * kPlain));
      if (first.length < kMaxSymbolBytes) consider(first.with(second), counts.pair[code_pair]);
    }
  }
  auto before = [](const Candidate& a, const Candidate& b) {
    return a.symbol.length != b.symbol.length ? a.symbol.length < b.symbol.length
                                              : a.symbol.bytes < b.symbol.bytes;
  };
  std::sort(result.begin(), result.end(), before);
  size_t num_distinct = 0;
  for (const Candidate& candidate : result) {
    if (num_distinct && result[num_distinct - 1].symbol.length == candidate.symbol.length &&
        result[num_distinct - 1].symbol.bytes == candidate.symbol.bytes)
      result[num_distinct - 1].gain += candidate.gain;
    else
      result[num_distinct++] = candidate;
  }
  result.resize(num_distinct);
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.gain > b.gain; });
  return result;
}

// Learn symbols from a sample; `size` becomes the sample's encoded size.
std::unique_ptr<Finder> learn(const Sample& sample, int64_t& size) {
  auto finder = std::make_unique<Finder>();
  Counts counts;
  for (int round = 0; round < kRounds; ++round) {
    const int share = 8 * (round + 1) / kRounds;
    counts.clear();
    count(*finder, sample, share, counts);
    const std::vector<Candidate> best = candidates(*finder, counts, share);
    finder->clear();
    for (const Candidate& candidate : best) finder->add(candidate.symbol);
  }
  counts.clear();
  count(*finder, sample, 8, counts);
  size = counts.size;
  return finder;
}

}  // namespace

template <typename Offset>
LearnedSymbols learn_fsst(const Strings<Offset>& strings, int64_t most) {
  if (most < 1 || most > (1 << 24)) corrupt("fsst: a sample of ", most);
  const Sample sample = sample_of(strings.ends, strings.count, strings.content, most);
  int64_t size = 0;
  auto finder = learn(sample, size);
  Owned<uint64_t> symbols(finder->size());
  Owned<uint8_t> lengths(finder->size());
  for (int code = 0; code < finder->size(); ++code) {
    symbols[code] = (*finder)[static_cast<uint32_t>(code)].bytes;
    lengths[code] = static_cast<uint8_t>((*finder)[static_cast<uint32_t>(code)].length);
  }
  return {std::move(symbols), std::move(lengths), std::ssize(sample.bytes), size};
}

template <typename Offset>
CodedStrings<Offset> encode_fsst(const Strings<Offset>& strings,
                                 std::span<const uint64_t> symbols,
                                 std::span<const uint8_t> lengths) {
  if (symbols.size() > kMaxSymbols || symbols.size() != lengths.size())
    corrupt("fsst: a table of ", symbols.size(), " symbols");
  auto finder = std::make_unique<Finder>();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int length = lengths[i];
    if (length < 1 || length > kMaxSymbolBytes) corrupt("fsst: a symbol of ", length, " bytes");
    if (!finder->add({symbols[i] & Symbol::mask(length), length}))
      corrupt("fsst: two symbols that begin alike");
  }
  const Offset* offset = strings.ends;
  const int64_t num = strings.count;
  const int64_t most = 2 * (int64_t{offset[num]} - int64_t{offset[0]});
  if (most > std::numeric_limits<Offset>::max())
    throw std::overflow_error("fsst: " + std::to_string(most / 2) + " bytes of strings");
  Owned<Offset> ends(num + 1);
  Owned<uint8_t> codes(most, 8);
  const uint8_t* const bytes = strings.content;
  const uint8_t* const end = bytes + strings.num_bytes;
  ends[0] = 0;
  auto lane_of = [&](int64_t first, int64_t last) {
    uint8_t* const out = codes.data() + 2 * (int64_t{offset[first]} - int64_t{offset[0]});
    const uint8_t* const at = bytes + offset[first];
    Lane<Offset> lane{at, first < last ? bytes + offset[first + 1] : at, out, out, first, last};
    lane.advance(offset, bytes, ends.data());
    return lane;
  };
  Lane<Offset> first = lane_of(0, num / 2), second = lane_of(num / 2, num);
  const uint8_t* const safe = strings.num_bytes < kMaxSymbolBytes ? bytes : end - kMaxSymbolBytes;
  run_both(first, second, *finder, offset, bytes, safe, ends.data());
  run_lane(first, *finder, offset, bytes, end, ends.data());
  run_lane(second, *finder, offset, bytes, end, ends.data());
  const int64_t before = first.out - first.begin, size = second.out - second.begin;
  if (size) std::memmove(first.out, second.begin, static_cast<size_t>(size));
  for (int64_t i = num / 2; i < num; ++i) ends[i + 1] = static_cast<Offset>(ends[i + 1] + before);
  return {std::move(ends), std::move(codes)};
}

template LearnedSymbols learn_fsst(const Strings<int32_t>&, int64_t);
template LearnedSymbols learn_fsst(const Strings<int64_t>&, int64_t);
template CodedStrings<int32_t> encode_fsst(const Strings<int32_t>&, std::span<const uint64_t>,
                                           std::span<const uint8_t>);
template CodedStrings<int64_t> encode_fsst(const Strings<int64_t>&, std::span<const uint64_t>,
                                           std::span<const uint8_t>);

namespace {

// Learn symbols from about `most` bytes of the strings. Returns symbols and their lengths, and the
// sample's bytes before and after encoding.
template <typename Offset>
std::tuple<Owned<uint64_t>, Owned<uint8_t>, int64_t, int64_t> learned(const In<Offset>& offsets,
                                                                      const Bytes& data,
                                                                      int64_t most) {
  LearnedSymbols table = learn_fsst(Strings(offsets, data, "fsst"), most);
  return {std::move(table.symbols), std::move(table.lengths), table.plain, table.encoded};
}

// Encode strings by a table. Returns the offsets of the codes, and the codes with unused bytes
// behind.
template <typename Offset>
std::tuple<Owned<Offset>, Owned<uint8_t>> coded(const In<Offset>& offsets, const Bytes& data,
                                                const In<uint64_t>& symbols, const Bytes& lengths) {
  auto strings =
      encode_fsst<Offset>(Strings(offsets, data, "fsst"), {symbols.data(), symbols.size()},
                          {lengths.data(), lengths.size()});
  return {std::move(strings.ends), std::move(strings.codes)};
}

template <typename Offset>
void add(nb::module_& m) {
  m.def("learn_fsst", &learned<Offset>, "offsets"_a.noconvert(), "data"_a, "most"_a, NoGil());
  m.def("encode_fsst", &coded<Offset>, "offsets"_a.noconvert(), "data"_a, "symbols"_a, "lengths"_a,
        NoGil());
}

}  // namespace
}  // namespace alance

void register_encode_fsst(nanobind::module_& m) {
  alance::add<int32_t>(m);
  alance::add<int64_t>(m);
}
