"""New data files for fragments: values of live rows are written to a file for each fragment.

A new file has as many rows as its fragment, including deleted rows. A deleted row repeats the value
of the live row before it, so that no new null appears. Several fragments are written concurrently.
If the operation is repeated on a newer version, a fragment that still has the same files keeps its
new file.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.progress import Stage, is_watched
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.batches import fixed_bytes, one_batch
from alance.format.layouts.fields import leaf_columns
from alance.format.numbers import to_arrow
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_rows import TOMBSTONE
from alance.io.loop.tasks import ITEMS_A_TURN, all_of, in_turns
from alance.ops.columns.sources import source_of
from alance.ops.read.groups import (
    GROUP_FRAGMENTS,
    SMALL_DECODED_BYTES,
    SMALL_GROUP_ROWS,
    fixed_row_bytes,
    is_small,
)
from alance.ops.version.commits import PreparedChange
from alance.ops.write.files import DataFiles
from alance.ops.write.files_at_once import write_at_once
from alance.ops.write.options import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.format.schema import Schema
    from alance.format.table.operations import Operation
    from alance.ops.columns.checkpoint import Checkpoint
    from alance.ops.columns.sources import NewValues
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.version.summary import ChangeSummary
    from alance.ops.write.files_at_once import FileAtOnce

# Each fragment that is being written needs memory for its open pages, 8 MiB per column, and a share
# of the read-ahead. For small fragments the limit is round trips, so more of them are under way.
LEAST_AT_ONCE: Final = 4
MOST_AT_ONCE: Final = 32
ROWS_AT_ONCE: Final = 4 << 20
AHEAD_BYTES: Final = 128 << 20
UNLIMITED: Final = Limits(1 << 62, 1 << 62)


@dataclass(frozen=True, slots=True)
class _BackfilledFile:
    source: str
    record: table_pb2.DataFile | None  # None if the fragment has no live rows
    files: DataFiles | FileAtOnce | None  # None if an earlier run wrote the file


@dataclass(slots=True)
class Backfill:
    """New files of one operation. Use it with `async with`; an error removes the files.

    Args:
        values: values of the new columns.
        checkpoint: stores finished work on disk until the version is committed; None: no
            checkpoint.
    """

    values: NewValues
    checkpoint: Checkpoint | None = None
    _written: dict[int, _BackfilledFile] = field(default_factory=dict, init=False)
    _unnamed: bool = field(default=True, init=False)  # True while no version can name the files

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await self.discard()

    async def fragments(
        self, snapshot: Snapshot, new: Schema, handles: Sequence[FragmentHandle] | None = None
    ) -> list[table_pb2.DataFragment]:
        """Write the new files, and return the records of fragments, each with its new file.

        Args:
            new: fields of the new files, with their parents.
            handles: fragments to write; None for all.

        Raises:
            InvalidInputError: there are too many or too few values, or they do not fit.
            StoreError: the store failed.
        """
        handles = snapshot.handles if handles is None else handles
        await snapshot.prepare(handles)
        reads = self.values.reads(snapshot.schema)
        missing = await self._missing(handles, reads)
        pool, in_order = snapshot.engine.pool, self.values.in_order
        is_grouped, has_watcher = self.values.is_grouped and self.checkpoint is None, is_watched()

        def look() -> tuple[int, int, list[list[FragmentHandle]]]:
            groups = [*small_groups(snapshot, new, missing, in_order)] if is_grouped else []
            num_values = self._num_values(missing) if has_watcher else 0
            return 1 if in_order else _at_once(handles), num_values, groups

        at_once, num_values, groups = await pool.run(look, inline=len(missing) <= GROUP_FRAGMENTS)
        ahead_bytes = min(AHEAD_BYTES, snapshot.session.io_buffer_bytes) // at_once
        limit, few = asyncio.Semaphore(at_once), asyncio.Semaphore(LEAST_AT_ONCE)

        async def alone(handle: FragmentHandle) -> None:
            async with limit:
                source = source_of(handle, reads)
                await self._alone(snapshot, new, handle, source, ahead_bytes, stage)

        async def group(small: Sequence[FragmentHandle]) -> None:
            async with few:
                await self._group(snapshot, new, small, reads, ahead_bytes)
                stage.add(self._num_values(small) if has_watcher else 0)

        first = {small[0].id: small for small in groups}
        grouped = {handle.id for small in groups for handle in small}
        works = (
            group(first[handle.id]) if handle.id in first else alone(handle)
            for handle in missing
            if handle.id in first or handle.id not in grouped
        )
        with Stage("columns", num_values, "rows") as stage:
            if in_order:
                for work in works:
                    await work
            else:
                await all_of(works)
            await self.values.end(snapshot)

        def written() -> tuple[list[table_pb2.DataFragment], list[_BackfilledFile]]:
            ids = {handle.id for handle in handles}
            gone = [self._written.pop(key) for key in self._written.keys() - ids]
            records = table_pb2.Manifest().fragments  # all in the memory of a single message
            for handle in handles:
                self._add_file(records.add(), handle, new)
            return [*records], gone

        fragments, gone = await pool.run(written)
        await _removed(gone)
        return fragments

    def _num_values(self, handles: Iterable[FragmentHandle]) -> int:
        """Return the number of values of prepared fragments."""
        keep = self.values.is_physical
        return sum(Spread.of(handle, keep=keep).num_live for handle in handles)

    async def _missing(
        self, handles: Sequence[FragmentHandle], reads: frozenset[int] | None
    ) -> list[FragmentHandle]:
        """Return the fragments that have no new file yet.

        If a fragment's own files have changed since its new file was written, the new file is
        removed.
        """
        missing, stale = [], []
        async for part in in_turns(handles):
            for handle in part:
                written = self._written.get(handle.id)
                if written is not None and written.source == source_of(handle, reads):
                    continue
                if written is not None:
                    stale.append(self._written.pop(handle.id))
                missing.append(handle)
        await _removed(stale)
        return missing

    async def commit(
        self,
        snapshot: Snapshot,
        operation: Operation,
        options: CommitOptions,
        summary: ChangeSummary | None = None,
    ) -> Snapshot:
        """Commit the new version.

        Raises:
            RetryableConflictError: run the operation again on the latest version.
            CommitConflictError: a newer version rules this one out.
            CommitStateUnknownError: it is unknown whether the version was committed.
        """
        self._unnamed = False

        async def unnamed() -> None:
            self._unnamed = True

        change = PreparedChange(snapshot, operation, options, discard=unnamed, summary=summary)
        after = await change.commit()
        if self.checkpoint is not None:
            await self.checkpoint.remove()
        is_few = len(self._written) <= ITEMS_A_TURN  # freeing a record takes 1 us
        await snapshot.engine.pool.run(self._written.clear, inline=is_few)
        return after

    async def discard(self) -> None:
        """Remove all files that no version can need, except files of a checkpoint."""
        if self._unnamed:
            written = list(self._written.values())
            self._written.clear()
            if self.checkpoint is None:
                await _removed(written)

    async def _alone(
        self,
        snapshot: Snapshot,
        new: Schema,
        handle: FragmentHandle,
        source: str,
        ahead_bytes: int,
        stage: Stage,
    ) -> None:
        """Write the file of a fragment, unless the checkpoint has it."""
        if self.checkpoint is not None:
            record = await self.checkpoint.find(handle.id, source)
            if record is not None:
                self._written[handle.id] = _BackfilledFile(source, record, None)
                stage.add(self._num_values([handle]) if is_watched() else 0)
                return
        version = snapshot.manifest.data_storage_version
        bases = snapshot.manifest.base_paths
        files = DataFiles(snapshot.session, snapshot.table, new, version, UNLIMITED, bases=bases)
        try:
            num_rows = await self._write(snapshot, handle, files, ahead_bytes, stage)
            (fragment,) = await files.seal() or [table_pb2.DataFragment()]
            await files.publish()
            if fragment.physical_rows != num_rows:
                raise AssertionError(f"{fragment.physical_rows} rows written, expected {num_rows}")
        except BaseException:
            await files.discard()
            raise
        record = fragment.files[0] if fragment.files else None
        self._written[handle.id] = _BackfilledFile(source, record, files)
        if self.checkpoint is not None and record is not None:
            # The file is retained even if this call fails, because the checkpoint may have its
            # record.
            await self.checkpoint.add(handle.id, source, record)

    async def _group(
        self,
        snapshot: Snapshot,
        new: Schema,
        handles: Sequence[FragmentHandle],
        reads: frozenset[int] | None,
        ahead_bytes: int,
    ) -> None:
        """Write the files of small fragments together."""
        files = await write_group(snapshot, new, self.values, handles, ahead_bytes)
        for handle, (record, file) in zip(handles, files, strict=True):
            self._written[handle.id] = _BackfilledFile(source_of(handle, reads), record, file)

    async def _write(
        self,
        snapshot: Snapshot,
        handle: FragmentHandle,
        files: DataFiles,
        ahead_bytes: int,
        stage: Stage,
    ) -> int:
        spread = Spread.of(handle, keep=self.values.is_physical)
        start = 0
        async with aclosing(self.values.batches(snapshot, handle, ahead_bytes)) as batches:
            async for batch in batches:
                if start + batch.num_rows > spread.num_live:
                    raise _wrong_rows(handle, f"more than {start}", spread.num_live)
                rows = await spread.batch(snapshot, batch, start)
                start += batch.num_rows
                await files.write(rows)
                stage.add(batch.num_rows)
        if start < spread.num_live:
            raise _wrong_rows(handle, str(start), spread.num_live)
        return handle.num_physical_rows if spread.num_live else 0

    def _add_file(
        self, fragment: table_pb2.DataFragment, handle: FragmentHandle, new: Schema
    ) -> None:
        """Copy the record of a fragment into a message, and add the new file."""
        fragment.CopyFrom(handle.fragment.message)
        record = self._written[handle.id].record
        if record is not None:
            file = fragment.files.add()
            file.CopyFrom(record)
            # Ids may have changed since the file was written, if other commits added fields.
            file.fields[:] = listed_ids(new, len(record.fields))
            for other in fragment.files[:-1]:  # the newest file has the parents in 2.0
                if not set(file.fields).isdisjoint(other.fields):
                    again = [
                        TOMBSTONE if field_id in file.fields else field_id
                        for field_id in other.fields
                    ]
                    other.fields[:] = again


def owned_ids(schema: Schema) -> list[int]:
    """Return the ids of the fields that have a column, in the order of a file's columns."""
    return [leaf.field.id for root in schema.fields for leaf in leaf_columns(root)]


def listed_ids(schema: Schema, count: int) -> list[int]:
    """Return the field ids that a data file lists: those with columns, or in files of 2.0 all.

    Args:
        count: number of ids in the record of the file, which tells the two cases apart.
    """
    owned = owned_ids(schema)
    return owned if len(owned) == count else [below.id for below in schema.walk()]


def _at_once(handles: Sequence[FragmentHandle]) -> int:
    largest = max((handle.num_physical_rows for handle in handles), default=0)
    return min(MOST_AT_ONCE, max(LEAST_AT_ONCE, ROWS_AT_ONCE // max(1, largest)))


def _wrong_rows(handle: FragmentHandle, num_values: str, expected: int) -> InvalidInputError:
    return InvalidInputError(
        f"new columns: {num_values} values for fragment {handle.id}, expected {expected}"
    )


async def _removed(written: Iterable[_BackfilledFile]) -> None:
    for output in written:
        if output.files is not None:
            await output.files.discard()


def small_groups(
    snapshot: Snapshot, new: Schema, handles: Sequence[FragmentHandle], in_order: bool
) -> Iterator[list[FragmentHandle]]:
    """Yield groups of several consecutive small fragments; skip others.

    Args:
        handles: prepared fragments.
        in_order: True to end a group before a large fragment.
    """
    leaves = [below for below in new.walk() if below.is_leaf]
    if any(below.is_blob_v2 for below in new.walk()):
        return
    row_bytes = max(
        fixed_row_bytes(snapshot.schema),
        sum(fixed_bytes(leaf.arrow_type) for leaf in leaves),
    )
    most = min(SMALL_GROUP_ROWS, SMALL_DECODED_BYTES / max(1, row_bytes))
    group: list[FragmentHandle] = []
    rows = 0
    for handle in handles:
        own = is_small(handle, row_bytes)
        is_full = rows + handle.num_physical_rows > most or len(group) == GROUP_FRAGMENTS
        if is_full if own else in_order:
            if len(group) > 1:
                yield group
            group, rows = [], 0
        if own:
            group.append(handle)
            rows += handle.num_physical_rows
    if len(group) > 1:
        yield group


async def write_group(
    snapshot: Snapshot,
    new: Schema,
    values: NewValues,
    handles: Sequence[FragmentHandle],
    ahead_bytes: int,
) -> list[tuple[table_pb2.DataFile | None, FileAtOnce | None]]:
    """Write the new files of fragments together, and return the record and the file of each.

    Both are None for a fragment without live rows.

    Raises:
        InvalidInputError: there are too many or too few values, or they do not fit.
        StoreError: the store failed; all files are removed.
    """
    spreads = [Spread.of(handle, keep=values.is_physical) for handle in handles]
    num_live = sum(spread.num_live for spread in spreads)
    values_read: list[pa.RecordBatch] = []
    rows = 0
    async with aclosing(values.grouped(snapshot, handles, ahead_bytes)) as batches:
        async for batch in batches:
            values_read.append(batch)
            rows += batch.num_rows
    if rows != num_live:
        raise InvalidInputError(
            f"new columns: {rows} values for fragments {handles[0].id} to {handles[-1].id}, "
            f"expected {num_live}"
        )
    outputs = iter(await write_at_once(snapshot, new, lambda: _cut(values_read, spreads)))
    files = [next(outputs) if spread.num_live else None for spread in spreads]
    return [(None if output is None else output.record, output) for output in files]


def _cut(batches: Sequence[pa.RecordBatch], spreads: Sequence[Spread]) -> list[pa.RecordBatch]:
    """Return the physical rows of each fragment that has live rows; CPU work."""
    if not batches:
        return []
    rows = one_batch(batches)
    parts, start = [], 0
    for spread in spreads:
        part = rows.slice(start, spread.num_live)
        start += spread.num_live
        sources = spread.sources(0, spread.num_live)
        if spread.num_live:
            parts.append(part if sources is None else part.take(to_arrow(sources)))
    return parts


@dataclass(frozen=True, slots=True)
class Spread:
    """Expansion of the live rows of a fragment to its physical rows."""

    deleted: Int64s | None
    num_live: int
    num_physical: int

    @classmethod
    def of(cls, handle: FragmentHandle, *, keep: bool = False) -> Spread:
        """Return the expansion for a prepared fragment.

        Args:
            keep: True to count deleted rows as live.
        """
        deleted = None if handle.deleted is None or keep else handle.deleted.rows
        count = handle.num_physical_rows
        return cls(deleted, count - (0 if deleted is None else len(deleted)), count)

    def sources(self, start: int, stop: int) -> Int64s | None:
        """Return, for each physical row of a span of live rows, the live row that it copies.

        Live rows are numbered from 0 at the start of the span. A deleted row copies the live row
        before it; at the start of the fragment, the live row after it. Returns None if no row of
        the span is deleted.
        """
        if self.deleted is None or not len(self.deleted):
            return None
        first, last = self._physical(start), self._physical(stop)
        gone = self.deleted[np.searchsorted(self.deleted, first) :]
        gone = gone[: np.searchsorted(gone, last)] - first
        if not len(gone):
            return None
        live = np.ones(last - first, np.int64)
        live[gone] = 0
        return np.maximum(np.cumsum(live) - 1, 0)

    async def batch(self, snapshot: Snapshot, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Expand values of the live rows from `start` on to physical rows."""
        rows = self.sources(start, start + batch.num_rows)
        if rows is None:
            return batch
        return await snapshot.engine.pool.run(lambda: batch.take(to_arrow(rows)))

    def _physical(self, live: int) -> int:
        assert self.deleted is not None
        if live == 0:
            return 0
        if live >= self.num_live:
            return self.num_physical
        before = self.deleted - np.arange(len(self.deleted))
        return int(live + np.searchsorted(before, live, "right"))
