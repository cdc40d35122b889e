// Pages whose values are all one item. Their levels are decoded and cut into pieces, which are the
// chunks of the page. If a page has many levels, they are decoded later, by the thread that first
// decodes its rows.
//
// Source: docs/format/file.md, "Constant layout".
#include <algorithm>
#include <mutex>

#include "rows/pages/row_page.hpp"
#include "rows/pages/sparse.hpp"

namespace alance {

using namespace cells;

namespace {

constexpr int64_t kPiece = 4096;  // approximate levels in a piece: the maximum of a chunk
constexpr int64_t kPieceRows = 1 << 16;  // minimum rows in a piece without levels
constexpr int64_t kMostPieces = 1 << 18;  // of a page without levels; they have 8 MiB
constexpr int64_t kFewLevels = int64_t{1} << 22;  // up to so many levels are decoded when the page is learned, in 3 ms
constexpr int64_t kMostPerByte = 256;  // levels of an encoded byte; a run of two bytes has up to 255

}  // namespace

// Encoded levels that are decoded later.
struct RowPage::Later {
  Later(const EncodedLevels& reps, const EncodedLevels& defs) : reps(reps), defs(defs) {
    for (const auto& [levels, bytes] : {std::pair(&this->reps, &of_reps), std::pair(&this->defs, &of_defs)}) {
      bytes->assign(levels->bytes.data, levels->bytes.data + levels->bytes.size);
      levels->bytes.data = bytes->data();
    }
  }
  // Of the encoded levels, and of the decoded ones.
  int64_t num_bytes() const { return reps.bytes.size + defs.bytes.size + 4 * std::max(reps.count, defs.count); }

  EncodedLevels reps, defs;
  std::vector<uint8_t> of_reps, of_defs;
  std::once_flag once;
};

std::unique_ptr<RowPage> RowPage::constant(std::shared_ptr<const PageKind> kind, int64_t num_rows,
                                           const EncodedLevels& reps, const EncodedLevels& defs,
                                           std::optional<Items> item) {
  if (kind->null_level < 0 || kind->null_level > kind->max_level) corrupt("nulls of another level");
  auto page = std::make_unique<RowPage>(std::move(kind), 0, 0, num_rows);
  if (item) page->set_items(*std::move(item));
  int64_t most = 0;
  for (const EncodedLevels* levels : {&reps, &defs}) {
    if (levels->count > kFewLevels && levels->count / kMostPerByte > levels->bytes.size)
      corrupt(text(levels->count) + " levels in " + text(levels->bytes.size) + " bytes");
    most = std::max(most, levels->count);
  }
  if (most <= kFewLevels)
    page->read_levels_of_all(reps, defs);
  else
    page->later_ = std::make_shared<Later>(reps, defs);
  return page;
}

int64_t RowPage::num_bytes() const {
  return static_cast<int64_t>(sizeof(*this) + chunks_.memory() + (has_items() ? items_->memory() : 0)) +
         (later_ ? later_->num_bytes() : 0) + (slots_ ? slots_->num_bytes() : 0);
}

void RowPage::prepare() const {
  if (!later_) return;
  // The first caller decodes the levels; other threads wait for it.
  std::call_once(later_->once, [this] {
    const_cast<RowPage*>(this)->read_levels_of_all(later_->reps, later_->defs);
  });
}

// Decode the levels, and cut them into chunks.
void RowPage::read_levels_of_all(const EncodedLevels& reps, const EncodedLevels& defs) {
  const int64_t count = std::max(reps.count, defs.count);
  const auto decoded = [&](const EncodedLevels& levels, int top, std::vector<uint16_t>& out) {
    if (levels.kind == Nulls::none) return;
    if (levels.count != count)
      corrupt(text(levels.count) + " levels of a kind, " + text(count) + " of the other");
    levels_of(levels.kind, levels.bits, levels.bytes, count, out);
    if (const int most = highest(out.data(), count); most > top)
      corrupt("level " + text(most) + ", the layers have " + text(top));
  };
  ChunkTable pieces;
  decoded(reps, kind_->max_rep, pieces.reps);
  decoded(defs, kind_->max_level, pieces.defs);
  if (is_null()) {  // the page has no value, so entries without a null level are null
    std::vector<uint16_t>& levels = pieces.defs;
    if (count != 0 && levels.empty()) levels.resize(static_cast<size_t>(count));
    const bool is_any = levels.empty() ? num_rows_ != 0 : *std::min_element(levels.begin(), levels.end()) == 0;
    if (is_any && kind_->null_level == 0) corrupt("a page without a value, where none can be null");
    std::replace(levels.begin(), levels.end(), uint16_t{0}, static_cast<uint16_t>(kind_->null_level));
  }
  cut_levels(count, pieces);
  set_chunks(std::move(pieces));
}

// Cut levels into pieces that begin with a row.
void RowPage::cut_levels(int64_t num_entries, ChunkTable& cut) const {
  const int max_rep = kind_->max_rep;
  const bool has_lists = max_rep != 0;
  if (has_lists && cut.reps.empty() && num_rows_ != 0) corrupt("lists without repetition levels");
  int64_t rows = 0, values = 0;
  const auto close = [&](int64_t entry) {
    cut.first_rows.push_back(rows);
    cut.entries.push_back(entry);
    cut.first_values.push_back(values);
    cut.first_bytes.push_back(0);
  };
  close(0);
  if (num_entries == 0 || !has_lists) {  // each row is one entry
    const int64_t piece = num_entries == 0 ? std::max(kPieceRows, num_rows_ / kMostPieces + 1) : kPiece;
    if (num_entries != 0 && num_entries != num_rows_) corrupt(text(num_entries) + " levels of " + text(num_rows_) + " rows");
    for (; rows < num_rows_ - piece; close(rows)) values = rows += piece;
    values = rows = num_rows_;
  } else {
    if (cut.reps[0] != max_rep) corrupt("begins inside a row, expected a new one");
    for (int64_t i = 0; i < num_entries; ++i) {
      const size_t at = static_cast<size_t>(i);
      if (cut.reps[at] == max_rep) {
        if (i - cut.entries.back() >= kPiece) close(i);
        ++rows;
      }
      values += cut.defs.empty() || cut.defs[at] <= kind_->max_visible;
    }
    if (rows != num_rows_) corrupt(text(rows) + " rows begin in its levels, expected " + text(num_rows_));
  }
  close(num_entries != 0 ? num_entries : num_rows_);  // without levels each row is one entry
}

}  // namespace alance
