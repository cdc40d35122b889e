// LIKE: texts that match a pattern of plain text, `%` (any text) and `_` (any character).
//
// A pattern is UTF-8; two bytes that never occur in UTF-8 stand for the wildcards. `%` cuts it into
// segments: the first is at a text's start, the last at its end, and each other segment is matched
// at the leftmost possible place. The plain text at the start of such a segment is searched in the
// bytes of all texts at once, and a hit is kept until its text is reached. So there is no separate
// search per text, and each segment scans all bytes at most once.
#include <bit>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/ends.hpp"
#include "base/owned.hpp"
#include "base/processor.hpp"

namespace alance {
namespace {

constexpr char kAny = '\xfe', kCharacter = '\xff';

// Bytes of all texts; searches end at `stop`, whatever the buffer holds behind it.
struct Content {
  const uint8_t* data;
  int64_t stop;
};

using Find = int64_t (*)(const Content&, int64_t, std::string_view);

// Bytes of the longest pattern that is searched here; `memmem`, whose time does not grow with the
// pattern, searches longer ones.
constexpr size_t kLongText = 64;

// Position of a text, not empty, from `at` on; `stop` if there is none.
int64_t find_baseline(const Content& content, int64_t at, std::string_view plain) {
#if defined(__linux__) || defined(__APPLE__)
  if (plain.size() > kLongText) {
    const void* place = memmem(content.data + at, static_cast<size_t>(content.stop - at),
                               plain.data(), plain.size());
    return place ? static_cast<const uint8_t*>(place) - content.data : content.stop;
  }
#endif
  const std::string_view all(reinterpret_cast<const char*>(content.data),
                             static_cast<size_t>(content.stop));
  const size_t place = all.find(plain, static_cast<size_t>(at));
  return place == all.npos ? content.stop : static_cast<int64_t>(place);
}

#if defined(__x86_64__)
// The same; 32 positions are ruled out at once by the first and the last byte.
ALANCE_AVX2 int64_t find_avx2(const Content& content, int64_t at, std::string_view plain) {
  if (plain.size() > kLongText) return find_baseline(content, at, plain);
  const int64_t behind = std::ssize(plain) - 1;
  const __m256i first = _mm256_set1_epi8(plain.front()), last = _mm256_set1_epi8(plain.back());
  for (; at <= content.stop - behind - 32; at += 32) {
    const auto* head = reinterpret_cast<const __m256i*>(content.data + at);
    const auto* tail = reinterpret_cast<const __m256i*>(content.data + at + behind);
    const __m256i fits = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(head), first),
                                          _mm256_cmpeq_epi8(_mm256_loadu_si256(tail), last));
    for (auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(fits)); mask; mask &= mask - 1) {
      const int64_t place = at + std::countr_zero(mask);
      if (std::memcmp(content.data + place, plain.data(), plain.size()) == 0) return place;
    }
  }
  return find_baseline(content, at, plain);
}
#endif

Find finder(bool baseline) {
#if defined(__x86_64__)
  if (has_avx2() && !baseline) return &find_avx2;
#endif
  (void)baseline;
  return &find_baseline;
}

bool continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

int64_t behind_character(const uint8_t* data, int64_t at, int64_t stop) {
  do ++at;
  while (at < stop && continues(data[at]));
  return at;
}

// True if a text matches a segment from `at` on; moves `at` behind the match.
bool matches_from(const uint8_t* data, int64_t& at, int64_t stop, std::string_view segment) {
  for (const char byte : segment) {
    if (at == stop) return false;
    if (byte == kCharacter)
      at = behind_character(data, at, stop);
    else if (data[at++] != static_cast<uint8_t>(byte))
      return false;
  }
  return true;
}

// True if a text matches a segment up to `stop`; moves `stop` to the start of the match.
bool matches_to(const uint8_t* data, int64_t at, int64_t& stop, std::string_view segment) {
  for (size_t i = segment.size(); i--;) {
    if (at == stop) return false;
    --stop;
    if (segment[i] == kCharacter)
      while (stop > at && continues(data[stop])) --stop;
    else if (data[stop] != static_cast<uint8_t>(segment[i]))
      return false;
  }
  return true;
}

// Search for a segment between two `%`. Texts are passed in the order of their bytes.
class Sought {
 public:
  explicit Sought(std::string_view segment) {
    while (skipped_ < segment.size() && segment[skipped_] == kCharacter) ++skipped_;
    segment.remove_prefix(skipped_);
    plain_ = segment.substr(0, segment.find(kCharacter));
    rest_ = segment.substr(plain_.size());
  }

  // True if the segment lies between `at` and `stop`; moves `at` behind it.
  bool is_in(const Content& content, Find find, int64_t& at, int64_t stop) {
    for (size_t i = 0; i < skipped_; ++i) {
      if (at == stop) return false;
      at = behind_character(content.data, at, stop);
    }
    if (plain_.empty()) return true;
    for (const int64_t size = std::ssize(plain_);; ++at) {
      if (place_ < at) place_ = find(content, at, plain_);
      if (place_ > stop - size) return false;
      at = place_;
      int64_t end = at + size;
      if (matches_from(content.data, end, stop, rest_)) {
        at = end;
        return true;
      }
    }
  }

 private:
  size_t skipped_ = 0;  // characters before the plain text
  std::string_view plain_, rest_;
  int64_t place_ = -1;  // last position of the plain text
};

class Like {
 public:
  Like(std::string_view pattern, Find find) : find_(find) {
    size_t stop = pattern.find(kAny);
    head_ = pattern.substr(0, stop);
    while (stop != pattern.npos) {
      pattern.remove_prefix(stop + 1);
      stop = pattern.find(kAny);
      if (stop == pattern.npos) {
        tail_ = pattern;
        has_any_ = true;
      } else if (stop) {
        sought_.emplace_back(pattern.substr(0, stop));
      }
    }
  }

  bool matches(const Content& content, int64_t at, int64_t stop) {
    if (!matches_from(content.data, at, stop, head_)) return false;
    if (!has_any_) return at == stop;
    if (!matches_to(content.data, at, stop, tail_)) return false;
    for (Sought& segment : sought_)
      if (!segment.is_in(content, find_, at, stop)) return false;
    return true;
  }

 private:
  Find find_;
  std::string_view head_, tail_;
  std::vector<Sought> sought_;
  bool has_any_ = false;
};

Owned<uint8_t> like(const In<int64_t>& offsets, const Bytes& content, const Bytes& pattern,
                    bool baseline) {
  const Strings texts(offsets, content, "text");
  Owned<uint8_t> out(texts.count);
  Like like(text_of(pattern), finder(baseline));
  const Content all{texts.content, texts.ends[texts.count]};
  for (int64_t i = 0; i < texts.count; ++i)
    out[i] = like.matches(all, texts.ends[i], texts.ends[i + 1]);
  return out;
}

}  // namespace
}  // namespace alance

void register_patterns(nanobind::module_& m) {
  using namespace alance;
  m.def("like", &like, "offsets"_a, "content"_a, "pattern"_a, "baseline"_a = false, NoGil());
}
