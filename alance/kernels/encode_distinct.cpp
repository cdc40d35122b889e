// The distinct values of a page in the order in which they first appear, and where each value
// stands among them. Gives up when there are too many, which a sample tells early.
#include <vector>

#include "encode.hpp"
#include "owned.hpp"

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

// Fixed-width values of 8 or 16 bytes.
template <int Width>
struct Fixed {
  const uint8_t* data;

  uint32_t hash(int64_t i) const {
    uint64_t hash = 0;
    for (int at = 0; at < Width; at += 8) hash = mixed(hash, load<uint64_t>(data + i * Width + at));
    return static_cast<uint32_t>(hash);
  }
  bool equal(int64_t i, int64_t j) const {
    return std::memcmp(data + i * Width, data + j * Width, Width) == 0;
  }
  int64_t size(int64_t) const { return Width; }
};

template <typename Offset>
struct Strings {
  const Offset* offset;
  const uint8_t* data;

  int64_t size(int64_t i) const { return int64_t{offset[i + 1]} - int64_t{offset[i]}; }
  uint32_t hash(int64_t i) const {
    const uint8_t* at = data + offset[i];
    const int64_t length = size(i);
    uint64_t hash = static_cast<uint64_t>(length);
    if (length >= 8) {
      for (int64_t done = 0; done + 8 < length; done += 8)
        hash = mixed(hash, load<uint64_t>(at + done));
      hash = mixed(hash, load<uint64_t>(at + length - 8));
    } else if (length >= 4) {
      hash = mixed(hash, load<uint32_t>(at) | uint64_t{load<uint32_t>(at + length - 4)} << 32);
    } else if (length > 0) {
      hash = mixed(hash, at[0] | at[length / 2] << 8 | at[length - 1] << 16);
    }
    return static_cast<uint32_t>(hash);
  }
  bool equal(int64_t i, int64_t j) const {
    const int64_t length = size(i);
    return length == size(j) &&
           (length == 0 || std::memcmp(data + offset[i], data + offset[j],
                                       static_cast<size_t>(length)) == 0);
  }
};

// A set of values that numbers them as they come.
template <typename Values>
class Numbers {
 public:
  explicit Numbers(const Values& values) : values_(values), slots_(1024) {}

  int64_t size() const { return static_cast<int64_t>(firsts_.size()); }
  int64_t num_bytes() const { return num_bytes_; }
  int64_t probes() const { return probes_; }
  const std::vector<int64_t>& firsts() const { return firsts_; }  // where each appears first

  uint32_t number(int64_t i) {
    const uint32_t hash = values_.hash(i);
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (true) {
      const Slot slot = slots_[at];
      if (slot.number == 0) break;
      if (slot.hash == hash && values_.equal(i, firsts_[slot.number - 1])) return slot.number - 1;
      at = (at + 1) & mask;
      ++probes_;
    }
    firsts_.push_back(i);
    num_bytes_ += values_.size(i);
    slots_[at] = {hash, static_cast<uint32_t>(firsts_.size())};
    if (2 * firsts_.size() > slots_.size()) grow();
    return static_cast<uint32_t>(firsts_.size() - 1);
  }

 private:
  struct Slot {
    uint32_t hash = 0, number = 0;  // from 1 on
  };

  void grow() {
    std::vector<Slot> larger(4 * slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.number == 0) continue;
      size_t at = slot.hash & (larger.size() - 1);
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
  std::vector<int64_t> firsts_;
  int64_t num_bytes_ = 0, probes_ = 0;
};

// Whether values of a sample repeat as seldom as those of twice `most` distinct ones would.
template <typename Values>
bool too_many(const Values& values, int64_t num, int64_t most) {
  Numbers<Values> sample(values);
  for (int64_t s = 0; s < SAMPLE_STRETCHES; ++s) {
    const uint64_t place = static_cast<uint64_t>(s + 1) * MIX;
    const int64_t first = static_cast<int64_t>(place % static_cast<uint64_t>(num - STRETCH));
    for (int64_t i = first; i < first + STRETCH; ++i) sample.number(i);
  }
  return 2 * (SAMPLE - sample.size()) < SAMPLE * SAMPLE / (2 * std::max<int64_t>(most, 1));
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
nb::object distinct_of(const Bytes& data, int64_t most) {
  auto run = [&] {
    nb::gil_scoped_release release;
    const int64_t num = static_cast<int64_t>(data.size()) / Width;
    auto found = number_all(Fixed<Width>{data.data()}, num, most, INT64_MAX);
    Owned<uint8_t> items(found.complete ? found.numbers.size() * Width : 0);
    if (found.complete) {
      uint8_t* out = items.data();
      for (int64_t first : found.numbers.firsts()) {
        std::memcpy(out, data.data() + first * Width, Width);
        out += Width;
      }
    }
    return std::make_tuple(std::move(found.indices), std::move(items), found.complete);
  };
  auto [indices, items, complete] = run();
  if (!complete) return nb::none();
  return nb::make_tuple(indices.numpy(), items.numpy());
}

// Values of 8 or 16 bytes, at most `most` distinct ones: the number of each, and the distinct
// values; or None.
nb::object distinct_fixed(Bytes data, int width, int64_t most) {
  if (width == 8) return distinct_of<8>(data, most);
  if (width == 16) return distinct_of<16>(data, most);
  corrupt("distinct values of " + std::to_string(width) + " bytes");
}

// Strings, at most `most` distinct ones of `most_bytes` in all: the number of each, and the
// offsets and bytes of the distinct ones; or None.
template <typename Offset>
nb::object distinct_strings(In<Offset> offsets, Bytes data, int64_t most, int64_t most_bytes) {
  auto run = [&] {
    nb::gil_scoped_release release;
    if (offsets.size() == 0) corrupt("strings: no offsets");
    const Offset* offset = offsets.data();
    const int64_t num = static_cast<int64_t>(offsets.size()) - 1;
    bool rising = offset[0] >= 0;
    for (int64_t i = 0; i < num; ++i) rising &= offset[i] <= offset[i + 1];
    if (!rising || offset[num] > static_cast<int64_t>(data.size()))
      corrupt("strings: offsets decrease or leave the buffer");
    const Strings<Offset> strings{offset, data.data()};
    auto found = number_all(strings, num, most, most_bytes);
    const bool complete = found.complete;
    Owned<Offset> ends(complete ? found.numbers.size() + 1 : 1);
    Owned<uint8_t> items(complete ? found.numbers.num_bytes() : 0);
    ends[0] = 0;
    int64_t item = 0, at = 0;
    if (complete) {
      for (int64_t first : found.numbers.firsts()) {
        const int64_t size = strings.size(first);
        if (size)
          std::memcpy(items.data() + at, data.data() + offset[first], static_cast<size_t>(size));
        at += size;
        ends[++item] = static_cast<Offset>(at);
      }
    }
    return std::make_tuple(std::move(found.indices), std::move(ends), std::move(items), complete);
  };
  auto [indices, ends, items, complete] = run();
  if (!complete) return nb::none();
  return nb::make_tuple(indices.numpy(), ends.numpy(), items.numpy());
}

}  // namespace
}  // namespace alance

void register_encode_distinct(nanobind::module_& m) {
  using namespace alance;
  m.def("distinct_fixed", &distinct_fixed, nb::arg("data"), nb::arg("width"), nb::arg("most"));
  m.def("distinct_strings", &distinct_strings<int32_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("most"), nb::arg("most_bytes"));
  m.def("distinct_strings", &distinct_strings<int64_t>, nb::arg("offsets").noconvert(),
        nb::arg("data"), nb::arg("most"), nb::arg("most_bytes"));
}
