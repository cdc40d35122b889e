// Chunks and dictionaries of a page's values, which encode_page.cpp assembles to pages.
#pragma once
#include "encode/encode.hpp"
#include "encode/encode_page.hpp"

namespace alance::pages {

constexpr int64_t kPackedValues = 1024;  // values of one bit-packed block
constexpr int64_t kRowBytes = 128;  // bytes of such a block for each bit of width

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw std::overflow_error(message_of(parts...));
}

// --- descriptions: message CompressiveEncoding ---

inline ProtoOut flat(int64_t bits) {
  return ProtoOut().message(1, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
inline ProtoOut packed_apart(int64_t bits, int width) {
  return ProtoOut().message(
      4, ProtoOut().number(1, static_cast<uint64_t>(bits)).message(3, flat(width)));
}
inline ProtoOut packed_inline(int64_t bits) {
  return ProtoOut().message(5, ProtoOut().number(1, static_cast<uint64_t>(bits)));
}
inline ProtoOut runs(int64_t bits) {
  return ProtoOut().message(8, ProtoOut().message(1, flat(bits)).message(2, flat(8)));
}

ProtoOut variable(int offset_bits);
ProtoOut fsst(std::string_view table, const ProtoOut& values);
ProtoOut general(Compression scheme, std::optional<int32_t> level, const ProtoOut& values);

// --- buffers ---

inline Owned<uint8_t> copy_of(View view) {
  Owned<uint8_t> out(static_cast<int64_t>(view.size()));
  if (!view.empty()) std::memcpy(out.data(), view.data(), view.size());
  return out;
}

template <typename T>
View bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}
inline View bytes_of(std::string_view text) { return bytes_of(std::span(text)); }

inline Owned<uint8_t> copy_of(std::string_view text) { return copy_of(bytes_of(text)); }

inline int64_t largest(const Sizes& sizes) {
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

// Values encoded in chunks; part b of chunk c has `sizes[b][c]` bytes.
struct Chunks {
  ProtoOut encoding;
  Sizes counts;  // values of each chunk
  std::vector<Buffer> buffers;
  std::vector<Sizes> sizes;
};

struct Dictionary {
  Owned<uint32_t> indices;
  Values items;
  std::vector<Buffer> buffers;  // memory of the items
};

// Block of values and its description.
struct Block {
  ProtoOut encoding;
  Buffer data;
  bool is_final;  // general compression is not applied to it
};

// Call `each` with the strings of a view, by the type of their offsets.
template <typename Each>
auto with_strings(const StringsView& view, int64_t count, Each each) {
  const auto strings = [&](auto offset) {
    const auto* offsets = static_cast<const decltype(offset)*>(view.offsets);
    return Strings(std::span(offsets, static_cast<size_t>(count) + 1), view.data, "strings");
  };
  return view.offset_bytes == 8 ? each(strings(int64_t{})) : each(strings(int32_t{}));
}

// True if runs and widths of such values are counted.
inline bool is_countable(int64_t bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

// --- general compression ---

inline bool is_general(Compression scheme) {
  return scheme == Compression::kLz4 || scheme == Compression::kZstd;
}

// Compress adjacent pieces, each to one unit.
std::pair<Buffer, Sizes> compressed(Compression scheme, std::optional<int32_t> level, View data,
                                    const Sizes& sizes, const Compress& zstd);

// --- strings ---

constexpr int64_t kMinStringBytes = 32768;  // fewer get no symbol table, nor compression one by one
constexpr double kWorthIt = 0.95;  // of the bytes: a smaller saving does not pay for decoding

// Bytes of strings and offsets.
template <typename Offset>
int64_t raw_bytes(const Strings<Offset>& strings) {
  return strings.total() + (strings.count + 1) * static_cast<int64_t>(sizeof(Offset));
}

template <typename Offset>
struct Codes {
  std::string table;  // of symbols, as in descriptions
  CodedStrings<Offset> strings;
  int64_t num_bytes;
};

// Strings as FSST codes; nothing if a symbol table is not worth a trial, or saves too little.
template <typename Offset>
std::optional<Codes<Offset>> codes_of(const Strings<Offset>& strings, const Options& options);

// --- rows: fixed-size lists and packed structs ---

struct Rows {
  ProtoOut encoding;
  int64_t row_bits;            // of a zipped row
  std::vector<FixedIn> parts;  // buffers of chunks: validity of each depth, then items; or structs
  std::optional<Owned<uint8_t>> zipped;  // memory of structs
};

// Rows of lists or of structs of fixed-width children; throws nb::type_error for other values.
Rows rows_of(const Values& values);

// Bytes of zipped rows.
Buffer zipped(Rows rows, int64_t num_rows);

// --- values ---

// Values of a page in their smallest form.
Chunks value_chunks(const Values& values, const Input& input, const Compress& zstd);

// Dictionary of a page; nothing if it would not make the page smaller.
std::optional<Dictionary> dictionary_of(const Input& input);

// Items of a dictionary as one block.
Block items_block(const Values& items, const Options& options, int minor, const Compress& zstd);

// --- layers and pages ---

// Largest levels, by the layers.
struct Limits {
  uint16_t max_rep = 0, max_def = 0, max_visible = 0;

  explicit Limits(const std::vector<uint8_t>& layers);
};

// True if the values of a page are stored one by one.
bool is_zipped(const Input& input);

// Page of values that are stored one by one.
Page zipped_page(const Input& input, const Limits& limits, const Compress& zstd);

}  // namespace alance::pages
