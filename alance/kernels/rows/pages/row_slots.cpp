// Pages of 2.3: chunks that are recoded, and values of sparse structures.
#include "rows/pages/chunk_coding.hpp"
#include "rows/pages/row_page.hpp"
#include "rows/pages/sparse.hpp"

namespace alance {

int RowPage::num_value_buffers() const { return coding_ ? coding_->num_buffers() : values_ == Values::runs ? 2 : 1; }

void RowPage::recode(Chunk& chunk, std::vector<uint8_t>& content) const {
  const bool has_second = coding_->num_buffers() == 2;
  const Part first = has_second ? chunk.first : Part{};
  std::vector<uint8_t> recoded = coding_->runs ? coding_->flat(first, chunk.second, chunk.values)
                                               : coding_->strings(first, chunk.second, chunk.values);
  content.swap(recoded);
  chunk.first = {content.data(), static_cast<int64_t>(content.size())};
}

void RowPage::decode_levels(Chunk& chunk, Sink::Content& content) const {
  const auto decode = [&](const std::shared_ptr<const WordCoding>& coding, Part& levels, std::vector<uint8_t>& words) {
    if (!coding) return;
    words = coding->words(levels, chunk.entries);
    levels = {words.data(), static_cast<int64_t>(words.size())};
  };
  if (reps_ != Nulls::none) decode(coded_reps_, chunk.reps, content.reps);
  if (nulls_ != Nulls::none) decode(coded_defs_, chunk.nulls, content.defs);
}

void RowPage::set_slots(std::shared_ptr<const sparse::Slots> slots) {
  slots_ = std::move(slots);
  slots_bytes_ = slots_->num_bytes();
  num_rows_ = slots_->structure.num_rows();
}

}  // namespace alance
