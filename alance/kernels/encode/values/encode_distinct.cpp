// Distinct values of a page in order of first appearance, and the index of each value among them,
// by a hash table with linear probing. Stops if there are too many, which a sample predicts.
#include <nanobind/stl/optional.h>

#include <vector>

#include "base/hashes.hpp"
#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kSampleStretches = 128;  // spread over the page: values that alternate repeat
constexpr int64_t kStretchValues = 32;  // values in a row: sorted values repeat
constexpr int64_t kSampleValues = kSampleStretches * kStretchValues;
constexpr int64_t kMinSampled = 16 * kSampleValues;  // fewer values are counted without a sample
constexpr int64_t kMaxProbes = 16;  // probes a value: more are a sign of collisions on purpose

constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
using hashes::mixed;

// A key stands for a value: equal values have equal keys. Values with the same exact key are equal;
// with another key they are compared.

// Fixed-width values of 8 or 16 bytes.
template <int Width>
struct Fixed {
  const uint8_t* data;

  uint64_t key(int64_t i) const {
    const uint64_t low = load<uint64_t>(data + i * Width);
    return Width == 8 ? low : mixed(mixed(0, low), load<uint64_t>(data + i * Width + Width - 8));
  }
  bool equal(uint64_t, int64_t i, int64_t j) const {
    return Width == 8 || std::memcmp(data + i * Width, data + j * Width, Width) == 0;
  }
  int64_t size(int64_t) const { return Width; }
};

template <typename Offset>
struct Texts : Strings<Offset> {
  static constexpr int64_t kExactBytes = 7;  // bytes of a string that fit a key with their length

  explicit Texts(const Strings<Offset>& strings) : Strings<Offset>(strings) {}

  uint64_t key(int64_t i) const {
    const int64_t length = this->size(i);
    const uint8_t* at = this->at(i);
    if (length <= kExactBytes) {
      uint64_t word = 0;
      if (this->num_bytes - this->ends[i] >= 8)
        word = load<uint64_t>(at) & ~(~uint64_t{0} << 8 * length);
      else
        std::memcpy(&word, at, static_cast<size_t>(length));
      return word | static_cast<uint64_t>(length) << 56;
    }
    uint64_t hash = mixed(static_cast<uint64_t>(length), load<uint64_t>(at + length - 8));
    for (int64_t done = 0; done + 8 < length; done += 8)
      hash = mixed(hash, load<uint64_t>(at + done));
    return hash | uint64_t{1} << 63;  // no exact key has this bit
  }
  bool equal(uint64_t key, int64_t i, int64_t j) const {
    if (!(key >> 63)) return true;
    return (*this)[i] == (*this)[j];
  }
};

// Set of values, numbered in order of first appearance.
template <typename Values>
class Numbers {
 public:
  explicit Numbers(const Values& values) : values_(values), slots_(1024), shift_(64 - 10) {}

  int64_t size() const { return static_cast<int64_t>(firsts_.size()); }
  int64_t num_bytes() const { return num_bytes_; }
  int64_t probes() const { return probes_; }
  const std::vector<int64_t>& firsts() const { return firsts_; }  // positions of first appearance

  uint32_t number(int64_t i) {
    const uint64_t key = values_.key(i);
    const size_t mask = slots_.size() - 1;
    size_t at = place(key);
    while (true) {
      const Slot slot = slots_[at];
      if (slot.number == 0) break;
      if (slot.key == key && values_.equal(key, i, slot.first)) return slot.number - 1;
      at = (at + 1) & mask;
      ++probes_;
    }
    firsts_.push_back(i);
    num_bytes_ += values_.size(i);
    slots_[at] = {key, static_cast<uint32_t>(firsts_.size()), static_cast<uint32_t>(i)};
    if (2 * firsts_.size() > slots_.size()) grow();
    return static_cast<uint32_t>(firsts_.size() - 1);
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t number = 0;  // from 1 on; 0: the slot is free
    uint32_t first = 0;  // position of first appearance
  };

  size_t place(uint64_t key) const { return static_cast<size_t>(mixed(key, 0) >> shift_); }

  void grow() {
    shift_ -= 2;
    std::vector<Slot> larger(4 * slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.number == 0) continue;
      size_t at = place(slot.key);
      while (larger[at].number) {
        at = (at + 1) & (larger.size() - 1);
        ++probes_;
      }
      larger[at] = slot;
    }
    slots_ = std::move(larger);
  }

  Values values_;
  std::vector<Slot> slots_;
  int shift_;
  std::vector<int64_t> firsts_;
  int64_t num_bytes_ = 0, probes_ = 0;
};

// True if a sample has more than `most` distinct values, or fewer repeats than a sample of 2 *
// `most` distinct values would have (birthday problem).
template <typename Values>
bool too_many(const Values& values, int64_t num, int64_t most) {
  Numbers<Values> sample(values);
  for (int64_t s = 0; s < kSampleStretches; ++s) {
    const uint64_t place = static_cast<uint64_t>(s + 1) * kMix;
    const int64_t first = static_cast<int64_t>(place % static_cast<uint64_t>(num - kStretchValues));
    for (int64_t i = first; i < first + kStretchValues; ++i) sample.number(i);
  }
  return sample.size() > most ||
         2 * (kSampleValues - sample.size()) <
             kSampleValues * kSampleValues / (2 * std::max(most, kSampleValues));
}

template <typename Values>
struct Numbered {
  Numbers<Values> numbers;
  Owned<uint32_t> indices;
  bool complete;
};

template <typename Values>
Numbered<Values> number_all(const Values& values, int64_t num, int64_t most, int64_t most_bytes) {
  Numbered<Values> numbered{Numbers<Values>(values), Owned<uint32_t>(num), false};
  most = std::min<int64_t>(most, INT32_MAX);
  if (num > INT64_C(0xFFFFFFFF)) return numbered;
  if (num > kMinSampled && too_many(values, num, most)) return numbered;
  Numbers<Values>& numbers = numbered.numbers;
  for (int64_t i = 0; i < num; ++i) {
    numbered.indices[i] = numbers.number(i);
    if (numbers.size() > most || numbers.num_bytes() > most_bytes ||
        numbers.probes() > kMaxProbes * (i + 1024))
      return numbered;
  }
  numbered.complete = true;
  return numbered;
}

template <int Width>
std::optional<DistinctValues> distinct_of(const uint8_t* data, int64_t num, int64_t most) {
  auto numbered = number_all(Fixed<Width>{data}, num, most, INT64_MAX);
  if (!numbered.complete) return {};
  Owned<uint8_t> items(numbered.numbers.size() * Width);
  uint8_t* out = items.data();
  for (int64_t first : numbered.numbers.firsts()) {
    std::memcpy(out, data + first * Width, Width);
    out += Width;
  }
  return DistinctValues{std::move(numbered.indices), std::move(items)};
}

}  // namespace

std::optional<DistinctValues> distinct_values(const uint8_t* data, int64_t num, int width,
                                              int64_t most) {
  return width == 8 ? distinct_of<8>(data, num, most) : distinct_of<16>(data, num, most);
}

template <typename Offset>
std::optional<DistinctStrings<Offset>> distinct_strings(const Strings<Offset>& in, int64_t most,
                                                        int64_t most_bytes) {
  auto numbered = number_all(Texts(in), in.count, most, most_bytes);
  if (!numbered.complete) return {};
  Owned<Offset> ends(numbered.numbers.size() + 1);
  Owned<uint8_t> items(numbered.numbers.num_bytes());
  ends[0] = 0;
  int64_t item = 0, at = 0;
  for (int64_t first : numbered.numbers.firsts()) {
    const int64_t size = in.size(first);
    if (size) std::memcpy(items.data() + at, in.at(first), static_cast<size_t>(size));
    at += size;
    ends[++item] = static_cast<Offset>(at);
  }
  return DistinctStrings<Offset>{std::move(numbered.indices), std::move(ends), std::move(items)};
}

template std::optional<DistinctStrings<int32_t>> distinct_strings(const Strings<int32_t>&,
                                                                  int64_t, int64_t);
template std::optional<DistinctStrings<int64_t>> distinct_strings(const Strings<int64_t>&,
                                                                  int64_t, int64_t);

namespace {

// Index of each string, and offsets and bytes of the distinct strings; None if there are more than
// `most`, or than `most_bytes` in total.
template <typename Offset>
std::optional<std::tuple<Owned<uint32_t>, Owned<Offset>, Owned<uint8_t>>> numbered_strings(
    const In<Offset>& offsets, const Bytes& data, int64_t most, int64_t most_bytes) {
  auto numbered = distinct_strings(Strings(offsets, data, "strings"), most, most_bytes);
  if (!numbered) return {};
  return std::tuple(std::move(numbered->indices), std::move(numbered->ends),
                    std::move(numbered->items));
}

}  // namespace
}  // namespace alance

void register_encode_distinct(nanobind::module_& m) {
  using namespace alance;
  const auto add = [&m](auto* distinct) {
    m.def("distinct_strings", distinct, "offsets"_a.noconvert(), "data"_a, "most"_a, "most_bytes"_a,
          NoGil());
  };
  add(&numbered_strings<int32_t>);
  add(&numbered_strings<int64_t>);
}
