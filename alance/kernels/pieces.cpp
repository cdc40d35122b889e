// Many pieces of a file into one buffer, without the GIL: one call for all rows of a page.
#include <vector>

#include "owned.hpp"
#include "positioned.hpp"

namespace alance {
namespace {

constexpr int64_t kScratch = int64_t{1} << 20;  // bytes of pieces read together at most

// The bytes of ascending pieces, one behind the other. Pieces whose gaps are small are read
// together. Gives a status and the bytes.
nb::tuple read_pieces(int fd, In<int64_t> starts, In<int64_t> stops, int64_t gap, bool nowait) {
  const int64_t count = static_cast<int64_t>(starts.size());
  if (static_cast<int64_t>(stops.size()) != count) corrupt("pieces: starts and stops differ");
  int64_t total = 0, reached = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = starts.data()[i], stop = stops.data()[i];
    if (start < reached || stop < start) corrupt("pieces: not ascending");
    total += stop - start;  // cannot overflow: the pieces do not overlap
    reached = stop;
  }
  Owned<uint8_t> bytes(total);
  int status = kDone;
  {
    nb::gil_scoped_release release;
    std::vector<uint8_t> scratch;
    uint8_t* out = bytes.data();
    for (int64_t first = 0; first < count && status == kDone;) {
      const int64_t begin = starts.data()[first];
      int64_t last = first, wanted = stops.data()[first] - begin;
      while (last + 1 < count && starts.data()[last + 1] - stops.data()[last] <= gap &&
             stops.data()[last + 1] - begin <= kScratch) {
        ++last;
        wanted += stops.data()[last] - starts.data()[last];
      }
      const int64_t size = stops.data()[last] - begin;
      if (size == wanted) {
        status = read_span(fd, begin, size, out, nowait);
        out += size;
      } else {
        scratch.resize(static_cast<size_t>(size));
        status = read_span(fd, begin, size, scratch.data(), nowait);
        for (int64_t i = first; i <= last && status == kDone; ++i) {
          const int64_t bytes_here = stops.data()[i] - starts.data()[i];
          std::memcpy(out, scratch.data() + (starts.data()[i] - begin),
                      static_cast<size_t>(bytes_here));
          out += bytes_here;
        }
      }
      first = last + 1;
    }
  }
  return nb::make_tuple(status, bytes.numpy());
}

}  // namespace
}  // namespace alance

void register_pieces(nanobind::module_& m) { m.def("read_pieces", &alance::read_pieces); }
