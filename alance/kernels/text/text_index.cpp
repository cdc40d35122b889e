// Posting lists collected from documents, and their bytes in an inverted index (format 2: blocks of
// 128, positions of a block in one stream).
//
// Source: docs/format/search-indices.md, "`part_N_invert.lance`".
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/lists.hpp"
#include "text/text_blocks.hpp"

namespace alance::text {
namespace {

constexpr int64_t kBlock = 128;
constexpr int64_t kGroup = 32;  // blocks whose bounds are merged

// Length rounded down to one byte: exact below 8, then the highest bit and three bits below it.
inline uint8_t norm_of(uint32_t length) {
  if (length < 8) return static_cast<uint8_t>(length);
  const int shift = std::bit_width(length) - 4;
  return static_cast<uint8_t>(((shift + 1) << 3) | ((length >> shift) & 7));
}

// Upper bound of documents' scores: a frequency, and a length as a byte.
struct Bound {
  uint32_t frequency;
  uint8_t norm;
};

// Keep the Pareto front, the bounds that no other bound dominates: frequencies ascend with lengths.
void keep_front(std::vector<Bound>& bounds) {
  std::sort(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) {
    return a.norm != b.norm ? a.norm < b.norm : a.frequency > b.frequency;
  });
  size_t size = 0;
  for (const Bound& bound : bounds)
    if (!size || bound.frequency > bounds[size - 1].frequency) bounds[size++] = bound;
  bounds.resize(size);
}

void put_bounds(uint32_t last_doc, const std::vector<Bound>& bounds, std::vector<uint8_t>& out) {
  put_varint(last_doc, out);
  put_varint(bounds.size(), out);
  Bound before{0, 0};
  for (const Bound& bound : bounds) {
    const int norm = bound.norm - before.norm;
    put_varint(static_cast<uint64_t>(bound.frequency - before.frequency - 1) << 1 | (norm != 1),
               out);
    if (norm != 1) out.push_back(static_cast<uint8_t>(norm));
    before = bound;
  }
}

// Columns of a file of posting lists.
struct Columns {
  std::vector<int32_t> posting_lists{0}, impact_lists{0}, position_lists{0};
  std::vector<int64_t> posting_ends{0}, impact_ends{0}, position_ends{0};
  std::vector<uint8_t> postings, impacts, positions;
  std::vector<uint32_t> position_blocks, lengths;
  std::vector<float> scores;
};

using BinaryLists = std::tuple<Owned<int32_t>, Owned<int64_t>, Owned<uint8_t>>;
using StoredLists = std::tuple<BinaryLists, Owned<float>, Owned<uint32_t>, BinaryLists,
                               std::tuple<Owned<int64_t>, Owned<uint8_t>>,
                               std::tuple<Owned<int32_t>, Owned<uint32_t>>>;

void put_block(const uint32_t* docs, const uint32_t* frequencies, int64_t count, float score,
               std::vector<uint8_t>& out) {
  uint32_t bits;
  std::memcpy(&bits, &score, 4);
  put_u32(bits, out);
  if (count < kBlock) {
    for (int64_t i = 0; i < count; ++i) put_varint(docs[i] - (i ? docs[i - 1] : 0), out);
    for (int64_t i = 0; i < count; ++i) put_varint(frequencies[i], out);
    return;
  }
  put_u32(docs[0], out);
  uint32_t differences[kBlock] = {};
  for (int64_t i = 1; i < kBlock; ++i) differences[i] = docs[i] - docs[i - 1];
  pack_block(differences, out);
  pack_block(frequencies, out);
}

// Positions of a block's documents: the first of each document, then differences.
int64_t put_positions(const uint32_t* positions, const uint32_t* frequencies, int64_t count,
                      std::vector<uint8_t>& out) {
  std::vector<uint32_t> values;
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i)
    for (uint32_t k = 0; k < frequencies[i]; ++k, ++at)
      values.push_back(positions[at] - (k ? positions[at - 1] : 0));
  int64_t done = 0;
  for (; done + kBlock <= at; done += kBlock) pack_block(values.data() + done, out);
  for (; done < at; ++done) put_varint(values[done], out);
  return at;
}

void check_lists(const In<int64_t>& starts, const In<uint32_t>& docs,
                 const In<uint32_t>& frequencies, const In<uint32_t>& positions, bool with_positions,
                 int64_t num_docs) {
  const int64_t total = std::ssize(docs);
  if (!starts.size() || starts.data()[0] != 0 || starts.data()[starts.size() - 1] != total ||
      docs.size() != frequencies.size())
    corrupt("text: posting lists of other documents");
  int64_t num_positions = 0;
  for (size_t list = 0; list + 1 < starts.size(); ++list) {
    if (starts.data()[list] >= starts.data()[list + 1] || starts.data()[list + 1] > total)
      corrupt("text: a posting list without documents");
    for (int64_t i = starts.data()[list]; i < starts.data()[list + 1]; ++i) {
      if (docs.data()[i] >= num_docs || !frequencies.data()[i] ||
          (i > starts.data()[list] && docs.data()[i] <= docs.data()[i - 1]))
        corrupt("text: documents out of order");
      num_positions += frequencies.data()[i];
    }
  }
  if (with_positions && num_positions != std::ssize(positions))
    corrupt("text: positions of other documents");
}

// Encoder of posting lists, one after the other, to columns.
class ListEncoder {
 public:
  ListEncoder(const uint32_t* doc_lengths, int64_t num_docs, float mean_length, bool with_positions)
      : doc_lengths_(doc_lengths), num_docs_(num_docs), mean_length_(mean_length),
        with_positions_(with_positions) {}

  // Add a list of at least one document; `position` moves behind its positions.
  void add(const uint32_t* docs, const uint32_t* frequencies, int64_t count,
           const uint32_t*& position) {
    const auto length = static_cast<float>(count), total = static_cast<float>(num_docs_);
    const float idf = std::log((total - length + 0.5f) / (length + 0.5f) + 1.0f);
    const auto stream = std::ssize(out_.positions);
    float greatest = 0;
    groups_.clear();
    joined_.clear();
    for (int64_t start = 0; start < count; start += kBlock) {
      const int64_t size = std::min(kBlock, count - start);
      const uint32_t* block_docs = docs + start;
      const uint32_t* block_frequencies = frequencies + start;
      float score = 0;
      bounds_.clear();
      for (int64_t i = 0; i < size; ++i) {
        const uint32_t doc_length = doc_lengths_[block_docs[i]];
        const auto frequency = static_cast<float>(block_frequencies[i]);
        const float weight = weight_of(frequency, static_cast<float>(doc_length), mean_length_);
        score = std::max(score, idf * weight);
        bounds_.push_back({block_frequencies[i], norm_of(doc_length)});
      }
      keep_front(bounds_);
      greatest = std::max(greatest, score);
      put_block(block_docs, block_frequencies, size, score, out_.postings);
      out_.posting_ends.push_back(std::ssize(out_.postings));
      put_bounds(block_docs[size - 1], bounds_, out_.impacts);
      out_.impact_ends.push_back(std::ssize(out_.impacts));
      joined_.insert(joined_.end(), bounds_.begin(), bounds_.end());
      if (start / kBlock % kGroup == kGroup - 1 || start + size == count) {
        keep_front(joined_);
        put_bounds(block_docs[size - 1], joined_, groups_.emplace_back());
        joined_.clear();
      }
      if (with_positions_) {
        const int64_t offset = std::ssize(out_.positions) - stream;
        if (offset > UINT32_MAX) corrupt("text: more positions of a token than 4 GiB");
        out_.position_blocks.push_back(static_cast<uint32_t>(offset));
        position += put_positions(position, block_frequencies, size, out_.positions);
      }
    }
    for (const auto& group : groups_) {
      out_.impacts.insert(out_.impacts.end(), group.begin(), group.end());
      out_.impact_ends.push_back(std::ssize(out_.impacts));
    }
    out_.posting_lists.push_back(static_cast<int32_t>(out_.posting_ends.size() - 1));
    out_.impact_lists.push_back(static_cast<int32_t>(out_.impact_ends.size() - 1));
    out_.position_lists.push_back(static_cast<int32_t>(out_.position_blocks.size()));
    out_.position_ends.push_back(std::ssize(out_.positions));
    out_.lengths.push_back(static_cast<uint32_t>(count));
    out_.scores.push_back(greatest);
  }

  StoredLists columns() const {
    return {
        std::tuple(owned_of(out_.posting_lists), owned_of(out_.posting_ends),
                   owned_of(out_.postings)),
        owned_of(out_.scores),
        owned_of(out_.lengths),
        std::tuple(owned_of(out_.impact_lists), owned_of(out_.impact_ends), owned_of(out_.impacts)),
        std::tuple(owned_of(out_.position_ends), owned_of(out_.positions)),
        std::tuple(owned_of(out_.position_lists), owned_of(out_.position_blocks))};
  }

 private:
  const uint32_t* doc_lengths_;
  int64_t num_docs_;
  float mean_length_;
  bool with_positions_;
  Columns out_;
  std::vector<Bound> bounds_, joined_;
  std::vector<std::vector<uint8_t>> groups_;
};

StoredLists encode_postings(const In<int64_t>& starts, const In<uint32_t>& docs,
                            const In<uint32_t>& frequencies, const In<uint32_t>& positions,
                            bool with_positions, const In<uint32_t>& doc_lengths,
                            float mean_length) {
  const int64_t num_docs = std::ssize(doc_lengths);
  check_lists(starts, docs, frequencies, positions, with_positions, num_docs);
  ListEncoder out(doc_lengths.data(), num_docs, mean_length, with_positions);
  const uint32_t* position = positions.data();
  for (size_t list = 0; list + 1 < starts.size(); ++list) {
    const int64_t first = starts.data()[list], stop = starts.data()[list + 1];
    out.add(docs.data() + first, frequencies.data() + first, stop - first, position);
  }
  return out.columns();
}

// Bytes of many growing lists in shared slabs: a list is a chain of blocks, each twice as long as
// the one before it, up to a bound. So no list is ever moved, and little memory is reserved in
// advance.
class Chains {
 public:
  struct Chain {
    uint32_t first = 0;  // number of the first block; 0: none
    uint32_t last = 0;  // number of the last block
    uint16_t room = 0;  // bytes that remain in the last block
    uint16_t size = 0;  // bytes of the last block
  };

  void append(Chain& chain, const uint8_t* bytes, size_t size) {
    while (size) {
      if (!chain.room) add_block(chain);
      const size_t part = std::min<size_t>(size, chain.room);
      std::memcpy(at(chain.last) + chain.size - chain.room, bytes, part);
      chain.room = static_cast<uint16_t>(chain.room - part);
      bytes += part;
      size -= part;
    }
  }

  // Replace `out` by all bytes of a chain.
  void read(const Chain& chain, std::vector<uint8_t>& out) const {
    out.clear();
    size_t size = kLeast;
    for (uint32_t block = chain.first; block; size = longer(size)) {
      const uint8_t* data = at(block);
      const size_t stop = block == chain.last ? chain.size - chain.room : size;
      out.insert(out.end(), data + kLink, data + stop);
      block = block == chain.last ? 0 : load<uint32_t>(data);
    }
  }

  int64_t num_bytes() const { return num_bytes_; }

 private:
  static constexpr size_t kSlab = size_t{1} << 20, kUnit = 16;  // blocks are numbered in units
  static constexpr size_t kLink = 4;  // bytes of the number of the next block
  static constexpr size_t kLeast = 16, kMost = 512;

  static size_t longer(size_t size) { return std::min(kMost, 2 * size); }

  uint8_t* at(uint32_t block) const {
    const size_t begin = block * kUnit;
    return const_cast<Owned<uint8_t>&>(slabs_[begin / kSlab]).data() + begin % kSlab;
  }

  void add_block(Chain& chain) {
    const size_t size = chain.first ? longer(chain.size) : kLeast;
    if (slabs_.empty() || used_ + size > kSlab) {
      if (slabs_.size() >= UINT32_MAX / (kSlab / kUnit)) throw std::bad_alloc();
      slabs_.emplace_back(static_cast<int64_t>(kSlab));
      used_ = slabs_.size() > 1 ? 0 : kUnit;  // number 0 means no block
    }
    const size_t begin = (slabs_.size() - 1) * kSlab + used_;
    const auto block = static_cast<uint32_t>(begin / kUnit);
    used_ += size;
    num_bytes_ += static_cast<int64_t>(size);
    if (chain.first)
      std::memcpy(at(chain.last), &block, kLink);
    else
      chain.first = block;
    chain.last = block;
    chain.size = static_cast<uint16_t>(size);
    chain.room = static_cast<uint16_t>(size - kLink);
  }

  std::vector<Owned<uint8_t>> slabs_;
  size_t used_ = 0;  // of the last slab, in bytes
  int64_t num_bytes_ = 0;
};

// Posting lists of documents, collected in the order of the documents.
class TextPostings {
 public:
  explicit TextPostings(bool with_positions) : with_positions_(with_positions) {}
  TextPostings(const TextPostings&) = delete;

  void add(const In<int64_t>& counts, const In<uint32_t>& tokens, const In<uint32_t>& places) {
    int64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts.data()[i] < 0) corrupt("text: a document with fewer tokens than none");
      total += counts.data()[i];
    }
    if (total != std::ssize(tokens) || tokens.size() != places.size() ||
        num_docs_ + counts.size() > UINT32_MAX)
      corrupt("text: ", tokens.size(), " tokens of ", total);
    std::vector<uint64_t> sorted;
    for (size_t i = 0, at = 0; i < counts.size(); ++i) {
      sorted.clear();
      for (const size_t stop = at + counts.data()[i]; at < stop; ++at)
        sorted.push_back(static_cast<uint64_t>(tokens.data()[at]) << 32 | places.data()[at]);
      std::sort(sorted.begin(), sorted.end());
      for (size_t first = 0; first < sorted.size();) {
        const uint64_t token = sorted[first] >> 32;
        size_t stop = first;
        while (stop < sorted.size() && sorted[stop] >> 32 == token) ++stop;
        add_posting(token, &sorted[first], stop - first);
        first = stop;
      }
      ++num_docs_;
    }
  }

  int64_t num_bytes() const {
    return chains_.num_bytes() + static_cast<int64_t>(lists_.capacity() * sizeof(List));
  }
  int64_t num_tokens() const { return std::ssize(lists_); }

  // Lists from `first` on, up to `stop`, with about `num_bytes` bytes here; at least one list.
  std::tuple<Owned<int64_t>, Owned<uint32_t>, Owned<uint32_t>, Owned<uint32_t>> lists(
      int64_t first, int64_t stop, int64_t num_bytes) const {
    if (first < 0 || first > stop || stop > num_tokens())
      corrupt("text: tokens ", first, " to ", stop);
    std::vector<int64_t> starts{0};
    std::vector<uint32_t> docs, frequencies, positions;
    int64_t held = 0;
    for (int64_t token = first; token < stop && (token == first || held < num_bytes); ++token) {
      held += read_list(lists_[token], docs, frequencies, positions);
      starts.push_back(std::ssize(docs));
    }
    return {owned_of(starts), owned_of(docs), owned_of(frequencies), owned_of(positions)};
  }

 private:
  struct List {
    Chains::Chain chain;
    uint32_t doc = 0;  // last document
  };

  // Append a list's documents, frequencies and positions; returns its bytes.
  int64_t read_list(const List& list, std::vector<uint32_t>& docs,
                    std::vector<uint32_t>& frequencies, std::vector<uint32_t>& positions) const {
    std::vector<uint8_t> bytes;
    chains_.read(list.chain, bytes);
    BlockReader in(bytes.data(), bytes.data() + bytes.size());
    uint32_t doc = 0;
    while (!in.is_done()) {
      const uint64_t step = in.long_varint();
      docs.push_back(doc += static_cast<uint32_t>(step >> 1));
      frequencies.push_back(step & 1 ? 1 : in.varint());
      uint32_t position = 0;
      for (uint32_t i = 0; with_positions_ && i < frequencies.back(); ++i)
        positions.push_back(position += in.varint());
    }
    return std::ssize(bytes);
  }

  // Append a document: its distance from the previous one, with a flag for frequency 1; a greater
  // frequency; positions.
  void add_posting(uint64_t token, const uint64_t* sorted, size_t frequency) {
    if (token >= lists_.size()) lists_.resize(token + 1);
    List& list = lists_[token];
    entry_.clear();
    put_varint(static_cast<uint64_t>(num_docs_ - list.doc) << 1 | (frequency == 1), entry_);
    list.doc = static_cast<uint32_t>(num_docs_);
    if (frequency > 1) put_varint(frequency, entry_);
    uint32_t position = 0;
    for (size_t i = 0; with_positions_ && i < frequency; ++i) {
      const auto here = static_cast<uint32_t>(sorted[i]);
      put_varint(here - position, entry_);
      position = here;
    }
    chains_.append(list.chain, entry_.data(), entry_.size());
  }

  bool with_positions_;
  size_t num_docs_ = 0;
  Chains chains_;
  std::vector<List> lists_;
  std::vector<uint8_t> entry_;
};

}  // namespace
}  // namespace alance::text

void register_text_index(nanobind::module_& m) {
  using namespace alance;
  using text::TextPostings;
  nb::class_<TextPostings>(m, "TextPostings")
      .def(nb::init<bool>(), "with_positions"_a)
      .def("add", &TextPostings::add, "counts"_a, "tokens"_a, "places"_a, NoGil())
      .def("lists", &TextPostings::lists, "first"_a, "stop"_a, "num_bytes"_a = INT64_MAX, NoGil())
      .def("num_bytes", &TextPostings::num_bytes)
      .def("num_tokens", &TextPostings::num_tokens);
  m.def("encode_postings", &text::encode_postings, "starts"_a, "docs"_a, "frequencies"_a,
        "positions"_a, "with_positions"_a, "doc_lengths"_a, "mean_length"_a, NoGil());
}
