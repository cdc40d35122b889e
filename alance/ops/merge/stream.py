"""Commits of streams of changes by key; each commit is a merge.

Chunks of a session's streams that wait while a merge is under way become one merge. The merge
begins by reading the latest version, which has all changes that were committed before the chunks
were accepted.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CommitConflictError
from alance.file.batches import one_batch
from alance.io.loop.background import grace_of
from alance.ops.merge.changed_keys import FeedPart, combine
from alance.ops.merge.insert import merge_parts
from alance.ops.merge.options import MergePlan
from alance.ops.merge.source import SourcePart
from alance.ops.version.commits import latest, manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.ops.write.append import queue_at
from alance.ops.write.ingest_chunk import Chunk
from alance.versioning.backoff import MAX_RETRIES, Backoff
from alance.versioning.group_queue import GroupQueue, WaitingCommit, keep
from alance.versioning.manifest_store import VersionsGoneError
from alance.versioning.outcome import clash_with, may_be_visible
from alance.versioning.tokens import merged_notes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from alance.format.schema import Schema
    from alance.ops.merge.changed_keys import ChangedKeys
    from alance.ops.write.ingest_chunk import Item
    from alance.ops.write.ingest_options import IngestOptions
    from alance.versioning.tokens import Notes


MERGES: Final = "merges"  # part of the keys of these queues among those of a session


class MergeChunk(Chunk):
    """Changes of one commit, held in memory until the merge has ended."""

    def __init__(
        self, base: Snapshot, options: IngestOptions, previous: int, accepted: float
    ) -> None:
        super().__init__(base, options, previous, accepted)
        self.items: list[Item] = []
        self._num_bytes = self._num_files = 0

    @property
    def num_files(self) -> int:
        """Number of new data files, once the chunk is committed; 0 if another chunk counts them."""
        return self._num_files

    @num_files.setter
    def num_files(self, count: int) -> None:
        self._num_files = count

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows and keys; a commit is due at `commit_bytes`."""
        return self._num_bytes

    @property
    def held_bytes(self) -> int:
        """Same as `num_bytes`: all rows and keys stay in memory until the commit ends."""
        return self._num_bytes

    @property
    def queue(self) -> MergeQueue:
        """Queue of the session's chunks with the same table and key columns."""
        base = self.base
        key = "\n".join([base.table.queue_key, MERGES, json.dumps(self.options.on)])
        queue = queue_at(base.session, key, lambda: MergeQueue(grace_s=grace_of(base.table.store)))
        assert isinstance(queue, MergeQueue)
        return queue

    async def _add(self, item: Item) -> None:
        self.items.append(item)
        self._num_bytes += item.num_bytes

    async def commit(self) -> Snapshot:
        """Merge the changes of each key into the latest version, with those of waiting chunks.

        Raises:
            CommitConflictError: a newer version has the same batches or other columns, or other
                commits changed the same rows at every attempt.
            CommitStateUnknownError, StoreError: see `versioning.commit`.
        """
        return await self.queue.merge(self)


class WaitingMerge(WaitingCommit["Snapshot"]):
    """Chunk in a queue.

    Attributes:
        is_alone: True if the merge of its group has failed, so that the chunk gets its own merge.
    """

    __slots__ = ("chunk", "is_alone")

    def __init__(self, chunk: MergeChunk, moved: Callable[[object], object]) -> None:
        super().__init__(chunk.notes(), chunk.options.properties, moved)
        self.chunk = chunk
        self.is_alone = False

    def goes_with(self, other: WaitingCommit[Snapshot]) -> bool:
        assert isinstance(other, WaitingMerge)
        ours, theirs = self.chunk.options, other.chunk.options
        if self.is_alone or other.is_alone or ours.limits != theirs.limits:
            return False
        return ours.data_storage_version == theirs.data_storage_version and super().goes_with(other)


class MergeQueue(GroupQueue[WaitingMerge]):
    """Queue of a session's chunks of changes: those that wait become one merge.

    If the merge of a group fails, and has not made its version, each chunk gets its own merge. So
    a chunk fails only by its own fault.
    """

    async def merge(self, chunk: MergeChunk) -> Snapshot:
        """Commit a chunk together with the waiting ones; return its version.

        Cost: a LIST and the merge, once the merge under way has ended. A cancelled call takes its
        chunk out of the queue. If the chunk's merge has begun, the call first waits for the merge
        up to `grace_s`; the other chunks of the merge are still committed.

        Raises:
            AlanceError: the merge failed.
        """
        version: Snapshot = await self._version_of(WaitingMerge(chunk, self._tell))
        return version

    async def _make(self, group: list[WaitingMerge], task: asyncio.Task[None]) -> None:
        try:
            base = await newest([waiter.chunk for waiter in group])
            group[:] = [waiter for waiter in group if not waiter.version.done()]
            if not group:
                return
            keep(group, task)
            version = await merge_chunks(base, [waiter.chunk for waiter in group])
        except Exception as error:
            if len(group) == 1 or may_be_visible(error):
                raise
            for waiter in group:
                waiter.making, waiter.is_alone = None, True
            self._return([*group], group)
            return
        for waiter in group:
            waiter.may_be_visible = True
            waiter.succeed(version)


async def newest(chunks: Sequence[MergeChunk]) -> Snapshot:
    """Return the latest version; it has all changes committed before the chunks were accepted.

    Raises: as `_newest`.
    """
    oldest = min([chunk.base for chunk in chunks], key=lambda base: base.version)
    return await _newest(merged_notes(chunk.notes() for chunk in chunks), oldest)


async def merge_chunks(base: Snapshot, chunks: Sequence[MergeChunk]) -> Snapshot:
    """Merge the changes of chunks into a version, in the order of the chunks.

    Raises: as `MergeChunk.commit`.
    """
    options = chunks[0].options
    on = options.on
    assert on is not None
    schema = base.schema.to_arrow()
    items = [item for chunk in chunks for item in chunk.items]

    def combined() -> tuple[ChangedKeys, list[SourcePart]]:
        changes = _combined(schema, on, items)
        return changes, _parts(changes, schema)

    changes, parts = await base.engine.pool.run(combined)
    notes = merged_notes(chunk.notes() for chunk in chunks)
    writing = options.writing(notes.properties())
    plan = MergePlan(
        on=on,
        when_matched="update",
        inserts=True,
        conflict_retries=MAX_RETRIES,
        retry_seconds=Backoff().limit_s,
        memory_bytes=sum(chunk.options.max_buffer_bytes for chunk in chunks),
        data_storage_version=writing.version_for(base.manifest),
        commit=writing.commit,
        limits=writing.limits,
    )
    merged = await merge_parts(
        base,
        plan,
        parts,
        deleted=one_batch(changes.deleted) if changes.deleted else None,
        rebase=partial(_newest, notes),
    )
    transaction = merged.manifest.transaction
    if transaction is not None:
        chunks[0].num_files = len(transaction.update.new_fragments)
    return merged


async def _newest(notes: Notes, base: Snapshot) -> Snapshot:
    """Return the latest version; check that no version since `base` has one of the batches.

    Cost: a LIST; also the manifests of the versions since `base` if there are notes.

    Args:
        notes: tokens and numbers of the batches.

    Raises:
        CommitConflictError: a version has one of the batches, or other columns.
        VersionsGoneError: a version that may have one of the tokens has been removed by a cleanup.
    """
    newer = None
    if notes:
        try:
            newer = await manifests_of(base.session, base.table).versions_after(base.manifest)
        except VersionsGoneError:
            if notes.tokens:
                raise
    if newer is None:  # each version has the latest numbers of the producers
        newer = [(await latest(base)).manifest]
    for manifest in newer:
        if clash := clash_with(manifest, notes):
            raise CommitConflictError(f"dataset {base.uri!r}: {clash}")
    if not newer:
        return base
    if _columns(newer[-1].schema) != _columns(base.schema):
        raise CommitConflictError(
            f"dataset {base.uri!r}: version {newer[-1].version} has other columns than "
            f"version {base.version}, for which the changes were accepted"
        )
    return Snapshot(base.session, base.table, newer[-1])


def _columns(schema: Schema) -> list[object]:
    return [field.message for field in schema.walk()]


def _combined(schema: pa.Schema, on: tuple[str, ...], items: list[Item]) -> ChangedKeys:
    """Combine the changes of items in order. CPU work."""
    parts = []
    for number, item in enumerate(items):
        for place, batches in ((2 * number, item.deleted), (2 * number + 1, item.batches)):
            parts += [
                FeedPart(batch, np.full(batch.num_rows, place), batches is item.deleted)
                for batch in batches
            ]
    return combine(schema, on, parts)


def _parts(changes: ChangedKeys, schema: pa.Schema) -> list[SourcePart]:
    """Return the rows to upsert, grouped by their columns; at least one part."""
    parts: list[SourcePart] = []
    for replaces, rows in ((False, changes.rows), (True, changes.replacing)):
        by_columns: dict[pa.Schema, list[pa.RecordBatch]] = {}
        for batch in rows:
            by_columns.setdefault(batch.schema, []).append(batch)
        tables = map(pa.Table.from_batches, by_columns.values())
        parts += [SourcePart(table, replaces=replaces) for table in tables]
    return parts or [SourcePart(schema.empty_table())]
