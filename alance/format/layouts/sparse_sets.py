"""Sets of slots and counts of children in sparse pages: explicit numbers, or equally spaced ones.

A set takes one buffer, or none where its codec has no payload.

Source: encodings_v2_3.proto, SparseValiditySet and SparseListLayer; docs/format/file.md, "Sparse
structure".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import ChunkBuffers
from alance.format.codecs.sequence import Arithmetic, sequence_codec

if TYPE_CHECKING:
    from alance.arrays import Int64s
    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb


MAX_NUMBERS: Final = 1 << 27  # of a set that is held in memory: 1 GiB


class Numbers(Protocol):
    """Ascending numbers."""

    @property
    def count(self) -> int: ...

    @property
    def num_bytes(self) -> int:
        """Memory that they hold."""
        ...

    def at(self, ordinals: Int64s) -> Int64s:
        """The numbers at some ordinals, all below `count`."""
        ...

    def rank(self, bounds: Int64s) -> Int64s:
        """How many numbers are below each bound; for numbers without duplicates."""
        ...


@dataclass(frozen=True, slots=True)
class Explicit:
    """Numbers in an array."""

    numbers: Int64s

    @property
    def count(self) -> int:
        return len(self.numbers)

    @property
    def num_bytes(self) -> int:
        return self.numbers.nbytes

    def at(self, ordinals: Int64s) -> Int64s:
        return self.numbers[ordinals]

    def rank(self, bounds: Int64s) -> Int64s:
        return np.searchsorted(self.numbers, bounds)


@dataclass(frozen=True, slots=True)
class Regular:
    """The numbers start + step * i, of which none is stored."""

    start: int
    step: int  # 1 or more
    count: int

    @property
    def num_bytes(self) -> int:
        return 0

    def at(self, ordinals: Int64s) -> Int64s:
        return self.start + self.step * ordinals

    def rank(self, bounds: Int64s) -> Int64s:
        below = (bounds - self.start + self.step - 1) // self.step
        return np.clip(below, 0, self.count)


@dataclass(frozen=True, slots=True)
class SetForm:
    """How a set is stored."""

    codec: SequenceCodec
    count: int

    @classmethod
    def from_proto(cls, encoding: pb.CompressiveEncoding, count: int) -> SetForm:
        """The form that a description says.

        Raises:
            CorruptFileError: the description contradicts itself.
            UnsupportedError: a codec that is not known, or numbers that are not of 64 bits.
        """
        codec = sequence_codec(encoding)
        if codec.bits != 64:
            raise UnsupportedError(f"sparse: a set of numbers of {codec.bits} bits, expected 64")
        if isinstance(codec, Arithmetic):
            codec.check(count)
        elif count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: a set of {count} numbers, at most {MAX_NUMBERS}")
        return cls(codec, count)

    def positions(self, content: memoryview | None, num_slots: int) -> Numbers:
        """Numbers of slots: ascending, below `num_slots`.

        Raises:
            CorruptFileError: they are not, or their bytes contradict the description.
        """
        if isinstance(self.codec, Arithmetic):
            start, step = self.codec.start, self.codec.step
            if self.count == 0:
                return Regular(0, 1, 0)
            if self.count > 1 and step == 0:
                raise CorruptFileError(f"sparse: slot {start} listed {self.count} times")
            if (last := start + step * (self.count - 1)) >= num_slots:
                raise CorruptFileError(f"sparse: slot {last} of {num_slots}")
            return Regular(start, step if self.count > 1 else 1, self.count)
        numbers = self._decode(content)
        if len(numbers) and (
            numbers[0] < 0 or numbers[-1] >= num_slots or (numbers[1:] <= numbers[:-1]).any()
        ):
            raise CorruptFileError(f"sparse: slots that do not ascend from 0 to below {num_slots}")
        return Explicit(numbers)

    def ends(self, content: memoryview | None, total: int) -> Numbers:
        """Sums of numbers that are at least 1: 0 first, `total` last.

        Raises:
            CorruptFileError: they are not, or their bytes contradict the description.
        """
        if isinstance(self.codec, Arithmetic) and self.codec.step == 0:
            if self.count * self.codec.start != total or (self.count and self.codec.start == 0):
                raise CorruptFileError(
                    f"sparse: {self.count} lists of {self.codec.start} items, in all {total}"
                )
            return Regular(0, max(self.codec.start, 1), self.count + 1)
        if self.count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: a set of {self.count} numbers, at most {MAX_NUMBERS}")
        numbers = self._decode(content)
        # The first sum beyond 63 bits is smaller than the one before.
        sums = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(numbers, out=sums[1:])
        if sums[-1] != total or (sums[1:] <= sums[:-1]).any():
            raise CorruptFileError(f"sparse: lists of {sums[-1]} items, expected {total}")
        return Explicit(sums)

    def _decode(self, content: memoryview | None) -> Int64s:
        data = np.frombuffer(content if content is not None else b"", np.uint8)
        blocks = ChunkBuffers.of_one(data, self.count)
        if not self.codec.has_payload:
            blocks = ChunkBuffers(data, blocks.starts[:0], blocks.sizes[:0], blocks.counts)
        return self.codec.decode(blocks)
