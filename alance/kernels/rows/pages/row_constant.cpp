// Pages whose values are all one item. Their levels are decoded and cut into pieces, which are the
// chunks of the page. If a page has many levels, they are decoded later, by the thread that first
// decodes its rows.
//
// Source: docs/format/file.md, "Constant layout".
#include <algorithm>

#include "rows/pages/row_page.hpp"

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

  EncodedLevels reps, defs;
  std::vector<uint8_t> of_reps, of_defs;
  std::once_flag once;
};

std::unique_ptr<RowPage> RowPage::constant(int64_t num_rows, const EncodedLevels& reps,
                                           const EncodedLevels& defs, const PageKind& kind,
                                           int null_level, bool is_null) {
  if (null_level < 0 || null_level > kind.max_level) corrupt("nulls of another level");
  const std::vector<int64_t> rows{0, num_rows}, bytes{0, 0};
  std::unique_ptr<RowPage> page(new RowPage(rows, bytes, 0, 0, num_rows, kind));
  page->is_null_ = is_null;
  page->null_level_ = null_level;
  page->max_rep_ = kind.max_rep;
  page->max_visible_ = kind.max_visible;
  int64_t most = 0;
  for (const EncodedLevels* levels : {&reps, &defs}) {
    if (levels->count > kFewLevels && levels->count / kMostPerByte > levels->bytes.size)
      corrupt(text(levels->count) + " levels in " + text(levels->bytes.size) + " bytes");
    most = std::max(most, levels->count);
  }
  if (most <= kFewLevels)
    page->read_levels_of_all(reps, defs);
  else
    page->later_.reset(new Later(reps, defs));
  return page;
}

void RowPage::free_later(Later* later) { delete later; }
int64_t RowPage::later_bytes() const {  // of the encoded levels, and of the decoded ones
  if (!later_) return 0;
  const int64_t count = std::max(later_->reps.count, later_->defs.count);
  return later_->reps.bytes.size + later_->defs.bytes.size + 4 * count;
}

void RowPage::prepare() const {
  if (!later_) return;
  // The first caller decodes the levels; other threads wait for it.
  std::call_once(later_->once, [this] {
    const_cast<RowPage*>(this)->read_levels_of_all(later_->reps, later_->defs);
  });
}

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
  cut_ = {};
  decoded(reps, max_rep_, cut_.reps);
  decoded(defs, max_level_, cut_.defs);
  if (is_null_) {  // the page has no value, so entries without a null level are null
    std::vector<uint16_t>& levels = cut_.defs;
    if (count != 0 && levels.empty()) levels.resize(static_cast<size_t>(count));
    const bool is_any = levels.empty() ? num_rows_ != 0 : *std::min_element(levels.begin(), levels.end()) == 0;
    if (is_any && null_level_ == 0) corrupt("a page without a value, where none can be null");
    std::replace(levels.begin(), levels.end(), uint16_t{0}, static_cast<uint16_t>(null_level_));
  }
  cut_levels(count);
}

// Cut levels into pieces that begin with a row.
void RowPage::cut_levels(int64_t num_entries) {
  const int max_rep = max_rep_;
  Cut& cut = cut_;
  const bool has_lists = max_rep != 0;
  if (has_lists && cut.reps.empty() && num_rows_ != 0) corrupt("lists without repetition levels");
  int64_t rows = 0, values = 0;
  const auto close = [&](int64_t entry) {
    cut.rows.push_back(rows);
    cut.entries.push_back(entry);
    cut.values.push_back(values);
    cut.bytes.push_back(0);
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
      values += cut.defs.empty() || cut.defs[at] <= max_visible_;
    }
    if (rows != num_rows_) corrupt(text(rows) + " rows begin in its levels, expected " + text(num_rows_));
  }
  close(num_entries != 0 ? num_entries : num_rows_);  // without levels each row is one entry
  first_rows_ = cut.rows;
  first_bytes_ = cut.bytes;
  if (has_lists) first_values_ = cut.values;
  num_chunks_ = static_cast<int64_t>(cut.rows.size()) - 1;
  reps_ = has_lists ? Nulls::flat : Nulls::none;
  nulls_ = cut.defs.empty() ? Nulls::none : Nulls::flat;
}

}  // namespace alance
