// Distances of vectors of a few bits a component, rotated before (RaBitQ, IVF_RQ).
#include "vectors.hpp"

namespace alance::vectors {
namespace {

using Floats = In<float>;

// Whole blocks of 32 rows have their sign bits side by side, byte by byte of a row: see the
// specification of index files, "Packing". The rest of the rows has them column by column.
constexpr int kPlaces[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};

// The sign bits of all rows, row after row.
void unpack_signs(const uint8_t* packed, int64_t count, int64_t row_bytes, uint8_t* out) {
  const int64_t whole = count / 32 * 32, rest = count - whole;
  for (int64_t block = 0; block < whole; block += 32)
    for (int64_t i = 0; i < row_bytes; ++i) {
      const uint8_t* from = packed + block * row_bytes + 32 * i;
      for (int j = 0; j < 16; ++j) {
        const int64_t low = block + kPlaces[j], high = low + 16;
        out[low * row_bytes + i] = static_cast<uint8_t>((from[j] & 15) | (from[16 + j] << 4));
        out[high * row_bytes + i] = static_cast<uint8_t>((from[j] >> 4) | (from[16 + j] & 0xF0));
      }
    }
  const uint8_t* from = packed + whole * row_bytes;
  for (int64_t i = 0; i < row_bytes; ++i)
    for (int64_t r = 0; r < rest; ++r) out[(whole + r) * row_bytes + i] = from[i * rest + r];
}

// Bit b of the codes of a block whose top bits are a plane of 64 bits.
inline uint32_t plane_bit(const uint8_t* plane, int i) {
  const int k = i / 16, b = i % 16, bit = 8 * (b % 8) + 2 * k + b / 8;
  return (plane[bit / 8] >> (bit % 8)) & 1u;
}

inline uint32_t two_bits(const uint8_t* in, int i) { return (in[i % 16] >> (2 * (i / 16))) & 3u; }

inline uint32_t six_bits(const uint8_t* in, int i) {
  const int k = i / 16, b = i % 16;
  if (k < 3) return in[16 * k + b] & 63u;
  return static_cast<uint32_t>(in[b] >> 6) | static_cast<uint32_t>(in[16 + b] >> 6) << 2 |
         static_cast<uint32_t>(in[32 + b] >> 6) << 4;
}

// The further bits of component i (of 64) of a block of `ex` bits each.
inline uint32_t extra_bits(const uint8_t* in, int ex, int i) {
  switch (ex) {
    case 1: return (in[i / 8] >> (i % 8)) & 1u;
    case 2: return two_bits(in, i);
    case 3: return two_bits(in, i) | plane_bit(in + 16, i) << 2;
    case 4: return (in[8 * (i / 16) + i % 8] >> (i % 16 < 8 ? 0 : 4)) & 15u;
    case 5: return ((in[16 * (i / 32) + i % 16] >> (i % 32 < 16 ? 0 : 4)) & 15u) |
                   plane_bit(in + 32, i) << 4;
    case 6: return six_bits(in, i);
    case 7: return six_bits(in, i) | plane_bit(in + 48, i) << 6;
    default: return in[i];
  }
}

// The queries, and the centroid of the partition, are rotated as the vectors were.
void add_rabitq(Nearest& nearest, In<int32_t> numbers, In<uint64_t> ids, Bytes mask, Bytes signs,
                bool is_packed, int ex, Bytes extra, Floats add, Floats factor, Floats centroid,
                int metric, float scale) {
  const Rows rows = nearest.checked(ids, mask, numbers);
  const int64_t dim = nearest.dim(), row_bytes = dim / 8, count = rows.count;
  if (ex < 0 || ex > 8 || dim % 8 != 0)
    corrupt("bit codes: " + std::to_string(ex) + " more bits of dimension " + std::to_string(dim));
  const int64_t extra_bytes = ex * ((dim + 63) / 64) * 8;
  if (static_cast<int64_t>(signs.size()) != count * row_bytes ||
      static_cast<int64_t>(extra.size()) != count * extra_bytes ||
      static_cast<int64_t>(add.size()) != count || static_cast<int64_t>(factor.size()) != count ||
      static_cast<int64_t>(centroid.size()) != dim)
    corrupt("bit codes: " + std::to_string(signs.size()) + " and " + std::to_string(extra.size()) +
            " bytes for " + std::to_string(count) + " rows of dimension " + std::to_string(dim));
  nb::gil_scoped_release release;
  std::vector<uint8_t> unpacked;
  const uint8_t* bits = signs.data();
  if (is_packed) {
    unpacked.resize(signs.size());
    unpack_signs(signs.data(), count, row_bytes, unpacked.data());
    bits = unpacked.data();
  }
  std::vector<float> gaps(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float* query = nearest.floats(numbers.data()[i]);
    double total = 0;
    for (int64_t d = 0; d < dim; ++d)
      total += metric == kDot ? -double{query[d]} * double{centroid.data()[d]}
                              : std::pow(double{query[d]} - double{centroid.data()[d]}, 2);
    gaps[i] = static_cast<float>(total);
  }
  const Loop products = loop_of(kFloat32, kDot, false);
  const float middle = static_cast<float>(1 << ex) - 0.5f;
  const int64_t step = std::clamp<int64_t>((64 << 10) / (4 * dim), 1, kBlock);
  std::vector<float> codes(static_cast<size_t>(step * dim));
  float distances[kBlock];
  for (int64_t start = 0; start < count; start += step) {
    const int64_t stop = std::min(count, start + step);
    if (!rows.any(start, stop)) continue;
    float* to = codes.data();
    for (int64_t r = start; r < stop; ++r)
      for (int64_t d = 0; d < dim; ++d) {
        const uint32_t sign = (bits[r * row_bytes + d / 8] >> (d % 8)) & 1u;
        const uint8_t* block = extra.data() + r * extra_bytes + d / 64 * 8 * ex;
        const uint32_t more = ex ? extra_bits(block, ex, static_cast<int>(d % 64)) : 0;
        *to++ = static_cast<float>(sign << ex | more) - middle;
      }
    const auto* block = reinterpret_cast<const uint8_t*>(codes.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      products(nearest, numbers.data()[i], 0, block, stop - start, distances);
      for (int64_t r = start; r < stop; ++r)
        distances[r - start] = scale * (add.data()[r] + gaps[i] +
                                        factor.data()[r] * (1 - distances[r - start]));
      nearest.offer(numbers.data()[i], distances, rows, start, stop);
    }
  }
}

}  // namespace
}  // namespace alance::vectors

void register_vector_bits(nanobind::module_& m) {
  namespace nb = nanobind;
  m.def("add_rabitq", &alance::vectors::add_rabitq, nb::arg("nearest"), nb::arg("numbers"),
        nb::arg("ids"), nb::arg("mask"), nb::arg("signs"), nb::arg("is_packed"), nb::arg("ex"),
        nb::arg("extra"), nb::arg("add"), nb::arg("factor"), nb::arg("centroid"), nb::arg("metric"),
        nb::arg("scale"));
}
