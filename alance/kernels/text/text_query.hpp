// Posting lists in memory: documents, their term weights, and the maximum weight of each block, for
// block-max pruning (see text_search.cpp); and a query tree over the lists of a collection, which
// decides which documents match, and scores them.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/owned.hpp"
#include "text/text_blocks.hpp"

namespace alance::text {

constexpr int64_t kBounded = 128;  // documents of a block, which share an upper bound

class PostingList {
 public:
  // Weights for a mean length, with frequencies and lengths multiplied by `times`: the weight in
  // each document without idf, and the greatest of each block.
  struct Weights {
    float mean_length, times;
    Owned<float> values;
    std::vector<float> greatest;
  };

  // Documents ascend; `positions` are those of all documents in turn, or none.
  PostingList(const uint32_t* docs, const uint32_t* frequencies, int64_t size,
              const uint32_t* positions, int64_t num_positions)
      : docs_(size), few_(0), many_(0), positions_(num_positions) {
    std::copy(docs, docs + size, docs_.data());
    std::copy(positions, positions + num_positions, positions_.data());
    int64_t total = 0;
    uint32_t greatest = 0;
    for (int64_t i = 0; i < size; ++i) {
      if (i && docs[i] <= docs[i - 1]) corrupt("text index: documents out of order");
      total += frequencies[i];
      greatest = std::max(greatest, frequencies[i]);
    }
    if (num_positions && num_positions != total)
      corrupt("text index: ", num_positions, " positions of ", total);
    // Few lists need more than a byte for a frequency.
    if (greatest <= UINT8_MAX) {
      few_ = Owned<uint8_t>(size);
      std::copy(frequencies, frequencies + size, few_.data());
    } else {
      many_ = Owned<uint32_t>(size);
      std::copy(frequencies, frequencies + size, many_.data());
    }
    for (int64_t start = 0; start < size; start += kBounded)
      lasts_.push_back(docs[std::min(size, start + kBounded) - 1]);
    size_t begin = 0;
    for (int64_t i = 0; has_positions() && i < size; ++i) {
      if (i % kBounded == 0) begins_.push_back(begin);
      begin += frequencies[i];
    }
  }

  int64_t size() const { return docs_.size(); }
  bool has_positions() const { return positions_.size() > 0; }
  const uint32_t* docs() const { return docs_.data(); }
  const uint32_t* lasts() const { return lasts_.data(); }
  // Positions in document `i`, as many as its frequency.
  const uint32_t* positions(int64_t i) const {
    size_t begin = begins_[static_cast<size_t>(i / kBounded)];
    for (int64_t before = i - i % kBounded; before < i; ++before) begin += frequency(before);
    return positions_.data() + begin;
  }
  int64_t num_blocks() const { return std::ssize(lasts_); }
  uint32_t frequency(int64_t i) const { return many_.size() ? many_.data()[i] : few_.data()[i]; }

  // Bytes of memory, with those of the weights.
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof *this + 8 * lasts_.size() + 8 * begins_.size()) +
           8 * docs_.size() + few_.size() + 4 * many_.size() + 4 * positions_.size();
  }

  // Weights, kept until another mean length is asked for. All documents are below the end of
  // `lengths`. Thread-safe.
  std::shared_ptr<const Weights> weights(const uint32_t* lengths, float mean_length, float times) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (weights_ && weights_->mean_length == mean_length && weights_->times == times)
      return weights_;
    auto computed =
        std::make_shared<Weights>(Weights{mean_length, times, Owned<float>(size()), {}});
    for (int64_t block = 0, i = 0; block < num_blocks(); ++block) {
      float greatest = 0;
      for (const int64_t stop = std::min(size(), i + kBounded); i < stop; ++i) {
        const float length = times * static_cast<float>(lengths[docs_.data()[i]]);
        const float value =
            weight_of(times * static_cast<float>(frequency(i)), length, mean_length);
        computed->values[i] = value;
        greatest = std::max(greatest, value);
      }
      computed->greatest.push_back(greatest);
    }
    weights_ = computed;
    return weights_;
  }

 private:
  Owned<uint32_t> docs_;
  Owned<uint8_t> few_;  // frequencies if all fit a byte, else in `many_`
  Owned<uint32_t> many_, positions_;
  std::vector<uint32_t> lasts_;
  std::vector<size_t> begins_;  // start of each block in the positions
  std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
};

// Token of a phrase in one document: its positions, relative to its place in the phrase.
struct Slot {
  const uint32_t* at;
  const uint32_t* end;
  int64_t place;

  bool is_done() const { return at == end; }
  int64_t relative() const { return static_cast<int64_t>(*at) - place; }
  void move_to(int64_t relative) {
    at = std::lower_bound(at, end, std::max<int64_t>(0, relative + place));
  }
};

// True if each token stands after the one before it, with at most `slop` positions in between. When
// two tokens do not fit, all tokens move forward to the next position at which these may fit. With
// a slop, this misses some arrangements, as in pylance's indices.
inline bool is_phrase_of_index(std::vector<Slot>& slots, int64_t slop) {
  for (;;) {
    int64_t least = INT64_MIN;
    bool fits = true;
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].is_done()) return false;
    for (size_t i = 1; i < slots.size() && fits; ++i) {
      const int64_t before = slots[i - 1].relative(), here = slots[i].relative();
      const int64_t next =
          !slop || before > here ? std::max(before, here) : std::max(before + 1, here - slop);
      least = std::max(least, next);
      fits = before <= here && here <= before + slop;
    }
    if (fits) return true;
    for (Slot& slot : slots) slot.move_to(least);
  }
}

// The same, but finds all arrangements, as pylance does in texts that it searches without an index.
inline bool is_phrase(const std::vector<Slot>& slots, int64_t slop) {
  std::vector<int64_t> ends, next;  // positions at which the tokens so far may end
  for (size_t i = 0; i < slots.size(); ++i) {
    next.clear();
    size_t before = 0;
    for (const uint32_t* at = slots[i].at; at < slots[i].end; ++at) {
      const int64_t here = static_cast<int64_t>(*at) - slots[i].place;
      while (before < ends.size() && ends[before] < here - slop) ++before;
      if (i == 0 || (before < ends.size() && ends[before] <= here)) next.push_back(here);
    }
    ends.swap(next);
  }
  return !ends.empty();
}

// Position in a list; the documents before it are done with.
struct Cursor {
  const PostingList* list;
  std::shared_ptr<const PostingList::Weights> weights;
  float weight;
  float greatest;  // upper bound of a document's score by this list
  int64_t at = 0;

  bool is_done() const { return at == list->size(); }
  uint32_t doc() const { return list->docs()[at]; }
  float score(int64_t i) const { return weight * weights->values.data()[i]; }
  float bound_of_block(int64_t block) const { return weight * weights->greatest.data()[block]; }

  // Move to the first document at or behind `next`.
  void skip_to(int64_t next) {
    if (is_done() || doc() >= next) return;
    const uint32_t* lasts = list->lasts();
    const int64_t count = list->num_blocks();
    int64_t block = at / kBounded, step = 1;
    if (lasts[block] < next) {  // galloping, then binary search
      while (block + step < count && lasts[block + step] < next) {
        block += step;
        step *= 2;
      }
      block = std::lower_bound(lasts + block + 1, lasts + std::min(count, block + step), next) - lasts;
      if (block == count) {
        at = list->size();
        return;
      }
      at = block * kBounded;
    }
    // Branch-free: the turns of a search inside a block cannot be predicted.
    const uint32_t* base = list->docs() + at;
    for (int64_t size = std::min(list->size(), (block + 1) * kBounded) - at; size > 1;) {
      const int64_t half = size / 2;
      base += base[half - 1] < next ? half : 0;
      size -= half;
    }
    at = base - list->docs();
  }

  // Upper bound of the scores by this list of documents before `stop`.
  float bound(int64_t stop) const {
    if (is_done() || doc() >= stop) return 0;
    const int64_t first = at / kBounded;
    float most = bound_of_block(first);
    for (int64_t b = first + 1; b < list->num_blocks() && list->lasts()[b - 1] + 1 < stop; ++b)
      most = std::max(most, bound_of_block(b));
    return most;
  }
};

// Query as Python encodes it: numbers, each part in front of the parts that it consists of.
//
//     0  words      first list, end of lists, 1 if all groups are needed, number of groups;
//                   for each group the number of its lists, and the lists
//     1  phrase     first list, end of lists, slop, number of tokens; list and place of each
//     2  boolean    number of parts that must, that should, and that must not match; the parts
//     3  boost      a part that matches, and a part whose score, times the factor, is subtracted
//     4  nothing    no document matches
//
// Each part has a factor, which multiplies the score of words and phrases.
class Query {
 public:
  using Lists = std::vector<size_t>;  // lists of which any may match

  Query(const In<int32_t>& program, const In<float>& factors, std::vector<Cursor>& cursors,
        bool of_index)
      : at_(program.data()), end_(program.data() + program.size()), factor_(factors.data()),
        last_factor_(factors.data() + factors.size()), cursors_(cursors), of_index_(of_index) {
    scoring.assign(cursors.size(), false);
    root_ = parse(true);
    if (at_ != end_ || factor_ != last_factor_) corrupt("text index: a query of too many numbers");
    required = required_of(root_);
    is_any = is_any_of(root_);
    is_all = nodes_[root_].kind == kWords && nodes_[root_].needs_all && nodes_[root_].factor == 1;
    for (const Lists& group : nodes_[root_].groups) is_all &= group.size() == 1;
  }

  std::vector<bool> scoring;  // lists that add to scores
  std::vector<Lists> required;  // a document that matches is in a list of each group
  bool is_any = false;          // documents of any list match, with the sum of their scores
  bool is_all = false;  // documents of all lists match, with that sum
  bool is_bounded = true;  // no score is above the sum of the scoring lists'

  // True if a document matches, with its score. Documents are passed in ascending order.
  bool matches(uint32_t doc, float& score) { return matches(root_, doc, score); }

 private:
  enum Kind : int32_t { kWords, kPhrase, kBoolean, kBoost, kNothing };

  struct Node {
    int32_t kind = kNothing;
    float factor = 1;
    bool needs_all = false;
    size_t first = 0, stop = 0;     // lists
    std::vector<Lists> groups;      // of words
    int64_t slop = 0;
    std::vector<int64_t> places;  // of a phrase, whose groups have one list each
    std::vector<size_t> parts;      // of a combination
    size_t num_must = 0, num_should = 0;
  };

  int32_t next(int64_t least = 0, int64_t most = INT32_MAX) {
    if (at_ == end_) corrupt("text index: a query of too few numbers");
    if (*at_ < least || *at_ > most)
      corrupt("text index: ", *at_, " in a query, expected ", least, " to ", most);
    return *at_++;
  }

  size_t parse(bool adds, int depth = 0) {
    if (factor_ == last_factor_ || depth > kDeepest) corrupt("text index: a query too deep");
    Node node;
    node.kind = next(0, kNothing);
    node.factor = *factor_++;
    if (node.kind == kWords || node.kind == kPhrase) {
      node.first = static_cast<size_t>(next(0, std::ssize(cursors_)));
      node.stop = static_cast<size_t>(next(static_cast<int64_t>(node.first), std::ssize(cursors_)));
      for (size_t i = node.first; i < node.stop; ++i) scoring[i] = adds;
      if (node.kind == kWords) parse_words(node);
      if (node.kind == kPhrase) parse_phrase(node);
      is_bounded &= node.factor == 1;
    } else if (node.kind == kBoolean) {
      node.num_must = static_cast<size_t>(next());
      node.num_should = static_cast<size_t>(next());
      const auto num_not = static_cast<size_t>(next());
      if (!node.num_must && !node.num_should) corrupt("text index: a query that nothing matches");
      for (size_t i = 0; i < node.num_must + node.num_should; ++i)
        node.parts.push_back(parse(adds, depth + 1));
      for (size_t i = 0; i < num_not; ++i) node.parts.push_back(parse(false, depth + 1));
    } else if (node.kind == kBoost) {
      node.parts.push_back(parse(adds, depth + 1));
      const size_t before = nodes_.size();
      node.parts.push_back(parse(false, depth + 1));
      is_bounded &= node.factor >= 0;
      for (size_t i = before; i < nodes_.size(); ++i) is_bounded &= nodes_[i].kind != kBoost;
    }
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }

  size_t list_of(const Node& node) {
    return static_cast<size_t>(
        next(static_cast<int64_t>(node.first), static_cast<int64_t>(node.stop) - 1));
  }

  void parse_words(Node& node) {
    node.needs_all = next(0, 1);
    node.groups.resize(static_cast<size_t>(next(1, end_ - at_)));
    for (Lists& group : node.groups)
      for (int32_t remaining = next(1); remaining; --remaining) group.push_back(list_of(node));
  }

  void parse_phrase(Node& node) {
    node.slop = next();
    node.needs_all = true;
    for (int32_t remaining = next(1); remaining; --remaining) {
      node.groups.push_back({list_of(node)});
      node.places.push_back(next());
    }
    for (size_t i = node.first; i < node.stop; ++i)
      if (cursors_[i].list->size() && !cursors_[i].list->has_positions())
        corrupt("text index: a phrase without positions");
  }

  std::vector<Lists> required_of(size_t number) const {
    const Node& node = nodes_[number];
    if (node.kind == kNothing) return {{}};
    if (node.kind == kBoost) return required_of(node.parts[0]);
    if (node.kind != kBoolean) {
      if (node.needs_all) return node.groups;
      Lists all;
      for (size_t i = node.first; i < node.stop; ++i) all.push_back(i);
      return {all};
    }
    std::vector<Lists> groups;
    for (size_t i = 0; i < node.num_must; ++i)
      for (Lists& group : required_of(node.parts[i])) groups.push_back(std::move(group));
    if (node.num_must) return groups;
    Lists any;  // of each part that should match, its group with the fewest postings
    for (size_t i = 0; i < node.num_should; ++i) {
      const std::vector<Lists> own = required_of(node.parts[i]);
      const Lists& least = *std::min_element(
          own.begin(), own.end(), [this](const Lists& a, const Lists& b) { return size(a) < size(b); });
      any.insert(any.end(), least.begin(), least.end());
    }
    return {any};
  }

  bool is_any_of(size_t number) const {
    const Node& node = nodes_[number];
    if (node.kind == kWords) return node.factor == 1 && (!node.needs_all || node.groups.size() == 1);
    if (node.kind != kBoolean || node.parts.size() != node.num_should) return false;
    bool is_any = true;
    for (const size_t part : node.parts) is_any &= is_any_of(part);
    return is_any;
  }

  bool has(size_t list, uint32_t doc) {
    Cursor& cursor = cursors_[list];
    cursor.skip_to(doc);
    return !cursor.is_done() && cursor.doc() == doc;
  }

  bool matches(size_t number, uint32_t doc, float& score) {
    const Node& node = nodes_[number];
    switch (node.kind) {
      case kWords:
      case kPhrase:
        return has_words(node, doc, score);
      case kBoolean:
        return matches_parts(node, doc, score);
      case kBoost: {
        float taken = 0;
        if (!matches(node.parts[0], doc, score)) return false;
        if (matches(node.parts[1], doc, taken)) score -= taken * node.factor;
        return true;
      }
      default:
        return false;
    }
  }

  bool has_words(const Node& node, uint32_t doc, float& score) {
    if (node.needs_all) {
      for (const Lists& group : node.groups) {
        bool has_any = false;
        for (size_t i = 0; i < group.size() && !has_any; ++i) has_any = has(group[i], doc);
        if (!has_any) return false;
      }
    }
    bool has_any = false;
    float sum = 0;
    for (size_t i = node.first; i < node.stop; ++i) {
      if (!has(i, doc)) continue;
      has_any = true;
      sum += cursors_[i].score(cursors_[i].at);
    }
    score = sum * node.factor;
    return has_any && (node.kind == kWords || is_in_order(node));
  }

  bool is_in_order(const Node& node) {
    slots_.resize(node.groups.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Cursor& cursor = cursors_[node.groups[i][0]];
      const uint32_t* first = cursor.list->positions(cursor.at);
      slots_[i] = {first, first + cursor.list->frequency(cursor.at), node.places[i]};
    }
    return of_index_ ? is_phrase_of_index(slots_, node.slop) : is_phrase(slots_, node.slop);
  }

  bool matches_parts(const Node& node, uint32_t doc, float& score) {
    bool has_any = false;
    score = 0;
    for (size_t i = 0; i < node.parts.size(); ++i) {
      float own = 0;
      const bool has = matches(node.parts[i], doc, own);
      if (i < node.num_must && !has) return false;
      if (i >= node.num_must + node.num_should && has) return false;
      if (!has || i >= node.num_must + node.num_should) continue;
      has_any = true;
      score += own;
    }
    return has_any;
  }

 public:
  // Number of postings in some lists.
  int64_t size(const Lists& lists) const {
    int64_t total = 0;
    for (const size_t list : lists) total += cursors_[list].list->size();
    return total;
  }

 private:
  static constexpr int kDeepest = 2000;

  const int32_t* at_;
  const int32_t* end_;
  const float* factor_;
  const float* last_factor_;
  std::vector<Cursor>& cursors_;
  const bool of_index_;
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  size_t root_ = 0;
};

}  // namespace alance::text
