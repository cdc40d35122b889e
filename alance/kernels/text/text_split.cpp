// Texts split into tokens, of which each distinct one has a number; and into n-grams (n = 3): each
// three consecutive letters or digits as a number.
//
// Case folding, stemming and stop words are applied elsewhere, once for each distinct token.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/distinct.hpp"
#include "base/ends.hpp"
#include "base/lists.hpp"
#include "base/utf8.hpp"
#include "text/text_letters.hpp"

namespace alance::text {
namespace {

enum Kind : int { kSimple = 0, kWhitespace = 1, kRaw = 2, kNgram = 3 };

inline bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\f' || byte == '\r';
}

class TextSplitter {
 public:
  TextSplitter(int kind, int64_t max_bytes, int64_t shortest, int64_t longest, bool prefix_only)
      : kind_(kind), max_bytes_(max_bytes), shortest_(shortest), longest_(longest),
        prefix_only_(prefix_only) {
    if (kind < kSimple || kind > kNgram || shortest < 1 || longest < shortest)
      corrupt("text: tokens of ", shortest, " to ", longest);
  }

  std::tuple<Owned<int64_t>, Owned<uint32_t>, Owned<uint32_t>> split(const In<int64_t>& rows,
                                                                     const In<int64_t>& offsets,
                                                                     const Bytes& data,
                                                                     const Bytes& valid) {
    const Strings texts(offsets, data, "text");
    const Validity is_valid(valid, texts.count, "text");
    const int64_t count = std::ssize(rows) - 1;
    if (count < 0) corrupt("text: no rows");
    Owned<int64_t> counts(count);
    std::vector<uint32_t> numbers, places;
    for (int64_t i = 0; i < count; ++i) {
      const size_t before = numbers.size();
      const int64_t first = rows.data()[i], last = rows.data()[i + 1];
      if (first < 0 || first > last || last > texts.count) corrupt("text: rows out of order");
      uint32_t place = 0;
      for (int64_t text = first; text < last; ++text)
        if (is_valid[text]) split_text(texts[text], place, numbers, places);
      counts[i] = static_cast<int64_t>(numbers.size() - before);
    }
    return {std::move(counts), owned_of(numbers), owned_of(places)};
  }

  // Distinct tokens that were not returned before, in the order of their numbers.
  nb::list fresh() {
    nb::list tokens;
    for (; num_returned_ < tokens_.count(); ++num_returned_) {
      const std::string_view token = tokens_.at(num_returned_);
      tokens.append(nb::str(token.data(), token.size()));
    }
    return tokens;
  }

  int64_t num_bytes() const { return tokens_.num_bytes(); }

 private:
  void add(std::string_view token, uint32_t place, std::vector<uint32_t>& numbers,
           std::vector<uint32_t>& places) {
    if (max_bytes_ > 0 && std::ssize(token) >= max_bytes_) return;
    numbers.push_back(tokens_.of(token));
    places.push_back(place);
  }

  // `place`: position of the first token, then of the token behind the last.
  void split_text(std::string_view text, uint32_t& place, std::vector<uint32_t>& numbers,
                  std::vector<uint32_t>& places) {
    if (kind_ == kRaw) {
      add(text, place++, numbers, places);
    } else if (kind_ == kNgram) {
      split_grams(text, numbers, places);
    } else {
      for (size_t at = 0; at < text.size();) {
        const size_t first = skip(text, at, false);
        at = skip(text, first, true);
        if (first < at) add(text.substr(first, at - first), place++, numbers, places);
      }
    }
  }

  // End of the run, from `at` on, of characters that belong to tokens, or that do not.
  size_t skip(std::string_view text, size_t at, bool of_token) const {
    while (at < text.size()) {
      size_t next = at;
      const uint32_t character = next_character(text, next);
      const bool is_of_token =
          kind_ == kSimple ? is_letter(character) : character >= 0x80 || !is_space(text[at]);
      if (is_of_token != of_token) break;
      at = next;
    }
    return at;
  }

  void split_grams(std::string_view text, std::vector<uint32_t>& numbers,
                   std::vector<uint32_t>& places) {
    std::vector<size_t> starts;
    for (size_t at = 0; at < text.size(); next_character(text, at)) starts.push_back(at);
    const int64_t size = std::ssize(starts);
    starts.push_back(text.size());
    for (int64_t first = 0; first < (prefix_only_ ? std::min<int64_t>(size, 1) : size); ++first)
      for (int64_t length = shortest_; length <= longest_ && first + length <= size; ++length)
        add(text.substr(starts[first], starts[first + length] - starts[first]), 0, numbers, places);
  }

  int kind_;
  int64_t max_bytes_, shortest_, longest_;
  bool prefix_only_;
  Distinct tokens_{0};  // in one table, so that each has the same number in all texts
  uint32_t num_returned_ = 0;
};

constexpr uint32_t kBase = 37;
constexpr uint32_t kNumCharacters = 0x110000;
constexpr size_t kNumGrams = 256 * (kBase * kBase + kBase + 1);
constexpr uint16_t kParts = 256;  // digit of a character that separates words

// Digit of each byte in an n-gram. Texts are in lower case: capitals come from folding alone, and get
// other digits than small letters because their difference wraps.
constexpr auto kDigits = [] {
  std::array<uint16_t, 256> digits{};
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    digits[byte] = is_letter ? static_cast<uint8_t>(byte - 'a' + 11) : kParts;
    if (byte >= '0' && byte <= '9') digits[byte] = static_cast<uint16_t>(byte - '0' + 1);
  }
  return digits;
}();

Owned<uint32_t> letters_of(const Bytes& data) {
  std::vector<uint32_t> letters;
  std::vector<bool> has_letter;
  const std::string_view text = text_of(data);
  for (size_t at = 0; at < text.size();) {
    const uint32_t letter = next_character(text, at);
    if (letter < 0x80) continue;
    if (letter >= has_letter.size()) has_letter.resize(letter + 1);
    if (!has_letter[letter]) letters.push_back(letter);
    has_letter[letter] = true;
  }
  std::sort(letters.begin(), letters.end());
  return owned_of(letters);
}

// Distinct n-grams of each text, one text after the other.
class Grams {
 public:
  Grams() : last_(kNumGrams, 0) {}

  void begin() {
    ++text_;
    length_ = 0;
  }

  // Add a byte, and the n-gram that it ends if the text has not had it before.
  void add(uint8_t byte) {
    const uint16_t digit = kDigits[byte];
    if (digit == kParts) {
      length_ = 0;
      return;
    }
    if (++length_ >= 3) {
      const uint32_t gram = (before_ * kBase + last_digit_) * kBase + digit;
      if (last_[gram] != text_) {
        last_[gram] = text_;
        codes.push_back(gram);
      }
    }
    before_ = last_digit_;
    last_digit_ = digit;
  }

  std::vector<uint32_t> codes;

 private:
  std::vector<uint32_t> last_;  // last text that has each n-gram
  uint32_t text_ = 0, before_ = 0, last_digit_ = 0;
  int length_ = 0;  // letters and digits in a row
};

std::tuple<Owned<uint32_t>, Owned<uint64_t>> ngrams(const In<int64_t>& offsets, const Bytes& data,
                                                    const In<uint64_t>& rows,
                                                    const In<uint32_t>& letters,
                                                    const In<int64_t>& starts,
                                                    const Bytes& pieces) {
  const Strings texts(offsets, data, "n-grams");
  const size_t num_letters = letters.size();
  if (texts.count != std::ssize(rows) || texts.count >= UINT32_MAX)
    corrupt("n-grams: offsets of other texts");
  if (starts.size() != num_letters + 1 || starts.data()[0] != 0 ||
      starts.data()[num_letters] != std::ssize(pieces))
    corrupt("n-grams: pieces of other letters");
  for (size_t i = 0; i < num_letters; ++i)
    if (letters.data()[i] >= kNumCharacters || starts.data()[i] > starts.data()[i + 1] ||
        (i && letters.data()[i] <= letters.data()[i - 1]))
      corrupt("n-grams: letters out of order");
  std::vector<uint32_t> places(num_letters ? letters.data()[num_letters - 1] + 1 : 0, 0);
  for (size_t i = 0; i < num_letters; ++i)
    places[letters.data()[i]] = static_cast<uint32_t>(i + 1);
  Grams grams;
  std::vector<size_t> ends;  // of the n-grams of each text
  for (int64_t i = 0; i < texts.count; ++i) {
    const std::string_view text = texts[i];
    grams.begin();
    for (size_t at = 0; at < text.size();) {
      const auto byte = static_cast<uint8_t>(text[at]);
      if (byte < 0x80) {
        grams.add(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
        ++at;
        continue;
      }
      const uint32_t letter = next_character(text, at);
      const uint32_t place = letter < places.size() ? places[letter] : 0;
      if (!place) {
        grams.add(' ');
        continue;
      }
      for (int64_t k = starts.data()[place - 1]; k < starts.data()[place]; ++k)
        grams.add(pieces.data()[k]);
    }
    ends.push_back(grams.codes.size());
  }
  Owned<uint64_t> numbers(std::ssize(grams.codes));
  for (size_t i = 0, first = 0; i < ends.size(); first = ends[i++])
    std::fill(numbers.data() + first, numbers.data() + ends[i], rows.data()[i]);
  return {owned_of(grams.codes), std::move(numbers)};
}

}  // namespace
}  // namespace alance::text

void register_text_split(nanobind::module_& m) {
  using namespace alance;
  using text::TextSplitter;
  nb::class_<TextSplitter>(m, "TextSplitter")
      .def(nb::init<int, int64_t, int64_t, int64_t, bool>(), "kind"_a, "max_bytes"_a, "shortest"_a,
           "longest"_a, "prefix_only"_a)
      .def("split", &TextSplitter::split, "rows"_a, "offsets"_a, "data"_a, "valid"_a, NoGil())
      .def("fresh", &TextSplitter::fresh)
      .def("num_bytes", &TextSplitter::num_bytes);
  m.def("letters_of", &text::letters_of, "data"_a, NoGil());
  m.def("ngrams", &text::ngrams, "offsets"_a, "data"_a, "rows"_a, "letters"_a, "starts"_a,
        "pieces"_a, NoGil());
}
