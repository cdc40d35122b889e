// Keys of rows, numbered in a table that finds them again: the inner loops of a hash join.
#include <algorithm>
#include <bit>

#include "keys.hpp"

namespace alance {
namespace {

constexpr int64_t BLOCK = 64;      // keys whose slots are fetched before they are looked at
constexpr uint64_t FILTER = 8;     // bits of the filter a key: most that are not there end in it
constexpr int64_t MOST = UINT32_MAX - 1;

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
    const uint64_t bits = std::max(uint64_t{64}, std::bit_ceil(FILTER * static_cast<uint64_t>(count)));
    filter_mask_ = bits - 1;
    filter_.resize(bits / 64);
    numbers_ = Owned<uint32_t>(count);
    if (keys_.is_word())
      build<true>();
    else
      build<false>();
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

  // Of a key that is mixed: where its slot is looked for, and its bit in the filter.
  size_t slot_of(uint64_t mix) const { return static_cast<size_t>(mix >> shift_); }
  bool may_have(uint64_t mix) const {
    const uint64_t bit = mix & filter_mask_;
    return filter_[bit >> 6] >> (bit & 63) & 1;
  }

  template <bool Word>
  bool same(const Slot& slot, uint64_t key, const Keys& keys, int64_t i) const {
    return slot.key == key && (Word || keys_.equal(slot.first, keys, i));
  }

  // Mixes the keys of a block, so that what is looked at next is on its way.
  template <bool Word, typename Each>
  void blocks(const Keys& keys, Each each) const {
    uint64_t key[BLOCK], mix[BLOCK];
    const KeyPart& number = keys.parts()[0];
    for (int64_t start = 0; start < keys.count(); start += BLOCK) {
      const int64_t count = std::min(BLOCK, keys.count() - start);
      std::fill(mix, mix + count, seed_);
      for (const KeyPart& part : keys.parts()) part.fold(start, count, mix);
      if constexpr (Word)
        for (int64_t i = 0; i < count; ++i) key[i] = number.word(start + i);
      each(start, count, Word ? key : mix, mix);
    }
  }

  template <bool Word>
  void build() {
    const size_t mask = slots_.size() - 1;
    blocks<Word>(keys_, [&](int64_t start, int64_t count, const uint64_t* key, const uint64_t* mix) {
      for (int64_t i = 0; i < count; ++i) __builtin_prefetch(&slots_[slot_of(mix[i])]);
      for (int64_t i = 0; i < count; ++i) {
        size_t at = slot_of(mix[i]);
        while (slots_[at].number && !same<Word>(slots_[at], key[i], keys_, start + i))
          at = (at + 1) & mask;
        if (!slots_[at].number) {
          slots_[at] = {key[i], ++size_, static_cast<uint32_t>(start + i)};
          const uint64_t bit = mix[i] & filter_mask_;
          filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
        }
        numbers_[start + i] = slots_[at].number - 1;
      }
    });
  }

  template <bool Word>
  void find_all(const Keys& others, std::vector<Hit>& hits) const {
    const size_t mask = slots_.size() - 1;
    blocks<Word>(others, [&](int64_t start, int64_t count, const uint64_t* key, const uint64_t* mix) {
      int64_t left[BLOCK];
      int64_t num_left = 0;
      for (int64_t i = 0; i < count; ++i) {
        left[num_left] = i;
        num_left += may_have(mix[i]);
      }
      for (int64_t i = 0; i < num_left; ++i) __builtin_prefetch(&slots_[slot_of(mix[left[i]])]);
      for (int64_t j = 0; j < num_left; ++j) {
        const int64_t i = left[j];
        size_t at = slot_of(mix[i]);
        while (slots_[at].number && !same<Word>(slots_[at], key[i], others, start + i))
          at = (at + 1) & mask;
        if (slots_[at].number) hits.push_back({start + i, slots_[at].number - 1});
      }
    });
  }

  Keys keys_;
  uint64_t seed_;
  int shift_ = 0;
  uint32_t size_ = 0;
  bool given_ = false;
  std::vector<Slot> slots_;
  std::vector<uint64_t> filter_;
  uint64_t filter_mask_ = 0;
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
