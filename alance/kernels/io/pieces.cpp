// Reads of many pieces of files into one buffer, in one call without the GIL.
//
// This is the only source that reads files. It belongs to the I/O half (`alance/io/disk/files.py`)
// and does not interpret the bytes. No other kernel gets a file descriptor.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "io/coalesce.hpp"
#include "base/owned.hpp"
#include "io/positions.hpp"
#include "io/source.hpp"

namespace alance {
namespace {

constexpr uint64_t kWaste = 16 << 10;   // a gap that is read in vain goes here, whatever is in it
constexpr size_t kVectors = 256;        // of one call; the system takes 1024

// Pieces of one file, read by few calls. What the page cache has is read first; where it has
// not all, the disk is told of all that is left before the first wait (`nowait`: that is the end).
// `waits`: how often the page cache had not all.
int read_file(int fd, const Piece* piece, const Piece* end, uint64_t max_gap_bytes, bool nowait,
              uint8_t*& out, int64_t& waits) {
  thread_local std::vector<uint8_t> waste(kWaste);
  const Coalescing rule{std::min(max_gap_bytes, kWaste)};
  std::vector<iovec> targets;  // of one call
  const int64_t waited = waits;
  while (piece != end) {
    targets.clear();
    uint8_t* into = out;
    const Piece* begin = piece;
    ByteRange whole{begin->start, begin->start};
    for (; piece != end && targets.size() + 2 <= kVectors; ++piece) {
      // Each byte goes to one place: a piece that begins before the end of the last is read apart.
      if (piece->start < whole.stop || !rule.joins(whole, {piece->start, piece->stop})) break;
      if (const size_t hole = static_cast<size_t>(piece->start - whole.stop))
        targets.push_back({waste.data(), hole});
      targets.push_back({into, static_cast<size_t>(piece->stop - piece->start)});
      into += piece->stop - piece->start;
      whole.stop = piece->stop;
    }
    Span span{whole.start, targets.data(), targets.data() + targets.size()};
    int status = kWouldBlock;
    if (nowait || waits == waited) status = read_span(fd, span, true);
    if (status == kWouldBlock && !nowait) {
#if defined(POSIX_FADV_WILLNEED)
      if (waits == waited)
        for (const Piece* later = begin; later != end; ++later)
          posix_fadvise(fd, later->start, later->stop - later->start, POSIX_FADV_WILLNEED);
#endif
      ++waits;
      status = read_span(fd, span, false);
    }
    if (status != kDone) return status;
    out = into;
  }
  return kDone;
}

// The sizes of files by their names; -1 of a name that is not that of the file of this device and
// inode any more.
std::vector<int64_t> sizes_now(const std::vector<nb::bytes>& names,
                               const std::vector<std::pair<uint64_t, uint64_t>>& identities) {
  if (names.size() != identities.size()) corrupt("files: names and identities differ");
  std::vector<int64_t> sizes(names.size(), -1);
  nb::gil_scoped_release release;  // a network's file system may take its time
  for (size_t i = 0; i < names.size(); ++i) {
    struct stat about;
    if (stat(names[i].c_str(), &about) == 0 && about.st_dev == identities[i].first &&
        about.st_ino == identities[i].second)
      sizes[i] = about.st_size;
  }
  return sizes;
}

// The bytes of pieces of files, one behind the other; those of file f end at `ends[f]`, and ascend.
// Pieces whose gaps are small are read together. Gives a status (0; -1: a byte is not in the page
// cache and `nowait`; -2: a file is too short; else an error's number), the file where it came up,
// and the bytes. No memory is asked for what is behind the `sizes` of files.
nb::tuple read_pieces(const std::vector<int>& fds, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& ends, const In<int64_t>& starts,
                      const In<int64_t>& stops, uint64_t max_gap_bytes, bool nowait) {
  const int64_t count = static_cast<int64_t>(starts.size());
  if (static_cast<int64_t>(stops.size()) != count) corrupt("pieces: starts and stops differ");
  if (ends.size() != fds.size() || (ends.empty() ? 0 : ends.back()) != count)
    corrupt("pieces: ends of files");
  if (sizes.size() != fds.size()) corrupt("pieces: sizes of files");
  int64_t total = 0, first = 0;
  size_t too_short = fds.size();
  std::vector<Piece> pieces;
  pieces.reserve(starts.size());
  for (size_t f = 0; f < ends.size(); ++f) {
    const int64_t end = ends[f];
    if (end < first || end > count) corrupt("pieces: ends of files");
    int64_t reached = 0;
    for (; first < end; ++first) {
      const int64_t start = starts.data()[first], stop = stops.data()[first];
      if (start < reached || stop < start) corrupt("pieces: not ascending");
      if (__builtin_add_overflow(total, stop - start, &total)) corrupt("pieces: too many bytes");
      pieces.push_back({f, start, stop});
      reached = stop;
    }
    if (reached > sizes[f]) too_short = std::min(too_short, f);
  }
  if (too_short < fds.size()) return nb::make_tuple(kShort, too_short, Owned<uint8_t>(0).numpy());
  Owned<uint8_t> bytes(total);
  int status = kDone;
  int64_t waits = 0;
  size_t file = 0;
  {
    nb::gil_scoped_release release;
    uint8_t* out = bytes.data();
    for (first = 0; file < fds.size(); ++file) {
      status = read_file(fds[file], pieces.data() + first, pieces.data() + ends[file],
                         max_gap_bytes, nowait, out, waits);
      if (status != kDone) break;
      first = ends[file];
    }
  }
  return nb::make_tuple(status, file, bytes.numpy());
}

// Files as what brings bytes to the kernel that decodes them; waits for the disk.
class FileSource : public Source {
 public:
  // `fds` are open as long as this is used; `max_gap_bytes` as of `read_pieces`. Having waited for
  // the disk more than `patience` times it fails.
  FileSource(std::vector<int> fds, uint64_t max_gap_bytes, int64_t patience)
      : fds_(std::move(fds)), max_gap_bytes_(max_gap_bytes), patience_(patience) {}

  const uint8_t* read(const Piece* pieces, size_t count, int64_t num_bytes) override {
    if (!buffer_ || buffer_->size() < num_bytes) {
      buffer_.reset();  // to be used again
      buffer_.emplace(num_bytes);
    }
    uint8_t* out = buffer_->data();
    for (const Piece *first = pieces, *end = pieces + count; first != end;) {
      file_ = first->table;
      if (file_ >= fds_.size()) corrupt("pieces: no such file");
      const Piece* last = first + 1;
      while (last != end && last->table == file_) ++last;
      ++reads_;
      status_ = read_file(fds_[file_], first, last, max_gap_bytes_, false, out, waits_);
      if (status_ == kDone && waits_ > patience_) status_ = kWouldBlock;
      if (status_ != kDone) return nullptr;
      first = last;
    }
    return buffer_->data();
  }

  int status() const { return status_; }
  size_t file() const { return file_; }
  // How often it was asked for bytes of a file, and how often it waited for the disk.
  int64_t reads() const { return reads_; }
  int64_t waits() const { return waits_; }

 private:
  std::vector<int> fds_;
  uint64_t max_gap_bytes_;
  int64_t patience_, reads_ = 0, waits_ = 0;
  std::optional<Owned<uint8_t>> buffer_;
  int status_ = kDone;
  size_t file_ = 0;
};

}  // namespace
}  // namespace alance

void register_pieces(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Source>(m, "Source");
  nb::class_<FileSource, Source>(m, "FileSource")
      .def(nb::init<std::vector<int>, uint64_t, int64_t>(), nb::arg("fds"),
           nb::arg("max_gap_bytes"), nb::arg("patience") = INT64_MAX)
      .def_prop_ro("status", &FileSource::status)
      .def_prop_ro("file", &FileSource::file)
      .def_prop_ro("reads", &FileSource::reads)
      .def_prop_ro("waits", &FileSource::waits);
  m.def("sizes_now", &sizes_now, nb::arg("names"), nb::arg("identities"));
  m.def("read_pieces", &read_pieces, nb::arg("fds"), nb::arg("sizes"), nb::arg("ends"),
        nb::arg("starts"), nb::arg("stops"), nb::arg("max_gap_bytes"), nb::arg("nowait"));
}
