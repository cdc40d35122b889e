// Posting list in memory for searches: documents, their term weights, and the maximum weight of
// each block, for block-max pruning (see text_search.cpp).
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "base/owned.hpp"
#include "text/text_blocks.hpp"

namespace alance::text {

constexpr int64_t kBounded = 128;  // documents of a block, which share an upper bound

// Array that is written once, and then read; large arrays reuse the memory of freed ones.
template <typename T>
class Frozen : public Owned<T> {
 public:
  using Owned<T>::Owned;
  using Owned<T>::data;
  const T* data() const { return const_cast<Frozen*>(this)->data(); }
};

class PostingList {
 public:
  // Weights for a mean length, with frequencies and lengths multiplied by `times`: the weight in
  // each document without idf, and the greatest of each block.
  struct Weights {
    float mean_length, times;
    Frozen<float> values;
    std::vector<float> greatest;
  };

  // Documents ascend; `positions` are those of all documents in turn, or none.
  PostingList(const uint32_t* docs, const uint32_t* frequencies, int64_t size,
              const uint32_t* positions, int64_t num_positions)
      : docs_(size), few_(0), many_(0), positions_(num_positions) {
    std::copy(docs, docs + size, docs_.data());
    std::copy(positions, positions + num_positions, positions_.data());
    int64_t total = 0;
    uint32_t greatest = 0;
    for (int64_t i = 0; i < size; ++i) {
      if (i && docs[i] <= docs[i - 1]) corrupt("text index: documents out of order");
      total += frequencies[i];
      greatest = std::max(greatest, frequencies[i]);
    }
    if (num_positions && num_positions != total)
      corrupt("text index: " + std::to_string(num_positions) + " positions of " +
              std::to_string(total));
    // Few lists need more than a byte for a frequency.
    if (greatest <= UINT8_MAX) {
      few_ = Frozen<uint8_t>(size);
      std::copy(frequencies, frequencies + size, few_.data());
    } else {
      many_ = Frozen<uint32_t>(size);
      std::copy(frequencies, frequencies + size, many_.data());
    }
    for (int64_t start = 0; start < size; start += kBounded)
      lasts_.push_back(docs[std::min(size, start + kBounded) - 1]);
    size_t begin = 0;
    for (int64_t i = 0; has_positions() && i < size; ++i) {
      if (i % kBounded == 0) begins_.push_back(begin);
      begin += frequencies[i];
    }
  }

  int64_t size() const { return docs_.size(); }
  bool has_positions() const { return positions_.size() > 0; }
  const uint32_t* docs() const { return docs_.data(); }
  const uint32_t* lasts() const { return lasts_.data(); }
  // Positions in document `i`, as many as its frequency.
  const uint32_t* positions(int64_t i) const {
    size_t begin = begins_[static_cast<size_t>(i / kBounded)];
    for (int64_t before = i - i % kBounded; before < i; ++before) begin += frequency(before);
    return positions_.data() + begin;
  }
  int64_t num_blocks() const { return static_cast<int64_t>(lasts_.size()); }
  uint32_t frequency(int64_t i) const { return many_.size() ? many_.data()[i] : few_.data()[i]; }

  // Bytes of memory, with those of the weights.
  int64_t num_bytes() const {
    return static_cast<int64_t>(sizeof *this + 8 * lasts_.size() + 8 * begins_.size()) +
           8 * docs_.size() + few_.size() + 4 * many_.size() + 4 * positions_.size();
  }

  // Weights, kept until another mean length is asked for. All documents are below the end of
  // `lengths`. Thread-safe.
  std::shared_ptr<const Weights> weights(const uint32_t* lengths, float mean_length, float times) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (weights_ && weights_->mean_length == mean_length && weights_->times == times)
      return weights_;
    auto computed =
        std::make_shared<Weights>(Weights{mean_length, times, Frozen<float>(size()), {}});
    for (int64_t block = 0, i = 0; block < num_blocks(); ++block) {
      float greatest = 0;
      for (const int64_t stop = std::min(size(), i + kBounded); i < stop; ++i) {
        const float length = times * static_cast<float>(lengths[docs_.data()[i]]);
        const float value = weight_of(times * static_cast<float>(frequency(i)), length, mean_length);
        computed->values[i] = value;
        greatest = std::max(greatest, value);
      }
      computed->greatest.push_back(greatest);
    }
    weights_ = computed;
    return weights_;
  }

 private:
  Frozen<uint32_t> docs_;
  Frozen<uint8_t> few_;  // frequencies if all fit a byte, else in `many_`
  Frozen<uint32_t> many_, positions_;
  std::vector<uint32_t> lasts_;
  std::vector<size_t> begins_;  // start of each block in the positions
  std::mutex mutex_;
  std::shared_ptr<const Weights> weights_;
};

// Posting lists that Python passes; valid as long as Python holds them.
inline std::vector<PostingList*> lists_of(const nb::list& lists) {
  std::vector<PostingList*> out;
  for (nb::handle list : lists) out.push_back(nb::cast<PostingList*>(list));
  return out;
}

}  // namespace alance::text
