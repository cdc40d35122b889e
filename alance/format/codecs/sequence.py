"""Sequences (2.3): unsigned numbers of 32 or 64 bits whose count is known from elsewhere.

They are the offsets of strings in mini-blocks, one sequence a chunk, and the positions and counts
of sparse pages, one a page. A sequence has one buffer, its payload, or none:

    constant   no payload: every number is the value in the description; without one there is none
    range      no payload: start + step * i
    flat, inline_bitpacking, out_of_line_bitpacking    as blocks
    general    around flat, as a block
    delta, rle, dictionary                             see `sequence_nested.py`

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md, "Sequences and
metadata-only codecs".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth
from alance.format.codecs.bitpacking import InlineBitpacking, OutOfLineBitpacking
from alance.format.codecs.describe import expect
from alance.format.codecs.flat import Flat
from alance.format.codecs.general import GeneralBlock

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from alance.format.codecs.base import BlockCodec, ChunkBuffers
    from alance.format.proto import encodings_v2_1_pb2 as pb

    Int64s = npt.NDArray[np.int64]

MAX_NUMBER: Final = (1 << 63) - 1  # no position in a file is larger
STORED: Final = frozenset(["flat", "inline_bitpacking", "out_of_line_bitpacking", "general"])


class SequenceCodec(Protocol):
    """Numbers of one width."""

    @property
    def bits(self) -> int:
        """Of a number: 32 or 64."""
        ...

    @property
    def has_payload(self) -> bool:
        """Whether a sequence has a buffer."""
        ...

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        """The numbers of all sequences, end to end.

        Args:
            chunks: one buffer a sequence, or none without payload.

        Raises:
            CorruptFileError: the bytes contradict the description or count.
        """
        ...


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Equal or equally spaced numbers, told by the description alone."""

    has_payload: ClassVar[bool] = False

    bits: int
    start: int
    step: int
    is_empty: bool = False  # the description has no number: there is none

    @classmethod
    def of_constant(cls, message: pb.Constant, bits: int) -> Arithmetic:
        if not message.HasField("value"):
            return cls(bits, 0, 0, is_empty=True)
        if len(message.value) not in (4, 8):
            raise CorruptFileError(f"sequence: a constant of {len(message.value)} bytes")
        return cls(8 * len(message.value), int.from_bytes(message.value, "little"), 0)

    @classmethod
    def of_range(cls, message: pb.Range) -> Arithmetic:
        if not 0 < message.step <= MAX_NUMBER:
            raise CorruptFileError(f"sequence: a range with step {message.step}")
        return cls(checked_bits(message.uncompressed_bits_per_value), message.start, message.step)

    def check(self, count: int) -> None:
        """Check that `count` numbers are possible.

        Raises:
            CorruptFileError: they are too large, or there are none.
        """
        if self.is_empty and count:
            raise CorruptFileError(f"sequence: {count} numbers, the description has none")
        last = self.start + self.step * max(count - 1, 0)
        if last > min(MAX_NUMBER, (1 << self.bits) - 1):
            raise CorruptFileError(f"sequence: numbers to {last} in {self.bits} bits")

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        self.check(int(chunks.counts.max(initial=0)))
        return self.start + self.step * ordinals(chunks.counts)


@dataclass(frozen=True, slots=True)
class Stored:
    """Numbers that another codec stores as a block."""

    has_payload: ClassVar[bool] = True

    bits: int
    codec: BlockCodec

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        block = self.codec.decode_blocks(chunks)
        if not isinstance(block, FixedWidth) or block.bits_per_value != self.bits:
            raise CorruptFileError(f"sequence: numbers of {self.bits} bits expected")
        # Numbers of 64 bits as they are: one beyond 2^63 is negative.
        raw = block.data.view("<i8" if self.bits == 64 else "<u4")
        numbers = raw.astype(np.int64, copy=not raw.flags.aligned)
        if block.num_values != chunks.num_values or (self.bits == 64 and (numbers < 0).any()):
            raise CorruptFileError(
                f"sequence: {block.num_values} numbers, expected {chunks.num_values} below 2^63"
            )
        return numbers


def arithmetic_or_stored(
    encoding: pb.CompressiveEncoding, allowed: Collection[str], outer: str, *, bits: int
) -> Arithmetic | Stored:
    """The codec of a sequence that holds no further one.

    Args:
        allowed: names of codecs.
        outer: what it is a part of, for the error.
        bits: of a number, where the description does not say.

    Raises:
        UnsupportedError: a codec that is not allowed.
        CorruptFileError: a description that contradicts itself.
    """
    name = expect(encoding, allowed, outer)
    if name == "constant":
        return Arithmetic.of_constant(encoding.constant, bits)
    if name == "range":
        return Arithmetic.of_range(encoding.range)
    if name == "general":
        expect(encoding.general.values, ("flat",), "a compressed sequence")
        inner = Flat.from_proto(encoding.general.values.flat)
        block = GeneralBlock.from_proto(encoding.general, inner)
        return Stored(checked_bits(inner.bits_per_value), block)
    codec: Flat | InlineBitpacking | OutOfLineBitpacking
    if name == "flat":
        codec = Flat.from_proto(encoding.flat)
    elif name == "inline_bitpacking":
        codec = InlineBitpacking.from_proto(encoding.inline_bitpacking)
    else:
        codec = OutOfLineBitpacking.from_proto(encoding.out_of_line_bitpacking)
    return Stored(checked_bits(codec.bits_per_value), codec)


def checked_bits(bits: int) -> int:
    """The width of a number.

    Raises:
        UnsupportedError: neither 32 nor 64.
    """
    if bits not in (32, 64):
        raise UnsupportedError(f"sequence: numbers of {bits} bits, expected 32 or 64")
    return bits


def ordinals(counts: Int64s) -> Int64s:
    """0, 1, 2 and so on for each of some groups, end to end."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.arange(total, dtype=np.int64) - np.repeat(before, counts)
