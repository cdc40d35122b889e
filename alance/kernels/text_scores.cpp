// Documents that have tokens, their scores (BM25), and whether the tokens stand as a phrase.
#include <algorithm>
#include <vector>

#include "owned.hpp"

namespace alance::text {
namespace {

constexpr float kK1 = 1.2f, kB = 0.75f;
constexpr int64_t kWindow = 1 << 14;  // documents whose scores are summed at once

// Posting lists one after the other: list i from starts[i] to starts[i + 1], documents ascending.
struct Postings {
  const int64_t* starts;
  const uint32_t* docs;
  const uint32_t* frequencies;
  int64_t count;

  Postings(const In<int64_t>& list_starts, const In<uint32_t>& list_docs,
           const In<uint32_t>& list_frequencies, int64_t num_docs)
      : starts(list_starts.data()), docs(list_docs.data()), frequencies(list_frequencies.data()) {
    count = static_cast<int64_t>(list_starts.size()) - 1;
    if (count < 0 || starts[0] != 0 || starts[count] != static_cast<int64_t>(list_docs.size()) ||
        list_docs.size() != list_frequencies.size())
      corrupt("text index: posting lists of other documents");
    for (int64_t list = 0; list < count; ++list) {
      if (starts[list] > starts[list + 1]) corrupt("text index: posting lists out of order");
      for (int64_t i = starts[list]; i < starts[list + 1]; ++i)
        if (docs[i] >= num_docs || (i > starts[list] && docs[i] <= docs[i - 1]))
          corrupt("text index: documents out of order");
    }
  }
};

// The documents with any token, or with all, ascending; and the sum of their weights.
nb::tuple score_postings(In<int64_t> starts, In<uint32_t> docs, In<uint32_t> frequencies,
                         In<float> weights, In<uint32_t> doc_lengths, float mean_length,
                         bool needs_all) {
  const auto num_docs = static_cast<int64_t>(doc_lengths.size());
  const Postings lists(starts, docs, frequencies, num_docs);
  if (lists.count != static_cast<int64_t>(weights.size()) || lists.count > UINT16_MAX)
    corrupt("text index: " + std::to_string(weights.size()) + " weights of " +
            std::to_string(lists.count) + " posting lists");
  std::vector<uint32_t> chosen;
  std::vector<float> scores;
  {
    nb::gil_scoped_release release;
    std::vector<int64_t> at(lists.starts, lists.starts + lists.count);
    std::vector<float> sums(kWindow);
    std::vector<uint16_t> counts(kWindow);
    const uint16_t least = needs_all ? static_cast<uint16_t>(lists.count) : 1;
    for (;;) {
      // Where nothing is left in front, nothing is gone through.
      int64_t first = num_docs;
      for (int64_t list = 0; list < lists.count; ++list)
        if (at[list] < lists.starts[list + 1])
          first = std::min<int64_t>(first, lists.docs[at[list]]);
      if (first == num_docs) break;
      const int64_t stop = std::min(num_docs, first + kWindow);
      std::fill(sums.begin(), sums.end(), 0.0f);
      std::fill(counts.begin(), counts.end(), uint16_t{0});
      for (int64_t list = 0; list < lists.count; ++list) {
        int64_t i = at[list];
        for (; i < lists.starts[list + 1] && lists.docs[i] < stop; ++i) {
          const uint32_t doc = lists.docs[i];
          const float norm =
              kK1 * (1 - kB + kB * static_cast<float>(doc_lengths.data()[doc]) / mean_length);
          const auto frequency = static_cast<float>(lists.frequencies[i]);
          sums[doc - first] += weights.data()[list] * ((kK1 + 1) * frequency / (frequency + norm));
          ++counts[doc - first];
        }
        at[list] = i;
      }
      for (int64_t doc = first; doc < stop; ++doc)
        if (counts[doc - first] >= least) {
          chosen.push_back(static_cast<uint32_t>(doc));
          scores.push_back(sums[doc - first]);
        }
    }
  }
  const auto total = static_cast<int64_t>(chosen.size());
  Owned<uint32_t> out(total);
  Owned<float> out_scores(total);
  std::copy(chosen.begin(), chosen.end(), out.data());
  std::copy(scores.begin(), scores.end(), out_scores.data());
  return nb::make_tuple(out.numpy(), out_scores.numpy());
}

// A token of a phrase in one document: where it stands, less its place in the phrase.
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

// Whether each token stands behind the one before it, with `slop` places between them at most.
// All tokens move forward at once to where the first two that do not fit might: so some
// arrangements with a slop are passed by, as they are in pylance's indices.
bool is_phrase_of_index(std::vector<Slot>& slots, int64_t slop) {
  for (;;) {
    int64_t least = INT64_MIN;
    bool fits = true;
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].is_done()) return false;
    for (size_t i = 1; i < slots.size() && fits; ++i) {
      const int64_t before = slots[i - 1].relative(), here = slots[i].relative();
      const int64_t next = !slop || before > here ? std::max(before, here)
                                                  : std::max(before + 1, here - slop);
      least = std::max(least, next);
      fits = before <= here && here <= before + slop;
    }
    if (fits) return true;
    for (Slot& slot : slots) slot.move_to(least);
  }
}

// The same, with no arrangement passed by, as in texts that pylance reads without an index.
bool is_phrase(const std::vector<Slot>& slots, int64_t slop) {
  std::vector<int64_t> ends, next;  // where the tokens so far may end
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

// For each candidate, a document with all tokens, whether they stand in it as a phrase: a byte.
nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> phrase_mask(
    In<int64_t> starts, In<uint32_t> docs, In<uint32_t> frequencies, In<uint32_t> positions,
    In<uint32_t> candidates, In<int32_t> tokens, In<int32_t> places, int64_t slop,
    bool of_index) {
  const Postings lists(starts, docs, frequencies, INT64_MAX);
  int64_t total = 0;
  for (size_t i = 0; i < frequencies.size(); ++i) total += frequencies.data()[i];
  if (total != static_cast<int64_t>(positions.size()) || tokens.size() != places.size() ||
      slop < 0 || slop > INT32_MAX)
    corrupt("text index: " + std::to_string(positions.size()) + " positions of " +
            std::to_string(total));
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens.data()[i] < 0 || tokens.data()[i] >= lists.count)
      corrupt("text index: token " + std::to_string(tokens.data()[i]) + " of a phrase");
  Owned<uint8_t> mask(static_cast<int64_t>(candidates.size()));
  {
    nb::gil_scoped_release release;
    std::vector<int64_t> at(lists.starts, lists.starts + lists.count);  // posting of each list
    std::vector<int64_t> begins(at.size());                             // and its positions
    int64_t sum = 0;
    for (int64_t list = 0, i = 0; list < lists.count; ++list) {
      begins[list] = sum;
      for (; i < lists.starts[list + 1]; ++i) sum += lists.frequencies[i];
    }
    std::vector<Slot> slots(tokens.size());
    for (size_t c = 0; c < candidates.size(); ++c) {
      const uint32_t doc = candidates.data()[c];
      bool has_all = true;
      for (int64_t list = 0; list < lists.count; ++list) {
        for (; at[list] < lists.starts[list + 1] && lists.docs[at[list]] < doc; ++at[list])
          begins[list] += lists.frequencies[at[list]];
        has_all &= at[list] < lists.starts[list + 1] && lists.docs[at[list]] == doc;
      }
      for (size_t i = 0; has_all && i < slots.size(); ++i) {
        const int64_t list = tokens.data()[i];
        const uint32_t* first = positions.data() + begins[list];
        slots[i] = {first, first + lists.frequencies[at[list]], places.data()[i]};
      }
      mask[c] = has_all && (of_index ? is_phrase_of_index(slots, slop) : is_phrase(slots, slop));
    }
  }
  return mask.numpy();
}

}  // namespace
}  // namespace alance::text

void register_text_scores(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("score_postings", &alance::text::score_postings, nb::arg("starts"), nb::arg("docs"),
        nb::arg("frequencies"), nb::arg("weights"), nb::arg("doc_lengths"), nb::arg("mean_length"),
        nb::arg("needs_all"));
  m.def("phrase_mask", &alance::text::phrase_mask, nb::arg("starts"), nb::arg("docs"),
        nb::arg("frequencies"), nb::arg("positions"), nb::arg("candidates"), nb::arg("tokens"),
        nb::arg("places"), nb::arg("slop"), nb::arg("of_index"));
}
