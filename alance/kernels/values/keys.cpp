// Hash table of row keys with numbers, by open addressing with linear probing: the inner loops of a
// hash join. A bitmap of hashes rejects most missing keys before the table is probed.
#include <algorithm>
#include <bit>

#include "values/keys.hpp"

namespace alance {
namespace {

constexpr int64_t kBatchKeys = 64;  // keys whose slots are prefetched together
constexpr uint64_t kFilterBits = 8;  // a key: most missing keys end in the filter
constexpr int64_t kMaxKeys = UINT32_MAX - 1;

// Filter of one bit a hash: rejects most hashes that were not added.
class Filter {
 public:
  void resize(int64_t count) {
    const uint64_t bits =
        std::max(uint64_t{64}, std::bit_ceil(kFilterBits * static_cast<uint64_t>(count)));
    mask_ = bits - 1;
    words_.assign(bits / 64, 0);
  }
  void add(uint64_t hash) { words_[(hash & mask_) >> 6] |= uint64_t{1} << (hash & 63); }
  bool may_have(uint64_t hash) const { return words_[(hash & mask_) >> 6] >> (hash & 63) & 1; }

  // Number of set bits, about that of distinct hashes.
  int64_t num_set() const {
    int64_t count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return count;
  }

 private:
  std::vector<uint64_t> words_;
  uint64_t mask_ = 0;
};

// Hash table of keys, numbered from 0 in order of first appearance; equal keys have one number.
class KeyTable {
 public:
  KeyTable(Keys keys, uint64_t seed) : keys_(std::move(keys)), seed_(seed), numbers_(0) {
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
    if (!others.alike(keys_)) {
      const auto width = [](const Keys& keys) { return std::to_string(keys.parts()[0].width); };
      corrupt("keys of " + width(others) + " bytes, the table has " + width(keys_) +
              ", or of other columns");
    }
    auto run = [&] {
      nb::gil_scoped_release release;
      std::vector<Hit> hits;
      if (keys_.is_word())
        find_all<true>(others, hits);
      else
        find_all<false>(others, hits);
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
          filter_.add(hashes[i]);
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

  template <bool Word>
  void find_all(const Keys& others, std::vector<Hit>& hits) const {
    const KeyPart* column = screen_ < 0 ? nullptr : &others.parts()[static_cast<size_t>(screen_)];
    uint64_t hashes[kBatchKeys];
    int64_t candidates[kBatchKeys];
    for (int64_t start = 0; start < others.count(); start += kBatchKeys) {
      const int64_t count = std::min(kBatchKeys, others.count() - start);
      if (column) {
        std::fill(hashes, hashes + count, seed_);
        column->fold(start, count, hashes);
      } else {
        mix(others, start, count, hashes);
      }
      int64_t num_candidates = 0;
      for (int64_t i = 0; i < count; ++i) {
        candidates[num_candidates] = i;
        num_candidates += filter_.may_have(hashes[i]);
      }
      for (int64_t j = 0; j < num_candidates; ++j) {
        uint64_t& hash = hashes[candidates[j]];
        if (column) mix(others, start + candidates[j], 1, &hash);
        __builtin_prefetch(&slots_[slot_of(hash)]);
      }
      for (int64_t j = 0; j < num_candidates; ++j) {
        const int64_t i = start + candidates[j];
        const uint64_t hash = hashes[candidates[j]];
        const uint64_t key = Word ? others.parts()[0].word(i) : hash;
        const Slot& slot = slots_[find_slot<Word>(hash, key, others, i)];
        if (slot.number) hits.push_back({i, slot.number - 1});
      }
    }
  }

  Keys keys_;
  uint64_t seed_;
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
      .def("find", &KeyTable::find, nb::arg("others"));
}
