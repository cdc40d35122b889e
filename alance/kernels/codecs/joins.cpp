// Concatenation of the values of adjacent pages, into recycled memory blocks.
#include <limits>
#include <vector>

#include "base/owned.hpp"
#include "codecs/spans.hpp"

namespace alance {
namespace {

std::vector<Bytes> all_of(const nb::list& list) {
  std::vector<Bytes> found;
  for (nb::handle one : list) found.push_back(nb::cast<Bytes>(one));
  return found;
}

// Bytes, one behind the other.
Numpy<uint8_t> join_bytes(const nb::list& list) {
  const std::vector<Bytes> pieces = all_of(list);
  auto run = [&] {
    nb::gil_scoped_release release;
    int64_t total = 0;
    for (const Bytes& one : pieces)
      if (__builtin_add_overflow(total, static_cast<int64_t>(one.size()), &total))
        corrupt("pages: too many bytes");
    Owned<uint8_t> out(total);
    uint8_t* to = out.data();
    for (const Bytes& one : pieces) {
      if (one.size()) std::memcpy(to, one.data(), one.size());
      to += one.size();
    }
    return out;
  };
  return run().numpy();
}

// Strings of pages: of each, offsets from 0 and bytes. The offsets of all are counted from the
// first byte of the first page.
template <typename Offset>
nb::tuple join_strings(const std::vector<In<Offset>>& offsets, const nb::list& list) {
  const std::vector<Bytes> pieces = all_of(list);
  if (pieces.size() != offsets.size()) corrupt("pages: offsets and bytes differ in number");
  auto run = [&] {
    nb::gil_scoped_release release;
    int64_t count = 0, total = 0;
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (offsets[p].size() == 0) corrupt("pages: no offsets");
      const int64_t size = offsets[p].data()[offsets[p].size() - 1];
      check_span(0, size, static_cast<int64_t>(pieces[p].size()), "strings of a page");
      if (__builtin_add_overflow(total, size, &total)) corrupt("pages: too many bytes");
      count += static_cast<int64_t>(offsets[p].size()) - 1;
    }
    if (total > static_cast<int64_t>(std::numeric_limits<Offset>::max()))
      throw std::overflow_error(std::to_string(total) +
                                " bytes are too many for the offsets of this type");
    Owned<Offset> ends(count + 1);
    Owned<uint8_t> bytes(total);
    Offset* to = ends.data();
    Offset before = 0;
    for (size_t p = 0; p < pieces.size(); ++p) {
      const Offset* from = offsets[p].data();
      const size_t num = offsets[p].size() - 1;
      // Unsigned: what does not rise is found by those who look at the strings.
      using Word = std::make_unsigned_t<Offset>;
      for (size_t i = 0; i < num; ++i)
        to[i] = static_cast<Offset>(static_cast<Word>(from[i]) + static_cast<Word>(before));
      if (from[num]) std::memcpy(bytes.data() + before, pieces[p].data(), static_cast<size_t>(from[num]));
      before = static_cast<Offset>(before + from[num]);
      to += num;
    }
    *to = before;
    return std::make_pair(std::move(ends), std::move(bytes));
  };
  auto found = run();
  return nb::make_tuple(found.first.numpy(), found.second.numpy());
}

template <typename Offset>
nb::tuple join_list(const nb::list& offsets, const nb::list& list) {
  std::vector<In<Offset>> found;
  for (nb::handle one : offsets) found.push_back(nb::cast<In<Offset>>(one));
  return join_strings<Offset>(found, list);
}

}  // namespace
}  // namespace alance

void register_joins(nanobind::module_& m) {
  m.def("join_bytes", &alance::join_bytes);
  m.def("join_strings_32", &alance::join_list<int32_t>);
  m.def("join_strings_64", &alance::join_list<int64_t>);
}
