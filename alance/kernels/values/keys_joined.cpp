// Keys of several columns as one value a row, for keys on disk; and the inverse.
#include "values/keys.hpp"

namespace alance {
namespace {

// Values of all columns in a row, concatenated; a value of varying size follows its size, so that
// different keys never have equal bytes. Returns offsets and bytes.
nb::object joined_keys(const nb::list& columns) {
  const Keys keys = Keys::beside(columns);
  const int64_t count = keys.count();
  auto run = [&] {
    nb::gil_scoped_release release;
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
    return std::make_pair(std::move(ends), std::move(bytes));
  };
  auto [ends, bytes] = run();
  return nb::make_tuple(ends.numpy(), bytes.numpy());
}

// Values of one column, collected row by row.
struct Column {
  int64_t width;
  std::vector<int64_t> ends{0};
  std::vector<uint8_t> bytes;

  explicit Column(int64_t width_) : width(width_) {}

  // Take the value from the front of a row; false if the row is too short.
  bool take(const uint8_t*& at, int64_t& remaining) {
    int64_t size = width;
    if (!width) {
      if (remaining < kKeyWord) return false;
      size = load<int64_t>(at);
      at += kKeyWord;
      remaining -= kKeyWord;
    }
    if (size < 0 || size > remaining) return false;
    bytes.insert(bytes.end(), at, at + size);
    ends.push_back(static_cast<int64_t>(bytes.size()));
    at += size;
    remaining -= size;
    return true;
  }

  template <typename T>
  static nb::object array(const std::vector<T>& values) {
    Owned<T> copy(static_cast<int64_t>(values.size()));
    if (!values.empty()) std::memcpy(copy.data(), values.data(), values.size() * sizeof(T));
    return nb::cast(copy.numpy());
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
    Keys result = *this;
    result.parts_.clear();
    int64_t before = 0;
    for (const Column& column : columns) {
      result.parts_.push_back(
          {joined.data + before, nullptr, nullptr, column.width, joined.stride});
      before += column.width;
    }
    return result;
  }
  {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < count_; ++i) {
      const uint8_t* at = joined.at(i);
      int64_t remaining = joined.size(i);
      bool whole = true;
      for (Column& column : columns) whole = whole && column.take(at, remaining);
      if (!whole || remaining) corrupt("keys: key " + std::to_string(i) + " is of other columns");
    }
  }
  nb::list parts;
  for (const Column& column : columns) parts.append(nb::cast(column.keys()));
  return beside(parts);
}

}  // namespace alance

void register_keys_joined(nanobind::module_& m) {
  using namespace alance;
  m.def("joined_keys", &joined_keys, nb::arg("columns"));
}
