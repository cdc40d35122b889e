// Reader and writer of an inverted index's dictionary: an acyclic finite-state transducer from
// tokens to numbers, in the format of the Rust crate `fst` (docs.rs/fst). It is nearly minimal: the
// writer's memory of finished nodes is bounded, so a few equal nodes are written twice.
//
// Source: J. Daciuk et al., "Incremental Construction of Minimal Acyclic Finite-State Automata",
// 2000.
#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hashes.hpp"
#include "text/text_tokens.hpp"

namespace alance::text {
namespace {

// Inputs that the state byte of a node can name, instead of a byte of their own.
constexpr char kCommon[] = "te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";
constexpr int64_t kHeader = 16, kTrailer = 20;

// Checksum CRC-32C of the first bytes, masked.
uint32_t checksum_of(const uint8_t* data, int64_t size) {
  const uint32_t sum = hashes::crc<0x82F63B78>(
      {reinterpret_cast<const char*>(data), static_cast<size_t>(size)});
  return std::rotr(sum, 15) + 0xa282ead8u;
}

uint64_t little(const uint8_t* at, int64_t size) {
  uint64_t value = 0;
  for (int64_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

// Node of a transducer. Its address is that of its last byte, and it is read backward.
struct Node {
  int64_t num = 0;  // transitions
  bool is_final = false;
  uint64_t final_output = 0;
  int64_t inputs = 0, deltas = 0, outputs = 0;  // positions of those of the first transition
  int64_t delta_width = 0, output_width = 0;
  int64_t low = 0;      // the node's first byte
  int common = -1;      // index in kCommon of the only input; -1: inputs have bytes
  bool is_next = false;  // the target's last byte is right below this node

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
  int64_t below = at;  // lowest byte that was read
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
  int64_t next;  // number of the next transition
  uint64_t output;  // sum of outputs up to the node
};

class Transducer {
 public:
  Transducer(Bytes content, int64_t num_tokens)
      : content_(content), data_(content.data()), num_tokens_(num_tokens) {
    const int64_t size = std::ssize(content);
    if (num_tokens < 0 || num_tokens > UINT32_MAX || size < kHeader + kTrailer ||
        little(data_, 8) != 3 ||
        little(data_ + size - 20, 8) != static_cast<uint64_t>(num_tokens))
      corrupt("text index: no dictionary of ", num_tokens, " tokens");
    if (little(data_ + size - 4, 4) != checksum_of(data_, size - 4))
      corrupt("text index: the dictionary's checksum is another one");
    const uint64_t root = little(data_ + size - 12, 8);
    if (root >= static_cast<uint64_t>(size - kTrailer) && root)
      corrupt("text index: a node of the dictionary outside of it");
    root_ = static_cast<int64_t>(root);
  }

  Owned<int64_t> find(const In<int64_t>& query_offsets, const Bytes& query_data) const {
    const Tokens queries(query_offsets, query_data);
    Owned<int64_t> numbers(queries.count);
    for (int64_t i = 0; i < queries.count; ++i) numbers[i] = number_of(queries[i]);
    return numbers;
  }

  std::tuple<Owned<int64_t>, Owned<uint8_t>, Owned<uint32_t>> tokens(int64_t num_bytes) const {
    if (num_bytes < 0 || num_bytes >> 16 > num_tokens_)
      corrupt("text index: a dictionary of ", num_bytes, " bytes");
    std::vector<int64_t> offsets{0};
    std::vector<uint8_t> keys;
    std::vector<uint32_t> numbers;
    std::vector<Step> path;
    std::vector<uint8_t> key;
    // Every node must lead to a key: so the work is bounded by the bytes of all keys.
    const auto enter = [&](int64_t address, uint64_t output) {
      const Node node = node_at(data_, address);
      if (node.is_final) {
        const uint64_t number = output + node.final_output;
        keys.insert(keys.end(), key.begin(), key.end());
        if (std::ssize(numbers) >= num_tokens_ || std::ssize(keys) > num_bytes ||
            number > UINT32_MAX)
          corrupt("text index: more tokens than the dictionary says");
        numbers.push_back(static_cast<uint32_t>(number));
        offsets.push_back(std::ssize(keys));
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
      if (std::ssize(key) > num_bytes)
        corrupt("text index: a token longer than the dictionary says");
      const uint64_t output = step.output + step.node.output(data_, k);
      const int64_t target = step.node.target(data_, k);
      if (target >= step.node.low) corrupt("text index: a node of the dictionary leads back");
      enter(target, output);
    }
    if (std::ssize(numbers) != num_tokens_)
      corrupt("text index: fewer tokens than the dictionary says");
    return {owned_of(offsets), owned_of(keys), owned_of(numbers)};
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
      corrupt("text index: token ", number, " of ", num_tokens_);
    return static_cast<int64_t>(number);
  }

  Bytes content_;  // holds the bytes
  const uint8_t* data_;
  int64_t num_tokens_;
  int64_t root_ = 0;
};

// --- Writing: nodes and bytes are those of the `fst` crate ---

struct Transition {
  uint8_t input;
  uint64_t output;
  int64_t target;
  bool operator==(const Transition&) const = default;
};

struct NewNode {
  bool is_final = false;
  uint64_t final_output = 0;
  std::vector<Transition> transitions;
  bool operator==(const NewNode&) const = default;
};

// Memo of written nodes, so that equal nodes are written once. Each bucket of the hash table holds
// two nodes and evicts the older one: memory is bounded, and few nodes are written twice. Size and
// hash are those of the `fst` crate, so that the bytes are the same as pylance's.
class WrittenNodes {
 public:
  WrittenNodes() : cells_(2 * kBuckets) {}

  // Address of a node, to read or to set; 0 if the node is not written yet.
  int64_t& address(const NewNode& node) {
    Cell* pair = cells_.data() + 2 * (hash(node) % kBuckets);
    if (pair[0].address && pair[0].node == node) return pair[0].address;
    std::swap(pair[0], pair[1]);
    if (!(pair[0].address && pair[0].node == node)) pair[0] = {node, 0};
    return pair[0].address;
  }

 private:
  static constexpr uint64_t kBuckets = 10'000;
  struct Cell {
    NewNode node;
    int64_t address = 0;
  };

  static uint64_t hash(const NewNode& node) {
    uint64_t value = 14695981039346656037u;
    const auto add = [&](uint64_t number) { value = (value ^ number) * 1099511628211u; };
    add(node.is_final);
    add(node.final_output);
    for (const Transition& each : node.transitions) {
      add(each.input);
      add(each.output);
      add(static_cast<uint64_t>(each.target));
    }
    return value;
  }

  std::vector<Cell> cells_;
};

int width_of(uint64_t value) {
  int width = 1;
  while (value >>= 8) ++width;
  return width;
}

class TransducerWriter {
 public:
  TransducerWriter() : open_(1) {
    put(3, 8);  // the version
    put(0, 8);  // the type
  }

  // Add a token; tokens ascend.
  void add(std::string_view token, uint64_t number) {
    ++num_tokens_;
    size_t shared = 0;  // bytes in common with the previous token
    for (; shared < token.size(); ++shared) {
      Open& node = open_[shared];
      if (!node.is_pending || node.pending.input != static_cast<uint8_t>(token[shared])) break;
      // The output common to both tokens stays here, the surplus moves to the transitions behind.
      const uint64_t common = std::min(node.pending.output, number);
      const uint64_t surplus = node.pending.output - common;
      number -= common;
      node.pending.output = common;
      if (!surplus) continue;
      Open& behind = open_[shared + 1];
      if (behind.node.is_final) behind.node.final_output += surplus;
      for (Transition& each : behind.node.transitions) each.output += surplus;
      if (behind.is_pending) behind.pending.output += surplus;
    }
    close(shared);
    for (size_t i = shared; i < token.size(); ++i) {
      open_.back().pending = {static_cast<uint8_t>(token[i]), i == shared ? number : 0, 0};
      open_.back().is_pending = true;
      open_.emplace_back();
    }
    open_.back().node.is_final = true;
    if (token.empty()) open_.back().node.final_output = number;
  }

  std::vector<uint8_t> finish() {
    close(0);
    const int64_t root = written(open_.back().node);
    put(num_tokens_, 8);
    put(static_cast<uint64_t>(root), 8);
    put(checksum_of(out_.data(), std::ssize(out_)), 4);
    return std::move(out_);
  }

 private:
  // Node on the way to the last token; its last transition leads to the next such node.
  struct Open {
    NewNode node;
    Transition pending{};
    bool is_pending = false;
  };

  // Write all open nodes except the first `depth + 1`.
  void close(size_t depth) {
    while (open_.size() > depth + 1) {
      const int64_t target = written(open_.back().node);
      open_.pop_back();
      Open& before = open_.back();
      before.pending.target = target;
      before.node.transitions.push_back(before.pending);
      before.is_pending = false;
    }
  }

  int64_t written(const NewNode& node) {
    if (node.is_final && node.transitions.empty() && !node.final_output) return 0;
    int64_t& address = nodes_.address(node);
    if (!address) {
      write(node);
      address = last_ = std::ssize(out_) - 1;
    }
    return address;
  }

  void write(const NewNode& node) {
    const int64_t start = std::ssize(out_);
    const auto& transitions = node.transitions;
    const auto delta = [&](const Transition& each) {
      return each.target ? static_cast<uint64_t>(start - each.target) : 0;
    };
    if (transitions.size() == 1 && !node.is_final) {
      const Transition& only = transitions[0];
      const bool is_next = only.target == last_ && !only.output;
      const int output_width = only.output ? width_of(only.output) : 0;
      if (!is_next) {
        const int delta_width = width_of(delta(only));
        put(only.output, output_width);
        put(delta(only), delta_width);
        put(static_cast<uint64_t>(delta_width << 4 | output_width), 1);
      }
      const auto place = std::string_view(kCommon).find(static_cast<char>(only.input));
      const bool is_common = place != std::string_view::npos;
      if (!is_common) put(only.input, 1);
      put((is_next ? 0xC0 : 0x80) | (is_common ? place + 1 : 0), 1);
      return;
    }
    int delta_width = 0, output_width = node.final_output ? width_of(node.final_output) : 0;
    for (const Transition& each : transitions) {
      delta_width = std::max(delta_width, width_of(delta(each)));
      if (each.output) output_width = std::max(output_width, width_of(each.output));
    }
    if (node.is_final) put(node.final_output, output_width);
    const auto backward = [&](auto put_part) {
      std::for_each(transitions.rbegin(), transitions.rend(), put_part);
    };
    backward([&](const Transition& each) { put(each.output, output_width); });
    backward([&](const Transition& each) { put(delta(each), delta_width); });
    backward([&](const Transition& each) { put(each.input, 1); });
    const size_t count = transitions.size();
    if (count > 32) {
      const size_t table = out_.size();
      out_.resize(table + 256, 255);
      for (size_t k = 0; k < count; ++k) out_[table + transitions[k].input] = uint8_t(k);
    }
    put(static_cast<uint64_t>(delta_width << 4 | output_width), 1);
    if (!count || count > 63) put(count == 256 ? 1 : count, 1);
    put((node.is_final ? 64 : 0) | (count > 63 ? 0 : count), 1);
  }

  void put(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }

  std::vector<uint8_t> out_;
  std::vector<Open> open_;  // from the root on
  WrittenNodes nodes_;
  int64_t last_ = 1;  // address of the last written node
  uint64_t num_tokens_ = 0;
};

Owned<uint8_t> encode_transducer(const In<int64_t>& offsets, const Bytes& data,
                                 const In<uint32_t>& numbers) {
  const Tokens tokens(offsets, data);
  if (tokens.count != std::ssize(numbers))
    corrupt("text index: ", tokens.count, " tokens, ", numbers.size(), " numbers");
  TransducerWriter writer;
  for (int64_t i = 0; i < tokens.count; ++i) {
    if (tokens.offsets[i] > tokens.offsets[i + 1] || (i && tokens[i - 1] >= tokens[i]))
      corrupt("text index: token ", i, " is not behind the one before it");
    writer.add(tokens[i], numbers.data()[i]);
  }
  return owned_of(writer.finish());
}

}  // namespace
}  // namespace alance::text

void register_text_transducer(nanobind::module_& m) {
  using namespace alance;
  using text::Transducer;
  nb::class_<Transducer>(m, "Transducer")
      .def(nb::init<Bytes, int64_t>(), "content"_a, "num_tokens"_a, NoGil())
      .def("find", &Transducer::find, "query_offsets"_a, "query_data"_a)
      .def("tokens", &Transducer::tokens, "num_bytes"_a, NoGil());
  m.def("encode_transducer", &text::encode_transducer, "offsets"_a, "data"_a, "numbers"_a, NoGil());
}
