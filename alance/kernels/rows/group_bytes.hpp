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
  virtual ~Groups() = default;
  // Pieces of a group, concatenated; null if they cannot be read.
  virtual const uint8_t* bring(const RowPlan& plan, size_t group) = 0;
  // Copy the pieces of a group; false if they cannot be read.
  virtual bool copy(const RowPlan& plan, size_t group, uint8_t* out) = 0;
  // Bytes of a group that is a single piece, with their owner; null if they must be copied.
  virtual HeldBytes hold(const RowPlan& plan, size_t group) = 0;
  // Pieces of a group, which need not be contiguous in memory; false if they cannot be read.
  virtual bool bring_pieces(const RowPlan& plan, size_t group, std::vector<Part>& parts) {
    const uint8_t* bytes = bring(plan, group);
    parts.clear();
    for (size_t i = plan.first_piece(group); bytes && i < plan.groups[group].pieces_end; ++i) {
      parts.push_back({bytes, plan.pieces[i].stop - plan.pieces[i].start});
      bytes += parts.back().size;
    }
    return bytes != nullptr;
  }
};

// Groups in memory, one after the other.
class Held : public Groups {
 public:
  explicit Held(const Bytes& content) : content_(content) {}

  const uint8_t* bring(const RowPlan& plan, size_t group) override {
    const int64_t begin = plan.first_byte(group);
    if (plan.groups[group].bytes_end == begin) return &kNoBytes;
    check_span(begin, plan.groups[group].bytes_end - begin, std::ssize(content_), "row batch");
    return content_.data() + begin;
  }

  bool copy(const RowPlan& plan, size_t group, uint8_t* out) override {
    const uint8_t* bytes = bring(plan, group);
    std::copy_n(bytes, plan.groups[group].bytes_end - plan.first_byte(group), out);
    return true;
  }

  HeldBytes hold(const RowPlan& plan, size_t group) override {
    return {bring(plan, group), std::make_shared<const Bytes>(content_)};
  }

 private:
  const Bytes& content_;
};

// Groups that a source reads just before they are decoded.
class Read : public Groups {
 public:
  explicit Read(Source& source) : source_(source) {}

  const uint8_t* bring(const RowPlan& plan, size_t group) override {
    const size_t piece = plan.first_piece(group);
    if (plan.groups[group].pieces_end == piece) return &kNoBytes;
    return source_.read(plan.pieces.data() + piece, plan.groups[group].pieces_end - piece,
                        plan.groups[group].bytes_end - plan.first_byte(group));
  }

  bool copy(const RowPlan& plan, size_t group, uint8_t* out) override {
    const size_t piece = plan.first_piece(group);
    return source_.copy(plan.pieces.data() + piece, plan.groups[group].pieces_end - piece,
                        plan.groups[group].bytes_end - plan.first_byte(group), out);
  }

  HeldBytes hold(const RowPlan& plan, size_t group) override {
    return source_.hold(plan.pieces[plan.first_piece(group)]);
  }

  // Bytes that the source has in memory are not copied.
  bool bring_pieces(const RowPlan& plan, size_t group, std::vector<Part>& parts) override {
    parts.clear();
    for (size_t i = plan.first_piece(group); i < plan.groups[group].pieces_end; ++i) {
      const Piece& piece = plan.pieces[i];
      const uint8_t* bytes = source_.view(piece);
      if (bytes == nullptr) return Groups::bring_pieces(plan, group, parts);
      parts.push_back({bytes, piece.stop - piece.start});
    }
    return true;
  }

 private:
  Source& source_;
};

}  // namespace alance
