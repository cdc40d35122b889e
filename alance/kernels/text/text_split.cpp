// Texts split into tokens; each distinct token has a number.
//
// Case folding, stemming and stop words are applied elsewhere, once for each distinct token.
#include <string>
#include <string_view>
#include <vector>

#include "base/hashes.hpp"
#include "base/owned.hpp"
#include "text/text_letters.hpp"

namespace alance::text {
namespace {

enum Kind : int { kSimple = 0, kWhitespace = 1, kRaw = 2, kNgram = 3 };

// Character at `at`, which moves behind it; the text is UTF-8.
inline uint32_t next_character(const char* data, int64_t& at, int64_t end) {
  const auto first = static_cast<uint8_t>(data[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t value = first & (0x3F >> more);
  for (int i = 0; i < more && at < end; ++i) value = value << 6 | (data[at++] & 0x3F);
  return value;
}

inline bool is_space(uint8_t byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\f' || byte == '\r';
}

// Distinct tokens, numbered in order of first appearance, in a hash table with linear probing.
class Numbers {
 public:
  Numbers() : table_(1 << 12, 0) {}

  uint32_t of(std::string_view token) {
    const size_t hash = hashes::Secret::own().of(token);
    for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
      if (!table_[at]) {
        table_[at] = add(token, hash);
        return table_[at] - 1;
      }
      const uint32_t number = table_[at] - 1;
      if (hashes_[number] == hash && (*this)[number] == token) return number;
    }
  }

  std::string_view operator[](int64_t number) const {
    return std::string_view(data_).substr(starts_[number], starts_[number + 1] - starts_[number]);
  }
  int64_t size() const { return static_cast<int64_t>(hashes_.size()); }
  int64_t num_bytes() const {
    return static_cast<int64_t>(table_.size() * 4 + hashes_.capacity() * 16 + data_.capacity());
  }
  bool is_crowded() const { return hashes_.size() * 2 >= table_.size(); }

  // Enlarge the table; not inside of `of`, which holds a slot.
  void grow() {
    std::vector<uint32_t> wider(table_.size() * 4, 0);
    for (size_t number = 0; number < hashes_.size(); ++number) {
      size_t at = hashes_[number] & (wider.size() - 1);
      while (wider[at]) at = (at + 1) & (wider.size() - 1);
      wider[at] = static_cast<uint32_t>(number + 1);
    }
    table_.swap(wider);
  }

 private:
  uint32_t add(std::string_view token, size_t hash) {
    if (hashes_.size() >= UINT32_MAX - 2) corrupt("text: too many distinct tokens");
    data_.append(token);
    starts_.push_back(data_.size());
    hashes_.push_back(hash);
    return static_cast<uint32_t>(hashes_.size());
  }

  std::vector<uint32_t> table_;  // numbers + 1; 0: free
  std::vector<size_t> hashes_;
  std::vector<size_t> starts_{0};
  std::string data_;
};

class TextSplitter {
 public:
  TextSplitter(int kind, int64_t max_bytes, int64_t shortest, int64_t longest, bool prefix_only)
      : kind_(kind),
        max_bytes_(max_bytes),
        shortest_(shortest),
        longest_(longest),
        prefix_only_(prefix_only) {
    if (kind < kSimple || kind > kNgram || shortest < 1 || longest < shortest)
      corrupt("text: tokens of " + std::to_string(shortest) + " to " + std::to_string(longest));
  }

  // Number of tokens of each document; numbers of all tokens; their positions in their documents.
  // Document i has the texts from `rows[i]` to `rows[i + 1]`. `valid`: not zero for valid texts;
  // empty if all are valid.
  nb::tuple split(In<int64_t> rows, In<int64_t> offsets, Bytes data, Bytes valid) {
    const int64_t num_texts = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t count = static_cast<int64_t>(rows.size()) - 1;
    const auto total = static_cast<int64_t>(data.size());
    if (count < 0 || num_texts < 0 ||
        (valid.size() && static_cast<int64_t>(valid.size()) != num_texts))
      corrupt("text: another number of texts than of validities");
    Owned<int64_t> counts(count);
    std::vector<uint32_t> numbers, places;
    {
      nb::gil_scoped_release release;
      const char* bytes = reinterpret_cast<const char*>(data.data());
      for (int64_t i = 0; i < count; ++i) {
        const size_t before = numbers.size();
        const int64_t first = rows.data()[i], last = rows.data()[i + 1];
        if (first < 0 || first > last || last > num_texts) corrupt("text: rows out of order");
        uint32_t place = 0;
        for (int64_t text = first; text < last; ++text) {
          const int64_t start = offsets.data()[text], stop = offsets.data()[text + 1];
          if (start < 0 || start > stop || stop > total) corrupt("text: offsets out of order");
          if (!valid.size() || valid.data()[text])
            split_text(bytes, start, stop, place, numbers, places);
        }
        counts[i] = static_cast<int64_t>(numbers.size() - before);
      }
    }
    const auto num_tokens = static_cast<int64_t>(numbers.size());
    Owned<uint32_t> out(num_tokens), out_places(num_tokens);
    std::copy(numbers.begin(), numbers.end(), out.data());
    std::copy(places.begin(), places.end(), out_places.data());
    return nb::make_tuple(counts.numpy(), out.numpy(), out_places.numpy());
  }

  // Distinct tokens that were not returned before, in the order of their numbers.
  nb::list fresh() {
    nb::list tokens;
    for (; num_returned_ < numbers_.size(); ++num_returned_) {
      const std::string_view token = numbers_[num_returned_];
      tokens.append(nb::str(token.data(), token.size()));
    }
    return tokens;
  }

  int64_t num_bytes() const { return numbers_.num_bytes(); }

 private:
  void add(const char* bytes, int64_t start, int64_t stop, uint32_t place,
           std::vector<uint32_t>& numbers, std::vector<uint32_t>& places) {
    if (max_bytes_ > 0 && stop - start >= max_bytes_) return;
    numbers.push_back(numbers_.of({bytes + start, static_cast<size_t>(stop - start)}));
    places.push_back(place);
    if (numbers_.is_crowded()) numbers_.grow();
  }

  // `place`: position of the first token, then of the token behind the last.
  void split_text(const char* bytes, int64_t start, int64_t stop, uint32_t& place,
                 std::vector<uint32_t>& numbers, std::vector<uint32_t>& places) {
    if (kind_ == kRaw) {
      add(bytes, start, stop, place++, numbers, places);
    } else if (kind_ == kNgram) {
      split_grams(bytes, start, stop, numbers, places);
    } else {
      for (int64_t at = start; at < stop;) {
        const int64_t first = skip(bytes, at, stop, false);
        at = skip(bytes, first, stop, true);
        if (first < at) add(bytes, first, at, place++, numbers, places);
      }
    }
  }

  // End of the run, from `at` on, of characters that belong to tokens, or that do not.
  int64_t skip(const char* bytes, int64_t at, int64_t stop, bool of_token) const {
    while (at < stop) {
      int64_t next = at;
      const uint32_t character = next_character(bytes, next, stop);
      const bool is_of_token =
          kind_ == kSimple ? is_letter(character) : character >= 0x80 || !is_space(bytes[at]);
      if (is_of_token != of_token) break;
      at = next;
    }
    return at;
  }

  void split_grams(const char* bytes, int64_t start, int64_t stop, std::vector<uint32_t>& numbers,
                   std::vector<uint32_t>& places) {
    std::vector<int64_t> starts;
    for (int64_t at = start; at < stop; next_character(bytes, at, stop)) starts.push_back(at);
    const auto size = static_cast<int64_t>(starts.size());
    starts.push_back(stop);
    for (int64_t first = 0; first < (prefix_only_ ? std::min<int64_t>(size, 1) : size); ++first)
      for (int64_t length = shortest_; length <= longest_ && first + length <= size; ++length)
        add(bytes, starts[first], starts[first + length], 0, numbers, places);
  }

  int kind_;
  int64_t max_bytes_, shortest_, longest_;
  bool prefix_only_;
  Numbers numbers_;
  int64_t num_returned_ = 0;
};

}  // namespace
}  // namespace alance::text

void register_text_split(nanobind::module_& m) {
  namespace nb = nanobind;
  using alance::text::TextSplitter;
  nb::class_<TextSplitter>(m, "TextSplitter")
      .def(nb::init<int, int64_t, int64_t, int64_t, bool>(), nb::arg("kind"), nb::arg("max_bytes"),
           nb::arg("shortest"), nb::arg("longest"), nb::arg("prefix_only"))
      .def("split", &TextSplitter::split, nb::arg("rows"), nb::arg("offsets"),
           nb::arg("data"), nb::arg("valid"))
      .def("fresh", &TextSplitter::fresh)
      .def("num_bytes", &TextSplitter::num_bytes);
}
