// Pages of leaf columns: values and levels to the description and the buffers of a page.
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

// What the metadata of a field ask for: format/encode/options.py.
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

// One frame of Zstandard; level 0 is the default.
using Zstd = std::function<std::string(std::span<const uint8_t>, int32_t level)>;

using View = std::span<const uint8_t>;

// Values of fixed width, bits LSB first.
struct FixedIn {
  int64_t bits;
  View data;
};
struct StringsView {
  int offset_bytes;  // 4 or 8
  const void* offsets;
  View data;
};
// Rows that are cut into chunks as they are, in one or more buffers: fixed-size lists, structs.
struct RowsIn {
  std::string encoding;
  int64_t row_bits;           // of all buffers
  std::vector<FixedIn> parts;
};
struct NullsIn {};   // there are no values
struct OthersIn {};  // that pages of this kernel do not hold, unless all of them are null

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
  std::optional<Values> items;  // of a dictionary, whose indices `values` are
  Options options;
  int minor = 1;                // of the file version, 2.x
  bool chunks_only = false;     // as they are: no constant, no dictionary
  bool is_sparse = false;       // what is not constant is left to the caller
  int64_t zip_bits = 2048;      // values that have one of so many bits are left to the caller
};

struct Page {
  std::string layout;  // a PageLayout
  std::vector<Owned<uint8_t>> buffers;
  bool has_chunks;     // which are the second buffer
};

// The buffers that readers need before they can take rows: all but the chunks.
std::vector<size_t> search_of(const Page& page);

struct Left {};           // to the caller: full-zip pages, sparse values
struct TooManyLevels {};  // in a chunk
struct SparseConstant {   // from 2.3 on: one value, or none, and the structure of a sparse page
  std::optional<std::string> value;
};

using Result = std::variant<Page, Left, TooManyLevels, SparseConstant>;

// A dictionary that makes a page of the values smaller: their numbers, and the items as their bytes,
// or as offsets and bytes.
struct DictionaryParts {
  Owned<uint32_t> indices;
  std::vector<Owned<uint8_t>> items;
};
std::optional<DictionaryParts> dictionary_parts(const Input& input);

// Throws std::overflow_error where values or levels do not fit into the pages of this version.
Result page_of(const Input& input, const Zstd& zstd);

}  // namespace alance::pages
