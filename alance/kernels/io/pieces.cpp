// Reads of many pieces of files into one buffer, in one call without the GIL.
//
// This is the only kernel that reads files. It belongs to the I/O half (`alance/io/disk/files.py`)
// and does not interpret the bytes. No other kernel gets a file descriptor.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
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

constexpr uint64_t kMaxGap = 16 << 10;  // bytes of a gap that is read and dropped
constexpr size_t kMaxBuffers = 256;  // of one call; Linux takes up to 1024

// Read pieces of one file in few calls. Bytes in the page cache are read at once; at the first
// miss, the system is told of all remaining pieces before the first wait. With `nowait` a miss ends
// the read (kWouldBlock). `waits` counts the calls that waited.
int read_file(int fd, const Piece* piece, const Piece* end, uint64_t max_gap_bytes, bool nowait,
              uint8_t*& out, int64_t& waits) {
  thread_local std::vector<uint8_t> waste(kMaxGap);
  const Coalescing rule{std::min(max_gap_bytes, kMaxGap)};
  std::vector<iovec> targets;  // buffers of one call
  const int64_t waited = waits;
  while (piece != end) {
    targets.clear();
    uint8_t* into = out;
    const Piece* begin = piece;
    ByteRange whole{begin->start, begin->start};
    for (; piece != end && targets.size() + 2 <= kMaxBuffers; ++piece) {
      // Each byte goes to one place: a piece that overlaps the previous one is read apart.
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

constexpr int kReplaced = -3;  // the file's name is by now the name of another file
constexpr int64_t kAlignment = 64;  // bytes; as in Lance files, and of arrays that Arrow allocates

// Open file: descriptor, name, device and inode. With a name, the file must still have it.
using OpenFile = std::tuple<int, nb::bytes, uint64_t, uint64_t>;

// Get the present size of a file; returns kDone, kReplaced or errno.
int look_up(const OpenFile& file, int64_t& size) {
  const auto& [fd, name, device, inode] = file;
  struct stat about;
  if (name.size() == 0) {
    if (fstat(fd, &about) != 0) return errno;
  } else if (stat(name.c_str(), &about) != 0 || about.st_dev != device || about.st_ino != inode) {
    return kReplaced;
  }
  size = about.st_size;
  return kDone;
}

// Number of the byte of a block from which on bytes lie at addresses congruent to their positions.
int64_t lead_of(const Owned<uint8_t>& block, int64_t position) {
  const auto address = reinterpret_cast<uintptr_t>(block.data());
  return static_cast<int64_t>((static_cast<uint64_t>(position) - address) % kAlignment);
}

// Read ranges of a file from the page cache. Returns a status and a buffer for each range, whose
// address is congruent to its start: values that are aligned in the file are aligned in memory.
// Allocates nothing if a range ends beyond the file. The status of a file system that cannot tell
// whether a read would wait is an error number.
nb::tuple read_ranges(const OpenFile& file, const std::vector<std::pair<int64_t, int64_t>>& ranges) {
  std::vector<Owned<uint8_t>> blocks;
  int64_t size = 0;
  int status;
  {
    nb::gil_scoped_release release;  // a network file system may be slow
    status = look_up(file, size);
    for (const auto& [start, stop] : ranges)
      if (status == kDone && (start < 0 || stop < start || stop > size)) status = kShort;
    for (const auto& [start, stop] : ranges) {
      if (status != kDone) break;
      Owned<uint8_t>& block = blocks.emplace_back(stop - start + kAlignment);
      iovec target{block.data() + lead_of(block, start), static_cast<size_t>(stop - start)};
      Span span{start, &target, &target + 1};
      status = read_span(std::get<0>(file), span, true);
      if (status == kWouldBlock && (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS))
        status = errno;
    }
  }
  nb::list arrays;
  for (size_t i = 0; status == kDone && i < ranges.size(); ++i) {
    const auto& [start, stop] = ranges[i];
    arrays.append(nb::cast(blocks[i].numpy(lead_of(blocks[i], start), stop - start)));
  }
  return nb::make_tuple(status, arrays);
}

// Source that reads files; waits for the disk, unless `nowait`.
class FileSource : public Source {
 public:
  // `fds` stay open while this is used; `max_gap_bytes` as in `read_pieces`. After more than
  // `patience` waits for the disk reads fail with kWouldBlock.
  FileSource(std::vector<int> fds, uint64_t max_gap_bytes, int64_t patience, bool nowait = false)
      : fds_(std::move(fds)), max_gap_bytes_(max_gap_bytes), patience_(patience), nowait_(nowait) {}

  bool copy(const Piece* pieces, size_t count, int64_t, uint8_t* out) override {
    for (const Piece *first = pieces, *end = pieces + count; first != end;) {
      file_ = first->table;
      if (file_ >= fds_.size()) corrupt("pieces: no such file");
      const Piece* last = first + 1;
      while (last != end && last->table == file_) ++last;
      ++reads_;
      status_ = read_file(fds_[file_], first, last, max_gap_bytes_, nowait_, out, waits_);
      if (status_ == kDone && waits_ > patience_) status_ = kWouldBlock;
      if (status_ != kDone) return false;
      first = last;
    }
    return true;
  }

  int status() const { return status_; }
  size_t file() const { return file_; }
  // Number of files read so far, counting each call, and of waits for the disk.
  int64_t reads() const { return reads_; }
  int64_t waits() const { return waits_; }

 private:
  std::vector<int> fds_;
  uint64_t max_gap_bytes_;
  int64_t patience_, reads_ = 0, waits_ = 0;
  bool nowait_;
  int status_ = kDone;
  size_t file_ = 0;
};

// Pieces ascend; those with small gaps are read together. Allocates nothing if a piece ends beyond
// its file.
std::tuple<int, size_t, Owned<uint8_t>> read_pieces(const std::vector<OpenFile>& files,
                                                    const std::vector<int64_t>& ends,
                                                    const In<int64_t>& starts,
                                                    const In<int64_t>& stops,
                                                    uint64_t max_gap_bytes, bool nowait) {
  const int64_t count = std::ssize(starts);
  if (std::ssize(stops) != count) corrupt("pieces: starts and stops differ");
  if (ends.size() != files.size() || (ends.empty() ? 0 : ends.back()) != count)
    corrupt("pieces: ends of files");
  int64_t total = 0, first = 0, size = 0;
  std::vector<int> fds;
  std::vector<Piece> pieces;
  pieces.reserve(starts.size());
  // Columns of one file are entries one after the other: they cost one look at its name, and their
  // pieces are those of the first of them, read together where they are near each other.
  for (size_t f = 0, owner = 0; f < ends.size(); ++f) {
    fds.push_back(std::get<0>(files[f]));
    if (ends[f] < first || ends[f] > count) corrupt("pieces: ends of files");
    if (ends[f] == first) continue;
    if (first == 0 || fds[owner] != fds[f]) {
      if (const int status = look_up(files[f], size); status != kDone)
        return {status, f, Owned<uint8_t>(0)};
      owner = f;
    }
    int64_t reached = 0;
    for (; first < ends[f]; ++first) {
      const int64_t start = starts.data()[first], stop = stops.data()[first];
      if (start < reached || stop < start) corrupt("pieces: not ascending");
      if (__builtin_add_overflow(total, stop - start, &total)) corrupt("pieces: too many bytes");
      pieces.push_back({owner, start, stop});
      reached = stop;
    }
    if (reached > size) return {kShort, f, Owned<uint8_t>(0)};
  }
  FileSource source(std::move(fds), max_gap_bytes, INT64_MAX, nowait);
  Owned<uint8_t> bytes(total);
  source.copy(pieces.data(), pieces.size(), total, bytes.data());
  return {source.status(), source.file(), std::move(bytes)};
}

}  // namespace
}  // namespace alance

void register_pieces(nanobind::module_& m) {
  using namespace alance;
  nb::class_<Source>(m, "Source");
  nb::class_<FileSource, Source>(m, "FileSource")
      .def(nb::init<std::vector<int>, uint64_t, int64_t>(), "fds"_a, "max_gap_bytes"_a,
           "patience"_a = INT64_MAX)
      .def_prop_ro("status", &FileSource::status)
      .def_prop_ro("file", &FileSource::file)
      .def_prop_ro("reads", &FileSource::reads)
      .def_prop_ro("waits", &FileSource::waits);
  m.def("read_ranges", &read_ranges, "file"_a, "ranges"_a);
  m.def("read_pieces", &read_pieces, "files"_a, "ends"_a, "starts"_a, "stops"_a,
        "max_gap_bytes"_a, "nowait"_a, NoGil());
}
