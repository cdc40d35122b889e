// Bytes of the groups of a row plan: in memory, or read from a source just before they are decoded.
#pragma once
#include <algorithm>
#include <vector>

#include "io/source.hpp"
#include "rows/row_plan.hpp"

namespace alance {

inline constexpr uint8_t kNoBytes = 0;  // for groups without pieces

// Provider of the bytes of groups.
class Groups {
 public:
  // Groups in memory, one after the other.
  Groups(const RowPlan& plan, const Bytes& content) : plan_(plan), content_(&content) {}
  Groups(const RowPlan& plan, Source& source) : plan_(plan), source_(&source) {}

  // Pieces of a group, concatenated; null if they cannot be read.
  const uint8_t* bring(size_t group) const {
    const int64_t begin = plan_.first_byte(group), size = num_bytes(group);
    if (size == 0) return &kNoBytes;
    if (source_ != nullptr) return source_->read(pieces(group), num_pieces(group), size);
    check_span(begin, size, std::ssize(*content_), "row batch");
    return content_->data() + begin;
  }
  // Copy the pieces of a group; false if they cannot be read.
  bool copy(size_t group, uint8_t* out) const {
    if (source_ != nullptr)
      return source_->copy(pieces(group), num_pieces(group), num_bytes(group), out);
    std::copy_n(bring(group), num_bytes(group), out);
    return true;
  }
  // Bytes of a group that is a single piece, with their owner; null if they must be copied.
  HeldBytes hold(size_t group) const {
    if (source_ != nullptr) return source_->hold(*pieces(group));
    return {bring(group), std::make_shared<const Bytes>(*content_)};
  }
  // Pieces of a group, which need not be contiguous in memory; false if they cannot be read. Bytes
  // that the source has in memory are not copied.
  bool bring_pieces(size_t group, std::vector<Part>& parts) const {
    parts.clear();
    const Piece *first = pieces(group), *last = first + num_pieces(group);
    for (const Piece* piece = first; source_ != nullptr && piece != last; ++piece) {
      const uint8_t* bytes = source_->view(*piece);
      if (bytes == nullptr) break;
      parts.push_back({bytes, piece->stop - piece->start});
    }
    if (parts.size() == num_pieces(group)) return true;
    parts.clear();
    const uint8_t* bytes = bring(group);
    for (const Piece* piece = first; bytes != nullptr && piece != last; ++piece) {
      parts.push_back({bytes, piece->stop - piece->start});
      bytes += parts.back().size;
    }
    return bytes != nullptr;
  }

 private:
  const Piece* pieces(size_t group) const { return plan_.pieces.data() + plan_.first_piece(group); }
  size_t num_pieces(size_t group) const {
    return plan_.groups[group].pieces_end - plan_.first_piece(group);
  }
  int64_t num_bytes(size_t group) const {
    return plan_.groups[group].bytes_end - plan_.first_byte(group);
  }

  const RowPlan& plan_;
  const Bytes* content_ = nullptr;
  Source* source_ = nullptr;
};

}  // namespace alance
