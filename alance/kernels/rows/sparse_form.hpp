// Description of sparse pages: their layers, and where their buffers are.
#pragma once
#include "rows/pages/sparse.hpp"

namespace alance::sparse {

// A set as Python describes it: a sequence and its count. A layer: true if the listed slots are valid,
// the listed slots, dimension, number of children (below 0: no list), slots with children, their counts.
using DescribedSet = std::pair<sequences::DescribedSequence, int64_t>;
using DescribedLayer = std::tuple<bool, DescribedSet, int64_t, int64_t, DescribedSet, DescribedSet>;

// Encoding of the indices of slots: a sequence, or runs.
struct IndexForm {
  std::optional<sequences::Sequence> sequence;
  std::optional<sequences::CodedRuns> runs;

  std::vector<uint32_t> decode(Part bytes, int64_t count) const {
    if (count > kMostNumbers) corrupt("sparse: " + text(count) + " indices, at most " + text(kMostNumbers));
    std::vector<uint32_t> indices;
    if (sequence) {
      const std::vector<int64_t> numbers = sequence->decode(bytes, count);
      indices.assign(numbers.begin(), numbers.end());  // the encoding has 32 bits
    } else {
      const auto [values, lengths] = sequences::two_parts(bytes, "rle");
      indices.resize(static_cast<size_t>(count));
      runs->expand(values, lengths, count, reinterpret_cast<uint8_t*>(indices.data()));
    }
    return indices;
  }
};

struct Form {
  std::vector<LayerForm> layers;
  Slots::Values values;
  size_t num_value_buffers;
  IndexForm indices{};

  static Form of(const std::vector<DescribedLayer>& described, int values, size_t num_value_buffers) {
    if (values < Slots::kEach || values > Slots::kIndexed) corrupt("sparse: values of an unknown form");
    Form form{{}, static_cast<Slots::Values>(values), num_value_buffers};
    for (const auto& [means_valid, listed, dimension, num_children, non_empty, counts] : described)
      form.layers.push_back({means_valid, set_of(listed), dimension, num_children >= 0, num_children, set_of(non_empty),
                             set_of(counts)});
    return form;
  }

  // Number of sets with a buffer.
  size_t num_payloads() const {
    size_t count = 0;
    for (const LayerForm& layer : layers)
      count += layer.listed.codec.has_payload() +
               (layer.is_list ? layer.non_empty.codec.has_payload() + layer.counts.codec.has_payload() : 0);
    return count;
  }

  // `sets`: buffers of the sets.
  Structure structure(int64_t num_rows, const std::vector<Part>& sets) const { return {layers, num_rows, sets}; }

 private:
  static SetForm set_of(const DescribedSet& set) {
    const SetForm form{sequences::Sequence::of(set.first), set.second};
    if (form.codec.bits() != 64 || form.count < 0) corrupt("sparse: a set of an unknown form");
    return form;
  }
};

}  // namespace alance::sparse
