// Whether the tokens of documents stand as a phrase.
#include <algorithm>
#include <vector>

#include "owned.hpp"
#include "text_lists.hpp"

namespace alance::text {
namespace {

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
nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> phrase_mask(nb::list lists_, In<uint32_t> candidates,
                                                         In<int32_t> tokens, In<int32_t> places,
                                                         int64_t slop, bool of_index) {
  const std::vector<PostingList*> lists = lists_of(lists_);
  const auto count = static_cast<int64_t>(lists.size());
  if (tokens.size() != places.size() || slop < 0 || slop > INT32_MAX)
    corrupt("text index: " + std::to_string(places.size()) + " places of " +
            std::to_string(tokens.size()) + " tokens of a phrase");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens.data()[i] < 0 || tokens.data()[i] >= count)
      corrupt("text index: token " + std::to_string(tokens.data()[i]) + " of a phrase");
  for (const PostingList* list : lists)
    if (list->size() && !list->has_positions()) corrupt("text index: a phrase without positions");
  Owned<uint8_t> mask(static_cast<int64_t>(candidates.size()));
  {
    nb::gil_scoped_release release;
    std::vector<int64_t> at(lists.size()), begins(lists.size());  // posting, and its positions
    std::vector<Slot> slots(tokens.size());
    for (size_t c = 0; c < candidates.size(); ++c) {
      const uint32_t doc = candidates.data()[c];
      bool has_all = true;
      for (size_t i = 0; i < lists.size(); ++i) {
        const PostingList& list = *lists[i];
        for (; at[i] < list.size() && list.docs()[at[i]] < doc; ++at[i])
          begins[i] += list.frequency(at[i]);
        has_all &= at[i] < list.size() && list.docs()[at[i]] == doc;
      }
      for (size_t i = 0; has_all && i < slots.size(); ++i) {
        const auto number = static_cast<size_t>(tokens.data()[i]);
        const uint32_t* first = lists[number]->positions() + begins[number];
        slots[i] = {first, first + lists[number]->frequency(at[number]), places.data()[i]};
      }
      mask[static_cast<int64_t>(c)] =
          has_all && (of_index ? is_phrase_of_index(slots, slop) : is_phrase(slots, slop));
    }
  }
  return mask.numpy();
}

}  // namespace
}  // namespace alance::text

void register_text_phrases(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("phrase_mask", &alance::text::phrase_mask, nb::arg("lists"), nb::arg("candidates"),
        nb::arg("tokens"), nb::arg("places"), nb::arg("slop"), nb::arg("of_index"));
}
