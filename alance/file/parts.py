"""Parts of batches that are written: slices, and columns as they wait for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.batches import batch_bytes
from alance.format.encode.leaves import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HELD_BYTES: Final = 64 << 10  # that a small column may keep alive beside itself
STEP_BYTES: Final = 32 << 20  # of a batch that are encoded at a time


def steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices that are encoded one after the other: bounds what waits to be uploaded."""
    rows = batch.num_rows
    parts = max(1, -(-batch_bytes(batch) // STEP_BYTES))
    step = max(1, -(-rows // parts))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def owned(array: pa.Array) -> pa.Array:
    """An array whose rows may wait for long: a copy, where it keeps much more memory alive.

    A column of a batch that came by IPC holds the batch, and a slice what it is a slice of.
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
    """Neighbouring rows in one array of a storage type.

    Args:
        parts: one or more; of several types all are cast to that of the first.
        where: what an error's message begins with.

    Raises:
        InvalidInputError: rows that do not fit into one array, or not the first one's type.
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
