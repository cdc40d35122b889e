"""Sequences (2.3): unsigned numbers of 32 or 64 bits whose count is known from elsewhere.

They are the offsets of strings in mini-blocks, one sequence a chunk, and the positions and counts
of sparse pages, one a page. A sequence has one buffer, its payload, or none:

    constant     no payload: every number is the value in the description; without one there is none
    range        no payload: start + step * i
    flat, inline_bitpacking, out_of_line_bitpacking    as blocks
    general      around flat, as a block
    delta        value 0 is `base`, each further one is the one before plus a number of `deltas`;
                 payload: that of `deltas`
    rle          u64 size of the values' payload, the values' payload, the lengths' payload;
                 lengths have 32 bits, and the count of runs follows from one of the two
    dictionary   u64 size of the indices' payload, u64 size of the items' payload, both payloads;
                 indices have 32 bits

Where no child has a payload, there is none at all.

Source: encodings_v2_1.proto, CompressiveEncoding, messages Delta, Rle, Dictionary and Variable;
docs/format/encodings.md, "Sequences and metadata-only codecs" and "Mini-block, sequence offsets".
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError, kernel_errors
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import (
    ChunkBuffers,
    MiniBlockCodec,
    expect,
    refuse_compression,
    variant,
)
from alance.format.codecs.fixed import Flat, InlineBitpacking, OutOfLineBitpacking
from alance.format.codecs.general import GeneralBlock
from alance.format.codecs.strings import Variable
from alance.format.numbers import positions_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.arrays import Bytes, Int64s
    from alance.format.codecs.base import BlockCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb

    Places = tuple[Int64s, Int64s]  # where payloads begin, and their bytes

MAX_ITEMS: Final = 4096  # of a dictionary
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
    return positions_of(np.zeros(len(counts), np.int64), counts)


NUMBERS: Final = STORED | {"constant", "range"}
IN_DELTA: Final = NUMBERS - {"general"}
IN_RUNS: Final = frozenset(["flat", "out_of_line_bitpacking", "constant", "range"])


def sequence_codec(encoding: pb.CompressiveEncoding, *, bits: int = 64) -> SequenceCodec:
    """The codec of a sequence.

    Args:
        bits: of a number, where the description does not say.

    Raises:
        UnsupportedError: a codec that is not known, or not legal here.
        CorruptFileError: the description contradicts itself.
    """
    match variant(encoding):
        case "delta":
            return Delta.from_proto(encoding.delta)
        case "rle":
            return Runs.from_proto(encoding.rle, bits)
        case "dictionary":
            return Distinct.from_proto(encoding.dictionary, bits)
    return arithmetic_or_stored(encoding, NUMBERS, "a sequence", bits=bits)


class Delta(NamedTuple):
    """Numbers that do not decrease, by their differences."""

    bits: int
    base: int
    deltas: Arithmetic | Stored

    @classmethod
    def from_proto(cls, message: pb.Delta) -> Delta:
        bits = checked_bits(message.uncompressed_bits_per_value)
        deltas = arithmetic_or_stored(message.deltas, IN_DELTA, "delta", bits=bits)
        if deltas.bits != bits or message.base >= 1 << (bits - (bits == 64)):
            raise CorruptFileError(
                f"delta: from {message.base} by numbers of {deltas.bits} bits, described are {bits}"
            )
        return cls(bits, message.base, deltas)

    @property
    def has_payload(self) -> bool:
        return self.deltas.has_payload

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        counts = chunks.counts
        if (counts == 0).any():
            raise CorruptFileError("delta: a sequence without numbers")
        inner = ChunkBuffers(chunks.data, chunks.starts, chunks.sizes, counts - 1)
        limit = MAX_NUMBER if self.bits == 64 else (1 << 32) - 1
        with kernel_errors:
            return _kernels.running_sums(self.deltas.decode(inner), counts, self.base, limit)


class Runs(NamedTuple):
    """Runs of equal numbers."""

    bits: int
    values: Arithmetic | Stored
    lengths: Arithmetic | Stored

    @classmethod
    def from_proto(cls, message: pb.Rle, bits: int) -> Runs:
        values = arithmetic_or_stored(message.values, IN_RUNS, "runs", bits=bits)
        lengths = arithmetic_or_stored(message.run_lengths, IN_RUNS, "lengths of runs", bits=32)
        if lengths.bits != 32:
            raise UnsupportedError(f"lengths of runs of {lengths.bits} bits, expected 32")
        if isinstance(lengths, Stored) and not (_is_flat(values) or _is_flat(lengths)):
            raise UnsupportedError("runs whose number neither values nor lengths tell")
        return cls(values.bits, values, lengths)

    @property
    def has_payload(self) -> bool:
        return self.values.has_payload or self.lengths.has_payload

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        value_part = length_part = _nowhere(chunks.num_chunks)
        if self.has_payload:
            with kernel_errors:
                spans = _kernels.split_runs(chunks.data, chunks.starts[0], chunks.sizes[0])
            value_part, length_part = spans[:2], spans[2:]
        runs = self._num_runs(chunks.counts, value_part[1], length_part[1])
        if (runs > chunks.counts).any():
            raise CorruptFileError(f"runs: {runs.sum()} of them in {chunks.num_values} numbers")
        lengths = _child_numbers(self.lengths, chunks.data, length_part, runs)
        sums = np.concatenate([[0], np.cumsum(lengths)])
        ends = np.cumsum(runs)
        if (lengths == 0).any() or not np.array_equal(
            sums[ends] - sums[ends - runs], chunks.counts
        ):
            raise CorruptFileError(
                f"runs: lengths of together {sums[-1]} in {chunks.num_values} numbers"
            )
        numbers: Int64s = np.repeat(
            _child_numbers(self.values, chunks.data, value_part, runs), lengths
        )
        return numbers

    def _num_runs(self, counts: Int64s, value_bytes: Int64s, length_bytes: Int64s) -> Int64s:
        """Runs of each sequence."""
        lengths = self.lengths
        if isinstance(lengths, Arithmetic) and lengths.step == 0:
            num_runs = counts // max(lengths.start, 1)
        elif isinstance(lengths, Arithmetic):
            most = isqrt(2 * int(counts.max(initial=0)) // lengths.step + 1) + 2
            sums = np.cumsum(lengths.start + lengths.step * np.arange(most, dtype=np.float64))
            num_runs = np.where(counts > 0, np.searchsorted(sums, counts) + 1, 0)
        elif _is_flat(self.values):
            num_runs = value_bytes // (self.bits // 8)
        else:
            num_runs = length_bytes // 4
        return num_runs.astype(np.int64)


class Distinct(NamedTuple):
    """Indices into a few distinct numbers."""

    bits: int
    indices: Arithmetic | Stored
    items: Arithmetic | Stored
    num_items: int

    @classmethod
    def from_proto(cls, message: pb.Dictionary, bits: int) -> Distinct:
        indices = arithmetic_or_stored(message.indices, IN_RUNS, "indices", bits=32)
        items = arithmetic_or_stored(message.items, IN_RUNS, "distinct numbers", bits=bits)
        if indices.bits != 32:
            raise UnsupportedError(f"indices of {indices.bits} bits, expected 32")
        if not 1 <= message.num_dictionary_items <= MAX_ITEMS:
            raise CorruptFileError(
                f"sequence: {message.num_dictionary_items} distinct numbers, at most {MAX_ITEMS}"
            )
        return cls(items.bits, indices, items, message.num_dictionary_items)

    @property
    def has_payload(self) -> bool:
        return self.indices.has_payload or self.items.has_payload

    def decode(self, chunks: ChunkBuffers) -> Int64s:
        index_part = item_part = _nowhere(chunks.num_chunks)
        if self.has_payload:
            index_part, item_part = _two_payloads(chunks)
        indices = _child_numbers(self.indices, chunks.data, index_part, chunks.counts)
        if len(indices) and int(indices.max()) >= self.num_items:
            raise CorruptFileError(f"index {indices.max()} into {self.num_items} distinct numbers")
        num_items = np.full(chunks.num_chunks, self.num_items, np.int64)
        items = _child_numbers(self.items, chunks.data, item_part, num_items)
        shifts = np.repeat(np.arange(chunks.num_chunks) * self.num_items, chunks.counts)
        numbers: Int64s = items[indices + shifts]
        return numbers


def _is_flat(codec: Arithmetic | Stored) -> bool:
    return isinstance(codec, Stored) and isinstance(codec.codec, Flat)


def _nowhere(num_chunks: int) -> Places:
    """Places of payloads that are not there."""
    return np.zeros(num_chunks, np.int64), np.zeros(num_chunks, np.int64)


def _child_numbers(codec: Arithmetic | Stored, data: Bytes, part: Places, counts: Int64s) -> Int64s:
    """Decode the numbers of a child codec from its part of the chunks."""
    rows = slice(0, 1 if codec.has_payload else 0)
    starts, sizes = part[0].reshape(1, -1)[rows], part[1].reshape(1, -1)[rows]
    return codec.decode(ChunkBuffers(data, starts, sizes, counts))


def _two_payloads(chunks: ChunkBuffers) -> tuple[Places, Places]:
    """Where two payloads lie behind their sizes."""
    starts, sizes = chunks.starts[0], chunks.sizes[0]
    if (starts < 0).any() or (sizes < 16).any() or (starts + sizes > len(chunks.data)).any():
        raise CorruptFileError("sequence: a dictionary outside of its bytes")
    heads = chunks.data[starts[:, None] + np.arange(16)].view("<u8")
    if (heads > len(chunks.data)).any() or (heads.sum(axis=1) + 16 > sizes.astype(np.uint64)).any():
        raise CorruptFileError("sequence: a dictionary with parts outside of its bytes")
    first, second = heads.astype(np.int64).T
    return (starts + 16, first), (starts + 16 + first, second)


def variable_codec(message: pb.Variable) -> MiniBlockCodec:
    """The codec of strings in mini-blocks, by that of their offsets.

    Raises:
        UnsupportedError: one that is not known.
        CorruptFileError: the description contradicts itself.
    """
    if variant(message.offsets) == "flat":
        return Variable.from_proto(message)
    refuse_compression(message, "values")
    return SequenceVariable(sequence_codec(message.offsets, bits=32))


class SequenceVariable(NamedTuple):
    """Byte strings whose offsets are a sequence, in mini-blocks.

        payload of the offsets   a buffer of its own, where their codec has one
        bytes                    without padding

    A chunk of n values has n + 1 offsets: they begin at 0 and end at the number of its bytes.
    """

    offsets: SequenceCodec

    @property
    def num_buffers(self) -> int:
        return 1 + self.offsets.has_payload

    def decode_chunks(self, chunks: ChunkBuffers) -> VariableWidth:
        counts = chunks.counts
        starts, sizes = chunks.starts[-1], chunks.sizes[-1]
        offsets = self.offsets.decode(
            ChunkBuffers(chunks.data, chunks.starts[:-1], chunks.sizes[:-1], counts + 1)
        )
        with kernel_errors:
            joined = _kernels.join_offsets(offsets, counts, sizes)
            _, data = _kernels.concat_spans(chunks.data, starts, sizes)
        codec = Variable(self.offsets.bits)
        return VariableWidth(codec.offsets_of(VariableWidth(joined, data)), data)

    def max_bytes(self, counts: Int64s) -> None:
        return None
