// The dictionaries of inverted indices: tokens in the order of their bytes, and finding some.
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

#include "owned.hpp"

namespace alance::text {
namespace {

struct Tokens {
  const int64_t* offsets;
  const char* data;
  int64_t count;

  Tokens(const In<int64_t>& starts, const Bytes& bytes)
      : offsets(starts.data()),
        data(reinterpret_cast<const char*>(bytes.data())),
        count(static_cast<int64_t>(starts.size()) - 1) {
    if (count < 0 || offsets[0] < 0 || offsets[count] > static_cast<int64_t>(bytes.size()))
      corrupt("text index: tokens outside of their bytes");
  }
  std::string_view operator[](int64_t i) const {
    return {data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
};

// --- The map of tokens to numbers, as a transducer ---

// The inputs that nodes have a number for, so that they need no byte.
constexpr char kCommon[] = "te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";
constexpr int64_t kHeader = 16, kTrailer = 20;

// By eight bytes at once: a table for each of them.
uint32_t crc32c(const uint8_t* data, int64_t size) {
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0);
      entries[0][i] = value;
    }
    for (size_t k = 1; k < 8; ++k)
      for (size_t i = 0; i < 256; ++i) {
        const uint32_t before = entries[k - 1][i];
        entries[k][i] = entries[0][before & 0xFF] ^ (before >> 8);
      }
    return entries;
  }();
  uint32_t value = ~0u;
  for (; size >= 8; size -= 8, data += 8) {
    uint32_t next = 0;
    for (size_t k = 0; k < 4; ++k)
      next ^= tables[7 - k][data[k] ^ ((value >> (8 * k)) & 0xFF)] ^ tables[3 - k][data[4 + k]];
    value = next;
  }
  for (; size > 0; --size, ++data) value = tables[0][(value ^ *data) & 0xFF] ^ (value >> 8);
  return ~value;
}

uint64_t little(const uint8_t* at, int64_t size) {
  uint64_t value = 0;
  for (int64_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

// A node: its address is that of its last byte, and it is read backward.
struct Node {
  int64_t num = 0;  // transitions
  bool is_final = false;
  uint64_t final_output = 0;
  int64_t inputs = 0, deltas = 0, outputs = 0;  // where the first one's are
  int64_t delta_width = 0, output_width = 0;
  int64_t low = 0;      // the node's first byte
  int common = -1;      // the input of a node with one transition, where it has no byte
  bool is_next = false;  // the target ends right below

  uint8_t input(const uint8_t* data, int64_t k) const {
    return common >= 0 ? static_cast<uint8_t>(kCommon[common]) : data[inputs - k];
  }
  uint64_t output(const uint8_t* data, int64_t k) const {
    return output_width ? little(data + outputs - k * output_width, output_width) : 0;
  }
  int64_t target(const uint8_t* data, int64_t k) const {
    if (is_next) return low - 1;
    const uint64_t delta = little(data + deltas - k * delta_width, delta_width);
    return delta && delta <= static_cast<uint64_t>(low) ? low - static_cast<int64_t>(delta) : 0;
  }
};

Node node_at(const uint8_t* data, int64_t at) {
  Node node;
  if (at == 0) {
    node.is_final = true;
    return node;
  }
  if (at < kHeader) corrupt("text index: a node of the dictionary outside of it");
  const uint8_t state = data[at];
  int64_t below = at;  // the lowest byte that was read
  if (state < 0x80) {
    node.is_final = state & 64;
    node.num = state & 63;
    if (!node.num) {
      node.num = data[--below];
      if (node.num == 1) node.num = 256;
    }
  } else {
    node.num = 1;
    node.common = (state & 63) - 1;
    if (node.common < 0) node.inputs = --below;
    if (state >= 0xC0) {
      node.is_next = true;
      node.low = below;
      return node;
    }
  }
  const uint8_t widths = data[--below];
  node.delta_width = widths >> 4;
  node.output_width = widths & 15;
  if (node.delta_width > 8 || node.output_width > 8) corrupt("text index: numbers of a node");
  if (state < 0x80) {
    if (node.num > 32) below -= 256;  // a table from inputs to transitions
    node.inputs = below - 1;
    below -= node.num;
  }
  node.deltas = below - node.delta_width;
  below -= node.num * node.delta_width;
  node.outputs = below - node.output_width;
  below -= node.num * node.output_width;
  if (node.is_final && node.output_width) {
    below -= node.output_width;
    if (below < kHeader) corrupt("text index: a node of the dictionary outside of it");
    node.final_output = little(data + below, node.output_width);
  }
  node.low = below;
  if (below < kHeader) corrupt("text index: a node of the dictionary outside of it");
  return node;
}

struct Step {
  Node node;
  int64_t next;      // transition
  uint64_t output;   // up to the node
};

class Transducer {
 public:
  Transducer(Bytes content, int64_t num_tokens)
      : content_(content), data_(content.data()), num_tokens_(num_tokens) {
    const auto size = static_cast<int64_t>(content.size());
    if (num_tokens < 0 || num_tokens > UINT32_MAX || size < kHeader + kTrailer ||
        little(data_, 8) != 3 ||
        little(data_ + size - 20, 8) != static_cast<uint64_t>(num_tokens))
      corrupt("text index: no dictionary of " + std::to_string(num_tokens) + " tokens");
    nb::gil_scoped_release release;
    const uint32_t sum = crc32c(data_, size - 4);
    if (little(data_ + size - 4, 4) != uint32_t(((sum >> 15) | (sum << 17)) + 0xa282ead8u))
      corrupt("text index: the dictionary's checksum is another one");
    const uint64_t root = little(data_ + size - 12, 8);
    if (root >= static_cast<uint64_t>(size - kTrailer) && root)
      corrupt("text index: a node of the dictionary outside of it");
    root_ = static_cast<int64_t>(root);
  }

  // The numbers of tokens; -1 where there is none.
  Numpy<int64_t> find(In<int64_t> asked_offsets, Bytes asked) const {
    const Tokens queries(asked_offsets, asked);
    Owned<int64_t> numbers(queries.count);
    for (int64_t i = 0; i < queries.count; ++i) numbers[i] = number_of(queries[i]);
    return numbers.numpy();
  }

  // The tokens in order, and their numbers.
  nb::tuple tokens(int64_t num_bytes) const {
    if (num_bytes < 0 || num_bytes >> 16 > num_tokens_)
      corrupt("text index: a dictionary of " + std::to_string(num_bytes) + " bytes");
    std::vector<int64_t> offsets{0};
    std::vector<uint8_t> keys;
    std::vector<uint32_t> numbers;
    {
      nb::gil_scoped_release release;
      std::vector<Step> path;
      std::vector<uint8_t> key;
      // Every node leads to a key, so that the work is that of the keys.
      const auto enter = [&](int64_t address, uint64_t output) {
        const Node node = node_at(data_, address);
        if (node.is_final) {
          const uint64_t number = output + node.final_output;
          keys.insert(keys.end(), key.begin(), key.end());
          if (static_cast<int64_t>(numbers.size()) >= num_tokens_ ||
              static_cast<int64_t>(keys.size()) > num_bytes || number > UINT32_MAX)
            corrupt("text index: more tokens than the dictionary says");
          numbers.push_back(static_cast<uint32_t>(number));
          offsets.push_back(static_cast<int64_t>(keys.size()));
        } else if (!node.num) {
          corrupt("text index: a node of the dictionary without a key");
        }
        path.push_back({node, 0, output});
      };
      if (num_tokens_) enter(root_, 0);
      while (!path.empty()) {
        Step& step = path.back();
        if (step.next == step.node.num) {
          path.pop_back();
          if (!key.empty()) key.pop_back();
          continue;
        }
        const int64_t k = step.next++;
        key.push_back(step.node.input(data_, k));
        if (static_cast<int64_t>(key.size()) > num_bytes)
          corrupt("text index: a token longer than the dictionary says");
        const uint64_t output = step.output + step.node.output(data_, k);
        const int64_t target = step.node.target(data_, k);
        if (target >= step.node.low) corrupt("text index: a node of the dictionary leads back");
        enter(target, output);
      }
      if (static_cast<int64_t>(numbers.size()) != num_tokens_)
        corrupt("text index: fewer tokens than the dictionary says");
    }
    Owned<int64_t> starts(num_tokens_ + 1);
    Owned<uint8_t> bytes(static_cast<int64_t>(keys.size()));
    Owned<uint32_t> ids(num_tokens_);
    std::copy(offsets.begin(), offsets.end(), starts.data());
    std::copy(keys.begin(), keys.end(), bytes.data());
    std::copy(numbers.begin(), numbers.end(), ids.data());
    return nb::make_tuple(starts.numpy(), bytes.numpy(), ids.numpy());
  }

 private:
  int64_t number_of(std::string_view word) const {
    if (!num_tokens_) return -1;
    int64_t at = root_;
    uint64_t number = 0;
    for (const char byte : word) {
      const Node node = node_at(data_, at);
      int64_t k = 0;
      while (k < node.num && node.input(data_, k) != static_cast<uint8_t>(byte)) ++k;
      if (k == node.num) return -1;
      number += node.output(data_, k);
      at = node.target(data_, k);
      if (at >= node.low) corrupt("text index: a node of the dictionary leads back");
    }
    const Node last = node_at(data_, at);
    if (!last.is_final) return -1;
    number += last.final_output;
    if (number >= static_cast<uint64_t>(num_tokens_))
      corrupt("text index: token " + std::to_string(number) + " of " +
              std::to_string(num_tokens_));
    return static_cast<int64_t>(number);
  }

  Bytes content_;  // holds the bytes
  const uint8_t* data_;
  int64_t num_tokens_;
  int64_t root_ = 0;
};

// --- Tokens in order ---

// The first token that is not behind the one before it; -1: they ascend.
int64_t first_unordered(In<int64_t> offsets, Bytes data) {
  const Tokens tokens(offsets, data);
  nb::gil_scoped_release release;
  for (int64_t i = 0; i < tokens.count; ++i)
    if (tokens.offsets[i] > tokens.offsets[i + 1]) return i;
  for (int64_t i = 1; i < tokens.count; ++i)
    if (tokens[i - 1] >= tokens[i]) return i;
  return -1;
}

// The places of tokens among others that ascend; -1 where there is none.
nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> find_tokens(In<int64_t> offsets, Bytes data,
                                                         In<int64_t> asked_offsets, Bytes asked) {
  const Tokens tokens(offsets, data), queries(asked_offsets, asked);
  Owned<int64_t> places(queries.count);
  for (int64_t i = 0; i < queries.count; ++i) {
    int64_t low = 0, high = tokens.count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (tokens[middle] < queries[i])
        low = middle + 1;
      else
        high = middle;
    }
    places[i] = low < tokens.count && tokens[low] == queries[i] ? low : -1;
  }
  return places.numpy();
}

// Bytes of a character, by its first one.
size_t size_of(char byte) {
  const auto first = static_cast<uint8_t>(byte);
  return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < text.size();) {
    const size_t size = size_of(text[i]);
    uint32_t value = static_cast<uint8_t>(text[i]);
    for (size_t k = 1; k < size && i + k < text.size(); ++k)
      value = value << 8 | static_cast<uint8_t>(text[i + k]);
    out.push_back(value);
    i += size;
  }
  return out;
}

// How far the beginnings of a text and of a token are apart: a row for each character of the token,
// and one before. What tokens begin with alike is compared once.
class Distances {
 public:
  Distances(std::vector<uint32_t> asked, int64_t most)
      : asked_(std::move(asked)), width_(asked_.size() + 1), most_(most), rows_(width_), ends_{0} {
    std::iota(rows_.begin(), rows_.end(), int64_t{0});
  }

  // Whether a token is near. Where it is not, `dead` is how many bytes tell that: all tokens that
  // begin with these are far.
  bool is_near(std::string_view token, size_t& dead) {
    const auto differs = std::mismatch(before_.begin(), before_.end(), token.begin(), token.end());
    const auto same = static_cast<size_t>(differs.second - token.begin());
    while (ends_.back() > same) ends_.pop_back();
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
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (asked_[j - 1] != character)});
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
  std::vector<uint32_t> asked_;
  const size_t width_;
  const int64_t most_;
  std::vector<int64_t> rows_;
  std::vector<size_t> ends_;  // of the characters of the token before, in bytes
  std::string_view before_;
};

// The places of the first tokens, of `limit` at most, that need no more than `distance` characters
// inserted, removed or replaced to be another, and begin with its first `prefix` bytes.
nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> near_tokens(In<int64_t> offsets, Bytes data,
                                                         Bytes token, int64_t distance,
                                                         int64_t prefix, int64_t limit) {
  const Tokens tokens(offsets, data);
  const std::string_view text(reinterpret_cast<const char*>(token.data()), token.size());
  if (prefix < 0 || prefix > static_cast<int64_t>(text.size()) || distance < 0)
    corrupt("text index: a prefix of " + std::to_string(prefix) + " bytes");
  std::vector<int64_t> places;
  {
    nb::gil_scoped_release release;
    const auto start = text.substr(0, static_cast<size_t>(prefix));
    Distances distances(characters(text), distance);
    // The first token from `first` on of which `is_before` is not true.
    const auto behind = [&](int64_t first, auto is_before) {
      int64_t low = first, high = tokens.count;
      for (int64_t step = 1; low + step < high; step *= 2) {
        if (is_before(tokens[low + step])) {
          low += step;
        } else {
          high = low + step;
        }
      }
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (is_before(tokens[middle]))
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    int64_t i = behind(0, [&](std::string_view other) { return other < start; });
    while (i < tokens.count && static_cast<int64_t>(places.size()) < limit) {
      const std::string_view other = tokens[i];
      if (other.substr(0, start.size()) != start) break;
      size_t dead = 0;
      if (distances.is_near(other, dead)) places.push_back(i);
      const std::string_view far = other.substr(0, dead);
      i = dead ? behind(i, [&](std::string_view next) { return next.substr(0, dead) == far; })
               : i + 1;
    }
  }
  Owned<int64_t> out(static_cast<int64_t>(places.size()));
  std::copy(places.begin(), places.end(), out.data());
  return out.numpy();
}

}  // namespace
}  // namespace alance::text

void register_text_tokens(nanobind::module_& m) {
  namespace nb = nanobind;
  using alance::text::Transducer;
  nb::class_<Transducer>(m, "Transducer")
      .def(nb::init<alance::Bytes, int64_t>(), nb::arg("content"), nb::arg("num_tokens"))
      .def("find", &Transducer::find, nb::arg("asked_offsets"), nb::arg("asked"))
      .def("tokens", &Transducer::tokens, nb::arg("num_bytes"));
  m.def("first_unordered", &alance::text::first_unordered, nb::arg("offsets"), nb::arg("data"));
  m.def("find_tokens", &alance::text::find_tokens, nb::arg("offsets"), nb::arg("data"),
        nb::arg("asked_offsets"), nb::arg("asked"));
  m.def("near_tokens", &alance::text::near_tokens, nb::arg("offsets"), nb::arg("data"),
        nb::arg("token"), nb::arg("distance"), nb::arg("prefix"), nb::arg("limit"));
}
