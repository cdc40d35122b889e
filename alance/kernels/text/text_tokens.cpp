// Token dictionaries of inverted indices: tokens sorted by their bytes, with binary search.
#include <algorithm>
#include <numeric>
#include <ranges>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"
#include "text/text_tokens.hpp"

namespace alance::text {
namespace {

int64_t first_unordered(const In<int64_t>& offsets, const Bytes& data) {
  const Tokens tokens(offsets, data);
  for (int64_t i = 0; i < tokens.count; ++i)
    if (tokens.offsets[i] > tokens.offsets[i + 1]) return i;
  for (int64_t i = 1; i < tokens.count; ++i)
    if (tokens[i - 1] >= tokens[i]) return i;
  return -1;
}

// Bytes of a character, by its first byte.
size_t size_of(char byte) {
  const auto first = static_cast<uint8_t>(byte);
  return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < text.size();) out.push_back(next_character(text, i));
  return out;
}

// Edit distances of the prefixes of a query and a token: a row for each character of the token, and
// one before. Prefixes that adjacent tokens share are compared once.
class Distances {
 public:
  Distances(std::vector<uint32_t> query, int64_t most)
      : query_(std::move(query)), width_(query_.size() + 1), most_(most), rows_(width_), ends_{0} {
    std::iota(rows_.begin(), rows_.end(), int64_t{0});
  }

  // True if a token is near. If not, all tokens that share its first `dead` bytes are far, too;
  // 0: unknown.
  bool is_near(std::string_view token, size_t& dead) {
    const auto differs = std::mismatch(before_.begin(), before_.end(), token.begin(), token.end());
    const auto shared = static_cast<size_t>(differs.second - token.begin());
    while (ends_.back() > shared) ends_.pop_back();
    before_ = token;
    const std::vector<uint32_t> rest = characters(token.substr(ends_.back()));
    dead = 0;
    for (const uint32_t character : rest) {
      const size_t depth = ends_.size();
      rows_.resize(std::max(rows_.size(), (depth + 1) * width_));
      const int64_t* above = rows_.data() + (depth - 1) * width_;
      int64_t* row = rows_.data() + depth * width_;
      int64_t least = row[0] = static_cast<int64_t>(depth);
      for (size_t j = 1; j < width_; ++j) {
        row[j] = std::min(
            {above[j] + 1, row[j - 1] + 1, above[j - 1] + (query_[j - 1] != character)});
        least = std::min(least, row[j]);
      }
      ends_.push_back(std::min(token.size(), ends_.back() + size_of(token[ends_.back()])));
      if (least > most_) {
        dead = ends_.back();
        return false;
      }
    }
    return rows_[ends_.size() * width_ - 1] <= most_;
  }

 private:
  std::vector<uint32_t> query_;
  const size_t width_;
  const int64_t most_;
  std::vector<int64_t> rows_;
  std::vector<size_t> ends_;  // byte ends of the characters of the previous token
  std::string_view before_;
};

Owned<int64_t> near_tokens(const In<int64_t>& offsets, const Bytes& data, const Bytes& token,
                           int64_t distance, int64_t prefix, int64_t limit) {
  const Tokens tokens(offsets, data);
  const std::string_view text = text_of(token);
  if (prefix < 0 || prefix > std::ssize(text) || distance < 0)
    corrupt("text index: a prefix of ", prefix, " bytes");
  const auto start = text.substr(0, static_cast<size_t>(prefix));
  Distances distances(characters(text), distance);
  // First token from `first` on for which `is_before` is false; galloping search.
  const auto behind = [&](int64_t first, auto is_before) {
    int64_t low = first, high = tokens.count;
    for (int64_t step = 1; low + step < high; step *= 2) {
      if (is_before(tokens[low + step]))
        low += step;
      else
        high = low + step;
    }
    return *std::ranges::partition_point(std::views::iota(low, std::max(low, high)),
                                         [&](int64_t i) { return is_before(tokens[i]); });
  };
  std::vector<int64_t> places;
  int64_t i = behind(0, [&](std::string_view other) { return other < start; });
  while (i < tokens.count && std::ssize(places) < limit) {
    const std::string_view other = tokens[i];
    if (!other.starts_with(start)) break;
    size_t dead = 0;
    if (distances.is_near(other, dead)) places.push_back(i);
    const std::string_view far = other.substr(0, dead);
    i = dead ? behind(i, [&](std::string_view next) { return next.starts_with(far); }) : i + 1;
  }
  return owned_of(places);
}

}  // namespace
}  // namespace alance::text

void register_text_tokens(nanobind::module_& m) {
  using namespace alance;
  m.def("first_unordered", &text::first_unordered, "offsets"_a, "data"_a, NoGil());
  m.def("near_tokens", &text::near_tokens, "offsets"_a, "data"_a, "token"_a, "distance"_a,
        "prefix"_a, "limit"_a, NoGil());
}
