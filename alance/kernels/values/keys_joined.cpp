// Keys of several columns combined to one value a row, for keys on the disk; and the inverse.
#include "values/keys.hpp"

namespace alance {
namespace {

// The bytes of all columns in a row, those of a varying number behind their number, so that none
// runs over into the next. Offsets and bytes.
nb::object joined_keys(const nb::list& columns) {
  const Keys keys = Keys::beside(columns);
  const int64_t count = keys.count();
  auto run = [&] {
    nb::gil_scoped_release release;
    Owned<int64_t> ends(count + 1);
    ends[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t size = 0;
      for (const KeyPart& one : keys.parts()) size += one.size(i) + (one.width ? 0 : KEY_WORD);
      ends[i + 1] = ends[i] + size;
    }
    Owned<uint8_t> bytes(ends[count]);
    uint8_t* out = bytes.data();
    for (int64_t i = 0; i < count; ++i) {
      for (const KeyPart& one : keys.parts()) {
        const int64_t size = one.size(i);
        if (!one.width) {
          store<int64_t>(out, size);
          out += KEY_WORD;
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

// Values of one column as they are found.
struct Column {
  int64_t width;
  std::vector<int64_t> ends{0};
  std::vector<uint8_t> bytes;

  explicit Column(int64_t width_) : width(width_) {}

  // Takes the value from the front of a row; false: the row is too short.
  bool take(const uint8_t*& at, int64_t& left) {
    int64_t size = width;
    if (!width) {
      if (left < KEY_WORD) return false;
      size = load<int64_t>(at);
      at += KEY_WORD;
      left -= KEY_WORD;
    }
    if (size < 0 || size > left) return false;
    bytes.insert(bytes.end(), at, at + size);
    ends.push_back(static_cast<int64_t>(bytes.size()));
    at += size;
    left -= size;
    return true;
  }

  template <typename T>
  static nb::object array(const std::vector<T>& values) {
    Owned<T> found(static_cast<int64_t>(values.size()));
    if (!values.empty()) std::memcpy(found.data(), values.data(), values.size() * sizeof(T));
    return nb::cast(found.numpy());
  }

  Keys keys() const {
    const Bytes data = nb::cast<Bytes>(array(bytes));
    return width ? Keys(data, width) : Keys(nb::cast<In<int64_t>>(array(ends)), data);
  }
};

}  // namespace

Keys Keys::split(const In<int64_t>& widths) const {
  const KeyPart joined = parts_[0];
  if (parts_.size() != 1 || widths.size() == 0) corrupt("keys: only one column can be split");
  std::vector<Column> columns;
  int64_t sum = 0;
  bool fixed = joined.width != 0;
  for (size_t p = 0; p < widths.size(); ++p) {
    const int64_t width = widths.data()[p];
    if (width < 0 || width > INT64_MAX / 2 - sum) corrupt("keys: a column of no width");
    columns.emplace_back(width);
    sum += width;
    fixed &= width > 0;
  }
  if (fixed) {
    if (sum > joined.width) corrupt("keys: columns are wider than all of them");
    Keys found = *this;
    found.parts_.clear();
    int64_t before = 0;
    for (const Column& one : columns) {
      found.parts_.push_back({joined.data + before, nullptr, nullptr, one.width, joined.stride});
      before += one.width;
    }
    return found;
  }
  {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < count_; ++i) {
      const uint8_t* at = joined.at(i);
      int64_t left = joined.size(i);
      bool whole = true;
      for (Column& one : columns) whole = whole && one.take(at, left);
      if (!whole || left) corrupt("keys: key " + std::to_string(i) + " is of other columns");
    }
  }
  nb::list made;
  for (const Column& one : columns) made.append(nb::cast(one.keys()));
  return beside(made);
}

}  // namespace alance

void register_keys_joined(nanobind::module_& m) {
  using namespace alance;
  m.def("joined_keys", &joined_keys, nb::arg("columns"));
}
