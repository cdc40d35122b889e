// Values that are encoded one by one, and full-zip pages of them: control word, length and value of
// each entry, one entry after the other.
//
// Source: docs/format/file.md, "Full-zip layout"; docs/format/encodings.md.
#include <bit>
#include <limits>

#include "encode/container.hpp"
#include "encode/encode_chunks.hpp"

namespace alance::pages {
namespace {

constexpr int64_t kLongString = 32768;  // bytes; longer strings are compressed one by one
// Bytes of the sample, from the middle, that decides if long strings are compressed.
constexpr int64_t kTrialBytes = 1 << 16;
constexpr int64_t kMaxEntries = 0xFFFFFFFF;  // a page stores their number in 32 bits

ProtoOut lists(const ListsIn& in, const ProtoOut& items) {
  ProtoOut message;
  message.number(1, static_cast<uint64_t>(in.dimension)).message(2, items);
  if (in.validity) message.number(3, 1);
  return ProtoOut().message(11, message);
}

// Values as full-zip pages store them: of equal width in whole bytes, or byte strings.
struct OneByOne {
  ProtoOut encoding;
  int64_t bits;  // of a value; 0: byte strings
  Buffer data;
  int offset_bytes = 0;
  Buffer offsets = View{};

  View at(int64_t i) const {
    const uint8_t* from = data.view().data();
    if (bits) return {from + i * (bits / 8), static_cast<size_t>(bits / 8)};
    return offset_bytes == 8 ? string_at<int64_t>(i) : string_at<int32_t>(i);
  }

  template <typename Offset>
  View string_at(int64_t i) const {
    const auto* ends = reinterpret_cast<const Offset*>(offsets.view().data());
    return {data.view().data() + ends[i], static_cast<size_t>(ends[i + 1] - ends[i])};
  }
};

template <typename Offset>
Buffer buffer_of(Owned<Offset>& offsets) {
  return copy_of(bytes_of<Offset>({offsets.data(), static_cast<size_t>(offsets.size())}));
}

// True if compression shrinks a sample of long strings; pictures, for example, stay large.
bool compresses(View strings, const Compress& zstd) {
  const auto size = static_cast<int64_t>(strings.size());
  const int64_t middle = std::max<int64_t>(0, (size - kTrialBytes) / 2);
  const int64_t num = std::min(kTrialBytes, size - middle);
  const View sample = strings.subspan(static_cast<size_t>(middle), static_cast<size_t>(num));
  const auto units = compressed(Compression::kZstd, {}, sample, {num}, zstd);
  return static_cast<double>(units.first.size()) < kWorthIt * static_cast<double>(num);
}

template <typename Offset>
OneByOne strings_by_one(const Strings<Offset>& strings, const Options& options,
                        const Compress& zstd) {
  const int word = static_cast<int>(sizeof(Offset));
  const View all{strings.content + strings.ends[0], static_cast<size_t>(strings.total())};
  const auto num = static_cast<size_t>(strings.count) + 1;
  OneByOne plain{variable(8 * word), 0,
                 View{strings.content, static_cast<size_t>(strings.num_bytes)}, word,
                 bytes_of<Offset>({strings.ends, num})};
  const bool is_requested = is_general(options.compression);
  const bool is_long = strings.longest() > kLongString;
  if (options.compression != Compression::kNone && (is_requested || is_long) &&
      raw_bytes(strings) >= kMinStringBytes) {
    if (!is_requested && !compresses(all, zstd)) return plain;
    // Other writers use Zstandard even if LZ4 is requested.
    const int32_t level = options.level.value_or(0);
    Sizes sizes;
    for (int64_t i = 0; i < strings.count; ++i)
      sizes.push_back(int64_t{strings.ends[i + 1]} - strings.ends[i]);
    auto [units, unit_sizes] = compressed(Compression::kZstd, level, all, sizes, zstd);
    if (units.size() >= strings.total()) return plain;
    // Lengths in the page are as wide as the offsets of the type, because other readers refuse
    // narrower lengths.
    Owned<Offset> ends(strings.count + 1);
    ends[0] = 0;
    for (int64_t i = 0; i < strings.count; ++i)
      ends[i + 1] = static_cast<Offset>(ends[i] + unit_sizes[static_cast<size_t>(i)]);
    return {general(Compression::kZstd, level, plain.encoding), 0, std::move(units), word,
            buffer_of(ends)};
  }
  if (auto codes = codes_of(strings, options))
    return {fsst(codes->table, plain.encoding), 0,
            Buffer(std::move(codes->strings.codes), codes->num_bytes), word,
            buffer_of(codes->strings.ends)};
  return plain;
}

OneByOne one_by_one(const Values& values, const Options& options, int minor, const Compress& zstd);

bool has_fixed_rows(const StructsIn& structs) {
  return std::all_of(structs.children.begin(), structs.children.end(), [](const Values& child) {
    return std::holds_alternative<FixedIn>(child.kind);
  });
}

// Structs with a child of variable width, or with fixed-size lists: rows of the children, each
// string behind its length. Other readers refuse structs of fixed width inside before 2.3.
OneByOne structs_by_one(const StructsIn& structs, int64_t count, int minor, const Compress& zstd) {
  if (minor < 2)
    throw nb::type_error("packed struct with children of variable width in version 2.1: "
                         "expected 2.2 or later");
  ProtoOut message;
  std::vector<OneByOne> columns;
  for (const Values& child : structs.children) {
    const auto* inner = std::get_if<StructsIn>(&child.kind);
    if (inner && minor < 3 && has_fixed_rows(*inner))
      throw nb::type_error("packed struct with a struct of fixed width in version 2.2: "
                           "expected 2.3 or later");
    columns.push_back(one_by_one(child, {}, minor, zstd));
    const OneByOne& column = columns.back();
    ProtoOut field;
    field.message(1, column.encoding);
    if (column.bits)
      field.number(2, static_cast<uint64_t>(column.bits));
    else
      field.number(3, static_cast<uint64_t>(8 * column.offset_bytes));
    message.message(1, field);
  }
  Owned<int64_t> ends(count + 1);
  ends[0] = 0;
  for (int64_t row = 0; row < count; ++row) {
    int64_t size = 0;
    for (const OneByOne& column : columns)
      size += column.offset_bytes + static_cast<int64_t>(column.at(row).size());
    ends[row + 1] = ends[row] + size;
  }
  Owned<uint8_t> rows(ends[count]);
  uint8_t* out = rows.data();
  for (int64_t row = 0; row < count; ++row)
    for (const OneByOne& column : columns) {
      const View value = column.at(row);
      const uint64_t size = value.size();
      std::memcpy(out, &size, static_cast<size_t>(column.offset_bytes));
      out += column.offset_bytes;
      if (size) std::memcpy(out, value.data(), size);
      out += size;
    }
  ProtoOut encoding;
  encoding.message(13, message);
  if (ends[count] > std::numeric_limits<int32_t>::max())
    return {std::move(encoding), 0, std::move(rows), 8, buffer_of(ends)};
  Owned<int32_t> narrow(count + 1);
  std::copy_n(ends.data(), count + 1, narrow.data());
  return {std::move(encoding), 0, std::move(rows), 4, buffer_of(narrow)};
}

// Booleans as bytes.
OneByOne booleans_by_one(const FixedIn& values, int64_t count) {
  Owned<uint8_t> out(count);
  for (int64_t i = 0; i < count; ++i)
    out[i] = values.data[static_cast<size_t>(i / 8)] >> (i % 8) & 1;
  return {flat(8), 8, std::move(out)};
}

OneByOne one_by_one(const Values& values, const Options& options, int minor, const Compress& zstd) {
  if (const auto* fixed = std::get_if<FixedIn>(&values.kind)) {
    if (fixed->bits == 1) return booleans_by_one(*fixed, values.count);
    if (fixed->bits % 8)
      throw nb::type_error(("full-zip values of " + std::to_string(fixed->bits) + " bits").c_str());
    return {flat(fixed->bits), fixed->bits, fixed->data};
  }
  if (const auto* view = std::get_if<StringsView>(&values.kind))
    return with_strings(*view, values.count, [&](const auto& strings) {
      return strings_by_one(strings, options, zstd);
    });
  const auto* structs = std::get_if<StructsIn>(&values.kind);
  if (structs && !has_fixed_rows(*structs))
    return structs_by_one(*structs, values.count, minor, zstd);
  Rows rows = rows_of(values);
  ProtoOut encoding = rows.encoding;
  const int64_t bits = rows.row_bits;
  if (bits % 8 || bits == 0)
    throw nb::type_error(("full-zip rows of " + std::to_string(bits) + " bits").c_str());
  return {std::move(encoding), bits, zipped(std::move(rows), values.count)};
}

// Bits of the longest value, without the validity of items.
int64_t longest_bits(const Values& values) {
  if (const auto* fixed = std::get_if<FixedIn>(&values.kind)) return fixed->bits;
  if (const auto* view = std::get_if<StringsView>(&values.kind))
    return 8 * with_strings(*view, values.count, [](const auto& strings) {
             return strings.longest();
           });
  if (const auto* lists = std::get_if<ListsIn>(&values.kind))
    return product(lists->dimension, longest_bits(lists->items[0]), "pages");
  int64_t bits = 0;
  if (const auto* structs = std::get_if<StructsIn>(&values.kind))
    for (const Values& child : structs->children) bits += longest_bits(child);
  return bits;
}

// --- pages ---

// Zipped entries, and the start of each row with the end of all rows.
struct Zipped {
  Owned<uint8_t> rows;
  std::vector<uint64_t> starts;
};

Zipped zip(const Input& input, const Limits& limits, int64_t num_entries, const OneByOne& values) {
  const auto& [layers, reps, defs] = input.levels;
  const int bits_def = std::bit_width(limits.max_def);
  const int bits = std::bit_width(limits.max_rep) + bits_def;
  const size_t control_bytes = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  auto rep_at = [&](size_t i) { return reps ? (*reps)[i] : limits.max_rep; };
  auto def_at = [&](size_t i) -> uint16_t { return defs ? (*defs)[i] : 0; };
  // Strings of nulls take no bytes, not even a length.
  auto has_bytes = [&](uint16_t level) { return level == 0 || values.bits; };
  int64_t total = product(num_entries, static_cast<int64_t>(control_bytes), "zip"), value = 0;
  for (size_t i = 0; i < static_cast<size_t>(num_entries); ++i) {
    const uint16_t level = def_at(i);
    if (level > limits.max_def || rep_at(i) > limits.max_rep) corrupt("zip: levels of other layers");
    if (level > limits.max_visible) continue;
    const int64_t size =
        has_bytes(level) ? values.offset_bytes + static_cast<int64_t>(values.at(value).size()) : 0;
    if (__builtin_add_overflow(total, size, &total)) corrupt("zip: sizes overflow");
    ++value;
  }
  if (num_entries && rep_at(0) != limits.max_rep) corrupt("zip: the first entry begins no row");
  Zipped zipped{Owned<uint8_t>(total), {}};
  uint8_t* out = zipped.rows.data();
  value = 0;
  for (size_t i = 0; i < static_cast<size_t>(num_entries); ++i) {
    const uint16_t level = def_at(i), rep = rep_at(i);
    if (rep == limits.max_rep)
      zipped.starts.push_back(static_cast<uint64_t>(out - zipped.rows.data()));
    const uint32_t word = static_cast<uint32_t>(limits.max_rep ? rep : 0) << bits_def | level;
    std::memcpy(out, &word, control_bytes);
    out += control_bytes;
    if (level > limits.max_visible) continue;
    const View content = has_bytes(level) ? values.at(value) : View{};
    ++value;
    const uint64_t size = content.size();
    if (has_bytes(level)) {
      std::memcpy(out, &size, static_cast<size_t>(values.offset_bytes));
      out += values.offset_bytes;
    }
    if (size) std::memcpy(out, content.data(), size);
    out += size;
  }
  zipped.starts.push_back(static_cast<uint64_t>(total));
  return zipped;
}

// Numbers in the smallest width that holds the last one.
Owned<uint8_t> index_of(const std::vector<uint64_t>& starts) {
  size_t width = 1;
  while (width < 8 && starts.back() >> (8 * width)) width *= 2;
  Owned<uint8_t> out(static_cast<int64_t>(starts.size() * width));
  for (size_t i = 0; i < starts.size(); ++i) std::memcpy(out.data() + i * width, &starts[i], width);
  return out;
}

}  // namespace

Rows rows_of(const Values& values) {
  Rows rows{{}, 0, {}, {}};
  if (const auto* structs = std::get_if<StructsIn>(&values.kind)) {
    std::vector<int64_t> widths;
    for (const Values& child : structs->children) {
      const auto* fixed = std::get_if<FixedIn>(&child.kind);
      if (!fixed || fixed->bits % 8) throw nb::type_error("packed struct of bits, or of other values");
      widths.push_back(fixed->bits);
      rows.parts.push_back(*fixed);
    }
    if (widths.empty()) throw nb::type_error("packed struct without children");
    rows.row_bits = sum(widths);
    const ProtoOut zipped_rows = flat(rows.row_bits);
    rows.encoding.message(12, ProtoOut().numbers(1, widths).message(2, zipped_rows));
    rows.zipped = zip_columns(rows.parts, values.count);
    rows.parts = {{rows.row_bits,
                   {rows.zipped->data(), static_cast<size_t>(rows.zipped->size())}}};
    return rows;
  }
  std::vector<const ListsIn*> levels;
  int64_t items_per_row = 1;
  const Values* inner = &values;
  while (const auto* in = std::get_if<ListsIn>(&inner->kind)) {
    items_per_row = product(items_per_row, in->dimension, "pages");
    if (in->validity) {
      rows.parts.push_back({items_per_row, *in->validity});
      rows.row_bits += 8 * bytes_of_bits(items_per_row);
    }
    levels.push_back(in);
    inner = &in->items[0];
  }
  if (const auto* fixed = std::get_if<FixedIn>(&inner->kind)) {
    const int64_t item_bits = product(items_per_row, fixed->bits, "pages");
    rows.parts.push_back({item_bits, fixed->data});
    rows.row_bits += item_bits;
    rows.encoding = flat(fixed->bits);
  } else if (std::holds_alternative<NullsIn>(inner->kind)) {
    rows.encoding.message(3, ProtoOut());  // a constant without a value
  } else {
    throw nb::type_error("values that no page holds");
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    rows.encoding = lists(**level, rows.encoding);
  return rows;
}

Buffer zipped(Rows rows, int64_t num_rows) {
  if (rows.zipped) return Buffer(std::move(*rows.zipped));
  // Validity alone is padded in each row.
  if (rows.parts.size() == 1 && rows.parts[0].bits == rows.row_bits)
    return Buffer(rows.parts[0].data);
  return Buffer(zip_columns(rows.parts, num_rows));
}

bool is_zipped(const Input& input) {
  if (const auto* structs = std::get_if<StructsIn>(&input.values.kind))
    if (!has_fixed_rows(*structs)) return true;
  const int64_t bits = longest_bits(input.values);
  if (const auto* lists = std::get_if<ListsIn>(&input.values.kind)) {
    while (const auto* inner = std::get_if<ListsIn>(&lists->items[0].kind)) lists = inner;
    // Chunks do not support items without bytes.
    if (std::holds_alternative<NullsIn>(lists->items[0].kind)) return true;
    if (bits % 8) return false;
  }
  return bits >= input.zip_bits;
}

Page zipped_page(const Input& input, const Limits& limits, const Compress& zstd) {
  const auto& [layers, rep, definition] = input.levels;
  OneByOne values = one_by_one(input.values, input.options, input.minor, zstd);
  int64_t num_entries = input.values.count;
  if (rep) num_entries = static_cast<int64_t>(rep->size());
  if (definition) num_entries = static_cast<int64_t>(definition->size());
  if (num_entries > kMaxEntries)
    throw nb::type_error(("full-zip: " + std::to_string(num_entries) + " entries").c_str());
  ProtoOut message;
  auto add = [&](uint32_t field, int64_t value) {
    if (value) message.number(field, static_cast<uint64_t>(value));
  };
  add(1, std::bit_width(limits.max_rep));
  add(2, std::bit_width(limits.max_def));
  message.number(values.bits ? 3 : 4,
                 static_cast<uint64_t>(values.bits ? values.bits : 8 * values.offset_bytes));
  add(5, num_entries);
  add(6, input.values.count);
  message.message(7, values.encoding).numbers(8, layers);
  Page page{ProtoOut().message(3, message).text(), {}, 0};
  if (values.bits && !limits.max_rep && !limits.max_def) {  // rows are the values
    page.buffers.push_back(std::move(values.data));
    return page;
  }
  Zipped zipped = zip(input, limits, num_entries, values);
  page.buffers.push_back(std::move(zipped.rows));
  if (!values.bits || limits.max_rep) page.buffers.push_back(index_of(zipped.starts));
  return page;
}

}  // namespace alance::pages
