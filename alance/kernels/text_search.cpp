// Documents of posting lists and their scores (BM25): all that match, or the best alone.
//
// Where the best are asked for, the bounds of blocks tell what cannot be among them. Documents are
// gone through in windows; of each, the lists that together cannot lift a document high enough are
// only looked into for documents that the other lists have brought near.
#include <limits>

#include "owned.hpp"
#include "text_lists.hpp"

namespace alance::text {
namespace {

constexpr int64_t kWindow = 1 << 12;  // documents whose scores are summed at once
constexpr int64_t kAtOnce = 16;       // scores that are looked at together
constexpr int64_t kLookUp = 16;       // postings that are added in the time that it takes to find one

struct Scored {
  float score;
  uint64_t id;
  uint32_t doc;
  bool operator<(const Scored& other) const {  // the better comes first
    return score > other.score || (score == other.score && id < other.id);
  }
};

// A place in a list. Its documents before that are done with.
struct Cursor {
  const PostingList* list;
  std::shared_ptr<const PostingList::Weights> weights;
  float weight;
  float greatest;  // score of a document by this list
  int64_t at = 0;

  bool is_done() const { return at == list->size(); }
  uint32_t doc() const { return list->docs()[at]; }
  float score(int64_t i) const { return weight * weights->values.data()[i]; }
  float bound_of_block(int64_t block) const { return weight * weights->greatest.data()[block]; }

  // Moves to the first document at or behind `next`.
  void skip_to(int64_t next) {
    if (is_done() || doc() >= next) return;
    const uint32_t* lasts = list->lasts();
    const int64_t count = list->num_blocks();
    int64_t block = at / kBounded, step = 1;
    if (lasts[block] < next) {  // by steps that double, then between the last two
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
    const uint32_t* docs = list->docs();
    at = std::lower_bound(docs + at, docs + std::min(list->size(), (block + 1) * kBounded), next) -
         docs;
  }

  // No document before `stop` has more by this list.
  float bound(int64_t stop) const {
    if (is_done() || doc() >= stop) return 0;
    const int64_t first = at / kBounded;
    float most = bound_of_block(first);
    for (int64_t b = first + 1; b < list->num_blocks() && list->lasts()[b - 1] + 1 < stop; ++b)
      most = std::max(most, bound_of_block(b));
    return most;
  }
};

class Search {
 public:
  // `count`: documents at most, 0: all; `floor`: those with less are not asked for. Equal scores
  // are in the order of ids, which ascend with the documents where `is_ordered`.
  Search(std::vector<Cursor>& cursors, const uint8_t* mask, const uint64_t* ids, bool is_ordered,
         int64_t num_docs, int64_t count, float floor)
      : cursors_(cursors), mask_(mask), ids_(ids), is_ordered_(is_ordered), num_docs_(num_docs),
        count_(count), floor_(floor) {
    // Sums in another order differ by their last bits; a single list has no sums.
    slack_ = cursors.size() == 1 ? 1 : 1 + 3e-7f * static_cast<float>(cursors.size());
  }

  // Documents of all lists: those of the shortest that are in the others.
  void of_all() {
    size_t shortest = 0;
    for (size_t i = 1; i < cursors_.size(); ++i)
      if (cursors_[i].list->size() < cursors_[shortest].list->size()) shortest = i;
    Cursor& driver = cursors_[shortest];
    if (cursors_.size() == 1) raise_floor();
    for (int64_t block = 0; block < driver.list->num_blocks(); ++block) {
      const int64_t start = block * kBounded;
      const int64_t stop = std::min(driver.list->size(), start + kBounded);
      const uint32_t first = driver.list->docs()[start];
      float bound = driver.bound_of_block(block);
      for (size_t i = 0; i < cursors_.size(); ++i) {
        if (i == shortest) continue;
        cursors_[i].skip_to(first);
        if (cursors_[i].is_done()) return;
        bound += cursors_[i].bound(int64_t{driver.list->lasts()[block]} + 1);
      }
      if (loses(bound * slack_)) continue;
      for (driver.at = start; driver.at < stop; ++driver.at) {
        const uint32_t doc = driver.doc();
        if (!counts(doc)) continue;
        bool has_all = true;
        for (size_t i = 0; has_all && i < cursors_.size(); ++i) {
          if (i == shortest) continue;
          cursors_[i].skip_to(doc);
          if (cursors_[i].is_done()) return;
          has_all = cursors_[i].doc() == doc;
        }
        if (!has_all) continue;
        float score = 0;
        for (const Cursor& cursor : cursors_) score += cursor.score(cursor.at);
        if (!loses(score)) add(doc, score);
      }
    }
  }

  // Documents of any list.
  void of_any() {
    raise_floor();
    sums_.resize(kWindow + kAtOnce);
    bounds_.resize(cursors_.size());
    std::vector<size_t> order(cursors_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (;;) {
      const int64_t first = next_doc(order);
      if (first == num_docs_) return;
      const int64_t stop = std::min(num_docs_, first + kWindow);
      for (size_t i = 0; i < cursors_.size(); ++i) {
        cursors_[i].skip_to(first);
        bounds_[i] = cursors_[i].bound(stop);
      }
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return bounds_[a] < bounds_[b]; });
      size_t num_rest = 0;
      float rest = 0;
      while (num_rest < order.size() && loses((rest + bounds_[order[num_rest]]) * slack_))
        rest += bounds_[order[num_rest++]];
      if (num_rest < order.size()) window(first, stop, order, num_rest, rest);
      for (Cursor& cursor : cursors_) cursor.skip_to(stop);
    }
  }

  // The documents, ascending, and their scores.
  void result(Owned<uint32_t>& docs, Owned<float>& scores) {
    std::sort(kept_.begin(), kept_.end(),
              [](const Scored& a, const Scored& b) { return a.doc < b.doc; });
    for (const Scored& kept : kept_) {
      docs_.push_back(kept.doc);
      scores_.push_back(kept.score);
    }
    docs = Owned<uint32_t>(static_cast<int64_t>(docs_.size()));
    scores = Owned<float>(docs.size());
    std::copy(docs_.begin(), docs_.end(), docs.data());
    std::copy(scores_.begin(), scores_.end(), scores.data());
  }

 private:
  bool is_full() const { return count_ && static_cast<int64_t>(kept_.size()) == count_; }
  bool counts(uint32_t doc) const { return !mask_ || mask_[doc]; }

  // Whether documents that come now with that score, or less, are not asked for.
  bool loses(float score) const {
    if (score < floor_) return true;
    if (!is_full()) return false;
    const float worst = kept_.front().score;
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
      if (!(scored < kept_.front())) return;
      std::pop_heap(kept_.begin(), kept_.end());
      kept_.back() = scored;
    } else {
      kept_.push_back(scored);
    }
    std::push_heap(kept_.begin(), kept_.end());
  }

  // The greatest scores of blocks are of as many documents.
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

  // The next document of the lists that can bring one by themselves.
  int64_t next_doc(std::vector<size_t>& order) {
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return cursors_[a].greatest < cursors_[b].greatest; });
    int64_t first = num_docs_;
    float rest = 0;
    bool is_open = true;
    for (const size_t i : order) {
      rest += cursors_[i].is_done() ? 0 : cursors_[i].greatest;
      is_open = is_open && loses(rest * slack_);
      if (!is_open && !cursors_[i].is_done()) first = std::min<int64_t>(first, cursors_[i].doc());
    }
    return first;
  }

  // Documents of a window. Lists of the rest lift none by more than `rest` together; those of
  // greater bounds, which stand last in `order`, are asked first.
  void window(int64_t first, int64_t stop, const std::vector<size_t>& order, size_t num_rest,
              float rest) {
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    // Sums of all lists are in the order of the lists: these are the scores.
    for (size_t i = num_rest; i < order.size(); ++i)
      sum_up(cursors_[num_rest ? order[i] : i], first, stop);
    near_.clear();
    const float least = least_of(rest);
    for (int64_t start = 0; start < stop - first; start += kAtOnce) {
      int count = 0;
      for (int64_t i = start; i < start + kAtOnce; ++i) count += sums_.data()[i] >= least;
      for (int64_t i = start; count && i < start + kAtOnce; ++i)
        if (sums_.data()[i] >= least && counts(static_cast<uint32_t>(first + i))) near_.push_back(i);
    }
    for (size_t i = num_rest; i-- > 0 && !near_.empty();) {
      look_into(cursors_[order[i]], first, stop);
      rest -= bounds_[order[i]];
      const float enough = least_of(std::max(rest, 0.0f));
      std::erase_if(near_, [&](int64_t place) { return sums_.data()[place] < enough; });
    }
    for (const int64_t place : near_) {
      if (sums_.data()[place] < least_of(0)) continue;
      const auto doc = static_cast<uint32_t>(first + place);
      const float score = num_rest ? score_of(doc) : sums_.data()[place];
      if (!loses(score)) add(doc, score);
    }
  }

  // Adds the scores of the documents of a window by one list.
  void sum_up(const Cursor& cursor, int64_t first, int64_t stop) {
    const uint32_t* doc = cursor.list->docs() + cursor.at;
    const uint32_t* end = cursor.list->docs() + cursor.list->size();
    const float* value = cursor.weights->values.data() + cursor.at;
    float* sums = sums_.data();
    for (; doc < end && *doc < stop; ++doc, ++value) sums[*doc - first] += cursor.weight * *value;
  }

  // The same, where it is less, for those alone that are near.
  void look_into(Cursor cursor, int64_t first, int64_t stop) {
    Cursor last = cursor;
    last.skip_to(stop);
    if (last.at - cursor.at < kLookUp * static_cast<int64_t>(near_.size()))
      return sum_up(cursor, first, stop);
    for (const int64_t place : near_) {
      cursor.skip_to(first + place);
      if (cursor.is_done()) return;
      if (cursor.doc() == first + place) sums_.data()[place] += cursor.score(cursor.at);
    }
  }

  // Documents with less, to which the rest of the lists comes, lose; above 0.
  float least_of(float rest) const {
    double least = floor_;
    if (is_full()) least = std::max<double>(least, kept_.front().score);
    least = (least / slack_ - rest) * (1 - 1e-6);
    return std::max(static_cast<float>(least), std::numeric_limits<float>::min());
  }

  // The score of a document, its parts added in the order of the lists.
  float score_of(uint32_t doc) {
    float score = 0;
    for (Cursor& cursor : cursors_) {
      cursor.skip_to(doc);
      if (!cursor.is_done() && cursor.doc() == doc) score += cursor.score(cursor.at);
    }
    return score;
  }

  std::vector<Cursor>& cursors_;
  const uint8_t* mask_;
  const uint64_t* ids_;
  const bool is_ordered_;
  const int64_t num_docs_, count_;
  float floor_, slack_;
  std::vector<float> sums_, bounds_;  // of the documents of a window; of the lists in it
  std::vector<int64_t> near_;         // places in it of what may be among the best
  std::vector<Scored> kept_;  // a heap, the worst in front; where all are asked for:
  std::vector<uint32_t> docs_;
  std::vector<float> scores_;
};

nb::tuple search_postings(nb::list lists, In<float> weights, In<uint32_t> doc_lengths,
                          float mean_length, bool needs_all, Bytes mask, In<uint64_t> ids,
                          bool is_ordered, int64_t count, float floor) {
  const std::vector<PostingList*> asked = lists_of(lists);
  const auto num_docs = static_cast<int64_t>(doc_lengths.size());
  if (asked.size() != weights.size() || ids.size() != doc_lengths.size() || count < 0 ||
      (mask.size() && mask.size() != ids.size()) || !(mean_length > 0))
    corrupt("text index: " + std::to_string(weights.size()) + " weights of " +
            std::to_string(asked.size()) + " posting lists, " + std::to_string(ids.size()) +
            " rows of " + std::to_string(num_docs) + " documents");
  for (size_t i = 0; i < asked.size(); ++i) {
    const PostingList& list = *asked[i];
    if (list.size() && list.docs()[list.size() - 1] >= num_docs)
      corrupt("text index: document " + std::to_string(list.docs()[list.size() - 1]) + " of " +
              std::to_string(num_docs));
    if (!(weights.data()[i] > 0)) corrupt("text index: a weight that is not above 0");
  }
  Owned<uint32_t> docs(0);
  Owned<float> scores(0);
  {
    nb::gil_scoped_release release;
    std::vector<Cursor> cursors;
    for (size_t i = 0; i < asked.size(); ++i) {
      auto of_docs = asked[i]->weights(doc_lengths.data(), mean_length);
      float most = 0;
      for (const float value : of_docs->greatest) most = std::max(most, value);
      const float weight = weights.data()[i];
      cursors.push_back({asked[i], std::move(of_docs), weight, weight * most});
    }
    Search search(cursors, mask.size() ? mask.data() : nullptr, ids.data(), is_ordered, num_docs,
                  count, floor);
    if (needs_all || cursors.size() == 1)
      search.of_all();
    else
      search.of_any();
    search.result(docs, scores);
  }
  return nb::make_tuple(docs.numpy(), scores.numpy());
}

// The documents of some lists, ascending, each once.
nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>> documents_of(nb::list lists) {
  const std::vector<PostingList*> asked = lists_of(lists);
  Owned<uint32_t> out(0);
  {
    nb::gil_scoped_release release;
    std::vector<uint32_t> docs;
    for (const PostingList* list : asked)
      docs.insert(docs.end(), list->docs(), list->docs() + list->size());
    std::sort(docs.begin(), docs.end());
    docs.erase(std::unique(docs.begin(), docs.end()), docs.end());
    out = Owned<uint32_t>(static_cast<int64_t>(docs.size()));
    std::copy(docs.begin(), docs.end(), out.data());
  }
  return out.numpy();
}

Numpy<uint32_t> documents(const PostingList& list) {
  Owned<uint32_t> out(list.size());
  std::copy(list.docs(), list.docs() + list.size(), out.data());
  return out.numpy();
}

Numpy<uint32_t> frequencies(const PostingList& list) {
  Owned<uint32_t> out(list.size());
  for (int64_t i = 0; i < list.size(); ++i) out[i] = list.frequency(i);
  return out.numpy();
}

}  // namespace
}  // namespace alance::text

void register_text_search(nanobind::module_& m) {
  namespace nb = nanobind;
  using alance::text::PostingList;
  nb::class_<PostingList>(m, "PostingList")
      .def(nb::init<alance::In<uint32_t>, alance::In<uint32_t>, alance::In<uint32_t>>(),
           nb::arg("docs"), nb::arg("frequencies"), nb::arg("positions"))
      .def_prop_ro("num_bytes", &PostingList::num_bytes)
      .def("documents", &alance::text::documents)
      .def("frequencies", &alance::text::frequencies)
      .def("__len__", &PostingList::size);
  m.def("search_postings", &alance::text::search_postings, nb::arg("lists"), nb::arg("weights"),
        nb::arg("doc_lengths"), nb::arg("mean_length"), nb::arg("needs_all"), nb::arg("mask"),
        nb::arg("ids"), nb::arg("is_ordered"), nb::arg("count"), nb::arg("floor"));
  m.def("documents_of", &alance::text::documents_of, nb::arg("lists"));
}
