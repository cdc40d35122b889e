// Keys of rows: the bytes of one or several columns, equal if all columns are equal; a hash table
// that numbers them, by open addressing with linear probing: the inner loops of a hash join; and
// keys of several columns as one value a row, for keys on disk.
//
// Before the table is probed, a bitmap of hashes rejects most missing keys. For keys that are
// words, the bitmap uses cheaper hashes than the table.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/ends.hpp"
#include "base/hashes.hpp"
#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

using hashes::mixed;

constexpr int64_t kKeyWord = 8;  // bytes
constexpr int64_t kBatchKeys = 256;  // keys whose slots are prefetched together
// Bits of the filter for a key: of the missing keys, 3 % pass it if the filter fits into an L2 cache
// of 256 KiB, and 10 % if it is larger.
constexpr uint64_t kFilterBits = 8;
constexpr uint64_t kCachedFilterBits = 32;
constexpr uint64_t kMaxCachedBits = uint64_t{1} << 21;
constexpr int64_t kMaxKeys = UINT32_MAX - 1;
constexpr int64_t kAllColumns = -1;

// One column: values of `width` bytes; values between offsets if `width` is 0.
struct KeyPart {
  const uint8_t* data = nullptr;
  const int64_t* wide = nullptr;
  const int32_t* narrow = nullptr;
  int64_t width = 0;

  int64_t end(int64_t i) const { return wide ? wide[i] : narrow[i]; }
  const uint8_t* at(int64_t i) const { return data + (width ? i * width : end(i)); }
  int64_t size(int64_t i) const { return width ? width : end(i + 1) - end(i); }

  bool equal(int64_t i, const KeyPart& other, int64_t j) const {
    const int64_t length = size(i);
    return length == other.size(j) &&
           std::memcmp(at(i), other.at(j), static_cast<size_t>(length)) == 0;
  }

  static uint64_t hash(uint64_t hash, const uint8_t* at, int64_t remaining) {
    for (; remaining >= kKeyWord; remaining -= kKeyWord, at += kKeyWord)
      hash = mixed(hash, load<uint64_t>(at));
    return remaining ? mixed(hash, hashes::last_word(at, remaining)) : hash;
  }

  // Mix the values of some rows into the hashes of their keys.
  void fold(int64_t start, int64_t count, uint64_t* hashes) const {
    switch (width) {
      case 0:
        for (int64_t i = 0; i < count; ++i) {
          const int64_t length = size(start + i);
          hashes[i] = hash(mixed(hashes[i], static_cast<uint64_t>(length)), at(start + i), length);
        }
        break;
      case 1: fold_words<uint8_t>(start, count, hashes); break;
      case 2: fold_words<uint16_t>(start, count, hashes); break;
      case 4: fold_words<uint32_t>(start, count, hashes); break;
      case 8: fold_words<uint64_t>(start, count, hashes); break;
      default:
        for (int64_t i = 0; i < count; ++i) hashes[i] = hash(hashes[i], at(start + i), width);
    }
  }

  // Value as a number; the width is 1, 2, 4 or 8.
  uint64_t word(int64_t i) const {
    return by_width(static_cast<int>(8 * width),
                    [&](auto word) -> uint64_t { return load<decltype(word)>(at(i)); });
  }

 private:
  template <typename T>
  void fold_words(int64_t start, int64_t count, uint64_t* hashes) const {
    const uint8_t* from = at(start);
    for (int64_t i = 0; i < count; ++i)
      hashes[i] = mixed(hashes[i], load<T>(from + i * static_cast<int64_t>(sizeof(T))));
  }
};

class Keys {
 public:
  // Values of `width` bytes each.
  Keys(const Bytes& data, int64_t width) : owners_{Owner(data)} {
    if (width < 1) corrupt("keys of ", width, " bytes");
    count_ = std::ssize(data) / width;
    if (count_ * width != std::ssize(data))
      corrupt("keys: ", data.size(), " bytes, not a multiple of ", width);
    parts_.push_back({data.data(), nullptr, nullptr, width});
  }

  // Values between offsets.
  Keys(const In<int64_t>& offsets, const Bytes& data) : owners_{Owner(offsets), Owner(data)} {
    count_ = checked_count(offsets, std::ssize(data), "keys");
    parts_.push_back({data.data(), offsets.data(), nullptr, 0});
  }
  Keys(const In<int32_t>& offsets, const Bytes& data) : owners_{Owner(offsets), Owner(data)} {
    count_ = checked_count(offsets, std::ssize(data), "keys");
    parts_.push_back({data.data(), nullptr, offsets.data(), 0});
  }

  int64_t count() const { return count_; }
  const std::vector<KeyPart>& parts() const { return parts_; }

  // True if keys are numbers of 1, 2, 4 or 8 bytes.
  bool is_word() const {
    const int64_t width = parts_[0].width;
    return parts_.size() == 1 && (width == 1 || width == 2 || width == 4 || width == 8);
  }

  bool alike(const Keys& other) const {
    bool are_alike = parts_.size() == other.parts_.size();
    for (size_t p = 0; are_alike && p < parts_.size(); ++p)
      are_alike = parts_[p].width == other.parts_[p].width;
    return are_alike;
  }

  bool equal(int64_t i, const Keys& other, int64_t j) const {
    for (size_t p = 0; p < parts_.size(); ++p)
      if (!parts_[p].equal(i, other.parts_[p], j)) return false;
    return true;
  }

  // Columns of other keys, with the same number of rows, side by side.
  static Keys beside(const std::vector<const Keys*>& columns) {
    Keys result;
    for (const Keys* keys : columns) {
      if (keys == nullptr) corrupt("keys: a column that is None");
      if (!result.parts_.empty() && keys->count_ != result.count_)
        corrupt("keys: columns of different lengths");
      result.count_ = keys->count_;
      result.parts_.insert(result.parts_.end(), keys->parts_.begin(), keys->parts_.end());
      result.owners_.insert(result.owners_.end(), keys->owners_.begin(), keys->owners_.end());
    }
    if (result.parts_.empty()) corrupt("keys: no columns");
    return result;
  }

 private:
  using Owner = nb::ndarray<nb::ro>;

  Keys() = default;

  std::vector<KeyPart> parts_;
  std::vector<Owner> owners_;  // of the memory of the parts
  int64_t count_ = 0;
};

// A value of varying size follows its size, so that different keys never have equal bytes.
std::tuple<Owned<int64_t>, Owned<uint8_t>> joined_keys(const std::vector<const Keys*>& columns) {
  const Keys keys = Keys::beside(columns);
  const int64_t count = keys.count();
  Owned<int64_t> ends(count + 1);
  ends[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t size = 0;
    for (const KeyPart& part : keys.parts()) size += part.size(i) + (part.width ? 0 : kKeyWord);
    ends[i + 1] = ends[i] + size;
  }
  Owned<uint8_t> bytes(ends[count]);
  uint8_t* out = bytes.data();
  for (int64_t i = 0; i < count; ++i) {
    for (const KeyPart& part : keys.parts()) {
      const int64_t size = part.size(i);
      if (!part.width) {
        store<int64_t>(out, size);
        out += kKeyWord;
      }
      if (size) std::memcpy(out, part.at(i), static_cast<size_t>(size));
      out += size;
    }
  }
  return {std::move(ends), std::move(bytes)};
}

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
  bool may_have(uint64_t hash) const {
    const uint64_t bit = hash >> shift_;
    return words_[bit >> 6] >> (bit & 63) & 1;
  }

  // Number of set bits, about that of distinct hashes.
  int64_t num_set() const {
    int64_t count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return count;
  }

 private:
  std::vector<uint64_t> words_;
  int64_t shift_ = 58;  // no `int`: loops write 32-bit numbers, which cannot be this one
};

// Hash table of keys, numbered from 0 in order of first appearance; equal keys have one number.
class KeyTable {
 public:
  KeyTable(Keys keys, uint64_t seed)
      : keys_(std::move(keys)), seed_(seed), factor_(mixed(seed, 1) | 1), numbers_(0) {
    const int64_t count = keys_.count();
    if (count > kMaxKeys) corrupt("keys: ", count, " of them, too many for a table");
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
  Owned<uint32_t> numbers() {
    if (numbers_taken_) corrupt("keys: their numbers were taken before");
    numbers_taken_ = true;
    return std::move(numbers_);
  }

  // Positions of the other keys, of the same form, that are in the table, ascending; and their
  // numbers.
  std::tuple<Owned<int64_t>, Owned<int64_t>> find(const Keys& others) const {
    check_alike(others);
    std::vector<std::pair<int64_t, uint32_t>> hits;
    for_hits(others, [&](int64_t place, uint32_t number) { hits.emplace_back(place, number); });
    Owned<int64_t> places(std::ssize(hits)), numbers(std::ssize(hits));
    for (int64_t i = 0; i < places.size(); ++i)
      std::tie(places[i], numbers[i]) = hits[static_cast<size_t>(i)];
    return {std::move(places), std::move(numbers)};
  }

  // A bit for each of the other keys, of the same form, LSB first: 1 if it is in the table.
  Owned<uint8_t> contains(const Keys& others) const {
    check_alike(others);
    Owned<uint8_t> bits((others.count() + 7) / 8);
    std::fill_n(bits.data(), bits.size(), uint8_t{0});
    for_hits(others, [&](int64_t place, uint32_t) {
      bits[place >> 3] |= static_cast<uint8_t>(1 << (place & 7));
    });
    return bits;
  }

 private:
  struct Slot {
    uint64_t key = 0;  // the key if it is a word, else its hash
    uint32_t number = 0;  // from 1 on; 0: the slot is free
    uint32_t first = 0;  // position of the key's first appearance
  };

  void check_alike(const Keys& others) const {
    if (others.alike(keys_)) return;
    const auto width = [](const Keys& keys) { return std::to_string(keys.parts()[0].width); };
    corrupt("keys of ", width(others), " bytes, the table has ", width(keys_),
            ", or of other columns");
  }

  size_t slot_of(uint64_t mix) const { return static_cast<size_t>(mix >> shift_); }

  template <bool Word>
  bool is_key(const Slot& slot, uint64_t key, const Keys& keys, int64_t i) const {
    return slot.key == key && (Word || keys_.equal(slot.first, keys, i));
  }

  // Hashes of a block of keys, by one column or by all (`kAllColumns`).
  void mix(const Keys& keys, int64_t column, int64_t start, int64_t count, uint64_t* hashes) const {
    std::fill_n(hashes, count, seed_);
    for (int64_t p = 0; p < std::ssize(keys.parts()); ++p)
      if (column == p || column == kAllColumns)
        keys.parts()[static_cast<size_t>(p)].fold(start, count, hashes);
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
      mix(keys_, kAllColumns, start, count, hashes);
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
    for (int64_t p = 0; p < std::ssize(keys_.parts()); ++p) {
      if (!keys_.parts()[static_cast<size_t>(p)].width) continue;
      Filter filter;
      filter.resize(keys_.count());
      uint64_t hashes[kBatchKeys];
      for (int64_t start = 0; start < keys_.count(); start += kBatchKeys) {
        const int64_t count = std::min(kBatchKeys, keys_.count() - start);
        mix(keys_, p, start, count, hashes);
        for (int64_t i = 0; i < count; ++i) filter.add(hashes[i]);
      }
      if (filter.num_set() <= most) continue;
      most = filter.num_set();
      screen_ = p;
      filter_ = std::move(filter);
    }
  }

  // Positions in a block of the keys that pass the filter, and their hashes; returns their number.
  // Words are filtered by a single product, which takes 1 ns per key, a third of the time of a hash.
  template <bool Word>
  int64_t candidates(const Keys& keys, int64_t start, int64_t count, uint32_t* places,
                     uint64_t* hashes) const {
    const KeyPart& first = keys.parts()[0];
    if constexpr (Word) {
      return by_width(static_cast<int>(8 * first.width), [&](auto word) {
        return word_candidates<decltype(word)>(first, start, count, places, hashes);
      });
    }
    uint64_t all[kBatchKeys];
    mix(keys, screen_, start, count, all);
    int64_t passing = 0;
    for (int64_t i = 0; i < count; ++i) {
      places[passing] = static_cast<uint32_t>(i);
      passing += filter_.may_have(all[i]);
    }
    for (int64_t j = 0; j < passing; ++j) {
      hashes[j] = all[places[j]];
      if (screen_ != kAllColumns) mix(keys, kAllColumns, start + places[j], 1, &hashes[j]);
    }
    return passing;
  }

  template <typename T>
  int64_t word_candidates(const KeyPart& part, int64_t start, int64_t count, uint32_t* places,
                          uint64_t* hashes) const {
    constexpr int64_t kSize = sizeof(T);
    const uint8_t* from = part.at(start);
    int64_t passing = 0;
    for (int64_t i = 0; i < count; ++i) {
      places[passing] = static_cast<uint32_t>(i);
      passing += filter_.may_have(load<T>(from + i * kSize) * factor_);
    }
    for (int64_t j = 0; j < passing; ++j)
      hashes[j] = mixed(seed_, load<T>(from + places[j] * kSize));
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
  int64_t screen_ = kAllColumns;  // number of that column
  Owned<uint32_t> numbers_;
};

// Hash of each key: the same for equal keys, otherwise as good as random.
Owned<uint64_t> key_hashes(const Keys& keys, uint64_t seed) {
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
}

}  // namespace
}  // namespace alance

void register_keys(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Keys>(m, "Keys")
      .def(nb::init<Bytes, int64_t>(), "data"_a, "width"_a)
      .def(nb::init<In<int64_t>, Bytes>(), "offsets"_a.noconvert(), "data"_a)
      .def(nb::init<In<int32_t>, Bytes>(), "offsets"_a.noconvert(), "data"_a)
      .def_static("beside", &Keys::beside, "columns"_a)
      .def("hashes", &key_hashes, "seed"_a, NoGil());
  nb::class_<KeyTable>(m, "KeyTable")
      .def(nb::init<Keys, uint64_t>(), "keys"_a, "seed"_a, NoGil())
      .def("__len__", &KeyTable::size)
      .def("numbers", &KeyTable::numbers)
      .def("find", &KeyTable::find, "others"_a, NoGil())
      .def("contains", &KeyTable::contains, "others"_a, NoGil());
  m.def("joined_keys", &joined_keys, "columns"_a, NoGil());
}
