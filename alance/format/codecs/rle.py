"""Run-length codec.

A chunk of a mini-block page has two buffers: the values of runs, and their lengths. A block has one
buffer:

    u64    bytes of the values
    ...    values
    rest   lengths

In files up to 2.2, values are flat and lengths are bytes, so a run longer than 255 is stored as
several runs. In 2.3, lengths have 8, 16 or 32 bits. Values and lengths are each one of:

    flat                     raw
    out_of_line_bitpacking   packed; the other buffer must be flat, as its size gives the number of
                             runs
    general                  compressed, around one of these

Only the last run may exceed the chunk; its excess is dropped.

Source: encodings_v2_1.proto, message Rle; docs/format/encodings.md, "Rle".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth
from alance.format.codecs.base import expect, variant
from alance.format.codecs.fixed import Flat, OutOfLineBitpacking
from alance.format.codecs.general import Scheme, content_of
from alance.format.codecs.words import numbers_form

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes
    from alance.format.codecs.words import KernelNumbers
    from alance.format.proto import encodings_v2_1_pb2 as pb

PREFIX_BYTES: Final = 8  # bytes of the size at the start of a block
# Maximum values of a block, because a few wide lengths could claim any number.
MAX_VALUES: Final = 1 << 27


def split_payload(data: Bytes, what: str = "rle") -> tuple[Bytes, Bytes]:
    """Split a block, which begins with the size of its first part, into its two parts.

    Raises:
        CorruptFileError: the block has no size, or the size is larger than the block.
    """
    rest = len(data) - PREFIX_BYTES
    if rest < 0:
        raise CorruptFileError(f"{what}: a block of {len(data)} bytes")
    num_bytes = int.from_bytes(data[:PREFIX_BYTES].tobytes(), "little")
    if num_bytes > rest:
        raise CorruptFileError(f"{what}: {num_bytes} bytes of values in a block with {rest}")
    values = PREFIX_BYTES + num_bytes
    return data[PREFIX_BYTES:values], data[values:]


class RunNumbers(NamedTuple):
    """Codec for the values of runs, or for their lengths."""

    codec: Flat | OutOfLineBitpacking
    scheme: Scheme | None  # None if the numbers are not compressed

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
    def is_flat(self) -> bool:
        """True if the number of runs follows from the number of bytes."""
        return isinstance(self.codec, Flat)

    def raw(self, data: Bytes, count: int) -> Bytes:
        """Decompress the bytes of at most `count` numbers."""
        if self.scheme is None:
            return data
        bits = self.codec.bits_per_value
        return content_of(self.scheme, data, count * (bits // 8) + 128 * bits)

    def numbers(self, raw: Bytes, runs: int) -> npt.NDArray[np.unsignedinteger]:
        """Decode `runs` numbers."""
        block = self.codec.decode_block(raw, runs)
        return block.data.view(f"<u{self.codec.bits_per_value // 8}")


@dataclass(frozen=True, slots=True)
class Rle:
    """Run-length codec for values of fixed width."""

    num_buffers: ClassVar[int] = 2

    values: RunNumbers
    lengths: RunNumbers

    @classmethod
    def from_proto(cls, message: pb.Rle) -> Rle:
        values = RunNumbers.from_proto(message.values, (8, 16, 32, 64), "rle")
        lengths = RunNumbers.from_proto(message.run_lengths, (8, 16, 32), "rle lengths")
        if not (values.is_flat or lengths.is_flat):
            raise UnsupportedError("rle: both values and lengths are bit-packed")
        return cls(values, lengths)

    @property
    def bits_per_value(self) -> int:
        return self.values.codec.bits_per_value

    @property
    def is_plain(self) -> bool:
        """True for raw values and raw lengths of one byte, as in files up to 2.2."""
        is_flat = self.values.is_flat and self.lengths.is_flat
        has_schemes = self.values.scheme is not None or self.lengths.scheme is not None
        return is_flat and not has_schemes and self.lengths.codec.bits_per_value == 8

    @property
    def form(self) -> tuple[KernelNumbers, KernelNumbers]:
        """Values and lengths in the kernel's form."""
        return (
            numbers_form(self.values.codec, int(self.values.scheme or 0)),
            numbers_form(self.lengths.codec, int(self.lengths.scheme or 0)),
        )

    def decode_block(self, data: Bytes, num_values: int) -> FixedWidth:
        if num_values > MAX_VALUES and not self.is_plain:
            raise UnsupportedError(f"rle: a block of {num_values} values")
        return self.decode_chunk(split_payload(data), num_values)

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
        values = self.values.raw(buffers[0], num_values)
        lengths = self.lengths.raw(buffers[1], num_values)
        flat, stored = (self.values, values) if self.values.is_flat else (self.lengths, lengths)
        runs = len(stored) // (flat.codec.bits_per_value // 8)
        if runs > num_values or (runs == 0 and num_values):
            raise CorruptFileError(f"rle: {runs} runs in {num_values} values")
        repeats = self.lengths.numbers(lengths, runs).astype(np.int64)
        items = self.values.numbers(values, runs)
        if (repeats == 0).any():
            raise CorruptFileError("rle: a run of length 0")
        total = int(repeats.sum())
        if total < num_values or (runs and total - int(repeats[-1]) >= num_values):
            raise CorruptFileError(f"rle: runs hold {total} values, the chunk has {num_values}")
        repeats[-1:] -= total - num_values
        data = np.repeat(items, repeats).view(np.uint8)
        return FixedWidth(self.bits_per_value, num_values, data)

    def max_bytes(self, num_values: int) -> int:
        """Return an upper bound for the buffer of values, or for a block."""
        bits = self.bits_per_value
        return num_values * (bits // 8 + 4) + 128 * bits + 8
