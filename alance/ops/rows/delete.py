"""Delete: deletion files mark the rows that match a predicate; no data is rewritten.

A scan of the predicate's columns finds the rows as physical offsets by fragment.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.batches import empty_columns
from alance.format.numbers import as_mask, as_numbers, ascending
from alance.format.proto import copied
from alance.format.table.operations import Delete
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.options import condition_of
from alance.ops.read.scan import scanned
from alance.ops.rows.moved import FEW_MOVED_ROWS, ChangedRows, prepare_rows
from alance.ops.version.commits import with_retries
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.version.summary import ChangeSummary

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, UInt64s
    from alance.expr import Predicate
    from alance.format.proto.table_pb2 import DataFragment
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def delete(snapshot: Snapshot, where: ScanOptions, commit: CommitOptions) -> Snapshot:
    """Commit a version without the rows for which a predicate is true; see `Dataset.delete`."""
    await load_readers(snapshot, condition=condition_of(where))
    checked = await checked_predicate(snapshot, where)
    change = Delete(predicate=checked.text)
    always = constant(checked)

    async def attempt(base: Snapshot) -> Snapshot:
        if always is None:
            rows = await matching_rows(base, where)
            count = sum(len(offsets) for offsets in rows.values())
            emptied = []
        else:
            rows, emptied = {}, [handle.id for handle in base.handles if always]
            count = await base.num_live() if always else 0
        changed, summary = ChangedRows(rows, emptied), ChangeSummary(num_deleted_rows=count)
        return await (await prepare_rows(base, change, changed, commit, summary)).commit()

    return await with_retries(snapshot, attempt, commit.max_retries)


async def delete_matching(
    snapshot: Snapshot, handle: FragmentHandle, where: ScanOptions
) -> DataFragment | None:
    """Delete the rows of a fragment for which a predicate is true; see `delete_offsets`.

    Args:
        where: options of a scan of this fragment.
    """
    await load_readers(snapshot, condition=condition_of(where))
    checked = await checked_predicate(snapshot, where)
    rows = await matching_rows(snapshot, where)
    offsets = rows.get(handle.id, np.empty(0, np.int64))
    return await delete_offsets(snapshot, handle, offsets, checked.text)


async def delete_offsets(
    snapshot: Snapshot, handle: FragmentHandle, offsets: Int64s, predicate: str = ""
) -> DataFragment | None:
    """Write a deletion file for rows of a fragment, and return the fragment's new record.

    Returns None if the fragment has no rows left.

    Args:
        offsets: physical offsets of the rows, sorted and unique; shape (n,).

    Raises:
        InvalidInputError: an offset is beyond the fragment's end.
    """
    rows = ChangedRows({handle.id: offsets})
    prepared = await prepare_rows(snapshot, Delete(predicate=predicate), rows)
    change = await prepared.give()
    assert isinstance(change, Delete)
    if change.deleted_fragment_ids:
        return None
    return copied(next(iter(change.updated_fragments), handle.fragment.message))


@dataclass(slots=True)
class DeletedOffsets:
    """Collector of row addresses by fragment; 8 bytes per row."""

    num_rows: int = 0
    _parts: dict[int, list[Int64s]] = field(default_factory=dict)

    def add(self, addresses: UInt64s) -> None:
        """Add distinct row addresses in any order; fastest if the fragment seldom changes."""
        self.num_rows += len(addresses)
        ids = (addresses >> np.uint64(32)).astype(np.int64)
        rows = (addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64)
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))[: len(ids)]
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=False):
            self._parts.setdefault(int(ids[start]), []).append(rows[start:stop])

    def by_fragment(self) -> dict[int, Int64s]:
        """Return the sorted physical offsets of each fragment, by fragment id; shape (n,).

        CPU work.
        """
        return {
            key: ascending(np.concatenate(parts).view(np.uint64)).view(np.int64)
            for key, parts in self._parts.items()
        }


async def matching_rows(snapshot: Snapshot, where: ScanOptions) -> dict[int, Int64s]:
    """Return the live rows for which a predicate is true, as physical offsets by fragment id.

    Cost: a scan of the predicate's columns.

    Raises:
        InvalidInputError: the SQL is invalid, a column is unknown, the predicate is not boolean, or
            a value is outside of its domain.
    """
    offsets = DeletedOffsets()
    async with aclosing(scanned(snapshot, [ROW_ADDRESS], where, is_large=True)) as batches:
        async for batch in batches:
            offsets.add(as_numbers(batch.column(0)))
    run = snapshot.engine.pool.run
    return await run(offsets.by_fragment, inline=offsets.num_rows <= FEW_MOVED_ROWS)


async def checked_predicate(snapshot: Snapshot, where: ScanOptions) -> Predicate:
    """Parse the predicate of a delete.

    Raises:
        InvalidInputError: the predicate is missing, or does not fit the table.
    """
    predicate = await parsed_predicate(snapshot, condition_of(where))
    if predicate is None:
        raise InvalidInputError("predicate: expected SQL text or a pyarrow expression, found None")
    return predicate


def constant(predicate: Predicate) -> bool | None:
    """Return the value of a predicate that reads no columns; None if it reads columns."""
    if predicate.columns:
        return None
    return bool(as_mask(predicate.mask(empty_columns(1)))[0])
