// Hash table of row keys with numbers, by open addressing with linear probing: the inner loops of a
// hash join. A bitmap of hashes rejects most missing keys before the table is probed.
#include <algorithm>
#include <bit>

#include "values/keys.hpp"

namespace alance {
namespace {

constexpr int64_t BLOCK = 64;      // keys whose slots are fetched before they are looked at
constexpr uint64_t FILTER = 8;     // bits of the filter a key: most that are not there end in it
constexpr int64_t MOST = UINT32_MAX - 1;

// A few bits a hash: says of most that were not added that they were not.
class Filter {
 public:
  void resize(int64_t count) {
    const uint64_t bits = std::max(uint64_t{64}, std::bit_ceil(FILTER * static_cast<uint64_t>(count)));
    mask_ = bits - 1;
    words_.assign(bits / 64, 0);
  }
  void add(uint64_t hash) { words_[(hash & mask_) >> 6] |= uint64_t{1} << (hash & 63); }
  bool may_have(uint64_t hash) const { return words_[(hash & mask_) >> 6] >> (hash & 63) & 1; }

  // Bits that are set: about as many as hashes differ.
  int64_t num_set() const {
    int64_t found = 0;
    for (const uint64_t word : words_) found += std::popcount(word);
    return found;
  }

 private:
  std::vector<uint64_t> words_;
  uint64_t mask_ = 0;
};

// Keys, each with a number: 0 for the first one, the same for all that are equal.
class KeyTable {
 public:
  KeyTable(Keys keys, uint64_t seed) : keys_(std::move(keys)), seed_(seed), numbers_(0) {
    nb::gil_scoped_release release;
    const int64_t count = keys_.count();
    if (count > MOST) corrupt("keys: " + std::to_string(count) + " of them, too many for a table");
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

  // The number of each key; given away at the first call.
  Numpy<uint32_t> numbers() {
    if (given_) corrupt("keys: their numbers were taken before");
    given_ = true;
    return numbers_.numpy();
  }

  // Which of other keys of the same form are in the table, ascending, and their numbers.
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
    uint64_t key = 0;     // the key where it is a number, else its hash
    uint32_t number = 0;  // from 1 on
    uint32_t first = 0;   // where the key stands first
  };

  struct Hit {
    int64_t place;
    uint32_t number;
  };

  size_t slot_of(uint64_t mix) const { return static_cast<size_t>(mix >> shift_); }

  template <bool Word>
  bool same(const Slot& slot, uint64_t key, const Keys& keys, int64_t i) const {
    return slot.key == key && (Word || keys_.equal(slot.first, keys, i));
  }

  // The hashes of a block of keys.
  void mix(const Keys& keys, int64_t start, int64_t count, uint64_t* hashes) const {
    std::fill(hashes, hashes + count, seed_);
    for (const KeyPart& part : keys.parts()) part.fold(start, count, hashes);
  }

  // Where a key stands, or the free slot where it would.
  template <bool Word>
  size_t find_slot(uint64_t mix, uint64_t key, const Keys& keys, int64_t i) const {
    const size_t mask = slots_.size() - 1;
    size_t at = slot_of(mix);
    while (slots_[at].number && !same<Word>(slots_[at], key, keys, i)) at = (at + 1) & mask;
    return at;
  }

  template <bool Word>
  void build() {
    uint64_t hashes[BLOCK];
    for (int64_t start = 0; start < keys_.count(); start += BLOCK) {
      const int64_t count = std::min(BLOCK, keys_.count() - start);
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

  // Of keys of several columns one may tell as much as all do: then it is looked at alone first.
  void screen() {
    if (keys_.parts().size() < 2) return;
    int64_t most = filter_.num_set() / 2;
    for (size_t p = 0; p < keys_.parts().size(); ++p) {
      const KeyPart& part = keys_.parts()[p];
      if (!part.width) continue;
      Filter filter;
      filter.resize(keys_.count());
      uint64_t hashes[BLOCK];
      for (int64_t start = 0; start < keys_.count(); start += BLOCK) {
        const int64_t count = std::min(BLOCK, keys_.count() - start);
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
    const KeyPart* one = screen_ < 0 ? nullptr : &others.parts()[static_cast<size_t>(screen_)];
    uint64_t hashes[BLOCK];
    int64_t left[BLOCK];
    for (int64_t start = 0; start < others.count(); start += BLOCK) {
      const int64_t count = std::min(BLOCK, others.count() - start);
      if (one) {
        std::fill(hashes, hashes + count, seed_);
        one->fold(start, count, hashes);
      } else {
        mix(others, start, count, hashes);
      }
      int64_t num_left = 0;
      for (int64_t i = 0; i < count; ++i) {
        left[num_left] = i;
        num_left += filter_.may_have(hashes[i]);
      }
      for (int64_t j = 0; j < num_left; ++j) {
        uint64_t& hash = hashes[left[j]];
        if (one) mix(others, start + left[j], 1, &hash);
        __builtin_prefetch(&slots_[slot_of(hash)]);
      }
      for (int64_t j = 0; j < num_left; ++j) {
        const int64_t i = start + left[j];
        const uint64_t hash = hashes[left[j]];
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
  bool given_ = false;
  std::vector<Slot> slots_;
  Filter filter_;          // of all keys, or of those of the column that is looked at first
  int64_t screen_ = -1;    // that column
  Filter screen_filter_;
  Owned<uint32_t> numbers_;
};

// A number for each key, the same for equal ones, otherwise as good as random.
Numpy<uint64_t> key_hashes(const Keys& keys, uint64_t seed) {
  auto run = [&] {
    nb::gil_scoped_release release;
    Owned<uint64_t> found(keys.count());
    for (int64_t i = 0; i < keys.count(); ++i) {
      uint64_t hash = seed;
      for (const KeyPart& one : keys.parts()) {
        const int64_t size = one.size(i);
        hash = KeyPart::hash(mixed(hash, static_cast<uint64_t>(size)), one.at(i), size);
      }
      found[i] = hash;
    }
    return found;
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
