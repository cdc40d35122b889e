// FM index over texts: suffix array by induced sorting (SA-IS: G. Nong, S. Zhang, W. H. Chan, "Two
// Efficient Algorithms for Linear Time Suffix Array Construction", 2011), Burrows-Wheeler
// transform, wavelet tree in the shape of a Huffman code, and backward search (P. Ferragina, G.
// Manzini, "Opportunistic Data Structures with Applications", 2000).
//
// A node of the tree has a bit for each symbol that passes through it, 0 to the left. Its bits are
// words of 64, the first bit lowest. The words of all nodes are concatenated.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

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

using Numbers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Burrows-Wheeler transform of bytes that end with their only zero; every `rate`th entry of the
// suffix array; count of each byte.
nb::tuple burrows_wheeler(Bytes text, int64_t rate) {
  const auto n = static_cast<int64_t>(text.size());
  if (n == 0 || n >= kMaxText) throw std::invalid_argument("suffix array: no text, or over 2 GiB");
  if (rate < 1) throw std::invalid_argument("suffix array: every entry at most");
  Owned<uint8_t> transform(n);
  Owned<uint64_t> samples((n + rate - 1) / rate);
  Owned<int64_t> counts(256);
  bool ends = true;
  {
    nb::gil_scoped_release release;
    const uint8_t* symbols = text.data();
    ends = std::find(symbols, symbols + n, 0) == symbols + n - 1;
    if (ends) {
      std::fill(counts.data(), counts.data() + 256, 0);
      for (int64_t i = 0; i < n; ++i) ++counts[symbols[i]];
      std::vector<int32_t> suffixes(n);
      suffix_sort(symbols, static_cast<int32_t>(n), 256, suffixes.data());
      for (int64_t i = 0; i < n; ++i) transform[i] = symbols[suffixes[i] ? suffixes[i] - 1 : n - 1];
      for (int64_t i = 0; i < n; i += rate) samples[i / rate] = static_cast<uint64_t>(suffixes[i]);
    }
  }
  if (!ends) throw std::invalid_argument("suffix array: text does not end with its only zero");
  return nb::make_tuple(transform.numpy(), samples.numpy(), counts.numpy());
}

// Texts, each followed by a byte FF; bytes 00 and FF inside of texts become blanks.
Numpy<uint8_t> separated(Numbers offsets, Bytes content) {
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  if (count < 0) throw std::invalid_argument("texts without offsets");
  const int64_t* at = offsets.data();
  const auto size = static_cast<int64_t>(content.size());
  if (at[0] < 0 || at[count] > size) throw std::invalid_argument("offsets behind the texts");
  for (int64_t i = 0; i < count; ++i)
    if (at[i] > at[i + 1]) throw std::invalid_argument("offsets that descend");
  Owned<uint8_t> out(at[count] - at[0] + count);
  {
    nb::gil_scoped_release release;
    uint8_t* to = out.data();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t place = at[i]; place < at[i + 1]; ++place) {
        const uint8_t symbol = content.data()[place];
        *to++ = symbol == 0 || symbol == 0xFF ? 0x20 : symbol;
      }
      *to++ = 0xFF;
    }
  }
  return out.numpy();
}

// FNV-1a hash of 64 bits: of `head`, then of each row its number, the length of its text, and the
// text. `ends[i]` is behind the separator of text i.
uint64_t fnv1a_rows(Bytes head, Numbers rows, Numbers ends, Bytes content) {
  const auto count = static_cast<int64_t>(rows.size());
  if (static_cast<int64_t>(ends.size()) != count) throw std::invalid_argument("other rows than texts");
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (ends.data()[i] <= last) throw std::invalid_argument("ends of texts that do not ascend");
    last = ends.data()[i];
  }
  if (last > static_cast<int64_t>(content.size())) throw std::invalid_argument("ends behind the texts");
  uint64_t hash = 0xcbf29ce484222325;
  nb::gil_scoped_release release;
  const auto add = [&hash](const uint8_t* bytes, int64_t size) {
    for (int64_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  };
  const auto add_number = [&hash](uint64_t number) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (number >> 8 * i & 0xFF)) * 0x100000001b3;
  };
  add(head.data(), static_cast<int64_t>(head.size()));
  int64_t start = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = ends.data()[i] - 1 - start;
    add_number(static_cast<uint64_t>(rows.data()[i]));
    add_number(static_cast<uint64_t>(length));
    add(content.data() + start, length);
    start = ends.data()[i];
  }
  return hash;
}

// Children of a node: another node (0 or more), or -1 minus a symbol.
using Children = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

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
    throw std::invalid_argument("wavelet tree: no nodes, or too many");
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
          throw std::invalid_argument("wavelet tree: a symbol twice, or none");
        out[-1 - child] = std::move(next);
      } else {
        if (child >= count || seen[child])
          throw std::invalid_argument("wavelet tree: a node twice, or none");
        seen[child] = true;
        open.emplace_back(child, std::move(next));
      }
    }
  }
  return out;
}

// Bits of all nodes. `starts`: first word of each node, and the number of all words.
Numpy<uint64_t> wavelet_words(Bytes symbols, Children children, Numbers starts) {
  const auto paths = ways(children);
  const auto count = static_cast<int64_t>(children.shape(0));
  if (static_cast<int64_t>(starts.size()) != count + 1)
    throw std::invalid_argument("wavelet tree: starts of other nodes");
  std::vector<int64_t> sizes(count);
  std::array<int64_t, 256> counts{};
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < symbols.size(); ++i) ++counts[symbols.data()[i]];
  }
  for (int symbol = 0; symbol < 256; ++symbol) {
    if (counts[symbol] && paths[symbol].empty())
      throw std::invalid_argument("wavelet tree: a symbol is missing");
    for (const Step& step : paths[symbol]) sizes[step.node] += counts[symbol];
  }
  for (int64_t node = 0; node < count; ++node)
    if (starts.data()[0] != 0 || starts.data()[node + 1] - starts.data()[node] != (sizes[node] + 63) / 64)
      throw std::invalid_argument("wavelet tree: starts do not fit the symbols");
  Owned<uint64_t> out(starts.data()[count]);
  {
    nb::gil_scoped_release release;
    std::fill(out.data(), out.data() + starts.data()[count], 0);
    std::vector<int64_t> at(count);
    for (int64_t node = 0; node < count; ++node) at[node] = starts.data()[node] * 64;
    for (size_t i = 0; i < symbols.size(); ++i)
      for (const Step& step : paths[symbols.data()[i]]) {
        const int64_t bit = at[step.node]++;
        if (step.right) out.data()[bit / 64] |= uint64_t{1} << (bit % 64);
      }
  }
  return out.numpy();
}

// Partition of an FM index in memory.
class FmIndex {
 public:
  FmIndex(Words words, Children children, Numbers starts, Numbers lengths, Numbers totals,
          Words samples, int64_t rate, int64_t length)
      : words_(words), starts_(starts), samples_(samples), rate_(rate), length_(length),
        children_(children), paths_(ways(children)) {
    nb::gil_scoped_release release;
    const auto count = static_cast<int64_t>(children.shape(0));
    if (static_cast<int64_t>(starts.size()) != count || static_cast<int64_t>(lengths.size()) != count ||
        totals.size() != 257 || rate < 1 || length < 1)
      throw std::invalid_argument("FM index: nodes, counts or rate of another size");
    if (static_cast<int64_t>(samples.size()) != (length + rate - 1) / rate)
      throw std::invalid_argument("FM index: samples of another text");
    for (size_t i = 0; i < samples.size(); ++i)
      if (samples.data()[i] >= static_cast<uint64_t>(length))
        throw std::invalid_argument("FM index: a sample behind the text");
    const auto num_words = static_cast<int64_t>(words.size());
    for (int64_t node = 0; node < count; ++node) {
      const int64_t start = starts.data()[node], bits = lengths.data()[node];
      if (start < 0 || bits < 0 || bits > length || start > num_words || (bits + 63) / 64 > num_words - start)
        throw std::invalid_argument("FM index: a node without its bits");
      first_.push_back(static_cast<int64_t>(ones_.size()));
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
    if (lengths_[0] != length) throw std::invalid_argument("FM index: a root of another text");
    std::array<int64_t, 256> counts{};
    for (int64_t node = 0; node < count; ++node) {
      const int64_t ones = rank(node, lengths_[node]);
      const int64_t sides[2] = {lengths_[node] - ones, ones};
      for (int side = 0; side < 2; ++side) {
        const int32_t child = children.data()[2 * node + side];
        if (child < 0) counts[-1 - child] = sides[side];
        else if (lengths_[child] != sides[side])
          throw std::invalid_argument("FM index: a node of other bits than its parent says");
      }
    }
    int64_t sum = 0;
    for (int symbol = 0; symbol < 257; ++symbol) {
      totals_[symbol] = sum;
      if (totals.data()[symbol] != sum) throw std::invalid_argument("FM index: other counts of symbols");
      if (symbol < 256) sum += counts[symbol];
    }
  }

  // Range of the suffixes that begin with a pattern, [first, stop); (0, 0) for none and for an
  // empty pattern.
  nb::tuple find(Bytes pattern) const {
    int64_t low = 0, high = pattern.size() ? length_ : 0;
    {
      nb::gil_scoped_release release;
      for (size_t i = pattern.size(); i-- > 0 && low < high;) {
        const uint8_t symbol = pattern.data()[i];
        low = totals_[symbol] + occurrences(symbol, low);
        high = totals_[symbol] + occurrences(symbol, high);
      }
    }
    return low < high ? nb::make_tuple(low, high) : nb::make_tuple(0, 0);
  }

  // Positions in the text of the suffixes [low, high). Several walks run at once, because each step
  // waits for memory.
  Numpy<int64_t> locate(int64_t low, int64_t high) const {
    if (low < 0 || high < low || high > length_) throw std::invalid_argument("FM index: suffixes out of range");
    Owned<int64_t> out(high - low);
    bool is_lost = false;
    {
      nb::gil_scoped_release release;
      Walks walks;
      int64_t steps[kWalks], of[kWalks];
      int64_t waiting = low;
      while (!is_lost) {
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
        if (walks.count == 0) break;
        step(walks);
        for (int i = 0; i < walks.count; ++i) is_lost |= ++steps[i] > length_;
      }
    }
    if (is_lost) throw std::invalid_argument("FM index: a suffix without a sample");
    return out.numpy();
  }

  // The text, decoded from its end to its beginning: its last symbol is the terminator, suffix 0.
  // It is cut into pieces that end at samples, and several pieces are decoded at once.
  Numpy<uint8_t> text() const {
    Owned<uint8_t> out(length_);
    {
      nb::gil_scoped_release release;
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
    }
    return out.numpy();
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

  Words words_;
  Numbers starts_;
  Words samples_;
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
  namespace nb = nanobind;
  using namespace alance;
  m.def("burrows_wheeler", &burrows_wheeler, nb::arg("text"), nb::arg("rate"));
  m.def("separated", &separated, nb::arg("offsets"), nb::arg("content"));
  m.def("fnv1a_rows", &fnv1a_rows, nb::arg("head"), nb::arg("rows"), nb::arg("ends"),
        nb::arg("content"));
  m.def("wavelet_words", &wavelet_words, nb::arg("symbols"), nb::arg("children"), nb::arg("starts"));
  nb::class_<FmIndex>(m, "FmIndex")
      .def(nb::init<Words, Children, Numbers, Numbers, Numbers, Words, int64_t, int64_t>(),
           nb::arg("words"), nb::arg("children"), nb::arg("starts"), nb::arg("lengths"),
           nb::arg("totals"), nb::arg("samples"), nb::arg("rate"), nb::arg("length"))
      .def("find", &FmIndex::find, nb::arg("pattern"))
      .def("locate", &FmIndex::locate, nb::arg("low"), nb::arg("high"))
      .def("text", &FmIndex::text)
      .def_prop_ro("num_bytes", &FmIndex::num_bytes);
}
