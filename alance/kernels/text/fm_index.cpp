// FM index over texts: suffix array by induced sorting (SA-IS: G. Nong, S. Zhang, W. H. Chan, "Two
// Efficient Algorithms for Linear Time Suffix Array Construction", 2011), Burrows-Wheeler
// transform, wavelet tree in the shape of a Huffman code (R. Grossi, A. Gupta, J. Vitter,
// "High-Order Entropy-Compressed Text Indexes", 2003), and backward search (P. Ferragina, G.
// Manzini, "Opportunistic Data Structures with Applications", 2000).
//
// A node of the tree has a bit for each symbol that passes through it, 0 to the left. Its bits are
// words of 64, the first bit lowest. The words of all nodes are concatenated.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/ends.hpp"
#include "base/owned.hpp"

namespace alance {
namespace {

constexpr int64_t kBlockWords = 8;  // words between two stored counts of ones: 512 bits
constexpr int kWalks = 16;  // walks through the text at once
constexpr int64_t kMaxText = int64_t{1} << 31;
constexpr int64_t kMaxDepth = 256;  // nodes: enough for 256 leaves

// Start, or end, of the suffixes of each symbol.
void buckets(const std::vector<int32_t>& counts, std::vector<int32_t>& out, bool ends) {
  int32_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    out[i] = ends ? sum : sum - counts[i];
  }
}

// Induce the order of all suffixes from that of the leftmost S suffixes in `sa`; -1 is an empty
// slot.
template <typename Symbol>
void induce(const Symbol* text, const std::vector<bool>& is_s, int32_t n, int32_t* sa,
            const std::vector<int32_t>& counts, std::vector<int32_t>& places) {
  buckets(counts, places, false);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t at = sa[i] - 1;
    if (sa[i] > 0 && !is_s[at]) sa[places[text[at]]++] = at;
  }
  buckets(counts, places, true);
  for (int32_t i = n - 1; i >= 0; --i) {
    const int32_t at = sa[i] - 1;
    if (sa[i] > 0 && is_s[at]) sa[--places[text[at]]] = at;
  }
}

// Sort the suffixes of a text that ends with its smallest symbol, which occurs nowhere else.
template <typename Symbol>
void suffix_sort(const Symbol* text, int32_t n, int32_t num_symbols, int32_t* sa) {
  if (n == 1) {
    sa[0] = 0;
    return;
  }
  std::vector<bool> is_s(n);
  std::vector<int32_t> counts(num_symbols), places(num_symbols);
  for (int32_t i = 0; i < n; ++i) ++counts[text[i]];
  is_s[n - 1] = true;
  for (int32_t i = n - 2; i >= 0; --i)
    is_s[i] = text[i] < text[i + 1] || (text[i] == text[i + 1] && is_s[i + 1]);
  const auto is_leftmost = [&](int32_t i) { return i > 0 && is_s[i] && !is_s[i - 1]; };

  // 1. Sort the substrings between leftmost S suffixes.
  std::fill(sa, sa + n, -1);
  buckets(counts, places, true);
  for (int32_t i = 1; i < n; ++i)
    if (is_leftmost(i)) sa[--places[text[i]]] = i;
  induce(text, is_s, n, sa, counts, places);

  // 2. Name them, equal substrings alike; names stand in the upper half of `sa`.
  int32_t num_leftmost = 0;
  for (int32_t i = 0; i < n; ++i)
    if (is_leftmost(sa[i])) sa[num_leftmost++] = sa[i];
  std::fill(sa + num_leftmost, sa + n, -1);
  int32_t num_names = 0, before = -1;
  for (int32_t i = 0; i < num_leftmost; ++i) {
    const int32_t at = sa[i];
    bool differs = before < 0;
    for (int32_t d = 0; !differs; ++d) {
      if (text[at + d] != text[before + d] || is_s[at + d] != is_s[before + d]) differs = true;
      else if (d > 0 && (is_leftmost(at + d) || is_leftmost(before + d))) break;
    }
    if (differs) {
      ++num_names;
      before = at;
    }
    sa[num_leftmost + at / 2] = num_names - 1;
  }
  for (int32_t i = n - 1, j = n - 1; i >= num_leftmost; --i)
    if (sa[i] >= 0) sa[j--] = sa[i];

  // 3. Sort the leftmost S suffixes by these names.
  int32_t* names = sa + n - num_leftmost;
  if (num_names < num_leftmost) {
    std::vector<int32_t> reduced(names, names + num_leftmost);
    suffix_sort(reduced.data(), num_leftmost, num_names, sa);
  } else {
    std::vector<int32_t> order(num_leftmost);
    for (int32_t i = 0; i < num_leftmost; ++i) order[names[i]] = i;
    std::copy(order.begin(), order.end(), sa);
  }

  // 4. Induce the order of all suffixes from that of the leftmost S suffixes.
  std::vector<int32_t> starts;
  starts.reserve(num_leftmost);
  for (int32_t i = 1; i < n; ++i)
    if (is_leftmost(i)) starts.push_back(i);
  for (int32_t i = 0; i < num_leftmost; ++i) sa[i] = starts[sa[i]];
  std::fill(sa + num_leftmost, sa + n, -1);
  buckets(counts, places, true);
  for (int32_t i = num_leftmost - 1; i >= 0; --i) {
    const int32_t at = sa[i];
    sa[i] = -1;
    sa[--places[text[at]]] = at;
  }
  induce(text, is_s, n, sa, counts, places);
}

std::tuple<Owned<uint8_t>, Owned<uint64_t>, Owned<int64_t>> burrows_wheeler(const Bytes& text,
                                                                            int64_t rate) {
  const int64_t n = std::ssize(text);
  const uint8_t* symbols = text.data();
  if (n == 0 || n >= kMaxText) corrupt("suffix array: no text, or over 2 GiB");
  if (rate < 1) corrupt("suffix array: every entry at most");
  if (std::find(symbols, symbols + n, 0) != symbols + n - 1)
    corrupt("suffix array: text does not end with its only zero");
  Owned<uint8_t> transform(n);
  Owned<uint64_t> samples((n + rate - 1) / rate);
  Owned<int64_t> counts(256);
  std::fill_n(counts.data(), 256, 0);
  for (int64_t i = 0; i < n; ++i) ++counts[symbols[i]];
  std::vector<int32_t> suffixes(n);
  suffix_sort(symbols, static_cast<int32_t>(n), 256, suffixes.data());
  for (int64_t i = 0; i < n; ++i) transform[i] = symbols[suffixes[i] ? suffixes[i] - 1 : n - 1];
  for (int64_t i = 0; i < n; i += rate) samples[i / rate] = static_cast<uint64_t>(suffixes[i]);
  return {std::move(transform), std::move(samples), std::move(counts)};
}

Owned<uint8_t> separated(const In<int64_t>& offsets, const Bytes& content) {
  const Strings texts(offsets, content, "texts");
  Owned<uint8_t> out(texts.ends[texts.count] - texts.ends[0] + texts.count);
  uint8_t* to = out.data();
  for (int64_t i = 0; i < texts.count; ++i) {
    for (const char symbol : texts[i]) *to++ = symbol == '\0' || symbol == '\xFF' ? ' ' : symbol;
    *to++ = 0xFF;
  }
  return out;
}

uint64_t fnv1a_rows(const Bytes& head, const In<int64_t>& rows, const In<int64_t>& offsets,
                    const Bytes& content) {
  const Strings texts(offsets, content, "texts");
  if (std::ssize(rows) != texts.count) corrupt("other rows than texts");
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  };
  const auto add_number = [&add](int64_t number) {
    add({reinterpret_cast<const char*>(&number), sizeof number});
  };
  add(text_of(head));
  for (int64_t i = 0; i < texts.count; ++i) {
    const std::string_view text = texts[i].substr(0, texts[i].size() - 1);
    add_number(rows.data()[i]);
    add_number(std::ssize(text));
    add(text);
  }
  return hash;
}

// Children of a node: another node (0 or more), or -1 minus a symbol.
using Children = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Ones before a block of words, and before each of its words but the first: 9 bits each.
struct Count {
  uint64_t before, inside;
};

struct Step {
  int32_t node;
  bool right;
};

// Check that children make a tree with node 0 as root; returns the path to each symbol.
std::array<std::vector<Step>, 256> ways(const Children& children) {
  std::array<std::vector<Step>, 256> out;
  const auto count = static_cast<int32_t>(children.shape(0));
  if (children.shape(1) != 2 || count == 0 || count > kMaxDepth)
    corrupt("wavelet tree: no nodes, or too many");
  std::vector<bool> seen(count);
  std::vector<std::pair<int32_t, std::vector<Step>>> open{{0, {}}};
  seen[0] = true;
  while (!open.empty()) {
    auto [node, way] = std::move(open.back());
    open.pop_back();
    for (int side = 0; side < 2; ++side) {
      const int32_t child = children.data()[2 * node + side];
      auto next = way;
      next.push_back({node, side == 1});
      if (child < 0) {
        if (child < -256 || !out[-1 - child].empty())
          corrupt("wavelet tree: a symbol twice, or none");
        out[-1 - child] = std::move(next);
      } else {
        if (child >= count || seen[child]) corrupt("wavelet tree: a node twice, or none");
        seen[child] = true;
        open.emplace_back(child, std::move(next));
      }
    }
  }
  return out;
}

std::tuple<Owned<uint64_t>, Owned<int64_t>> wavelet_words(const Bytes& symbols,
                                                          const Children& children) {
  const auto paths = ways(children);
  Owned<int64_t> sizes(static_cast<int64_t>(children.shape(0)));
  std::fill_n(sizes.data(), sizes.size(), 0);
  std::array<int64_t, 256> counts{};
  for (size_t i = 0; i < symbols.size(); ++i) ++counts[symbols.data()[i]];
  for (int symbol = 0; symbol < 256; ++symbol) {
    if (counts[symbol] && paths[symbol].empty()) corrupt("wavelet tree: a symbol is missing");
    for (const Step& step : paths[symbol]) sizes[step.node] += counts[symbol];
  }
  std::vector<int64_t> at;  // next bit of each node
  int64_t num_words = 0;
  for (int64_t node = 0; node < sizes.size(); ++node) {
    at.push_back(num_words * 64);
    num_words += (sizes[node] + 63) / 64;
  }
  Owned<uint64_t> out(num_words);
  std::fill_n(out.data(), num_words, 0);
  for (size_t i = 0; i < symbols.size(); ++i)
    for (const Step& step : paths[symbols.data()[i]]) {
      const int64_t bit = at[step.node]++;
      if (step.right) out.data()[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  return {std::move(out), std::move(sizes)};
}

// Partition of an FM index in memory.
class FmIndex {
 public:
  FmIndex(In<uint64_t> words, Children children, In<int64_t> starts, In<int64_t> lengths,
          In<int64_t> totals, In<uint64_t> samples, int64_t rate, int64_t length)
      : words_(words), starts_(starts), samples_(samples), rate_(rate), length_(length),
        children_(children), paths_(ways(children)) {
    const auto count = static_cast<int64_t>(children.shape(0));
    if (std::ssize(starts) != count || std::ssize(lengths) != count || totals.size() != 257 ||
        rate < 1 || length < 1)
      corrupt("FM index: nodes, counts or rate of another size");
    if (std::ssize(samples) != (length + rate - 1) / rate)
      corrupt("FM index: samples of another text");
    for (size_t i = 0; i < samples.size(); ++i)
      if (samples.data()[i] >= static_cast<uint64_t>(length))
        corrupt("FM index: a sample behind the text");
    const int64_t num_words = std::ssize(words);
    for (int64_t node = 0; node < count; ++node) {
      const int64_t start = starts.data()[node], bits = lengths.data()[node];
      if (start < 0 || bits < 0 || bits > length || start > num_words || (bits + 63) / 64 > num_words - start)
        corrupt("FM index: a node without its bits");
      first_.push_back(std::ssize(ones_));
      int64_t sum = 0;
      const int64_t size = (bits + 63) / 64;
      for (int64_t word = 0; word < size; word += kBlockWords) {
        Count count{static_cast<uint64_t>(sum), 0};
        for (int64_t at = 0; at < kBlockWords && word + at <= size; ++at) {
          if (at) count.inside |= (static_cast<uint64_t>(sum) - count.before) << (9 * (at - 1));
          if (word + at < size) sum += std::popcount(words.data()[start + word + at]);
        }
        ones_.push_back(count);
      }
      if (size % kBlockWords == 0) ones_.push_back({static_cast<uint64_t>(sum), 0});
      lengths_.push_back(bits);
    }
    // A node has as many bits as its parent sends to it: so no rank leaves its node.
    if (lengths_[0] != length) corrupt("FM index: a root of another text");
    std::array<int64_t, 256> counts{};
    for (int64_t node = 0; node < count; ++node) {
      const int64_t ones = rank(node, lengths_[node]);
      const int64_t sides[2] = {lengths_[node] - ones, ones};
      for (int side = 0; side < 2; ++side) {
        const int32_t child = children.data()[2 * node + side];
        if (child < 0) counts[-1 - child] = sides[side];
        else if (lengths_[child] != sides[side])
          corrupt("FM index: a node of other bits than its parent says");
      }
    }
    int64_t sum = 0;
    for (int symbol = 0; symbol < 257; ++symbol) {
      totals_[symbol] = sum;
      if (totals.data()[symbol] != sum) corrupt("FM index: other counts of symbols");
      if (symbol < 256) sum += counts[symbol];
    }
  }

  std::tuple<int64_t, int64_t> find(const Bytes& pattern) const {
    int64_t low = 0, high = pattern.size() ? length_ : 0;
    for (size_t i = pattern.size(); i-- > 0 && low < high;) {
      const uint8_t symbol = pattern.data()[i];
      low = totals_[symbol] + occurrences(symbol, low);
      high = totals_[symbol] + occurrences(symbol, high);
    }
    if (low >= high) return {0, 0};
    return {low, high};
  }

  // Positions in the text of the suffixes [low, high). Several walks run at once, because each step
  // waits for memory.
  Owned<int64_t> locate(int64_t low, int64_t high) const {
    if (low < 0 || high < low || high > length_) corrupt("FM index: suffixes out of range");
    Owned<int64_t> out(high - low);
    Walks walks;
    int64_t steps[kWalks], of[kWalks];
    int64_t waiting = low;
    while (true) {
      // Walks that have reached a sample end, and others begin.
      for (int i = walks.count; i-- > 0;) {
        if (walks.at[i] % rate_ != 0) continue;
        out[of[i] - low] =
            (static_cast<int64_t>(samples_.data()[walks.at[i] / rate_]) + steps[i]) % length_;
        const int last = --walks.count;
        walks.at[i] = walks.at[last], steps[i] = steps[last], of[i] = of[last];
      }
      for (; walks.count < kWalks && waiting < high; ++waiting) {
        if (waiting % rate_ == 0) {
          out[waiting - low] = static_cast<int64_t>(samples_.data()[waiting / rate_]);
          continue;
        }
        walks.at[walks.count] = of[walks.count] = waiting;
        steps[walks.count++] = 0;
      }
      if (walks.count == 0) return out;
      step(walks);
      for (int i = 0; i < walks.count; ++i)
        if (++steps[i] > length_) corrupt("FM index: a suffix without a sample");
    }
  }

  // The text, decoded from its end to its beginning: its last symbol is the terminator, suffix 0.
  // It is cut into pieces that end at samples, and several pieces are decoded at once.
  Owned<uint8_t> text() const {
    Owned<uint8_t> out(length_);
    std::fill(out.data(), out.data() + length_, 0);
    std::vector<std::pair<int64_t, int64_t>> ends;  // position of a piece's end, and its suffix
    const int64_t piece = length_ / kWalks + 1;
    std::vector<std::pair<int64_t, int64_t>> nearest(kWalks, {length_, 0});
    for (size_t i = 0; i < samples_.size(); ++i) {
      const auto place = static_cast<int64_t>(samples_.data()[i]);
      auto& end = nearest[place / piece];
      if (place > 0 && place < end.first) end = {place, static_cast<int64_t>(i) * rate_};
    }
    for (const auto& end : nearest)
      if (end.first < length_ - 1) ends.push_back(end);
    ends.emplace_back(length_ - 1, 0);
    Walks walks;
    int64_t place[kWalks + 1], stop[kWalks + 1];
    for (size_t i = 0; i < ends.size(); ++i) {
      place[i] = ends[i].first, stop[i] = i ? ends[i - 1].first : 0;
      walks.at[walks.count++] = ends[i].second;
    }
    while (walks.count) {
      step(walks);
      for (int i = walks.count; i-- > 0;) {
        out[--place[i]] = walks.symbols[i];
        if (place[i] > stop[i]) continue;
        const int last = --walks.count;
        walks.at[i] = walks.at[last], place[i] = place[last], stop[i] = stop[last];
      }
    }
    return out;
  }

  int64_t num_bytes() const {
    return static_cast<int64_t>(words_.size() + samples_.size() + 2 * ones_.size()) * 8;
  }

 private:
  int64_t rank(int64_t node, int64_t bit) const {
    const int64_t word = bit / 64, inside = word % kBlockWords;
    const Count& count = ones_[first_[node] + word / kBlockWords];
    auto ones = static_cast<int64_t>(count.before);
    if (inside) ones += static_cast<int64_t>(count.inside >> (9 * (inside - 1)) & 0x1FF);
    if (bit % 64) {
      const uint64_t bits = words_.data()[starts_.data()[node] + word];
      ones += std::popcount(bits & ((uint64_t{1} << (bit % 64)) - 1));
    }
    return ones;
  }

  int64_t occurrences(uint8_t symbol, int64_t at) const {
    if (paths_[symbol].empty()) return 0;
    for (const Step& step : paths_[symbol]) {
      const int64_t ones = rank(step.node, at);
      at = step.right ? ones : at - ones;
    }
    return at;
  }

  // Suffixes that go back through the text, and the symbols in front of them.
  struct Walks {
    int64_t at[kWalks + 1];
    uint8_t symbols[kWalks + 1];
    int count = 0;
  };

  // Move each walk to the suffix that begins one symbol earlier.
  void step(Walks& walks) const {
    int open[kWalks + 1];
    int32_t nodes[kWalks + 1];
    int count = walks.count;
    for (int i = 0; i < count; ++i) open[i] = i, nodes[i] = 0;
    while (count) {
      int remaining = 0;
      for (int j = 0; j < count; ++j) {
        const int i = open[j];
        const int32_t node = nodes[i];
        const int64_t at = walks.at[i], ones = rank(node, at);
        const bool right = words_.data()[starts_.data()[node] + at / 64] >> (at % 64) & 1;
        const int64_t next = right ? ones : at - ones;
        const int32_t child = children_.data()[2 * node + right];
        if (child < 0) {
          walks.symbols[i] = static_cast<uint8_t>(-1 - child);
          walks.at[i] = totals_[walks.symbols[i]] + next;
        } else {
          walks.at[i] = next;
          nodes[i] = child;
          open[remaining++] = i;
          __builtin_prefetch(&ones_[first_[child] + next / 64 / kBlockWords]);
          __builtin_prefetch(words_.data() + starts_.data()[child] + next / 64);
        }
      }
      count = remaining;
    }
  }

  In<uint64_t> words_;
  In<int64_t> starts_;
  In<uint64_t> samples_;
  int64_t rate_, length_;
  Children children_;
  std::array<std::vector<Step>, 256> paths_;
  std::vector<Count> ones_;
  std::vector<int64_t> first_, lengths_;
  std::array<int64_t, 257> totals_{};
};

}  // namespace
}  // namespace alance

void register_fm_index(nanobind::module_& m) {
  using namespace alance;
  m.def("burrows_wheeler", &burrows_wheeler, "text"_a, "rate"_a, NoGil());
  m.def("separated", &separated, "offsets"_a, "content"_a, NoGil());
  m.def("fnv1a_rows", &fnv1a_rows, "head"_a, "rows"_a, "ends"_a, "content"_a, NoGil());
  m.def("wavelet_words", &wavelet_words, "symbols"_a, "children"_a, NoGil());
  nb::class_<FmIndex>(m, "FmIndex")
      .def(nb::init<In<uint64_t>, Children, In<int64_t>, In<int64_t>, In<int64_t>, In<uint64_t>,
                    int64_t, int64_t>(),
           "words"_a, "children"_a, "starts"_a, "lengths"_a, "totals"_a, "samples"_a, "rate"_a,
           "length"_a, NoGil())
      .def("find", &FmIndex::find, "pattern"_a, NoGil())
      .def("locate", &FmIndex::locate, "low"_a, "high"_a, NoGil())
      .def("text", &FmIndex::text, NoGil())
      .def_prop_ro("num_bytes", &FmIndex::num_bytes);
}
