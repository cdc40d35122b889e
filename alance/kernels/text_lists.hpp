// A posting list as searches want it: documents, what the token weighs in each, and the greatest
// weight of each block, so that blocks that cannot win are passed over.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "text_blocks.hpp"

namespace alance::text {

constexpr int64_t kBounded = 128;  // documents that share a bound

class PostingList {
 public:
  // By the lengths of the documents: of each the weight without that of the word, and the greatest
  // of each block.
  struct Weights {
    float mean_length;
    std::vector<float> values, greatest;
  };

  // Documents ascending; positions of all of them in turn, or none.
  PostingList(In<uint32_t> docs, In<uint32_t> frequencies, In<uint32_t> positions)
      : docs_(docs.data(), docs.data() + docs.size()),
        positions_(positions.data(), positions.data() + positions.size()) {
    if (docs.size() != frequencies.size()) corrupt("text index: frequencies of other documents");
    uint64_t total = 0;
    uint32_t greatest = 0;
    for (size_t i = 0; i < docs_.size(); ++i) {
      if (i && docs_[i] <= docs_[i - 1]) corrupt("text index: documents out of order");
      total += frequencies.data()[i];
      greatest = std::max(greatest, frequencies.data()[i]);
    }
    if (positions.size() && positions.size() != total)
      corrupt("text index: " + std::to_string(positions.size()) + " positions of " +
              std::to_string(total));
    // Hardly a list needs more than a byte each.
    if (greatest <= UINT8_MAX)
      few_.assign(frequencies.data(), frequencies.data() + frequencies.size());
    else
      many_.assign(frequencies.data(), frequencies.data() + frequencies.size());
    for (int64_t start = 0; start < size(); start += kBounded)
      lasts_.push_back(docs_[static_cast<size_t>(std::min(size(), start + kBounded)) - 1]);
    size_t begin = 0;
    for (int64_t i = 0; has_positions() && i < size(); ++i) {
      if (i % kBounded == 0) begins_.push_back(begin);
      begin += frequency(i);
    }
  }

  int64_t size() const { return static_cast<int64_t>(docs_.size()); }
  bool has_positions() const { return !positions_.empty(); }
  const uint32_t* docs() const { return docs_.data(); }
  const uint32_t* lasts() const { return lasts_.data(); }
  // The positions of document `i`, of which there are as many as its frequency.
  const uint32_t* positions(int64_t i) const {
    size_t begin = begins_[static_cast<size_t>(i / kBounded)];
    for (int64_t before = i - i % kBounded; before < i; ++before) begin += frequency(before);
    return positions_.data() + begin;
  }
  int64_t num_blocks() const { return static_cast<int64_t>(lasts_.size()); }
  uint32_t frequency(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return many_.empty() ? few_[at] : many_[at];
  }

  // Memory, with the weights.
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof *this + 8 * docs_.size() + few_.size() + 4 * many_.size() +
                                8 * lasts_.size() + 4 * positions_.size() +
                                8 * begins_.size());
  }

  // Kept until another mean is asked for. All documents are below the end of `lengths`. Threads
  // may ask at once.
  std::shared_ptr<const Weights> weights(const uint32_t* lengths, float mean_length) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (weights_ && weights_->mean_length == mean_length) return weights_;
    auto made = std::make_shared<Weights>();
    made->mean_length = mean_length;
    made->values.resize(docs_.size());
    made->greatest.resize(lasts_.size());
    for (int64_t i = 0; i < size(); ++i) {
      const auto at = static_cast<size_t>(i);
      const auto length = static_cast<float>(lengths[docs_[at]]);
      const float value = weight_of(static_cast<float>(frequency(i)), length, mean_length);
      made->values[at] = value;
      float& greatest = made->greatest[at / kBounded];
      greatest = std::max(greatest, value);
    }
    weights_ = made;
    return weights_;
  }

 private:
  std::vector<uint32_t> docs_, lasts_, many_, positions_;
  std::vector<uint8_t> few_;
  std::vector<size_t> begins_;  // of each block, in the positions
  std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
};

// The lists that Python gives; they live as long as it holds them.
inline std::vector<PostingList*> lists_of(const nb::list& lists) {
  std::vector<PostingList*> out;
  for (nb::handle list : lists) out.push_back(nb::cast<PostingList*>(list));
  return out;
}

}  // namespace alance::text
