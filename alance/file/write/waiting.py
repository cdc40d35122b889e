"""Waiting rows of a file being written: rows of a column for its next page, and memory budgets."""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.batches import batch_bytes
from alance.file.budgets import buffer_bytes_for
from alance.format.encode.rows import join, split, values_bytes
from alance.format.numbers import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.encode.statistics import NewStatistics
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn


@dataclass(slots=True)
class WaitingColumn:
    """Column with the rows for its next page."""

    number: int
    root: Field
    leaf: LeafColumn
    statistics: NewStatistics | None = None
    parts: list[PageValues] = field(default_factory=list)
    num_bytes: int = 0

    def add(self, values: PageValues) -> None:
        """Add rows."""
        if values.num_rows:
            self.parts.append(values)
            self.num_bytes += values_bytes(values)

    def take(self, page_bytes: int) -> list[PageValues]:
        """Remove the waiting rows, and return them in pieces of about a page.

        Also adds the rows to the statistics. CPU work.
        """
        if not self.parts:
            return []
        joined = join(self.parts)
        self.parts, self.num_bytes = [], 0
        if self.statistics is not None:
            try:
                self.statistics.add(self.number, joined)
            except ValueError as error:
                raise InvalidInputError(f"field {self.leaf.field.name!r}: {error}") from error
        return split(joined, page_bytes, multiple=self.leaf.multiplier)


class Waiting(Protocol):
    """Interface of columns with waiting rows."""

    num_bytes: int


W = TypeVar("W", bound=Waiting)
NUM_BYTES_OF: Final = attrgetter("num_bytes")


def largest(waiting: Sequence[W], buffer_bytes: int | None) -> list[W]:
    """Return the largest columns if the budget is exceeded; writing them frees half of the budget.

    Returns an empty list if the budget is not exceeded.
    """
    if buffer_bytes is None:
        buffer_bytes = buffer_bytes_for(len(waiting))
    num_bytes = sum(column.num_bytes for column in waiting)
    if num_bytes <= buffer_bytes:
        return []
    chosen = []
    for column in sorted(waiting, key=lambda column: -column.num_bytes):
        if num_bytes <= buffer_bytes // 2:
            break
        chosen.append(column)
        num_bytes -= column.num_bytes
    return chosen


HELD_BYTES: Final = 64 << 10  # bytes of other memory that a small column may keep alive
STEP_BYTES: Final = 32 << 20  # bytes of a batch to encode at a time


def steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch to encode one by one, which limits the bytes that wait."""
    rows = batch.num_rows
    parts = max(1, -(-batch_bytes(batch) // STEP_BYTES))
    step = max(1, -(-rows // parts))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def owned(array: pa.Array) -> pa.Array:
    """Return an array to buffer: a copy if the array keeps much more memory alive than its own.

    A column of a batch from IPC keeps the whole batch alive, and a slice keeps its whole parent
    alive.
    """
    held: dict[int, int] = {}
    for buffer in array.buffers():
        whole = buffer
        while whole is not None and whole.parent is not None:
            whole = whole.parent
        if whole is not None:
            held[whole.address] = whole.size
    if sum(held.values()) <= 2 * array.nbytes + HELD_BYTES:
        return array
    return pa.concat_arrays([array])


def joined(parts: Sequence[pa.Array], where: str = "") -> pa.Array:
    """Concatenate rows to one array of a storage type.

    Args:
        parts: one or more; parts of other types are cast to the first part's type.
        where: prefix of an error's message.

    Raises:
        InvalidInputError: the rows do not fit into one array, or cannot be cast to the first part's
            type.
    """
    plain = [storage_of(part) for part in parts]
    if len(plain) == 1:
        return plain[0]
    try:
        if len({part.type for part in plain}) > 1:
            plain = [part.cast(plain[0].type) for part in plain]
        return pa.concat_arrays(plain)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{where}rows of {plain[0].type}: {error}") from error
