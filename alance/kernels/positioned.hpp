// Reads of a file at a position: waiting, or only of what the page cache holds.
#pragma once
#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace alance {

constexpr int kDone = 0, kWouldBlock = -1, kShort = -2;  // or the error's number

// Reads [start, start + size) to `out`.
inline int read_span(int fd, int64_t start, int64_t size, uint8_t* out, bool nowait) {
  while (size > 0) {
    iovec target{out, static_cast<size_t>(size)};
    ssize_t count;
#if defined(__linux__) && defined(RWF_NOWAIT)
    count = preadv2(fd, &target, 1, start, nowait ? RWF_NOWAIT : 0);
#else
    if (nowait) return kWouldBlock;
    count = pread(fd, out, target.iov_len, start);
#endif
    if (count < 0) {
      if (errno == EINTR) continue;
      return nowait ? kWouldBlock : errno;
    }
    if (count == 0) return kShort;
    out += count;
    start += count;
    size -= count;
  }
  return kDone;
}

}  // namespace alance
