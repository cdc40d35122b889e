"""Sequences (2.3) that are made of others: differences, runs, indices into distinct numbers.

    delta        value 0 is `base`, each further one is the one before plus a number of `deltas`;
                 payload: that of `deltas`
    rle          u64 size of the values' payload, the values' payload, the lengths' payload;
                 lengths have 32 bits, and the count of runs follows from one of the two
    dictionary   u64 size of the indices' payload, u64 size of the items' payload, both payloads;
                 indices have 32 bits

Where no child has a payload, there is none at all.

Source: encodings_v2_1.proto, messages Delta, Rle, Dictionary; docs/format/encodings.md, "Sequences
and metadata-only codecs".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import variant
from alance.format.codecs.flat import Flat
from alance.format.codecs.sequence import (
    MAX_NUMBER,
    STORED,
    Arithmetic,
    SequenceCodec,
    Stored,
    arithmetic_or_stored,
    checked_bits,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.proto import encodings_v2_1_pb2 as pb

    Int64s = npt.NDArray[np.int64]
    Part = tuple[Int64s, Int64s]  # where payloads begin, and their bytes

MAX_ITEMS: Final = 4096  # of a dictionary
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


@dataclass(frozen=True, slots=True)
class Delta:
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


@dataclass(frozen=True, slots=True)
class Runs:
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
        lengths = _part(self.lengths, chunks.data, length_part, runs)
        sums = np.concatenate([[0], np.cumsum(lengths)])
        ends = np.cumsum(runs)
        if (lengths == 0).any() or not np.array_equal(
            sums[ends] - sums[ends - runs], chunks.counts
        ):
            raise CorruptFileError(
                f"runs: lengths of together {sums[-1]} in {chunks.num_values} numbers"
            )
        numbers: Int64s = np.repeat(_part(self.values, chunks.data, value_part, runs), lengths)
        return numbers

    def _num_runs(self, counts: Int64s, value_bytes: Int64s, length_bytes: Int64s) -> Int64s:
        """Runs of each sequence."""
        lengths = self.lengths
        if isinstance(lengths, Arithmetic) and lengths.step == 0:
            found = counts // max(lengths.start, 1)
        elif isinstance(lengths, Arithmetic):
            most = isqrt(2 * int(counts.max(initial=0)) // lengths.step + 1) + 2
            sums = np.cumsum(lengths.start + lengths.step * np.arange(most, dtype=np.float64))
            found = np.where(counts > 0, np.searchsorted(sums, counts) + 1, 0)
        elif _is_flat(self.values):
            found = value_bytes // (self.bits // 8)
        else:
            found = length_bytes // 4
        return found.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Distinct:
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
            index_part, item_part = _two_parts(chunks)
        indices = _part(self.indices, chunks.data, index_part, chunks.counts)
        if len(indices) and int(indices.max()) >= self.num_items:
            raise CorruptFileError(f"index {indices.max()} into {self.num_items} distinct numbers")
        num_items = np.full(chunks.num_chunks, self.num_items, np.int64)
        items = _part(self.items, chunks.data, item_part, num_items)
        shifts = np.repeat(np.arange(chunks.num_chunks) * self.num_items, chunks.counts)
        numbers: Int64s = items[indices + shifts]
        return numbers


def _is_flat(codec: Arithmetic | Stored) -> bool:
    return isinstance(codec, Stored) and isinstance(codec.codec, Flat)


def _nowhere(num_chunks: int) -> Part:
    """Places of payloads that are not there."""
    return np.zeros(num_chunks, np.int64), np.zeros(num_chunks, np.int64)


def _part(codec: Arithmetic | Stored, data: Bytes, part: Part, counts: Int64s) -> Int64s:
    """The numbers of a child."""
    rows = slice(0, 1 if codec.has_payload else 0)
    starts, sizes = part[0].reshape(1, -1)[rows], part[1].reshape(1, -1)[rows]
    return codec.decode(ChunkBuffers(data, starts, sizes, counts))


def _two_parts(chunks: ChunkBuffers) -> tuple[Part, Part]:
    """Where two payloads lie behind their sizes."""
    starts, sizes = chunks.starts[0], chunks.sizes[0]
    if (starts < 0).any() or (sizes < 16).any() or (starts + sizes > len(chunks.data)).any():
        raise CorruptFileError("sequence: a dictionary outside of its bytes")
    heads = chunks.data[starts[:, None] + np.arange(16)].view("<u8")
    if (heads > len(chunks.data)).any() or (heads.sum(axis=1) + 16 > sizes.astype(np.uint64)).any():
        raise CorruptFileError("sequence: a dictionary with parts outside of its bytes")
    first, second = heads.astype(np.int64).T
    return (starts + 16, first), (starts + 16 + first, second)
