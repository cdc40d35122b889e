"""Commits of a stream of changes by key; each commit is a merge."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import CommitConflictError
from alance.file.batches import one_batch
from alance.ops.merge.changed_keys import FeedPart, combine
from alance.ops.merge.insert import merge_parts
from alance.ops.merge.options import MergePlan
from alance.ops.merge.source import SourcePart
from alance.ops.version.commits import latest, manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.ops.write.ingest_chunk import Chunk
from alance.versioning.backoff import MAX_RETRIES, Backoff
from alance.versioning.manifest_store import VersionsGoneError
from alance.versioning.outcome import clash_with

if TYPE_CHECKING:
    from alance.format.schema import Schema
    from alance.ops.merge.changed_keys import ChangedKeys
    from alance.ops.write.ingest_chunk import Item
    from alance.ops.write.ingest_options import IngestOptions


class MergeChunk(Chunk):
    """Changes of one commit, held in memory until the merge has ended.

    The merge begins by reading the latest version. So it applies to all changes that were committed
    before the chunk's changes were accepted.
    """

    def __init__(
        self, base: Snapshot, options: IngestOptions, previous: int, accepted: float
    ) -> None:
        super().__init__(base, options, previous, accepted)
        self._items: list[Item] = []
        self._num_bytes = self._num_files = 0

    @property
    def num_files(self) -> int:
        """Number of new data files, once the chunk is committed."""
        return self._num_files

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows and keys; a commit is due at `commit_bytes`."""
        return self._num_bytes

    @property
    def held_bytes(self) -> int:
        """Same as `num_bytes`: all rows and keys stay in memory until the commit ends."""
        return self._num_bytes

    async def _add(self, item: Item) -> None:
        self._items.append(item)
        self._num_bytes += item.num_bytes

    async def commit(self) -> Snapshot:
        """Merge the changes of each key into the latest version.

        Raises:
            CommitConflictError: a newer version has the same batches or other columns, or other
                commits changed the same rows at every attempt.
            CommitStateUnknownError, StoreError: see `versioning.commit`.
        """
        assert self.options.on is not None
        base = await self._newest(self.base)
        schema = base.schema.to_arrow()
        work = partial(_combined, schema, self.options.on, self._items)
        changes = await base.engine.pool.run(work)
        writing = self.options.writing(self.notes().properties())
        plan = MergePlan(
            on=self.options.on,
            when_matched="update",
            inserts=True,
            conflict_retries=MAX_RETRIES,
            retry_seconds=Backoff().limit_s,
            memory_bytes=self.options.max_buffer_bytes,
            data_storage_version=writing.version_for(base.manifest),
            commit=writing.commit,
            limits=writing.limits,
        )
        merged = await merge_parts(
            base,
            plan,
            _parts(changes, schema),
            deleted=one_batch(changes.deleted) if changes.deleted else None,
            rebase=self._newest,
        )
        transaction = merged.manifest.transaction
        if transaction is not None:
            self._num_files = len(transaction.update.new_fragments)
        return merged

    async def _newest(self, base: Snapshot) -> Snapshot:
        """Return the latest version; check that no version since `base` has one of the batches.

        Cost: a LIST; also the manifests of the versions since `base` if the batches have tokens or
        numbers.

        Raises:
            CommitConflictError: a version has one of the batches, or other columns.
            VersionsGoneError: a version that may have one of the tokens has been removed by a
                cleanup.
        """
        notes = self.notes()
        newer = None
        if notes:
            try:
                newer = await manifests_of(base.session, base.table).versions_after(base.version)
            except VersionsGoneError:
                if notes.tokens:
                    raise
        if newer is None:  # each version has the latest numbers of the producers
            newest = await latest(base)
            newer = [newest.manifest]
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
    """Return the rows to upsert, those with the same columns together; at least one part."""
    parts: list[SourcePart] = []
    for replaces, rows in ((False, changes.rows), (True, changes.replacing)):
        by_columns: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        for batch in rows:
            by_columns.setdefault(tuple(batch.schema.names), []).append(batch)
        tables = map(pa.Table.from_batches, by_columns.values())
        parts += [SourcePart(table, replaces=replaces) for table in tables]
    return parts or [SourcePart(schema.empty_table())]
