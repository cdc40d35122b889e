// Positional and vectored reads of files (pread, preadv), if the system has these calls.
#pragma once
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define NOMINMAX
#include <io.h>
#include <windows.h>
#else
#include <sys/uio.h>
#include <unistd.h>
#endif

namespace alance {

#if defined(_WIN32)
struct iovec {
  void* iov_base;
  size_t iov_len;
};
#endif

constexpr int kDone = 0, kWouldBlock = -1, kShort = -2;  // other statuses are errno

// Read from a position into the first buffers. Returns the number of bytes, or -1 and `errno`.
inline int64_t read_some(int fd, const iovec* targets, int count, int64_t position, bool nowait) {
#if defined(ALANCE_PLAIN_READS) || defined(_WIN32)
  (void)count;
  if (nowait) {
    errno = EAGAIN;
    return -1;
  }
  const size_t most = std::min(targets->iov_len, size_t{1} << 30);
#if defined(_WIN32)
  OVERLAPPED place = {};
  place.Offset = static_cast<DWORD>(position);
  place.OffsetHigh = static_cast<DWORD>(position >> 32);
  DWORD read = 0;
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(fd));
  if (ReadFile(file, targets->iov_base, static_cast<DWORD>(most), &read, &place)) return read;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  errno = EIO;
  return -1;
#else
  return pread(fd, targets->iov_base, most, position);
#endif
#elif defined(__linux__) && defined(RWF_NOWAIT)
  return preadv2(fd, targets, count, position, nowait ? RWF_NOWAIT : 0);
#else
  if (nowait) {
    errno = EAGAIN;
    return -1;
  }
  return preadv(fd, targets, count, position);
#endif
}

// Rest of a read: position in the file, and buffers, which move on as they are filled.
struct Span {
  int64_t position;
  iovec *target, *end;
};

// Fill all buffers of a span. After kWouldBlock the next call continues where this one stopped.
inline int read_span(int fd, Span& span, bool nowait) {
  for (;;) {
    while (span.target != span.end && span.target->iov_len == 0) ++span.target;
    if (span.target == span.end) return kDone;
    const int num_targets = static_cast<int>(span.end - span.target);
    int64_t count = read_some(fd, span.target, num_targets, span.position, nowait);
    if (count < 0) {
      if (errno == EINTR) continue;
      return nowait ? kWouldBlock : errno;
    }
    if (count == 0) return kShort;
    span.position += count;
    for (; count > 0; ++span.target) {
      iovec& target = *span.target;
      const size_t here = std::min(static_cast<size_t>(count), target.iov_len);
      target.iov_base = static_cast<uint8_t*>(target.iov_base) + here;
      target.iov_len -= here;
      count -= static_cast<int64_t>(here);
      if (target.iov_len != 0) break;
    }
  }
}

}  // namespace alance
