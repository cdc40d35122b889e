"""Changes between two versions of a dataset with row lineage.

For each row, the version of its insert and the version of its last change are recorded. Fragments
that cannot have rows of the requested versions are not read. Deleted rows are the rows of the
earlier version that are missing in the later version.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_count
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import to_arrow
from alance.io.loop.generators import outermost
from alance.io.loop.tasks import all_of, each
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version import opening
from alance.ops.version.projection import CREATED_AT, ROW_ID, UPDATED_AT
from alance.versioning import load
from alance.versioning.sidecars import load_transaction

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from alance.base.arrays import UInt64s
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

DELTA_MANIFESTS_AT_ONCE: Final = 64  # maximum manifests to read concurrently
DELTA_BATCH_ROWS: Final = 1 << 16


@public
class DatasetDelta:
    """Changes after one version up to another; created by `Dataset.delta`."""

    __slots__ = ("_begin", "_end", "_snapshot")

    def __init__(self, snapshot: Snapshot, begin: int, end: int) -> None:
        self._snapshot = snapshot
        self._begin = begin
        self._end = end

    def __repr__(self) -> str:
        return f"DatasetDelta({self._snapshot.uri!r}, after {self._begin}, up to {self._end})"

    @property
    def begin_version(self) -> int:
        """Version after which the changes begin."""
        return self._begin

    @property
    def end_version(self) -> int:
        """Last version of the changes."""
        return self._end

    async def list_transactions(self) -> list[Transaction | None]:
        """Return the transactions of the versions in the range, oldest first.

        An entry is None if the version's transaction is not recorded.

        Cost: a GET for each version's manifest, 64 at once; one more GET for a transaction that is
        not in its manifest.

        Raises:
            NotFoundError: a version of the range has been cleaned up.
        """
        return await transactions_of(self._snapshot, range(self._begin + 1, self._end + 1))

    def get_inserted_rows(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Stream the rows inserted in the range that still exist, with this dataset's values.

        Cost: a scan of the fragments that have such rows.

        Args:
            columns: names of the columns; None for all. `_rowid`, `_row_created_at_version` and
                `_row_last_updated_at_version` are appended.
            batch_size, scan_in_order, batch_readahead, io_buffer_bytes: see `ScanOptions`.

        Raises:
            UnsupportedError: the table has no stable row ids, and so no row lineage.
            InvalidInputError: a column is unknown, or an option is out of range.
        """
        options = ScanOptions(
            batch_size=batch_size,
            scan_in_order=scan_in_order,
            batch_readahead=batch_readahead,
            io_buffer_bytes=io_buffer_bytes,
        )
        return self._rows(columns, options, {CREATED_AT: (self._begin, self._end)})

    def get_updated_rows(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Stream the older rows that last changed in the range, with this dataset's values.

        Older rows were inserted before the range. Rows that changed again after it are omitted; to
        include them, use the dataset at `end_version`.

        Cost: a scan of the fragments that have such rows.

        Args:
            columns: names of the columns; None for all. `_rowid`, `_row_created_at_version` and
                `_row_last_updated_at_version` are appended.
            batch_size, scan_in_order, batch_readahead, io_buffer_bytes: see `ScanOptions`.

        Raises:
            InvalidInputError: a column is unknown, or an option is out of range.
            UnsupportedError: the table has no stable row ids, and so no row lineage.
        """
        options = ScanOptions(
            batch_size=batch_size,
            scan_in_order=scan_in_order,
            batch_readahead=batch_readahead,
            io_buffer_bytes=io_buffer_bytes,
        )
        limits = {CREATED_AT: (-1, self._begin), UPDATED_AT: (self._begin, self._end)}
        return self._rows(columns, options, limits)

    @outermost
    async def get_deleted_row_ids(self) -> AsyncIterator[pa.RecordBatch]:
        """Stream the ids of the rows deleted in the range, ascending, as the column `_rowid`.

        These are the rows of `begin_version` that are missing in `end_version`.

        Cost: a GET for each of the two versions that is not this dataset's, and deletion files.
        Memory: 8 bytes per row of the fragments that differ between the versions.

        Raises:
            UnsupportedError: a version has no stable row ids.
            NotFoundError: a version has been cleaned up.
        """
        if self._begin < 1 or self._begin == self._end:
            return
        before, after = await all_of(
            opening.checkout(self._snapshot, version) for version in (self._begin, self._end)
        )
        for snapshot in (before, after):
            check_lineage(snapshot)
        unchanged = _unchanged(before.manifest, after.manifest)
        row_ids = [await _live_row_ids(snapshot, unchanged) for snapshot in (before, after)]
        gone = await self._snapshot.engine.pool.run(
            lambda: np.setdiff1d(row_ids[0], row_ids[1], assume_unique=False)
        )
        for start in range(0, len(gone), DELTA_BATCH_ROWS):
            values = to_arrow(gone[start : start + DELTA_BATCH_ROWS])
            yield pa.RecordBatch.from_arrays([values], names=[ROW_ID])

    @outermost
    async def _rows(
        self,
        columns: Sequence[str] | None,
        options: ScanOptions,
        limits: dict[str, tuple[int, int]],
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        snapshot = self._snapshot
        check_lineage(snapshot)
        chosen = await _touched(snapshot, limits)
        names = (
            [field.name for field in snapshot.schema.fields] if columns is None else list(columns)
        )
        names += [name for name in (ROW_ID, CREATED_AT, UPDATED_AT) if name not in names]
        filters = [
            f"{name} > {after}" if after >= 0 else "" for name, (after, _) in limits.items()
        ] + [f"{name} <= {last}" for name, (_, last) in limits.items()]
        options = replace(
            options,
            filter=" AND ".join(condition for condition in filters if condition),
            fragments=[handle.id for handle in chosen],
        )
        async with aclosing(scanned(snapshot, names, options)) as batches:
            async for batch in batches:
                yield batch


def delta(
    snapshot: Snapshot, compared_against: int | None, begin: int | None, end: int | None
) -> DatasetDelta:
    """Return the changes between two versions.

    Raises:
        InvalidInputError: neither or both kinds of range are given, a range lacks its end, or the
            versions are not in ascending order up to the snapshot's version.
    """
    if compared_against is not None:
        if begin is not None or end is not None:
            raise InvalidInputError(
                "delta: expected compared_against, or begin_version and end_version"
            )
        begin, end = compared_against, snapshot.version
    if begin is None or end is None:
        raise InvalidInputError(
            "delta: expected compared_against, or both begin_version and end_version"
        )
    for name, value in (("begin_version", begin), ("end_version", end)):
        check_count(name, value, 0)
    if not begin <= end <= snapshot.version:
        raise InvalidInputError(
            f"delta: versions {begin} to {end}, expected an order that ascends up to version "
            f"{snapshot.version}, which this dataset is"
        )
    return DatasetDelta(snapshot, begin, end)


async def recent_transactions(snapshot: Snapshot, recent: int) -> list[Transaction | None]:
    """Return the transactions of the latest `recent` versions up to this one, newest first.

    An entry is None if the version's transaction is not recorded.

    Raises:
        InvalidInputError: `recent` is negative or not an integer.
    """
    check_count("recent", recent, 0)
    listed = await load.list_manifests(snapshot.engine, snapshot.table)
    versions = [location.version for location in listed if location.version <= snapshot.version]
    return await transactions_of(snapshot, versions[::-1][:recent])


async def transactions_of(snapshot: Snapshot, versions: Sequence[int]) -> list[Transaction | None]:
    """Return the transactions of versions of the snapshot's branch; None for an unrecorded one."""

    async def transaction_of(version: int) -> Transaction | None:
        manifest = snapshot.manifest
        if version != snapshot.version:
            manifest = await load.load_version(snapshot.engine, snapshot.table, version)
        return await load_transaction(snapshot.engine, snapshot.table, manifest)

    return await each(transaction_of, versions, at_once=DELTA_MANIFESTS_AT_ONCE)


def check_lineage(snapshot: Snapshot) -> None:
    """Check that the table has row lineage."""
    if not snapshot.has_stable_row_ids:
        raise UnsupportedError(
            f"dataset {snapshot.uri!r}, version {snapshot.version}: without stable row ids it does "
            f"not keep when rows were inserted and changed"
        )


async def _touched(snapshot: Snapshot, limits: dict[str, tuple[int, int]]) -> list[FragmentHandle]:
    """Return the fragments that may have rows with versions in these ranges.

    Args:
        limits: range of versions for each lineage column: above the first number, up to the second.
    """
    handles = snapshot.handles
    await snapshot.resolve_sizes(handles)
    await snapshot.load_meta(handles, list(limits))

    def pick() -> list[FragmentHandle]:
        return [
            handle
            for handle in handles
            if all(
                bool(np.any((values > np.int64(after)) & (values <= np.int64(last))))
                for name, (after, last) in limits.items()
                for values in [handle.row_values(name).values.astype(np.int64)]
            )
        ]

    return await snapshot.engine.pool.run(pick)


def _unchanged(before: Manifest, after: Manifest) -> frozenset[int]:
    """Return the ids of fragments that have the same rows in both versions."""
    earlier = {fragment.id: fragment for fragment in before.fragments.records}
    return frozenset(
        fragment.id
        for fragment in after.fragments.records
        if fragment.id in earlier
        and earlier[fragment.id].deletion_file == fragment.deletion_file
        and earlier[fragment.id].physical_rows == fragment.physical_rows
    )


async def _live_row_ids(snapshot: Snapshot, without: frozenset[int]) -> UInt64s:
    handles = [handle for handle in snapshot.handles if handle.id not in without]
    await snapshot.prepare(handles)
    await snapshot.load_meta(handles, [ROW_ID])

    def collect() -> UInt64s:
        row_ids = [np.empty(0, np.uint64)]
        for handle in handles:
            live = handle.live_of(np.arange(handle.num_physical_rows))
            row_ids.append(handle.row_values(ROW_ID).at(live))
        return np.concatenate(row_ids)

    return await snapshot.engine.pool.run(collect)
