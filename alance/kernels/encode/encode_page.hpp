// Pages of leaf columns: from values and levels to the description and buffers of a page.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/owned.hpp"
#include "base/proto_out.hpp"

namespace alance::pages {

enum class Compression : int { kAuto, kNone, kFsst, kLz4, kZstd };
enum class Split : int { kOff, kOn, kAuto };

// Options in the metadata of a field; see format/encode/options.py.
struct Options {
  Compression compression = Compression::kAuto;
  std::optional<int32_t> level;
  std::optional<double> most_runs;
  Split split = Split::kAuto;
  int64_t chunk_bytes = 4096;
  int64_t dict_divisor = 2;
  double dict_size_ratio = 0.8;
  std::optional<int64_t> dict_max_bytes;
  Compression dict_values = Compression::kLz4;
  std::optional<int32_t> dict_level;
};

// Zstandard frame of bytes; level 0 is the default.
using Zstd = std::function<std::string(std::span<const uint8_t>, int32_t level)>;

using View = std::span<const uint8_t>;

// Fixed-width values, bits LSB first.
struct FixedIn {
  int64_t bits;
  View data;
};
struct StringsView {
  int offset_bytes;  // 4 or 8
  const void* offsets;
  View data;
};
// Rows that are cut into chunks unchanged, in one or more buffers: fixed-size lists, structs.
struct RowsIn {
  std::string encoding;
  int64_t row_bits;           // of all buffers
  std::vector<FixedIn> parts;
};
struct NullsIn {};  // no values: all items are null
struct OthersIn {};  // values that this kernel does not encode unless all are null

struct Values {
  int64_t count;
  std::variant<FixedIn, StringsView, RowsIn, NullsIn, OthersIn> kind;
};

struct Levels {
  std::vector<uint8_t> layers;  // enum RepDefLayer, inner-most first
  std::optional<std::span<const uint16_t>> rep, definition;
};

struct Input {
  Levels levels;
  Values values;
  std::optional<Values> items;  // items of a dictionary whose indices are `values`
  Options options;
  int minor = 1;                // of the file version, 2.x
  bool chunks_only = false;  // values unchanged: no constant, no dictionary
  bool is_sparse = false;  // pages that are not constant are left to the caller
  int64_t zip_bits = 2048;  // pages with a value of so many bits are left to the caller
};

struct Page {
  std::string layout;  // a PageLayout
  std::vector<Owned<uint8_t>> buffers;
  bool has_chunks;  // in the second buffer
};

// Numbers of the buffers that readers need before they can take rows: all but the chunks.
std::vector<size_t> search_of(const Page& page);

struct Unhandled {};  // left to the caller: full-zip pages, sparse values
struct TooManyLevels {};  // in a chunk
struct SparseConstant {  // from 2.3 on: one value, or none, for a sparse page
  std::optional<std::string> value;
};

using Result = std::variant<Page, Unhandled, TooManyLevels, SparseConstant>;

// Dictionary that makes a page smaller: the index of each value, and the items as bytes, or as
// offsets and bytes.
struct DictionaryParts {
  Owned<uint32_t> indices;
  std::vector<Owned<uint8_t>> items;
};
std::optional<DictionaryParts> dictionary_parts(const Input& input);

// Encode a page. Throws std::overflow_error if values or levels do not fit this version's pages.
Result page_of(const Input& input, const Zstd& zstd);

}  // namespace alance::pages
