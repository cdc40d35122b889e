// Keys of rows, numbered in a table that finds them again: the inner loops of a hash join.
#include <algorithm>
#include <bit>
#include <vector>

#include "owned.hpp"

namespace alance {
namespace {

constexpr uint64_t MIX = 0x9E3779B97F4A7C15;
constexpr int64_t WORD = 8;
constexpr int64_t BLOCK = 64;      // keys whose slots are fetched before they are looked at
constexpr uint64_t FILTER = 8;     // bits of the filter a key: most that are not there end in it
constexpr int64_t MOST = UINT32_MAX - 1;

inline uint64_t load_word(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

inline uint64_t mixed(uint64_t hash, uint64_t word) {
  const auto wide = static_cast<unsigned __int128>(hash ^ word ^ MIX) * 0xD6E8FEB86659FD93;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

// Keys of `width` bytes each, or from offset to offset where there are some.
class Keys {
 public:
  Keys(Bytes data, int64_t width) : data_(data), width_(width) {
    if (width < 1) corrupt("keys of " + std::to_string(width) + " bytes");
    count_ = static_cast<int64_t>(data.size()) / width;
    if (count_ * width != static_cast<int64_t>(data.size()))
      corrupt("keys: " + std::to_string(data.size()) + " bytes, not a multiple of " +
              std::to_string(width));
  }

  Keys(In<int64_t> offsets, Bytes data) : data_(data), offsets_(offsets) {
    if (offsets.size() == 0) corrupt("keys: no offsets");
    count_ = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t* offset = offsets.data();
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < count_; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[count_] > static_cast<int64_t>(data.size()))
      corrupt("keys: offsets decrease or leave the buffer");
  }

  int64_t count() const { return count_; }
  int64_t width() const { return width_; }
  bool is_word() const { return width_ == WORD; }
  uint64_t word(int64_t i) const { return load_word(data_.data() + i * WORD); }

  const uint8_t* at(int64_t i) const {
    return data_.data() + (width_ ? i * width_ : offsets_.data()[i]);
  }
  int64_t size(int64_t i) const {
    return width_ ? width_ : offsets_.data()[i + 1] - offsets_.data()[i];
  }

  uint64_t hash(int64_t i, uint64_t seed) const {
    const uint8_t* at = this->at(i);
    int64_t left = size(i);
    uint64_t hash = mixed(seed, static_cast<uint64_t>(left));
    for (; left >= WORD; left -= WORD, at += WORD) hash = mixed(hash, load_word(at));
    if (left) {
      uint64_t word = 0;
      std::memcpy(&word, at, static_cast<size_t>(left));
      hash = mixed(hash, word);
    }
    return hash;
  }

  bool equal(int64_t i, const Keys& other, int64_t j) const {
    const int64_t length = size(i);
    return length == other.size(j) &&
           std::memcmp(at(i), other.at(j), static_cast<size_t>(length)) == 0;
  }

 private:
  Bytes data_;
  In<int64_t> offsets_;
  int64_t width_ = 0;
  int64_t count_ = 0;
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
    if (others.width() != keys_.width())
      corrupt("keys of " + std::to_string(others.width()) + " bytes, the table has " +
              std::to_string(keys_.width()));
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
    uint64_t key = 0;     // the key where it is a word, else its hash
    uint32_t number = 0;  // from 1 on
    uint32_t first = 0;   // where the key stands first
  };

  struct Hit {
    int64_t place;
    uint32_t number;
  };

  template <bool Word>
  uint64_t key_of(const Keys& keys, int64_t i) const {
    return Word ? keys.word(i) : keys.hash(i, seed_);
  }
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
    for (int64_t start = 0; start < keys.count(); start += BLOCK) {
      const int64_t count = std::min(BLOCK, keys.count() - start);
      for (int64_t i = 0; i < count; ++i) {
        key[i] = key_of<Word>(keys, start + i);
        mix[i] = mixed(key[i], seed_);
      }
      each(start, count, key, mix);
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
    for (int64_t i = 0; i < keys.count(); ++i) found[i] = keys.hash(i, seed);
    return found;
  };
  return run().numpy();
}

// Keys of several columns as one: their bytes in a row, those of a varying number behind their
// number, so that none runs over into the next. Offsets and bytes.
nb::object joined_keys(const nb::list& columns) {
  std::vector<Keys> keys;
  for (nb::handle one : columns) keys.push_back(nb::cast<const Keys&>(one));
  if (keys.empty()) corrupt("keys: no columns");
  const int64_t count = keys[0].count();
  for (const Keys& one : keys)
    if (one.count() != count) corrupt("keys: columns of different lengths");
  auto run = [&] {
    nb::gil_scoped_release release;
    Owned<int64_t> ends(count + 1);
    ends[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t size = 0;
      for (const Keys& one : keys) size += one.size(i) + (one.width() ? 0 : WORD);
      ends[i + 1] = ends[i] + size;
    }
    Owned<uint8_t> bytes(ends[count]);
    uint8_t* out = bytes.data();
    for (int64_t i = 0; i < count; ++i) {
      for (const Keys& one : keys) {
        const int64_t size = one.size(i);
        if (!one.width()) {
          std::memcpy(out, &size, WORD);
          out += WORD;
        }
        if (size) std::memcpy(out, one.at(i), static_cast<size_t>(size));
        out += size;
      }
    }
    return std::make_pair(std::move(ends), std::move(bytes));
  };
  auto [ends, bytes] = run();
  return nb::make_tuple(ends.numpy(), bytes.numpy());
}

}  // namespace
}  // namespace alance

void register_keys(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Keys>(m, "Keys")
      .def(nb::init<Bytes, int64_t>(), nb::arg("data"), nb::arg("width"))
      .def(nb::init<In<int64_t>, Bytes>(), nb::arg("offsets").noconvert(), nb::arg("data"))
      .def("hashes", &key_hashes, nb::arg("seed"));
  m.def("joined_keys", &joined_keys, nb::arg("columns"));
  nb::class_<KeyTable>(m, "KeyTable")
      .def(nb::init<Keys, uint64_t>(), nb::arg("keys"), nb::arg("seed"))
      .def("__len__", &KeyTable::size)
      .def("numbers", &KeyTable::numbers)
      .def("find", &KeyTable::find, nb::arg("others"));
}
