// Hash table that numbers row keys, by open addressing with linear probing: the inner loops of a
// hash join. Before the table is probed, a bitmap of hashes rejects most missing keys. For keys
// that are words, the bitmap uses cheaper hashes than the table.
#include <algorithm>
#include <bit>

#include "values/keys.hpp"

namespace alance {
namespace {

constexpr int64_t kBatchKeys = 256;  // keys whose slots are prefetched together
// Bits of the filter for a key: of the missing keys, 3 % pass it if the filter fits into an L2 cache
// of 256 KiB, and 10 % if it is larger.
constexpr uint64_t kFilterBits = 8;
constexpr uint64_t kCachedFilterBits = 32;
constexpr uint64_t kMaxCachedBits = uint64_t{1} << 21;
constexpr int64_t kMaxKeys = UINT32_MAX - 1;

// Filter with one bit per hash, chosen by its high bits. It rejects most hashes that were not added.
class Filter {
 public:
  void resize(int64_t count) {
    const auto keys = static_cast<uint64_t>(count);
    const uint64_t bits = std::bit_ceil(std::max(
        {uint64_t{64}, kFilterBits * keys, std::min(kCachedFilterBits * keys, kMaxCachedBits)}));
    shift_ = 64 - std::countr_zero(bits);
    words_.assign(bits / 64, 0);
  }
  void add(uint64_t hash) {
    const uint64_t bit = hash >> shift_;
    words_[bit >> 6] |= uint64_t{1} << (bit & 63);
  }
  bool may_have(uint64_t hash) const { return view().may_have(hash); }

  // A copy of the fields for loops, whose writes might else change them.
  struct View {
    const uint64_t* words;
    int shift;
    bool may_have(uint64_t hash) const {
      const uint64_t bit = hash >> shift;
      return words[bit >> 6] >> (bit & 63) & 1;
    }
  };
  View view() const { return {words_.data(), shift_}; }

  // Number of set bits, about that of distinct hashes.
  int64_t num_set() const {
    int64_t count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return count;
  }

 private:
  std::vector<uint64_t> words_;
  int shift_ = 58;
};

// Hash table of keys, numbered from 0 in order of first appearance; equal keys have one number.
class KeyTable {
 public:
  KeyTable(Keys keys, uint64_t seed)
      : keys_(std::move(keys)), seed_(seed), factor_(mixed(seed, 1) | 1), numbers_(0) {
    nb::gil_scoped_release release;
    const int64_t count = keys_.count();
    if (count > kMaxKeys)
      corrupt("keys: " + std::to_string(count) + " of them, too many for a table");
    const uint64_t places = std::bit_ceil(static_cast<uint64_t>(count) * 2 + 2);
    shift_ = 64 - std::countr_zero(places);
    slots_.resize(places);
    filter_.resize(count);
    numbers_ = Owned<uint32_t>(count);
    if (keys_.is_word())
      build<true>();
    else
      build<false>();
    screen();
  }

  int64_t size() const { return size_; }

  // Number of each key; can be taken once.
  Numpy<uint32_t> numbers() {
    if (numbers_taken_) corrupt("keys: their numbers were taken before");
    numbers_taken_ = true;
    return numbers_.numpy();
  }

  // Positions of the other keys, of the same form, that are in the table, ascending; and their
  // numbers.
  nb::object find(const Keys& others) const {
    check_alike(others);
    auto run = [&] {
      nb::gil_scoped_release release;
      std::vector<Hit> hits;
      for_hits(others, [&](int64_t place, uint32_t number) { hits.push_back({place, number}); });
      Owned<int64_t> places(static_cast<int64_t>(hits.size()));
      Owned<int64_t> numbers(places.size());
      for (int64_t i = 0; i < places.size(); ++i) {
        places[i] = hits[static_cast<size_t>(i)].place;
        numbers[i] = hits[static_cast<size_t>(i)].number;
      }
      return std::make_pair(std::move(places), std::move(numbers));
    };
    auto [places, numbers] = run();
    return nb::make_tuple(places.numpy(), numbers.numpy());
  }

  // A bit for each of the other keys, of the same form, LSB first: 1 if it is in the table.
  Numpy<uint8_t> contains(const Keys& others) const {
    check_alike(others);
    auto run = [&] {
      nb::gil_scoped_release release;
      Owned<uint8_t> bits((others.count() + 7) / 8);
      std::fill(bits.data(), bits.data() + bits.size(), uint8_t{0});
      for_hits(others, [&](int64_t place, uint32_t) {
        bits[place >> 3] |= static_cast<uint8_t>(1 << (place & 7));
      });
      return bits;
    };
    return run().numpy();
  }

 private:
  struct Slot {
    uint64_t key = 0;  // the key if it is a word, else its hash
    uint32_t number = 0;  // from 1 on; 0: the slot is free
    uint32_t first = 0;  // position of the key's first appearance
  };

  struct Hit {
    int64_t place;
    uint32_t number;
  };

  void check_alike(const Keys& others) const {
    if (others.alike(keys_)) return;
    const auto width = [](const Keys& keys) { return std::to_string(keys.parts()[0].width); };
    corrupt("keys of " + width(others) + " bytes, the table has " + width(keys_) +
            ", or of other columns");
  }

  size_t slot_of(uint64_t mix) const { return static_cast<size_t>(mix >> shift_); }

  template <bool Word>
  bool is_key(const Slot& slot, uint64_t key, const Keys& keys, int64_t i) const {
    return slot.key == key && (Word || keys_.equal(slot.first, keys, i));
  }

  // Hashes of a block of keys.
  void mix(const Keys& keys, int64_t start, int64_t count, uint64_t* hashes) const {
    std::fill(hashes, hashes + count, seed_);
    for (const KeyPart& part : keys.parts()) part.fold(start, count, hashes);
  }

  // Slot of a key, or the free slot where it would be.
  template <bool Word>
  size_t find_slot(uint64_t mix, uint64_t key, const Keys& keys, int64_t i) const {
    const size_t mask = slots_.size() - 1;
    size_t at = slot_of(mix);
    while (slots_[at].number && !is_key<Word>(slots_[at], key, keys, i)) at = (at + 1) & mask;
    return at;
  }

  template <bool Word>
  void build() {
    uint64_t hashes[kBatchKeys];
    for (int64_t start = 0; start < keys_.count(); start += kBatchKeys) {
      const int64_t count = std::min(kBatchKeys, keys_.count() - start);
      mix(keys_, start, count, hashes);
      for (int64_t i = 0; i < count; ++i) __builtin_prefetch(&slots_[slot_of(hashes[i])]);
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t key = Word ? keys_.parts()[0].word(start + i) : hashes[i];
        Slot& slot = slots_[find_slot<Word>(hashes[i], key, keys_, start + i)];
        if (!slot.number) {
          slot = {key, ++size_, static_cast<uint32_t>(start + i)};
          filter_.add(Word ? key * factor_ : hashes[i]);
        }
        numbers_[start + i] = slot.number - 1;
      }
    }
  }

  // Choose a column that tells apart more than half as many keys as all columns do: it is looked up
  // first.
  void screen() {
    if (keys_.parts().size() < 2) return;
    int64_t most = filter_.num_set() / 2;
    for (size_t p = 0; p < keys_.parts().size(); ++p) {
      const KeyPart& part = keys_.parts()[p];
      if (!part.width) continue;
      Filter filter;
      filter.resize(keys_.count());
      uint64_t hashes[kBatchKeys];
      for (int64_t start = 0; start < keys_.count(); start += kBatchKeys) {
        const int64_t count = std::min(kBatchKeys, keys_.count() - start);
        std::fill(hashes, hashes + count, seed_);
        part.fold(start, count, hashes);
        for (int64_t i = 0; i < count; ++i) filter.add(hashes[i]);
      }
      if (filter.num_set() <= most) continue;
      most = filter.num_set();
      screen_ = static_cast<int64_t>(p);
      screen_filter_ = std::move(filter);
    }
    if (screen_ >= 0) filter_ = std::move(screen_filter_);
  }

  // Positions in a block of the keys that pass the filter, and their hashes; returns their number.
  // Words are filtered by a single product, which takes 1 ns per key, a third of the time of a hash.
  template <bool Word>
  int64_t candidates(const Keys& keys, int64_t start, int64_t count, uint32_t* places,
                     uint64_t* hashes) const {
    const KeyPart& first = keys.parts()[0];
    if constexpr (Word) {
      switch (first.width) {
        case 1: return word_candidates<uint8_t>(first, start, count, places, hashes);
        case 2: return word_candidates<uint16_t>(first, start, count, places, hashes);
        case 4: return word_candidates<uint32_t>(first, start, count, places, hashes);
        default: return word_candidates<uint64_t>(first, start, count, places, hashes);
      }
    }
    uint64_t all[kBatchKeys];
    if (screen_ < 0) {
      mix(keys, start, count, all);
    } else {
      std::fill(all, all + count, seed_);
      keys.parts()[static_cast<size_t>(screen_)].fold(start, count, all);
    }
    int64_t passing = 0;
    for (int64_t i = 0; i < count; ++i) {
      places[passing] = static_cast<uint32_t>(i);
      passing += filter_.may_have(all[i]);
    }
    for (int64_t j = 0; j < passing; ++j) {
      hashes[j] = all[places[j]];
      if (screen_ >= 0) mix(keys, start + places[j], 1, &hashes[j]);
    }
    return passing;
  }

  template <typename T>
  int64_t word_candidates(const KeyPart& part, int64_t start, int64_t count, uint32_t* places,
                          uint64_t* hashes) const {
    const Filter::View filter = filter_.view();
    const uint8_t* from = part.data + start * part.stride;
    int64_t passing = 0;
    for (int64_t i = 0; i < count; ++i) {
      places[passing] = static_cast<uint32_t>(i);
      passing += filter.may_have(load<T>(from + i * part.stride) * factor_);
    }
    for (int64_t j = 0; j < passing; ++j)
      hashes[j] = mixed(seed_, load<T>(from + places[j] * part.stride));
    return passing;
  }

  // Call `hit(position, number)` for each of the other keys that is in the table.
  template <typename Report>
  void for_hits(const Keys& others, Report&& hit) const {
    if (keys_.is_word())
      for_hits<true>(others, hit);
    else
      for_hits<false>(others, hit);
  }

  template <bool Word, typename Report>
  void for_hits(const Keys& others, Report& hit) const {
    uint64_t hashes[kBatchKeys];
    uint32_t places[kBatchKeys];
    for (int64_t start = 0; start < others.count(); start += kBatchKeys) {
      const int64_t count = std::min(kBatchKeys, others.count() - start);
      const int64_t passing = candidates<Word>(others, start, count, places, hashes);
      for (int64_t j = 0; j < passing; ++j) __builtin_prefetch(&slots_[slot_of(hashes[j])]);
      for (int64_t j = 0; j < passing; ++j) {
        const int64_t i = start + places[j];
        const uint64_t key = Word ? others.parts()[0].word(i) : hashes[j];
        const Slot& slot = slots_[find_slot<Word>(hashes[j], key, others, i)];
        if (slot.number) hit(i, slot.number - 1);
      }
    }
  }

  Keys keys_;
  uint64_t seed_;
  uint64_t factor_;  // odd
  int shift_ = 0;
  uint32_t size_ = 0;
  bool numbers_taken_ = false;
  std::vector<Slot> slots_;
  Filter filter_;  // of all keys, or of the column that is looked up first
  int64_t screen_ = -1;  // number of that column; -1: none
  Filter screen_filter_;
  Owned<uint32_t> numbers_;
};

// Hash of each key: the same for equal keys, otherwise as good as random.
Numpy<uint64_t> key_hashes(const Keys& keys, uint64_t seed) {
  auto run = [&] {
    nb::gil_scoped_release release;
    Owned<uint64_t> hashes(keys.count());
    for (int64_t i = 0; i < keys.count(); ++i) {
      uint64_t hash = seed;
      for (const KeyPart& part : keys.parts()) {
        const int64_t size = part.size(i);
        hash = KeyPart::hash(mixed(hash, static_cast<uint64_t>(size)), part.at(i), size);
      }
      hashes[i] = hash;
    }
    return hashes;
  };
  return run().numpy();
}

}  // namespace
}  // namespace alance

void register_keys(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Keys>(m, "Keys")
      .def(nb::init<Bytes, int64_t>(), nb::arg("data"), nb::arg("width"))
      .def(nb::init<In<int64_t>, Bytes>(), nb::arg("offsets").noconvert(), nb::arg("data"))
      .def(nb::init<In<int32_t>, Bytes>(), nb::arg("offsets").noconvert(), nb::arg("data"))
      .def_static("beside", &Keys::beside, nb::arg("columns"))
      .def("split", &Keys::split, nb::arg("widths").noconvert())
      .def("hashes", &key_hashes, nb::arg("seed"));
  nb::class_<KeyTable>(m, "KeyTable")
      .def(nb::init<Keys, uint64_t>(), nb::arg("keys"), nb::arg("seed"))
      .def("__len__", &KeyTable::size)
      .def("numbers", &KeyTable::numbers)
      .def("find", &KeyTable::find, nb::arg("others"))
      .def("contains", &KeyTable::contains, nb::arg("others"));
}
