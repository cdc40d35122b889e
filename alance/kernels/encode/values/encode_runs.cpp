// Run-length coding: each run as its value and a length of one byte; longer runs are split.
//
// Source: docs/format/encodings.md, "Rle".
#include "encode/encode.hpp"

namespace alance {
namespace {

constexpr int64_t kRunPart = 255;  // largest length of one byte
constexpr int64_t kRunStretch = 4096;  // most values of a chunk, which cuts longer runs

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

inline int64_t parts(int64_t length) { return length / kRunPart + (length % kRunPart != 0); }

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

// Call `each` with the first value and the length of each part of a run.
template <typename T, typename Each>
void each_part(const uint8_t* data, int64_t count, Each each) {
  for (int64_t first = 0; first < count;) {
    const int64_t stop = run_end<T>(data, first, count);
    while (first < stop) {
      const int64_t part = std::min(stop - first, kRunPart);
      each(first, static_cast<uint8_t>(part));
      first += part;
    }
  }
}

template <typename T>
RunChunks runs_of(const uint8_t* data, int64_t num_values, int64_t most, int64_t max_bytes) {
  RunChunks runs;
  while (num_values > 0) {
    const int64_t count = chunk_values<T>(data, num_values, most, max_bytes);
    const size_t before = runs.lengths.size();
    each_part<T>(data, count, [&](int64_t first, uint8_t length) {
      const uint8_t* value = data + first * static_cast<int64_t>(sizeof(T));
      runs.values.insert(runs.values.end(), value, value + sizeof(T));
      runs.lengths.push_back(length);
    });
    const int64_t entries = static_cast<int64_t>(runs.lengths.size() - before);
    runs.counts.push_back(count);
    runs.value_sizes.push_back(entries * static_cast<int64_t>(sizeof(T)));
    runs.length_sizes.push_back(entries);
    data += count * static_cast<int64_t>(sizeof(T));
    num_values -= count;
  }
  return runs;
}

// Number of one-byte lengths of the runs, each cut every `stretch` values; any number above `limit`
// if there are more.
template <typename T>
int64_t entries_of(const uint8_t* data, int64_t count, int64_t stretch, int64_t limit) {
  int64_t entries = 0;
  for (int64_t first = 0; first < count && entries <= limit;) {
    const int64_t stop = run_end<T>(data, first, count), length = stop - first;
    entries += length / stretch * parts(stretch) + parts(length % stretch);
    first = stop;
  }
  return entries;
}

template <typename T>
void write_block(const uint8_t* data, int64_t count, int64_t entries, uint8_t* out) {
  store<uint64_t>(out, static_cast<uint64_t>(entries) * sizeof(T));
  uint8_t* values = out + 8;
  uint8_t* lengths = values + entries * static_cast<int64_t>(sizeof(T));
  each_part<T>(data, count, [&](int64_t first, uint8_t length) {
    store(values, value_at<T>(data, first));
    values += sizeof(T);
    *lengths++ = length;
  });
}

template <typename T>
Sizes block_sizes(const Pieces& chunks) {
  Sizes sizes;
  const uint8_t* data = chunks.data;
  for (const int64_t count : chunks.counts) {
    sizes.push_back(8 + entries_of<T>(data, count, INT64_MAX, INT64_MAX) *
                            static_cast<int64_t>(sizeof(T) + 1));
    data += count * static_cast<int64_t>(sizeof(T));
  }
  return sizes;
}

template <typename T>
Owned<uint8_t> blocks(const Pieces& chunks) {
  const Sizes sizes = block_sizes<T>(chunks);
  Owned<uint8_t> out(sum(sizes));
  const uint8_t* data = chunks.data;
  uint8_t* at = out.data();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t entries = (sizes[i] - 8) / static_cast<int64_t>(sizeof(T) + 1);
    write_block<T>(data, chunks.counts[i], entries, at);
    data += chunks.counts[i] * static_cast<int64_t>(sizeof(T));
    at += sizes[i];
  }
  return out;
}

}  // namespace

RunChunks encode_runs(const uint8_t* data, int64_t num_values, int bits, int64_t most,
                      int64_t max_bytes) {
  return by_width(bits, [&](auto word) {
    return runs_of<decltype(word)>(data, num_values, most, max_bytes);
  });
}

int64_t run_entries(const uint8_t* data, int64_t num_values, int bits, int64_t limit) {
  return by_width(bits, [&](auto word) {
    return entries_of<decltype(word)>(data, num_values, kRunStretch, limit);
  });
}

Sizes run_block_sizes(const Pieces& chunks) {
  return by_width(chunks.bits, [&](auto word) { return block_sizes<decltype(word)>(chunks); });
}

Owned<uint8_t> run_blocks(const Pieces& chunks) {
  return by_width(chunks.bits, [&](auto word) { return blocks<decltype(word)>(chunks); });
}

}  // namespace alance
