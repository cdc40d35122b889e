// Run-length coding: each run as its value and a length of one byte; longer runs are split.
//
// Source: docs/format/encodings.md, "Rle".
#include <vector>

#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kRunPart = 255;  // largest length of one byte

template <typename T>
inline T value_at(const uint8_t* data, int64_t i) {
  return load<T>(data + i * static_cast<int64_t>(sizeof(T)));
}

// End of the run that begins at `first`, at most `stop`.
template <typename T>
inline int64_t run_end(const uint8_t* data, int64_t first, int64_t stop) {
  const T value = value_at<T>(data, first);
  int64_t i = first + 1;
  while (i < stop && value_at<T>(data, i) == value) ++i;
  return i;
}

inline int64_t parts(int64_t length) { return (length + kRunPart - 1) / kRunPart; }

// Number of values in the next chunk: all `remaining`, or a power of two of at most `most`, whose
// runs take at most `max_bytes`.
template <typename T>
int64_t chunk_values(const uint8_t* data, int64_t remaining, int64_t most, int64_t max_bytes) {
  constexpr int64_t kEntryBytes = sizeof(T) + 1;
  const int64_t window = std::min(remaining, most);
  int64_t entries = 0, fits = 2, power = 4;
  for (int64_t first = 0; first < window;) {
    const int64_t stop = run_end<T>(data, first, window);
    for (; power <= stop; power *= 2)
      if ((entries + parts(power - first)) * kEntryBytes <= max_bytes) fits = power;
    entries += parts(stop - first);
    if (entries * kEntryBytes > max_bytes) return std::min(fits, remaining);
    first = stop;
  }
  return window;
}

struct Runs {
  std::vector<uint8_t> values, lengths;
  std::vector<int64_t> counts, value_sizes, length_sizes;
};

template <typename T>
Runs runs_of(const uint8_t* data, int64_t num_values, int64_t most, int64_t max_bytes) {
  Runs runs;
  while (num_values > 0) {
    const int64_t count = chunk_values<T>(data, num_values, most, max_bytes);
    const size_t before = runs.lengths.size();
    for (int64_t first = 0; first < count;) {
      int64_t stop = run_end<T>(data, first, count);
      const uint8_t* value = data + first * static_cast<int64_t>(sizeof(T));
      while (first < stop) {
        const int64_t part = std::min(stop - first, kRunPart);
        runs.values.insert(runs.values.end(), value, value + sizeof(T));
        runs.lengths.push_back(static_cast<uint8_t>(part));
        first += part;
      }
    }
    const int64_t entries = static_cast<int64_t>(runs.lengths.size() - before);
    runs.counts.push_back(count);
    runs.value_sizes.push_back(entries * static_cast<int64_t>(sizeof(T)));
    runs.length_sizes.push_back(entries);
    data += count * static_cast<int64_t>(sizeof(T));
    num_values -= count;
  }
  return runs;
}

template <typename T>
Owned<T> owned(const std::vector<T>& from) {
  Owned<T> out(static_cast<int64_t>(from.size()));
  std::copy(from.begin(), from.end(), out.data());
  return out;
}

template <typename T>
int64_t block_entries(const uint8_t* data, int64_t count) {
  int64_t entries = 0;
  for (int64_t first = 0; first < count;) {
    const int64_t stop = run_end<T>(data, first, count);
    entries += parts(stop - first);
    first = stop;
  }
  return entries;
}

template <typename T>
void write_block(const uint8_t* data, int64_t count, int64_t entries, uint8_t* out) {
  store<uint64_t>(out, static_cast<uint64_t>(entries) * sizeof(T));
  uint8_t* values = out + 8;
  uint8_t* lengths = values + entries * static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < count;) {
    const int64_t stop = run_end<T>(data, first, count);
    const T value = value_at<T>(data, first);
    while (first < stop) {
      const int64_t part = std::min(stop - first, kRunPart);
      store(values, value);
      values += sizeof(T);
      *lengths++ = static_cast<uint8_t>(part);
      first += part;
    }
  }
}

template <typename T>
Owned<int64_t> block_sizes(const uint8_t* data, const Pieces& counts) {
  Owned<int64_t> sizes(counts.num);
  for (int64_t i = 0; i < counts.num; ++i) {
    sizes[i] = 8 + block_entries<T>(data, counts[i]) * static_cast<int64_t>(sizeof(T) + 1);
    data += counts[i] * static_cast<int64_t>(sizeof(T));
  }
  return sizes;
}

template <typename T>
Owned<uint8_t> blocks(const uint8_t* data, const Pieces& counts, const int64_t* sizes) {
  int64_t total = 0;
  for (int64_t i = 0; i < counts.num; ++i) total += sizes[i];
  Owned<uint8_t> out(total);
  uint8_t* at = out.data();
  for (int64_t i = 0; i < counts.num; ++i) {
    write_block<T>(data, counts[i], (sizes[i] - 8) / static_cast<int64_t>(sizeof(T) + 1), at);
    data += counts[i] * static_cast<int64_t>(sizeof(T));
    at += sizes[i];
  }
  return out;
}

}  // namespace

RunChunks encode_runs(const uint8_t* data, int64_t num_values, int bits, int64_t most,
                      int64_t max_bytes) {
  if (most < 2 || (most & (most - 1)) || max_bytes < 2 * 9)
    corrupt("runs: chunks of " + std::to_string(most) + " values");
  Runs runs;
  switch (bits) {
    case 8: runs = runs_of<uint8_t>(data, num_values, most, max_bytes); break;
    case 16: runs = runs_of<uint16_t>(data, num_values, most, max_bytes); break;
    case 32: runs = runs_of<uint32_t>(data, num_values, most, max_bytes); break;
    case 64: runs = runs_of<uint64_t>(data, num_values, most, max_bytes); break;
    default: corrupt("runs of values of " + std::to_string(bits) + " bits");
  }
  return {owned(runs.values), owned(runs.lengths), owned(runs.counts), owned(runs.value_sizes),
          owned(runs.length_sizes)};
}

Owned<int64_t> run_block_sizes(const uint8_t* data, const Pieces& counts, int bits) {
  switch (bits) {
    case 8: return block_sizes<uint8_t>(data, counts);
    case 16: return block_sizes<uint16_t>(data, counts);
    case 32: return block_sizes<uint32_t>(data, counts);
    case 64: return block_sizes<uint64_t>(data, counts);
    default: corrupt("runs of values of " + std::to_string(bits) + " bits");
  }
}

Owned<uint8_t> run_blocks(const uint8_t* data, const Pieces& counts, int bits) {
  Owned<int64_t> sizes = run_block_sizes(data, counts, bits);
  switch (bits) {
    case 8: return blocks<uint8_t>(data, counts, sizes.data());
    case 16: return blocks<uint16_t>(data, counts, sizes.data());
    case 32: return blocks<uint32_t>(data, counts, sizes.data());
    default: return blocks<uint64_t>(data, counts, sizes.data());
  }
}

}  // namespace alance
