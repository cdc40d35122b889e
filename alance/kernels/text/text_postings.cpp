// Decoding of posting lists and positions of inverted indices.
//
// Source: docs/format/search-indices.md, "`part_N_invert.lance`".
#include "base/ends.hpp"
#include "base/owned.hpp"
#include "text/text_blocks.hpp"

namespace alance::text {
namespace {

// Binary values in lists, as in Arrow: offsets of lists, offsets of values, bytes.
struct Lists {
  const int64_t* lists;
  const int64_t* values;
  const uint8_t* data;
  int64_t count;

  Lists(const In<int64_t>& list_offsets, const In<int64_t>& offsets, const Bytes& bytes)
      : lists(list_offsets.data()), values(offsets.data()), data(bytes.data()),
        count(checked_count(list_offsets, std::ssize(offsets) - 1, "text index")) {
    checked_count(offsets, std::ssize(bytes), "text index");
  }

  BlockReader reader(int64_t value) const {
    return {data + values[value], data + values[value + 1]};
  }
};

enum Tail : int { kFixed32 = 0, kVarint = 1 };

// Decode the documents and frequencies of one block.
void read_block(BlockReader in, int64_t count, int64_t block, int tail, uint32_t* docs,
                uint32_t* frequencies) {
  const bool is_full = count == block, is_wide = block == 256;
  if (!is_wide) in.u32();  // greatest score of the block when it was written
  if (is_full) {
    docs[0] = in.u32();
    uint32_t differences[kMaxBlock];
    in.block(in.byte(), block, differences);
    for (int64_t i = 1; i < count; ++i) docs[i] = docs[i - 1] + differences[i];
    const unsigned width = in.byte();
    const unsigned exceptions = is_wide ? in.byte() : 0;
    in.block(width, block, frequencies);
    for (unsigned i = 0; i < exceptions; ++i) {
      const unsigned place = in.byte();
      const uint32_t high = in.varint();
      if (width >= 32) corrupt("text index: exceptions among numbers of 32 bits");
      frequencies[place] += high << width;
    }
  } else if (tail == kVarint) {
    uint32_t doc = 0;
    for (int64_t i = 0; i < count; ++i) docs[i] = doc += in.varint();
    for (int64_t i = 0; i < count; ++i) frequencies[i] = in.varint();
  } else {
    for (int64_t i = 0; i < count; ++i) docs[i] = in.u32();
    for (int64_t i = 0; i < count; ++i) frequencies[i] = in.u32();
  }
  if (!in.is_done()) corrupt("text index: bytes behind a block");
}

int64_t total_of(const In<uint32_t>& lengths, int64_t limit) {
  int64_t total = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths.data()[i] > limit)
      corrupt("text index: a posting list of ", lengths.data()[i], " of ", limit, " documents");
    total += lengths.data()[i];
  }
  return total;
}

std::tuple<Owned<uint32_t>, Owned<uint32_t>> decode_postings(
    const In<int64_t>& list_offsets, const In<int64_t>& offsets, const Bytes& data,
    const In<uint32_t>& lengths, int64_t num_docs, int64_t block, int tail) {
  const Lists lists(list_offsets, offsets, data);
  if (lists.count != std::ssize(lengths) || (block != 128 && block != 256) || num_docs < 0 ||
      num_docs > UINT32_MAX)
    corrupt("text index: ", lists.count, " lists in blocks of ", block);
  const int64_t total = total_of(lengths, num_docs);
  // Each document takes a byte at least, or is in a full block.
  if (total / 16 > std::ssize(data) + 16)
    corrupt("text index: posting lists longer than their bytes");
  Owned<uint32_t> docs(total), frequencies(total);
  int64_t at = 0;
  for (int64_t list = 0; list < lists.count; ++list) {
    const int64_t length = lengths.data()[list], first = lists.lists[list];
    if (lists.lists[list + 1] - first != (length + block - 1) / block)
      corrupt("text index: another number of blocks than documents need");
    int64_t before = -1;
    for (int64_t start = 0, value = first; start < length; start += block, ++value) {
      const int64_t count = std::min(block, length - start);
      read_block(lists.reader(value), count, block, tail, docs.data() + at,
                 frequencies.data() + at);
      for (int64_t i = 0; i < count; ++i) {
        if (docs[at + i] <= before || docs[at + i] >= num_docs || !frequencies[at + i])
          corrupt("text index: document ", docs[at + i], " of ", num_docs,
                  " out of order, or without the token");
        before = docs[at + i];
      }
      at += count;
    }
  }
  return {std::move(docs), std::move(frequencies)};
}

int64_t positions_of(const In<uint32_t>& frequencies, int64_t limit) {
  int64_t total = 0;
  for (size_t i = 0; i < frequencies.size(); ++i) total += frequencies.data()[i];
  if (total > limit) corrupt("text index: more positions than bytes");
  return total;
}

// Positions of a block in one stream: packed blocks of 128, the rest as varints.
Owned<uint32_t> decode_positions(const In<int64_t>& offsets, const Bytes& data,
                                 const In<int64_t>& list_offsets, const In<uint32_t>& block_offsets,
                                 const In<uint32_t>& lengths, const In<uint32_t>& frequencies,
                                 int64_t block) {
  checked_count(offsets, std::ssize(data), "text index");
  checked_count(list_offsets, std::ssize(block_offsets), "text index");
  const int64_t count = std::ssize(lengths);
  if (std::ssize(offsets) != count + 1 || offsets.size() != list_offsets.size() ||
      (block != 128 && block != 256))
    corrupt("text index: positions of another number of lists");
  if (total_of(lengths, UINT32_MAX) != std::ssize(frequencies))
    corrupt("text index: positions of other documents");
  const int64_t total = positions_of(frequencies, 128 * (std::ssize(data) + 1));
  Owned<uint32_t> positions(total);
  int64_t at = 0, doc = 0;
  for (int64_t list = 0; list < count; ++list) {
    const uint8_t* bytes = data.data() + offsets.data()[list];
    const int64_t size = offsets.data()[list + 1] - offsets.data()[list];
    const int64_t length = lengths.data()[list], first = list_offsets.data()[list];
    const int64_t num_blocks = (length + block - 1) / block;
    if (list_offsets.data()[list + 1] - first != num_blocks)
      corrupt("text index: positions in another number of blocks");
    for (int64_t number = 0; number < num_blocks; ++number) {
      const int64_t start = block_offsets.data()[first + number];
      const int64_t stop =
          number + 1 < num_blocks ? block_offsets.data()[first + number + 1] : size;
      if (start > stop || stop > size) corrupt("text index: positions out of order");
      BlockReader in(bytes + start, bytes + stop);
      const int64_t docs = std::min(block, length - number * block);
      int64_t num_values = 0;
      for (int64_t i = 0; i < docs; ++i) num_values += frequencies.data()[doc + i];
      int64_t done = 0;
      for (; done + 128 <= num_values; done += 128)
        in.block(in.byte(), 128, positions.data() + at + done);
      for (; done < num_values; ++done) positions[at + done] = in.varint();
      if (!in.is_done()) corrupt("text index: bytes behind positions");
      for (int64_t i = 0; i < docs; ++i) {
        const int64_t frequency = frequencies.data()[doc++];
        for (int64_t k = 1; k < frequency; ++k) positions[at + k] += positions[at + k - 1];
        at += frequency;
      }
    }
  }
  return positions;
}

// Positions of format 1: for each document a count, packed blocks of 128 that store their first
// position apart, and the rest as u32.
Owned<uint32_t> decode_positions_v1(const In<int64_t>& list_offsets, const In<int64_t>& offsets,
                                    const Bytes& data, const In<uint32_t>& frequencies) {
  const Lists lists(list_offsets, offsets, data);
  if (lists.count != std::ssize(frequencies)) corrupt("text index: positions of other documents");
  const int64_t total = positions_of(frequencies, 128 * (std::ssize(data) + 1));
  Owned<uint32_t> positions(total);
  int64_t at = 0;
  for (int64_t doc = 0; doc < lists.count; ++doc) {
    const int64_t frequency = frequencies.data()[doc];
    int64_t value = lists.lists[doc];
    if (lists.lists[doc + 1] - value != 1 + (frequency + 127) / 128 ||
        lists.reader(value).u32() != frequency)
      corrupt("text index: another number of positions than the frequency");
    for (int64_t start = 0; start < frequency; start += 128) {
      BlockReader in = lists.reader(++value);
      if (frequency - start >= 128) {
        const uint32_t first = in.u32();
        in.block(in.byte(), 128, positions.data() + at);
        positions[at] = first;
        for (int64_t i = 1; i < 128; ++i) positions[at + i] += positions[at + i - 1];
        at += 128;
      } else {
        for (int64_t i = start; i < frequency; ++i) positions[at++] = in.u32();
      }
      if (!in.is_done()) corrupt("text index: bytes behind positions");
    }
  }
  return positions;
}

}  // namespace
}  // namespace alance::text

void register_text_postings(nanobind::module_& m) {
  using namespace alance;
  m.def("decode_postings", &text::decode_postings, "list_offsets"_a, "offsets"_a, "data"_a,
        "lengths"_a, "num_docs"_a, "block"_a, "tail"_a, NoGil());
  m.def("decode_positions", &text::decode_positions, "offsets"_a, "data"_a, "list_offsets"_a,
        "block_offsets"_a, "lengths"_a, "frequencies"_a, "block"_a, NoGil());
  m.def("decode_positions_v1", &text::decode_positions_v1, "list_offsets"_a, "offsets"_a, "data"_a,
        "frequencies"_a, NoGil());
}
