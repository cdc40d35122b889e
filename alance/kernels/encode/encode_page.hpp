// Pages of leaf columns: from values and levels to the description and buffers of a page.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/proto_out.hpp"
#include "encode/encode.hpp"

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

// Compress bytes: to a frame of Zstandard (level 0 is the default), or to a stream of zlib.
using Compress = std::function<std::string(View, int32_t level)>;

// By a Python function, which is called with the GIL.
Compress compress_of(nb::callable function);

struct StringsView {
  int offset_bytes;  // 4 or 8
  const void* offsets;
  View data;
};

struct Values;
struct ListsIn {
  int64_t dimension;
  std::optional<View> validity;  // bits of the items; empty: all are valid
  std::vector<Values> items;     // the only element
};
struct StructsIn {
  std::vector<Values> children;
};
struct NullsIn {};   // no values: all items are null
struct OthersIn {};  // values that no page holds unless all are null

struct Values {
  int64_t count;
  std::variant<FixedIn, StringsView, ListsIn, StructsIn, NullsIn, OthersIn> kind;
};

struct Levels {
  std::vector<uint8_t> layers;  // enum RepDefLayer, inner-most first
  std::optional<std::span<const uint16_t>> rep, definition;
};

// Owners of the arrays that inputs view.
using Arrays = std::vector<std::shared_ptr<void>>;

// Values from Python by the name of their form: bits and bytes of fixed-width values; offsets and
// bytes of strings; dimension, validity or None, and items of lists; children of structs; nulls.
Values values_of(nb::handle item, Arrays& arrays);

// Layouts that a page may have.
enum class Mode : int {
  kAny,
  kConstant,  // other pages are left to the caller: they are sparse
  kValues,    // chunks of the values, or of indices into a dictionary
  kChunks,    // chunks of the values
  kZipped,
};

struct Input {
  Levels levels;
  Values values;
  std::optional<Values> items;  // items of a dictionary whose indices are `values`
  Options options;
  int minor = 1;  // of the file version, 2.x
  Mode mode = Mode::kAny;
  int64_t zip_bits = 2048;  // a page with a value of so many bits is zipped
};

// Bytes: owned, or a view of what the caller owns.
class Buffer {
 public:
  Buffer(View view) : view_(view) {}
  Buffer(Owned<uint8_t> owned) : Buffer(std::move(owned), -1) {}
  Buffer(Owned<uint8_t> owned, int64_t size) : owned_(std::move(owned)) {
    view_ = {owned_->data(), static_cast<size_t>(size < 0 ? owned_->size() : size)};
  }
  View view() const { return view_; }
  int64_t size() const { return static_cast<int64_t>(view_.size()); }

  // Array of the bytes, which keeps `owner` alive if it is a view.
  nb::object numpy(nb::handle owner) {
    if (owned_) return nb::cast(owned_->numpy(0, size()));
    return nb::cast(Numpy<const uint8_t>(view_.data(), {view_.size()}, owner));
  }

 private:
  std::optional<Owned<uint8_t>> owned_;
  View view_;
};

struct Page {
  std::string layout;           // a PageLayout
  std::vector<Buffer> buffers;  // owned, or views of the input
  int data = -1;                // number of the buffer with chunks or zipped rows
};

// Numbers of the buffers that readers need before they can take rows: all but the data.
std::vector<size_t> search_of(const Page& page);

// Reasons for no page.
enum class NoPage : int {
  kChunkedLater,   // a sparse page, whose values are chunked
  kZippedLater,    // a sparse page, whose values are zipped
  kTooManyLevels,  // in a chunk
};
struct SparseConstant {  // from 2.3 on: one value, or none, for a sparse page
  std::optional<std::string> value;
};

using Result = std::variant<Page, NoPage, SparseConstant>;

// Encode a page. Throws std::overflow_error if values or levels do not fit this version's pages, and
// nb::type_error if no page of this version holds such values.
Result page_of(const Input& input, const Compress& zstd);

}  // namespace alance::pages
