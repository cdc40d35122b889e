// Ranked retrieval over posting lists with BM25 scores: all matching documents, or the top k.
//
// The top k are found by MaxScore with block-max bounds, in windows of documents. Lists are sorted
// by the upper bound of their scores. The lists whose bounds together cannot reach the k-th score
// add no candidates: they are only probed for candidates of the other lists.
//
// Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
// 2009; H. Turtle, J. Flood, "Query Evaluation: Strategies and Optimizations", 1995; S. Ding, T.
// Suel, "Faster Top-k Document Retrieval Using Block-Max Indexes", SIGIR 2011.
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "base/ends.hpp"
#include "base/lists.hpp"
#include "text/text_query.hpp"

namespace alance::text {
namespace {

constexpr int64_t kWindow = 1 << 12;  // documents whose scores are summed together
constexpr int64_t kAtOnce = 16;  // scores that are compared together
constexpr int64_t kLookUp = 16;  // postings that are added in the time of one look-up

struct Scored {
  float score;
  uint64_t id;
  uint32_t doc;
  bool operator<(const Scored& other) const {  // the better first
    if (score != other.score) return score > other.score;
    return id != other.id ? id < other.id : doc < other.doc;  // same id: items of one row's list
  }
};

class Search {
 public:
  // `count`: number of best documents, 0 for all; `floor`: documents with less may be left out. Of
  // equal scores the smaller id wins; ids ascend with the documents if `is_ordered`.
  Search(std::vector<Cursor>& cursors, Query& query, const uint8_t* mask, const uint64_t* ids,
         bool is_ordered, int64_t num_docs, int64_t count, float floor)
      : cursors_(cursors), query_(query), mask_(mask), ids_(ids), is_ordered_(is_ordered),
        num_docs_(num_docs), count_(count), floor_(floor), prunes_(query.is_bounded) {
    // Sums in another order differ by their last bits; a single list has no sums.
    slack_ = cursors.size() == 1 ? 1 : 1 + 3e-7f * static_cast<float>(cursors.size());
    for (size_t i = 0; i < cursors.size(); ++i)
      if (query.scoring[i]) order_.push_back(i);
  }

  void run() {
    const auto driver = std::min_element(
        query_.required.begin(), query_.required.end(),
        [&](const Query::Lists& a, const Query::Lists& b) { return query_.size(a) < query_.size(b); });
    if (!query_.size(*driver)) return;
    if (driver->size() == 1)
      of_list(driver->front());
    else
      of_any(*driver);
  }

  // Search some documents, ascending, instead of all.
  void run(const In<uint32_t>& docs) {
    for (size_t i = 0; i < docs.size(); ++i) {
      const uint32_t doc = docs.data()[i];
      float score = 0;
      if (query_.is_any ? (score = score_of(doc)) > 0 : query_.matches(doc, score)) add(doc, score);
    }
  }

  // Matching documents, ascending, and their scores.
  std::tuple<Owned<uint32_t>, Owned<float>> result() {
    std::sort(best_.begin(), best_.end(),
              [](const Scored& a, const Scored& b) { return a.doc < b.doc; });
    for (const Scored& scored : best_) {
      docs_.push_back(scored.doc);
      scores_.push_back(scored.score);
    }
    return {owned_of(docs_), owned_of(scores_)};
  }

 private:
  // Match the documents of a required list.
  void of_list(size_t driving) {
    Cursor& driver = cursors_[driving];
    if (cursors_.size() == 1 && is_plain()) raise_floor();
    std::vector<size_t> needed;  // further required lists; `others` add to scores only
    for (const Query::Lists& group : query_.required)
      if (group.size() == 1 && group[0] != driving) needed.push_back(group[0]);
    std::sort(needed.begin(), needed.end(), [this](size_t a, size_t b) {
      return cursors_[a].list->size() < cursors_[b].list->size();
    });
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    std::vector<size_t> others;
    for (const size_t i : order_)
      if (i != driving && std::find(needed.begin(), needed.end(), i) == needed.end())
        others.push_back(i);
    // Upper bounds of what the lists probed later may add.
    std::vector<float> rests(needed.size() + 1);
    for (int64_t block = 0; block < driver.list->num_blocks(); ++block) {
      const int64_t start = block * kBounded;
      const int64_t stop = std::min(driver.list->size(), start + kBounded);
      const uint32_t first = driver.list->docs()[start];
      const int64_t end = int64_t{driver.list->lasts()[block]} + 1;
      float rest = 0;
      for (const size_t i : others) {
        cursors_[i].skip_to(first);
        rest += cursors_[i].bound(end);
      }
      rests[needed.size()] = rest;
      for (size_t i = needed.size(); i-- > 0;) {
        Cursor& cursor = cursors_[needed[i]];
        cursor.skip_to(first);
        if (cursor.is_done()) return;
        rests[i] = rests[i + 1] + cursor.bound(end);
      }
      if (loses((driver.bound_of_block(block) + rests[0]) * slack_)) continue;
      for (driver.at = start; driver.at < stop; ++driver.at) {
        const uint32_t doc = driver.doc();
        float score = driver.score(driver.at);
        bool may_win = !loses((score + rests[0]) * slack_) && counts(doc);
        for (size_t i = 0; may_win && i < needed.size(); ++i) {
          Cursor& cursor = cursors_[needed[i]];
          cursor.skip_to(doc);
          if (cursor.is_done()) return;
          if (cursor.doc() == doc) score += cursor.score(cursor.at);
          may_win = cursor.doc() == doc && !loses((score + rests[i + 1]) * slack_);
        }
        if (!may_win) continue;
        score = 0;
        if (is_plain())
          for (const Cursor& cursor : cursors_) score += cursor.score(cursor.at);
        else if (!query_.matches(doc, score))
          continue;
        if (!loses(score)) add(doc, score);
      }
    }
  }

  // Match the documents of any list of a required group.
  void of_any(const Query::Lists& group) {
    is_driving_.assign(cursors_.size(), false);
    for (const size_t i : group) is_driving_[i] = true;
    if (query_.is_any) raise_floor();
    sums_.resize(kWindow + kAtOnce);
    bounds_.resize(cursors_.size());
    for (;;) {
      const int64_t first = next_doc();
      if (first == num_docs_) return;
      const int64_t stop = std::min(num_docs_, first + kWindow);
      for (const size_t i : order_) {
        cursors_[i].skip_to(first);
        bounds_[i] = cursors_[i].bound(stop);
      }
      sort([this](size_t i) { return bounds_[i]; });
      size_t num_rest = 0;
      float rest = 0;
      while (num_rest < order_.size() &&
             (!is_driving_[order_[num_rest]] ||
              loses((rest + bounds_[order_[num_rest]]) * slack_)))
        rest += bounds_[order_[num_rest++]];
      if (num_rest < order_.size()) window(first, stop, num_rest, rest);
      for (const size_t i : order_) cursors_[i].skip_to(stop);
    }
  }

  // Order lists: those that do not drive the search first, then by ascending value.
  template <typename Value>
  void sort(Value value) {
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return is_driving_[a] != is_driving_[b] ? is_driving_[b] : value(a) < value(b);
    });
  }

  bool is_plain() const { return query_.is_any || query_.is_all; }
  bool is_full() const { return count_ && std::ssize(best_) == count_; }
  bool counts(uint32_t doc) const { return !mask_ || mask_[doc]; }

  // True if documents that come now with this score, or less, are not in the result.
  bool loses(float score) const {
    if (!prunes_) return false;
    if (score < floor_) return true;
    if (!is_full()) return false;
    const float worst = best_.front().score;
    return score < worst || (is_ordered_ && score == worst);
  }

  void add(uint32_t doc, float score) {
    if (!count_) {
      docs_.push_back(doc);
      scores_.push_back(score);
      return;
    }
    const Scored scored{score, ids_[doc], doc};
    if (is_full()) {
      if (!(scored < best_.front())) return;
      std::pop_heap(best_.begin(), best_.end());
      best_.back() = scored;
    } else {
      best_.push_back(scored);
    }
    std::push_heap(best_.begin(), best_.end());
  }

  // Raise the floor: the greatest scores of blocks belong to as many documents.
  void raise_floor() {
    if (!count_ || mask_) return;
    std::vector<float> bounds;
    for (const Cursor& cursor : cursors_) {
      if (cursor.list->num_blocks() < count_) continue;
      bounds = cursor.weights->greatest;
      const auto nth = bounds.begin() + (count_ - 1);
      std::nth_element(bounds.begin(), nth, bounds.end(), std::greater<float>());
      floor_ = std::max(floor_, cursor.weight * *nth);
    }
  }

  // Next document of the lists that can bring a document into the result without the lists before.
  int64_t next_doc() {
    sort([this](size_t i) { return cursors_[i].greatest; });
    int64_t first = num_docs_;
    float rest = 0;
    bool is_open = true;
    for (const size_t i : order_) {
      rest += cursors_[i].is_done() ? 0 : cursors_[i].greatest;
      is_open = is_open && (!is_driving_[i] || loses(rest * slack_));
      if (!is_open && !cursors_[i].is_done()) first = std::min<int64_t>(first, cursors_[i].doc());
    }
    return first;
  }

  // Score the documents of a window. The first `num_rest` lists in the order add no more than
  // `rest` together; they are probed for candidates, greatest bounds first.
  void window(int64_t first, int64_t stop, size_t num_rest, float rest) {
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    // Sums of all lists in their own order are the final scores.
    const bool is_sum = query_.is_any && !num_rest;
    for (size_t i = num_rest; i < order_.size(); ++i)
      sum_up(cursors_[is_sum ? i : order_[i]], first, stop);
    near_.clear();
    const float least = least_of(rest);
    for (int64_t start = 0; start < stop - first; start += kAtOnce) {
      int count = 0;
      for (int64_t i = start; i < start + kAtOnce; ++i) count += sums_.data()[i] >= least;
      for (int64_t i = start; count && i < start + kAtOnce; ++i)
        if (sums_.data()[i] >= least && counts(static_cast<uint32_t>(first + i))) near_.push_back(i);
    }
    for (size_t i = num_rest; i-- > 0 && !near_.empty();) {
      look_into(cursors_[order_[i]], first, stop);
      rest -= bounds_[order_[i]];
      const float enough = least_of(std::max(rest, 0.0f));
      std::erase_if(near_, [&](int64_t place) { return sums_.data()[place] < enough; });
    }
    for (const int64_t place : near_) {
      if (sums_.data()[place] < least_of(0)) continue;
      const auto doc = static_cast<uint32_t>(first + place);
      float score = sums_.data()[place];
      if (!query_.is_any) {
        if (!query_.matches(doc, score)) continue;
      } else if (num_rest) {
        score = score_of(doc);
      }
      if (!loses(score)) add(doc, score);
    }
  }

  // Add one list's scores to the documents of a window.
  void sum_up(const Cursor& cursor, int64_t first, int64_t stop) {
    const uint32_t* doc = cursor.list->docs() + cursor.at;
    const uint32_t* end = cursor.list->docs() + cursor.list->size();
    const float* value = cursor.weights->values.data() + cursor.at;
    float* sums = sums_.data();
    for (; doc < end && *doc < stop; ++doc, ++value) sums[*doc - first] += cursor.weight * *value;
  }

  // The same for candidates alone, if that is less work.
  void look_into(Cursor cursor, int64_t first, int64_t stop) {
    Cursor last = cursor;
    last.skip_to(stop);
    if (last.at - cursor.at < kLookUp * std::ssize(near_)) return sum_up(cursor, first, stop);
    for (const int64_t place : near_) {
      cursor.skip_to(first + place);
      if (cursor.is_done()) return;
      if (cursor.doc() == first + place) sums_.data()[place] += cursor.score(cursor.at);
    }
  }

  // Smallest sum, above 0, with which a document may be in the result if the other lists add
  // `rest`.
  float least_of(float rest) const {
    if (!prunes_) return std::numeric_limits<float>::min();
    double least = floor_;
    if (is_full()) least = std::max<double>(least, best_.front().score);
    least = (least / slack_ - rest) * (1 - 1e-6);
    return std::max(static_cast<float>(least), std::numeric_limits<float>::min());
  }

  // Score of a document, summed in the order of the lists.
  float score_of(uint32_t doc) {
    float score = 0;
    for (Cursor& cursor : cursors_) {
      cursor.skip_to(doc);
      if (!cursor.is_done() && cursor.doc() == doc) score += cursor.score(cursor.at);
    }
    return score;
  }

  std::vector<Cursor>& cursors_;
  Query& query_;
  const uint8_t* mask_;
  const uint64_t* ids_;
  const bool is_ordered_;
  const int64_t num_docs_, count_;
  float floor_, slack_;
  const bool prunes_;
  std::vector<size_t> order_;  // lists that add to scores
  std::vector<bool> is_driving_;
  std::vector<float> sums_, bounds_;  // scores of a window's documents; bounds of lists in it
  std::vector<int64_t> near_;  // positions in the window of candidates
  std::vector<Scored> best_;  // heap, the worst in front; if `count` is 0:
  std::vector<uint32_t> docs_;
  std::vector<float> scores_;
};

std::tuple<Owned<uint32_t>, Owned<float>> search_postings(
    const std::vector<PostingList*>& terms, const In<float>& weights, const In<int32_t>& program,
    const In<float>& factors, bool of_index, const In<uint32_t>& doc_lengths, float mean_length,
    float times, const Bytes& mask, const In<uint64_t>& ids, bool is_ordered, int64_t count,
    float floor, const In<uint32_t>& only) {
  const int64_t num_docs = std::ssize(doc_lengths);
  if (terms.size() != weights.size() || ids.size() != doc_lengths.size() || count < 0 ||
      (mask.size() && mask.size() != ids.size()) || !(mean_length > 0) || !(times > 0))
    corrupt("text index: ", weights.size(), " weights of ", terms.size(), " posting lists, ",
            ids.size(), " rows of ", num_docs, " documents");
  for (size_t i = 0; i < terms.size(); ++i) {
    const PostingList& list = *terms[i];
    if (list.size() && list.docs()[list.size() - 1] >= num_docs)
      corrupt("text index: document ", list.docs()[list.size() - 1], " of ", num_docs);
    if (!(weights.data()[i] > 0)) corrupt("text index: a weight that is not above 0");
  }
  for (size_t i = 0; i < only.size(); ++i)
    if (only.data()[i] >= num_docs || (i && only.data()[i] <= only.data()[i - 1]))
      corrupt("text index: documents out of order");
  std::vector<Cursor> cursors;
  for (size_t i = 0; i < terms.size(); ++i) {
    auto of_docs = terms[i]->weights(doc_lengths.data(), mean_length, times);
    float most = 0;
    for (const float value : of_docs->greatest) most = std::max(most, value);
    const float weight = weights.data()[i];
    cursors.push_back({terms[i], std::move(of_docs), weight, weight * most});
  }
  Query query(program, factors, cursors, of_index);
  Search search(cursors, query, mask.size() ? mask.data() : nullptr, ids.data(), is_ordered,
                num_docs, count, floor);
  if (only.size())
    search.run(only);
  else
    search.run();
  return search.result();
}

Owned<uint32_t> documents_of(const std::vector<PostingList*>& lists) {
  std::vector<uint32_t> docs;
  for (const PostingList* list : lists)
    docs.insert(docs.end(), list->docs(), list->docs() + list->size());
  std::sort(docs.begin(), docs.end());
  docs.erase(std::unique(docs.begin(), docs.end()), docs.end());
  return owned_of(docs);
}

std::vector<std::unique_ptr<PostingList>> posting_lists(const In<int64_t>& starts,
                                                        const In<uint32_t>& docs,
                                                        const In<uint32_t>& frequencies,
                                                        const In<uint32_t>& positions) {
  const int64_t count = checked_count(starts, std::ssize(docs), "text index: posting lists");
  if (docs.size() != frequencies.size()) corrupt("text index: frequencies of other documents");
  std::vector<std::unique_ptr<PostingList>> lists;
  int64_t place = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = starts.data()[i], size = starts.data()[i + 1] - start;
    int64_t num_positions = 0;
    for (int64_t k = start; positions.size() && k < start + size; ++k)
      num_positions += frequencies.data()[k];
    if (num_positions > std::ssize(positions) - place)
      corrupt("text index: ", positions.size(), " positions, and more frequencies");
    lists.push_back(std::make_unique<PostingList>(docs.data() + start, frequencies.data() + start,
                                                  size, positions.data() + place, num_positions));
    place += num_positions;
  }
  if (place != std::ssize(positions))
    corrupt("text index: ", positions.size(), " positions of ", place);
  return lists;
}

Owned<uint32_t> frequencies_of(const PostingList& list, const In<int64_t>& docs) {
  Owned<uint32_t> out(std::ssize(docs));
  const uint32_t *first = list.docs(), *last = first + list.size();
  for (int64_t i = 0; i < out.size(); ++i) {
    const uint32_t* at = std::lower_bound(first, last, docs.data()[i]);
    out[i] = at < last && *at == docs.data()[i] ? list.frequency(at - first) : 0;
  }
  return out;
}

}  // namespace
}  // namespace alance::text

void register_text_search(nanobind::module_& m) {
  using namespace alance;
  using text::PostingList;
  nb::class_<PostingList>(m, "PostingList")
      .def_prop_ro("num_bytes", &PostingList::num_bytes)
      .def("frequencies_of", &text::frequencies_of, "docs"_a)
      .def("__len__", &PostingList::size);
  m.def("posting_lists", &text::posting_lists, "starts"_a, "docs"_a, "frequencies"_a, "positions"_a,
        NoGil());
  m.def("search_postings", &text::search_postings, "lists"_a, "weights"_a, "program"_a, "factors"_a,
        "of_index"_a, "doc_lengths"_a, "mean_length"_a, "times"_a, "mask"_a, "ids"_a,
        "is_ordered"_a, "count"_a, "floor"_a, "only"_a, NoGil());
  m.def("documents_of", &text::documents_of, "lists"_a, NoGil());
}
