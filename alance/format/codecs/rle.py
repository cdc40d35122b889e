"""Run-length codec.

In mini-blocks two buffers: the value of each run, then the length of each run. As a block one:

    u64    bytes of the values
    ...    values
    rest   lengths

Up to 2.2 values are flat, and lengths are bytes: a run longer than 255 is stored as several. In 2.3
lengths have 8, 16 or 32 bits, and each of the two is

    flat                     as it is
    out_of_line_bitpacking   packed; how many runs there are follows from the size of the other
    general                  around one of these

Only the last run may be longer than what is left of the chunk; it is cut.

Source: encodings_v2_1.proto, message Rle; docs/format/encodings.md, "Rle".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError, kernel_errors
from alance.format.blocks import FixedWidth
from alance.format.codecs.base import ChunkBuffers, expect, flat_bits, nested_flat_bits, variant
from alance.format.codecs.fixed import Flat, OutOfLineBitpacking
from alance.format.codecs.general import Scheme, decompress
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from alance.arrays import Bytes, Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_VALUES: Final = 1 << 27  # of a block: few bytes may claim any number of values


def _split(blocks: ChunkBuffers) -> ChunkBuffers:
    """Split blocks into the two buffers of mini-block chunks: values and run lengths."""
    with kernel_errors:
        value_starts, value_sizes, length_starts, length_sizes = _kernels.split_runs(
            blocks.data, blocks.starts[0], blocks.sizes[0]
        )
    starts = np.stack([value_starts, length_starts])
    sizes = np.stack([value_sizes, length_sizes])
    return blocks._replace(starts=starts, sizes=sizes)


@dataclass(frozen=True, slots=True)
class Rle:
    """Runs of equal values."""

    num_buffers: ClassVar[int] = 2

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.Rle) -> Rle:
        nested_flat_bits(message.run_lengths, (8,), "rle lengths")
        return cls(nested_flat_bits(message.values, (8, 16, 32, 64), "rle"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        values, lengths = zip(chunks.starts, chunks.sizes, strict=True)
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.expand_runs(chunks.data, *values, *lengths, chunks.counts, bits)
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        return self.decode_chunks(_split(blocks))

    def max_bytes(self, counts: Int64s) -> Int64s:
        """Of the run values, or of a block: one run a value, and the size in front."""
        return counts * (self.bits_per_value // 8 + 1) + 8


def rle_codec(message: pb.Rle) -> Rle | CodedRle:
    """The codec of runs, by those of their values and lengths.

    Raises:
        UnsupportedError: one that is not known, or not legal here.
        CorruptFileError: the description contradicts itself.
    """
    lengths = message.run_lengths
    is_plain = variant(message.values) == "flat" and variant(lengths) == "flat"
    if is_plain and flat_bits(lengths.flat) == 8:
        return Rle.from_proto(message)
    return CodedRle.from_proto(message)


class RunNumbers(NamedTuple):
    """The values of runs, or their lengths."""

    codec: Flat | OutOfLineBitpacking
    scheme: Scheme | None  # of what is compressed around it

    @classmethod
    def from_proto(
        cls, encoding: pb.CompressiveEncoding, widths: Collection[int], outer: str
    ) -> RunNumbers:
        scheme = None
        if variant(encoding) == "general":
            scheme = Scheme.from_proto(encoding.general.compression)
            encoding = encoding.general.values
        codec: Flat | OutOfLineBitpacking
        if expect(encoding, ("flat", "out_of_line_bitpacking"), outer) == "flat":
            codec = Flat.from_proto(encoding.flat)
        else:
            codec = OutOfLineBitpacking.from_proto(encoding.out_of_line_bitpacking)
        if codec.bits_per_value not in widths:
            raise UnsupportedError(f"{outer} of {codec.bits_per_value} bits: expected {widths}")
        return cls(codec, scheme)

    @property
    def tells_count(self) -> bool:
        """Whether the size of the bytes says how many numbers there are."""
        return isinstance(self.codec, Flat)

    def raw(
        self, data: Bytes, starts: Int64s, sizes: Int64s, counts: Int64s
    ) -> tuple[Bytes, Int64s, Int64s]:
        """The bytes of all chunks without compression, where each begins, and how many it has."""
        if self.scheme is None:
            return data, starts, sizes
        bits = self.codec.bits_per_value
        offsets, content = decompress(
            self.scheme, data, starts, sizes, counts * (bits // 8) + 128 * bits
        )
        return content, offsets[:-1], np.diff(offsets)

    def numbers(
        self, raw: tuple[Bytes, Int64s, Int64s], runs: Int64s
    ) -> npt.NDArray[np.unsignedinteger]:
        """The numbers of all chunks, end to end."""
        data, starts, sizes = raw
        blocks = ChunkBuffers(data, starts.reshape(1, -1), sizes.reshape(1, -1), runs)
        block = self.codec.decode_blocks(blocks)
        return block.data.view(f"<u{self.codec.bits_per_value // 8}")


@dataclass(frozen=True, slots=True)
class CodedRle:
    """Runs of equal values, with wide or coded lengths, or coded values."""

    num_buffers: ClassVar[int] = 2

    values: RunNumbers
    lengths: RunNumbers

    @classmethod
    def from_proto(cls, message: pb.Rle) -> CodedRle:
        values = RunNumbers.from_proto(message.values, (8, 16, 32, 64), "rle")
        lengths = RunNumbers.from_proto(message.run_lengths, (8, 16, 32), "rle lengths")
        if not (values.tells_count or lengths.tells_count):
            raise UnsupportedError("rle: both values and lengths are bit-packed")
        return cls(values, lengths)

    @property
    def bits_per_value(self) -> int:
        return self.values.codec.bits_per_value

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        if blocks.num_values > MAX_VALUES:
            raise UnsupportedError(f"rle: a block of {blocks.num_values} values")
        return self.decode_chunks(_split(blocks))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        counts = chunks.counts
        values = self.values.raw(chunks.data, chunks.starts[0], chunks.sizes[0], counts)
        lengths = self.lengths.raw(chunks.data, chunks.starts[1], chunks.sizes[1], counts)
        teller, (_, _, told) = (
            (self.values, values) if self.values.tells_count else (self.lengths, lengths)
        )
        runs = told // (teller.codec.bits_per_value // 8)
        if (runs > counts).any() or ((runs == 0) & (counts > 0)).any():
            raise CorruptFileError(f"rle: {runs.sum()} runs in {chunks.num_values} values")
        repeats = self.lengths.numbers(lengths, runs).astype(np.int64)
        sums = np.concatenate([[0], np.cumsum(repeats)])
        ends = np.cumsum(runs)
        surplus = sums[ends] - sums[ends - runs] - counts
        last = np.where(runs > 0, repeats[np.maximum(ends, 1) - 1] if len(repeats) else 0, 1)
        if (repeats == 0).any() or (surplus < 0).any() or (surplus >= last).any():
            raise CorruptFileError(
                f"rle: runs hold {sums[-1]} values, the chunks have {chunks.num_values}"
            )
        is_cut = runs > 0
        repeats[ends[is_cut] - 1] -= surplus[is_cut]
        data = np.repeat(self.values.numbers(values, runs), repeats).view(np.uint8)
        return FixedWidth(self.bits_per_value, chunks.num_values, data)

    def max_bytes(self, counts: Int64s) -> Int64s:
        """Of the run values, or of a block."""
        bits = self.bits_per_value
        return counts * (bits // 8 + 4) + 128 * bits + 8
