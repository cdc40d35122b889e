// Distinct values of a page in order of first appearance, and the index of each value among them,
// by a hash table. Stops if there are too many, which a sample predicts.
#include <vector>

#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t SAMPLE_STRETCHES = 128;  // anywhere, so that values that come in turn repeat
constexpr int64_t STRETCH = 32;            // and in a row, so that sorted ones do
constexpr int64_t SAMPLE = SAMPLE_STRETCHES * STRETCH;
constexpr int64_t SAMPLED = 16 * SAMPLE;  // fewer values are counted at once
constexpr int64_t PATIENCE = 16;          // probes a value: more means that hashes collide on purpose

constexpr uint64_t MIX = 0x9E3779B97F4A7C15;

inline uint64_t mixed(uint64_t hash, uint64_t word) {
  const auto wide = static_cast<unsigned __int128>(hash ^ word ^ MIX) * 0xD6E8FEB86659FD93;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

// A key stands for a value: of two equal values it is the same. Where it is exact, also only of
// these; else the values are compared.

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
struct Strings {
  static constexpr int64_t EXACT = 7;  // bytes of a string that fit a key with their number

  const Offset* offset;
  const uint8_t* data;
  int64_t num_bytes;  // that can be read

  int64_t size(int64_t i) const { return int64_t{offset[i + 1]} - int64_t{offset[i]}; }

  uint64_t key(int64_t i) const {
    const int64_t start = offset[i], length = size(i);
    const uint8_t* at = data + start;
    if (length <= EXACT) {
      uint64_t word = 0;
      if (num_bytes - start >= 8)
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
    const int64_t length = size(i);
    return length == size(j) && std::memcmp(data + offset[i], data + offset[j],
                                            static_cast<size_t>(length)) == 0;
  }
};

// A set of values that numbers them as they come.
template <typename Values>
class Numbers {
 public:
  explicit Numbers(const Values& values) : values_(values), slots_(1024), shift_(64 - 10) {}

  int64_t size() const { return static_cast<int64_t>(firsts_.size()); }
  int64_t num_bytes() const { return num_bytes_; }
  int64_t probes() const { return probes_; }
  const std::vector<int64_t>& firsts() const { return firsts_; }  // where each appears first

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
    uint32_t number = 0;  // from 1 on
    uint32_t first = 0;   // where the value appears first
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

// Whether a sample has more distinct values, or they repeat as seldom as those of twice `most` would.
template <typename Values>
bool too_many(const Values& values, int64_t num, int64_t most) {
  Numbers<Values> sample(values);
  for (int64_t s = 0; s < SAMPLE_STRETCHES; ++s) {
    const uint64_t place = static_cast<uint64_t>(s + 1) * MIX;
    const int64_t first = static_cast<int64_t>(place % static_cast<uint64_t>(num - STRETCH));
    for (int64_t i = first; i < first + STRETCH; ++i) sample.number(i);
  }
  return sample.size() > most ||
         2 * (SAMPLE - sample.size()) < SAMPLE * SAMPLE / (2 * std::max(most, SAMPLE));
}

template <typename Values>
struct Found {
  Numbers<Values> numbers;
  Owned<uint32_t> indices;
  bool complete;
};

template <typename Values>
Found<Values> number_all(const Values& values, int64_t num, int64_t most, int64_t most_bytes) {
  Found<Values> found{Numbers<Values>(values), Owned<uint32_t>(num), false};
  most = std::min<int64_t>(most, INT32_MAX);
  if (num > INT64_C(0xFFFFFFFF)) return found;
  if (num > SAMPLED && too_many(values, num, most)) return found;
  Numbers<Values>& numbers = found.numbers;
  for (int64_t i = 0; i < num; ++i) {
    found.indices[i] = numbers.number(i);
    if (numbers.size() > most || numbers.num_bytes() > most_bytes ||
        numbers.probes() > PATIENCE * (i + 1024))
      return found;
  }
  found.complete = true;
  return found;
}

template <int Width>
std::optional<DistinctValues> distinct_of(const uint8_t* data, int64_t num, int64_t most) {
  auto found = number_all(Fixed<Width>{data}, num, most, INT64_MAX);
  if (!found.complete) return {};
  Owned<uint8_t> items(found.numbers.size() * Width);
  uint8_t* out = items.data();
  for (int64_t first : found.numbers.firsts()) {
    std::memcpy(out, data + first * Width, Width);
    out += Width;
  }
  return DistinctValues{std::move(found.indices), std::move(items)};
}

}  // namespace

std::optional<DistinctValues> distinct_values(const uint8_t* data, int64_t num, int width,
                                              int64_t most) {
  if (width == 8) return distinct_of<8>(data, num, most);
  if (width == 16) return distinct_of<16>(data, num, most);
  corrupt("distinct values of " + std::to_string(width) + " bytes");
}

template <typename Offset>
std::optional<DistinctStrings<Offset>> distinct_strings(const StringsIn<Offset>& in, int64_t most,
                                                        int64_t most_bytes) {
  const Strings<Offset> strings{in.offset, in.data, in.num_bytes};
  auto found = number_all(strings, in.num, most, most_bytes);
  if (!found.complete) return {};
  Owned<Offset> ends(found.numbers.size() + 1);
  Owned<uint8_t> items(found.numbers.num_bytes());
  ends[0] = 0;
  int64_t item = 0, at = 0;
  for (int64_t first : found.numbers.firsts()) {
    const int64_t size = strings.size(first);
    if (size)
      std::memcpy(items.data() + at, in.data + in.offset[first], static_cast<size_t>(size));
    at += size;
    ends[++item] = static_cast<Offset>(at);
  }
  return DistinctStrings<Offset>{std::move(found.indices), std::move(ends), std::move(items)};
}

template std::optional<DistinctStrings<int32_t>> distinct_strings<int32_t>(
    const StringsIn<int32_t>&, int64_t, int64_t);
template std::optional<DistinctStrings<int64_t>> distinct_strings<int64_t>(
    const StringsIn<int64_t>&, int64_t, int64_t);

namespace {

// Strings, at most `most` distinct ones of `most_bytes` in all: the number of each, and the
// offsets and bytes of the distinct ones; or None.
template <typename Offset>
nb::object numbered_strings(const In<Offset>& offsets, const Bytes& data, int64_t most,
                            int64_t most_bytes) {
  auto run = [&] {
    nb::gil_scoped_release release;
    return distinct_strings(strings_in(offsets, data, "strings"), most, most_bytes);
  };
  auto found = run();
  if (!found) return nb::none();
  return nb::make_tuple(found->indices.numpy(), found->ends.numpy(), found->items.numpy());
}

}  // namespace
}  // namespace alance

void register_encode_distinct(nanobind::module_& m) {
  using namespace alance;
  m.def("distinct_strings", &numbered_strings<int32_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("most"), nb::arg("most_bytes"));
  m.def("distinct_strings", &numbered_strings<int64_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("most"), nb::arg("most_bytes"));
}
