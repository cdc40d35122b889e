// What the kernels of the encoder share: values in pieces, and the bits they have in common.
#pragma once
#include <algorithm>
#include <optional>

#include "bounds.hpp"
#include "spans.hpp"

// A loop that the compiler vectorises, in two versions of which the loader takes one.
#if defined(__x86_64__) && defined(__linux__)
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance {

// The number of values of each chunk; `data` holds exactly these, end to end.
struct Pieces {
  const int64_t* counts;
  int64_t num;
  int64_t total = 0;  // values of all chunks

  Pieces(const In<int64_t>& counts_, const Bytes& data, int64_t bits, const char* what)
      : counts(counts_.data()), num(static_cast<int64_t>(counts_.size())) {
    if (bits < 1) corrupt(std::string(what) + ": values of " + std::to_string(bits) + " bits");
    for (int64_t i = 0; i < num; ++i)
      if (counts[i] < 0 || __builtin_add_overflow(total, counts[i], &total))
        corrupt(std::string(what) + ": a chunk of " + std::to_string(counts[i]) + " values");
    if (bytes_of_bits(product(total, bits, what)) != static_cast<int64_t>(data.size()))
      corrupt(std::string(what) + ": " + std::to_string(data.size()) + " bytes for " +
              std::to_string(total) + " values of " + std::to_string(bits) + " bits");
  }

  int64_t operator[](int64_t i) const { return counts[i]; }
};

// The bitwise or of all values of 8, 16, 32 or 64 bits.
uint64_t either(const uint8_t* data, int64_t num_bytes, int bits);

enum class ChunkForm : int { kFlat, kPacked, kRuns };

// What takes least bytes of values of 8, 16, 32 or 64 bits in the chunks of a page. Runs only where
// there are fewer than `most_runs` of them for each value.
ChunkForm chunk_form(const uint8_t* data, int64_t num_values, int bits,
                     std::optional<double> most_runs);

// Packs one block of at most 1024 values at a width that all of them fit, to 128 * width bytes.
void pack_one(const uint8_t* in, int64_t count, int bits, int width, uint8_t* out);

}  // namespace alance
