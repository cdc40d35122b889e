"""Rows that tasks replace, add or remove, and their single commit.

The driver receives at most 8 bytes per removed row in roaring bitmaps of row offsets, one for each
fragment. With stable row ids, it also receives the id of each moved row.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap

from alance.distributed import META, ROW_ADDRESS, ROW_ID, replace_rows
from alance.spark.committing import write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from alance import Dataset
    from alance.distributed import InsertedKeys
    from alance.spark.committing import WriteTarget, WrittenFiles
    from alance.types import Data


@dataclass(frozen=True, slots=True)
class RowChange:
    """Result of one task that changes rows.

    Attributes:
        written: the written rows; None if the task only selected rows to remove.
        places: roaring bitmaps of the offsets of removed rows, by fragment.
        row_ids: row ids that the written rows take over, in the order of these rows; the bytes of
            uint64 values.
        keys: keys of the written rows if a merge inserts them; else None.
    """

    written: WrittenFiles | None
    places: dict[int, bytes]
    row_ids: bytes = b""
    keys: InsertedKeys | None = None


class RowMoves:
    """Collector of removed rows and inserted keys, while rows pass through."""

    def __init__(self, keys: InsertedKeys | None = None) -> None:
        self._bitmaps: dict[int, BitMap] = {}
        self._ids: list[bytes] = []
        self._keys = copy(keys)

    def note(self, batch: pa.RecordBatch, *, keep_address: bool = False) -> pa.RecordBatch:
        """Record the rows that a batch replaces; return the batch without its meta columns.

        Rows of a batch without addresses are new and replace nothing.

        Args:
            keep_address: True to keep the column of row addresses.
        """
        addresses = batch.column(ROW_ADDRESS)
        if addresses.null_count == 0:
            self._add(addresses)
            if ROW_ID in batch.schema.names:
                self._ids.append(batch.column(ROW_ID).to_numpy().astype(np.uint64).tobytes())
        dropped = [name for name in META if name in batch.schema.names]
        return batch.drop_columns(
            [name for name in dropped if not (keep_address and name == ROW_ADDRESS)]
        )

    def note_new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Record the keys of a batch of rows that a merge inserts; return the batch."""
        if self._keys is not None:
            self._keys.add_rows(batch)
        return batch

    def change(self, written: WrittenFiles | None = None) -> RowChange:
        """Return the recorded change."""
        places = {number: bitmap.serialize() for number, bitmap in self._bitmaps.items()}
        return RowChange(written, places, b"".join(self._ids), self._keys)

    def _add(self, addresses: pa.Array) -> None:
        values = addresses.to_numpy().astype(np.uint64)
        fragments = (values >> np.uint64(32)).astype(np.int64)
        offsets = (values & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        for number in np.unique(fragments).tolist():
            self._bitmaps.setdefault(number, BitMap()).update(offsets[fragments == number])


async def write_moved(target: WriteTarget, moves: RowMoves, rows: Data) -> RowChange:
    """Write rows while `moves` records the rows that they replace."""
    written = await write_rows(target, rows)
    return moves.change(written)


def merged(changes: Iterable[RowChange]) -> dict[int, BitMap]:
    """Merge the removed rows of all tasks; return their offsets by fragment."""
    bitmaps: dict[int, BitMap] = {}
    for change in changes:
        for number, content in change.places.items():
            bitmaps.setdefault(number, BitMap()).update(BitMap.deserialize(content))
    return bitmaps


def offsets_of(gone: Mapping[int, BitMap]) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the sorted offsets of rows by fragment, int64 of shape (n,)."""
    return {key: np.array(bitmap.to_array(), np.int64) for key, bitmap in sorted(gone.items())}


async def commit_changes(
    base: Dataset,
    moved: Sequence[RowChange],
    new: Sequence[RowChange],
    gone: Mapping[int, BitMap],
    columns: Sequence[str] | None = None,
) -> Dataset:
    """Commit written and removed rows as one version.

    Args:
        columns: columns with new values in moved rows; None: all.

    Raises:
        RetryableConflictError: another commit changed the same rows, or may have inserted the same
            keys.
        CommitConflictError: a newer version rules this one out.
    """
    return await replace_rows(
        base,
        offsets_of(gone),
        moved=_fragments(moved),
        inserted=_fragments(new),
        row_ids=np.frombuffer(b"".join(change.row_ids for change in moved), np.uint64),
        columns=columns,
        keys=_keys(new),
    )


def _keys(changes: Iterable[RowChange]) -> InsertedKeys | None:
    """Join the keys of all rows that a merge inserts. Returns None if it inserts no rows."""
    joined: InsertedKeys | None = None
    for change in changes:
        if change.keys is None or change.written is None or not change.written.num_rows:
            continue
        if joined is None:
            joined = copy(change.keys)
        else:
            joined.join(change.keys)
    return joined


def _fragments(changes: Sequence[RowChange]) -> list[bytes]:
    return [
        fragment
        for change in changes
        if change.written is not None
        for fragment in change.written.fragments
    ]
