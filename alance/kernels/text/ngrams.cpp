// N-grams of texts (n = 3): each three consecutive letters or digits as a number.
#include <algorithm>
#include <array>
#include <vector>

#include "base/owned.hpp"

namespace alance {
namespace {

constexpr uint32_t kBase = 37;
constexpr uint32_t kNumCharacters = 0x110000;
constexpr size_t kNumGrams = 256 * (kBase * kBase + kBase + 1);
constexpr uint16_t kParts = 256;  // digit of a character that separates words

// Digit of a byte in an n-gram. Texts are in lower case: capitals come from folding alone, and get
// other digits than small letters because their difference wraps.
uint16_t digit_of(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0' + 1;
  if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'))
    return static_cast<uint8_t>(byte - 'a' + 11);
  return kParts;
}

const std::array<uint16_t, 256>& digits() {
  static const auto table = [] {
    std::array<uint16_t, 256> values{};
    for (int byte = 0; byte < 256; ++byte) values[byte] = digit_of(static_cast<uint8_t>(byte));
    return values;
  }();
  return table;
}

// Character of several bytes at `at`, which moves behind it.
inline uint32_t long_character(const uint8_t* data, int64_t& at, int64_t end) {
  const uint8_t first = data[at++];
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t value = first & (0x3F >> more);
  for (int i = 0; i < more && at < end; ++i) value = value << 6 | (data[at++] & 0x3F);
  return value;
}

Numpy<uint32_t> letters_of(Bytes data) {
  std::vector<uint32_t> letters;
  {
    nb::gil_scoped_release release;
    std::vector<bool> has_letter;
    const auto end = static_cast<int64_t>(data.size());
    for (int64_t at = 0; at < end;) {
      if (data.data()[at] < 0x80) {
        ++at;
        continue;
      }
      const uint32_t letter = long_character(data.data(), at, end);
      if (letter >= has_letter.size()) has_letter.resize(letter + 1);
      if (!has_letter[letter]) letters.push_back(letter);
      has_letter[letter] = true;
    }
    std::sort(letters.begin(), letters.end());
  }
  Owned<uint32_t> out(static_cast<int64_t>(letters.size()));
  std::copy(letters.begin(), letters.end(), out.data());
  return out.numpy();
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
    const uint16_t digit = table_[byte];
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
  const std::array<uint16_t, 256>& table_ = digits();
  std::vector<uint32_t> last_;  // last text that has each n-gram
  uint32_t text_ = 0, before_ = 0, last_digit_ = 0;
  int length_ = 0;  // letters and digits in a row
};

nb::tuple ngrams(In<int64_t> offsets, Bytes data, In<uint64_t> rows, In<uint32_t> letters,
                 In<int64_t> starts, Bytes pieces) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto total = static_cast<int64_t>(data.size());
  const size_t num_letters = letters.size();
  if (static_cast<int64_t>(offsets.size()) != count + 1 || count >= UINT32_MAX)
    corrupt("n-grams: offsets of other texts");
  if (starts.size() != num_letters + 1 || starts.data()[0] != 0 ||
      starts.data()[num_letters] != static_cast<int64_t>(pieces.size()))
    corrupt("n-grams: pieces of other letters");
  for (size_t i = 0; i < num_letters; ++i)
    if (letters.data()[i] >= kNumCharacters || starts.data()[i] > starts.data()[i + 1] ||
        (i && letters.data()[i] <= letters.data()[i - 1]))
      corrupt("n-grams: letters out of order");
  Grams grams;
  std::vector<int64_t> ends(static_cast<size_t>(count));
  {
    nb::gil_scoped_release release;
    std::vector<uint32_t> places(num_letters ? letters.data()[num_letters - 1] + 1 : 0, 0);
    for (size_t i = 0; i < num_letters; ++i)
      places[letters.data()[i]] = static_cast<uint32_t>(i + 1);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t stop = offsets.data()[i + 1];
      int64_t at = offsets.data()[i];
      if (at < 0 || at > stop || stop > total) corrupt("n-grams: offsets out of order");
      grams.begin();
      while (at < stop) {
        const uint8_t byte = data.data()[at];
        if (byte < 0x80) {
          grams.add(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
          ++at;
          continue;
        }
        const uint32_t letter = long_character(data.data(), at, stop);
        const uint32_t place = letter < places.size() ? places[letter] : 0;
        if (!place) {
          grams.add(' ');
          continue;
        }
        for (int64_t k = starts.data()[place - 1]; k < starts.data()[place]; ++k)
          grams.add(pieces.data()[k]);
      }
      ends[i] = static_cast<int64_t>(grams.codes.size());
    }
  }
  Owned<uint32_t> tokens(static_cast<int64_t>(grams.codes.size()));
  Owned<uint64_t> numbers(tokens.size());
  {
    nb::gil_scoped_release release;
    std::copy(grams.codes.begin(), grams.codes.end(), tokens.data());
    for (int64_t i = 0; i < count; ++i)
      std::fill(numbers.data() + (i ? ends[i - 1] : 0), numbers.data() + ends[i], rows.data()[i]);
  }
  return nb::make_tuple(tokens.numpy(), numbers.numpy());
}

}  // namespace
}  // namespace alance

void register_ngrams(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("letters_of", &alance::letters_of, nb::arg("data"));
  m.def("ngrams", &alance::ngrams, nb::arg("offsets"), nb::arg("data"), nb::arg("rows"),
        nb::arg("letters"), nb::arg("starts"), nb::arg("pieces"));
}
