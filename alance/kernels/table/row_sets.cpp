// Sets of rows as serialized roaring bitmaps of 64 bits, and the addresses of rows by stable row
// id. roaring.hpp describes the layout and names the specification.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/owned.hpp"
#include "table/roaring.hpp"

namespace alance {
namespace {

using namespace roaring;

constexpr int64_t kFew = 1 << 10;  // rows: releasing the GIL for fewer costs more than it gains

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// First position from `i` on whose value differs above its lowest `bits` bits; or `count`.
int64_t end_of(const int64_t* rows, int64_t i, int64_t count, int bits) {
  const int64_t key = rows[i] >> bits;
  if (rows[count - 1] >> bits == key) return count;
  return std::upper_bound(rows + i, rows + count, key,
                          [bits](int64_t low, int64_t row) { return low < row >> bits; }) - rows;
}

// Append a bitmap of 32 bits: head, key and size of each container, offsets, containers.
void put_part(std::string& out, const int64_t* rows, int64_t count) {
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < count;) ends.push_back(i = end_of(rows, i, count, 16));
  put(out, kCookie);
  put(out, static_cast<uint32_t>(ends.size()));
  int64_t first = 0;
  for (const int64_t end : ends) {
    put(out, static_cast<uint16_t>(rows[first] >> 16));
    put(out, static_cast<uint16_t>(end - first - 1));
    first = end;
  }
  uint32_t place = static_cast<uint32_t>(8 + 8 * ends.size());
  first = 0;
  for (const int64_t end : ends) {
    put(out, place);
    const int64_t held = end - first;
    place += static_cast<uint32_t>(held > kArrayMost ? kBitsBytes : 2 * held);
    first = end;
  }
  first = 0;
  for (const int64_t end : ends) {
    const size_t begin = out.size();
    if (end - first > kArrayMost) {
      out.resize(begin + kBitsBytes);
      auto* bits = reinterpret_cast<uint8_t*>(out.data() + begin);
      for (; first < end; ++first)
        bits[(rows[first] & 0xFFFF) >> 3] |= static_cast<uint8_t>(1 << (rows[first] & 7));
    } else {
      out.resize(begin + 2 * static_cast<size_t>(end - first));
      char* lows = out.data() + begin;
      for (; first < end; ++first, lows += 2) {
        const auto low = static_cast<uint16_t>(rows[first]);
        std::memcpy(lows, &low, 2);
      }
    }
  }
}

enum class Form { kWide, kSized, kNarrow };  // see `row_set`, `address_set`, `roaring_bitmap`

std::string stored(const int64_t* rows, int64_t count, Form form) {
  std::vector<int64_t> own;
  if (std::adjacent_find(rows, rows + count, std::greater_equal<>()) != rows + count) {
    own.assign(rows, rows + count);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    rows = own.data();
    count = static_cast<int64_t>(own.size());
  }
  if (count && rows[0] < 0) corrupt("row set: a negative row");
  std::string out;
  if (form == Form::kNarrow) {
    if (count && rows[count - 1] >> 32) corrupt("roaring bitmap: a value of more than 32 bits");
    put_part(out, rows, count);
    return out;
  }
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < count;) ends.push_back(i = end_of(rows, i, count, 32));
  if (form == Form::kSized)
    put(out, static_cast<uint32_t>(ends.size()));
  else
    put(out, static_cast<uint64_t>(ends.size()));
  int64_t first = 0;
  for (const int64_t end : ends) {
    put(out, static_cast<uint32_t>(rows[first] >> 32));
    const size_t begin = out.size();
    if (form == Form::kSized) put(out, uint32_t{0});
    put_part(out, rows + first, end - first);
    if (form == Form::kSized) {
      const auto size = static_cast<uint32_t>(out.size() - begin - 4);
      std::memcpy(out.data() + begin, &size, 4);
    }
    first = end;
  }
  return out;
}

nb::bytes bytes_of(const In<int64_t>& rows, Form form) {
  const auto count = static_cast<int64_t>(rows.size());
  std::string out;
  if (count < kFew) {
    out = stored(rows.data(), count, form);
  } else {
    nb::gil_scoped_release release;
    out = stored(rows.data(), count, form);
  }
  return nb::bytes(out.data(), out.size());
}

// A roaring bitmap of 64 bits of some rows, not negative, in any order.
nb::bytes row_set(const In<int64_t>& rows) { return bytes_of(rows, Form::kWide); }

// The same rows as indices store them: the bitmap of each upper half is behind its size.
nb::bytes address_set(const In<int64_t>& rows) { return bytes_of(rows, Form::kSized); }

// A roaring bitmap of values of 32 bits.
nb::bytes roaring_bitmap(const In<int64_t>& values) { return bytes_of(values, Form::kNarrow); }

// Runs of row ids by the upper half of their first id, ascending; see `RowIdIndex`.
class Runs {
 public:
  Runs(const In<uint64_t>& highs, const In<int64_t>& bounds, const In<uint32_t>& lows,
       const In<uint64_t>& addresses, const In<uint32_t>& lengths)
      : highs_(highs.data()), bounds_(bounds.data()), lows_(lows.data()),
        addresses_(addresses.data()), lengths_(lengths.size() ? lengths.data() : nullptr) {
    const size_t count = lows.size();
    if (addresses.size() != count || (lengths_ && lengths.size() != count))
      corrupt("row ids: arrays of unequal length");
    if (count && (bounds.size() != highs.size() + 1 || bounds_[0] != 0 ||
                  bounds_[highs.size()] != static_cast<int64_t>(count)))
      corrupt("row ids: bounds of other runs");
    for (size_t high = 0; count && high < highs.size(); ++high) {
      if (bounds_[high + 1] <= bounds_[high]) corrupt("row ids: bounds do not ascend");
      firsts_.push_back(start(high, bounds_[high]));
    }
  }

  // Address of an id, or -1. The position is kept: ascending ids are found without a search.
  int64_t find(uint64_t id) {
    if (firsts_.empty() || id < firsts_[0]) return -1;
    if (!(id >= firsts_[high_] && (high_ + 1 == firsts_.size() || id < firsts_[high_ + 1]))) {
      high_ = static_cast<size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), id) -
                                  firsts_.begin()) - 1;
      run_ = bounds_[high_];
    }
    const int64_t stop = bounds_[high_ + 1];
    const uint64_t step_of_high = id - (highs_[high_] << 32);
    const auto low = static_cast<uint32_t>(std::min<uint64_t>(step_of_high, UINT32_MAX));
    if (lows_[run_] > low || (run_ + 1 < stop && lows_[run_ + 1] <= low)) {
      const int64_t from = lows_[run_] > low ? bounds_[high_] : run_ + 1;
      run_ = std::upper_bound(lows_ + from, lows_ + stop, low) - lows_ - 1;
    }
    const uint64_t step = id - start(high_, run_);
    if (step >= (lengths_ ? lengths_[run_] : 1)) return -1;
    return static_cast<int64_t>(addresses_[run_] + step);
  }

 private:
  uint64_t start(size_t high, int64_t run) const { return highs_[high] << 32 | lows_[run]; }

  const uint64_t* highs_;
  const int64_t* bounds_;
  const uint32_t* lows_;
  const uint64_t* addresses_;
  const uint32_t* lengths_;
  std::vector<uint64_t> firsts_;  // first id of each upper half
  size_t high_ = 0;
  int64_t run_ = 0;
};

// Address of each row id; -1 if no run has it.
nb::object find_row_ids(const In<uint64_t>& ids, const In<uint64_t>& highs,
                        const In<int64_t>& bounds, const In<uint32_t>& lows,
                        const In<uint64_t>& addresses, const In<uint32_t>& lengths) {
  const auto count = static_cast<int64_t>(ids.size());
  Runs runs(highs, bounds, lows, addresses, lengths);
  Owned<int64_t> row_addresses(count);
  {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < count; ++i) row_addresses[i] = runs.find(ids.data()[i]);
  }
  return nb::cast(row_addresses.numpy());
}

}  // namespace
}  // namespace alance

void register_row_sets(nanobind::module_& m) {
  m.def("row_set", &alance::row_set, nanobind::arg("rows"));
  m.def("address_set", &alance::address_set, nanobind::arg("rows"));
  m.def("roaring_bitmap", &alance::roaring_bitmap, nanobind::arg("values"));
  m.def("find_row_ids", &alance::find_row_ids, nanobind::arg("ids"), nanobind::arg("highs"),
        nanobind::arg("bounds"), nanobind::arg("lows"), nanobind::arg("addresses"),
        nanobind::arg("lengths"));
}
