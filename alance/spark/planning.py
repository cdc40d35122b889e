"""Partitions of a read: rows of fragments of about equal bytes, from the manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.table.fragment import Fragment
    from alance.spark.options import ReadOptions

MAX_PIECES: Final = 4096  # fragments of one partition: its message stays below a megabyte
FILE_COST: Final = 64 << 10  # what opening a file costs, in bytes that could be read meanwhile
UNKNOWN_BYTES: Final = 64 << 20  # of a file whose size the manifest does not tell
WORTH_A_TASK: Final = 1 << 20  # about what is read while a task is started
MIN_ROWS: Final = 4096  # a piece of a fragment is not cut smaller


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a fragment.

    Attributes:
        fragment: its record in the manifest.
        start, stop: physical rows; `stop` None: to the end.
    """

    fragment: bytes
    start: int = 0
    stop: int | None = None


class Rows(InputPartition):
    """One partition: what one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)

    def __repr__(self) -> str:
        return f"Rows({len(self.pieces)} fragments)"


def plan(
    fragments: Sequence[Fragment], fields: frozenset[int] | None, options: ReadOptions
) -> list[Rows]:
    """The partitions of a read, in row order.

    Cost: no request; about 10 us a fragment.

    Args:
        fields: ids of the fields that are read; None: all.
    """
    if options.limit is not None:
        return [Rows([Piece(slim(one)) for one in _first(fragments, options)])]
    sizes = [fragment_bytes(one, fields) for one in fragments]
    total = sum(sizes)
    target = min(
        options.partition_bytes,
        max(1, total // options.min_partitions),
        max(WORTH_A_TASK, total // options.parallelism),
    )
    partitions: list[Rows] = []
    pieces: list[Piece] = []
    filled = 0
    for fragment, size in zip(fragments, sizes, strict=True):
        for piece, num_bytes in _pieces(fragment, size, target):
            if pieces and (filled + num_bytes > target * 1.25 or len(pieces) >= MAX_PIECES):
                partitions.append(Rows(pieces))
                pieces, filled = [], 0
            pieces.append(piece)
            filled += num_bytes
    if pieces:
        partitions.append(Rows(pieces))
    return partitions


def _first(fragments: Sequence[Fragment], options: ReadOptions) -> Iterator[Fragment]:
    """The fragments that a limit needs: as many as surely hold the rows; all with a filter."""
    left = options.limit or 0
    for fragment in fragments:
        if left <= 0:
            return
        yield fragment
        if options.filter is None:
            left -= fragment.num_rows or 0


def _pieces(fragment: Fragment, size: int, target: int) -> Iterator[tuple[Piece, int]]:
    """A fragment as a whole, or cut into parts of equal rows."""
    message, rows = slim(fragment), fragment.physical_rows
    count = min(-(-size // target), rows // MIN_ROWS)
    if size <= target * 1.25 or count < 2:
        yield Piece(message), size
        return
    for number in range(count):
        start, stop = number * rows // count, (number + 1) * rows // count
        yield Piece(message, start, stop), size // count


def fragment_bytes(fragment: Fragment, fields: frozenset[int] | None) -> int:
    """Encoded bytes of some fields, as far as the manifest tells: by the share of the columns."""
    total = 0
    for file in fragment.files:
        share = 1.0
        if fields is not None:
            held = sum(1 for one in file.columns if one in fields)
            if not held:
                continue
            share = held / len(file.columns)
        total += FILE_COST + int((file.num_bytes or UNKNOWN_BYTES) * share)
    return max(1, total)


def slim(fragment: Fragment) -> bytes:
    """A fragment's record as it is sent to a task."""
    return fragment.message.SerializeToString()
