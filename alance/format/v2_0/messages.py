"""Pages of 2.0 that are being made: their buffers, and the messages that name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alance.format.proto import encodings_v2_0_pb2 as pb

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import Bytes

    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it goes into a file."""

    encoding: pb.ArrayEncoding
    buffers: tuple[Bytes, ...]  # without padding
    num_rows: int


class Buffers:
    """The buffers of a page that is being made, and messages that name them."""

    def __init__(self) -> None:
        self.all: list[Bytes] = []

    def add(self, content: Bytes) -> pb.Buffer:
        """The message of a new buffer."""
        self.all.append(content)
        return pb.Buffer(buffer_index=len(self.all) - 1)

    def flat(self, bits: int, content: Bytes) -> pb.ArrayEncoding:
        """Values of equal width in a new buffer."""
        return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits, buffer=self.add(content)))

    def validity(self, valid: Mask) -> pb.ArrayEncoding:
        """A bitmap in a new buffer."""
        return self.flat(1, np.packbits(valid, bitorder="little"))


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    """Values that are all valid."""
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def all_nulls() -> pb.ArrayEncoding:
    """Nothing but nulls; also no rows at all."""
    return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


def some_nulls(validity: pb.ArrayEncoding, values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    """Values beside a bitmap."""
    some = pb.Nullable.SomeNull(validity=validity, values=values)
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some))


def ends_of(offsets: npt.NDArray[np.int64], valid: Mask | None) -> tuple[Bytes, int]:
    """Entries of strings or lists from their offsets, and what is added to those of nulls."""
    adjustment = int(offsets[-1]) + 1
    ends = offsets[1:].astype("<u8")
    if valid is not None:
        ends[~valid] += np.uint64(adjustment)
    return ends.view(np.uint8), adjustment
