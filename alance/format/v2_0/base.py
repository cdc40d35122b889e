"""What every array encoding of 2.0 gives: plans over rows of a page, and pieces of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import ConstantBlock, FixedWidth

if TYPE_CHECKING:
    from alance.arrays import Mask
    from alance.format.blocks import Block
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_0_pb2 as pb
    from alance.format.v2_0.spans import Spans


@dataclass(frozen=True, slots=True)
class NullableBlock:
    """Decoded rows: what is at nulls is arbitrary. Arrays may be views of what was read."""

    block: Block
    valid: Mask | None  # shape (num_values,); None: all are

    @property
    def num_values(self) -> int:
        return self.block.num_values


class Piece(Protocol):
    """Bytes of some rows that were read; decoding them never waits."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        ...

    def decode(self) -> NullableBlock:
        """Exactly the rows that were asked for.

        Raises:
            CorruptFileError: the bytes contradict the description.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        ...


class ArrayEncoding(Protocol):
    """A node of a page's description, checked against the page's buffers."""

    def plan(self, place: PagePlace, spans: Spans) -> Plan[Piece]:
        """Plan rows: one round, two for strings of which not all are wanted."""
        ...


@dataclass(frozen=True, slots=True)
class NullPiece:
    """Rows that are all null."""

    num_rows: int

    @property
    def num_bytes(self) -> int:
        return 0

    def decode(self) -> NullableBlock:
        return NullableBlock(ConstantBlock(self.num_rows, None), np.zeros(self.num_rows, np.bool_))


@dataclass(frozen=True, slots=True)
class AllNulls:
    """No buffers: every row is null."""

    def plan(self, place: PagePlace, spans: Spans) -> Plan[Piece]:
        return NullPiece(spans.num_rows)
        yield


def fixed(values: NullableBlock, what: str) -> FixedWidth:
    """The block of values of equal width.

    Raises:
        CorruptFileError: they are of another kind, or some are null.
    """
    if not isinstance(values.block, FixedWidth) or values.valid is not None:
        raise CorruptFileError(f"{what}: {type(values.block).__name__}, expected plain values")
    return values.block


def unsupported(what: str) -> UnsupportedError:
    """The error for an encoding that pages of 2.0 have in no known release."""
    return UnsupportedError(f"array encoding {what}: not in pages of 2.0")


def kind_of(message: pb.ArrayEncoding) -> str:
    """The name of the encoding that a message describes.

    Raises:
        UnsupportedError: none that is known.
    """
    kind: str | None = message.WhichOneof("array_encoding")
    if kind is None:
        raise UnsupportedError("array encoding: none that pages of 2.0 have")
    return kind
