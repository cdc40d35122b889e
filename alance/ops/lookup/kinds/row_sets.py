"""Kinds whose file has keys with row sets: writing, remapping and reading them."""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.index import bitmap
from alance.format.index.bitmap import ROW_SETS, RowSetBuilder, rows_bytes
from alance.format.numbers import offsets_of
from alance.format.row_set import RowSet
from alance.ops.lookup.files import CACHED_SETS, sort_key
from alance.ops.lookup.kinds.kind import IndexKind
from alance.ops.lookup.stored import (
    NO_END,
    SegmentEnd,
    StoredFile,
    check_columns,
    non_empty,
    spans_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator

    from alance.base.arrays import Int64s
    from alance.format.index.bitmap import KeyedSets
    from alance.format.index.remap import Moves
    from alance.format.table.indices import Index
    from alance.io.reading.pool import DecodePool
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.keys import RowKeys
    from alance.ops.lookup.kinds.kind import Batches, PartLoader
    from alance.ops.version.snapshot import Snapshot

MOVED_SET_BYTES: Final = 4 << 20  # approximate bytes of row sets remapped at once
MOVED_ROWS: Final = 1 << 17  # rows of several sets, translated by one pass: 5 MiB of numbers
SET_SHARE: Final = 64  # 64 rows of a bitmap cost as much as one row of a B-tree
_NO_ROWS: Final = np.empty(0, np.int64)


class RowSetsKind(IndexKind):
    """A kind with a single file of keys, each with the set of its rows.

    Attributes:
        key_count: name of the number of keys in statistics.
    """

    form: ClassVar[KeyedSets] = ROW_SETS
    key_count: ClassVar[str]

    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        num_keys = len(await files.keys(self.form))
        spans = spans_of(num_keys, CACHED_SETS)
        return [partial(files.row_sets, range(*span), self.form) for span in spans]

    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        return {self.key_count: len(await files.keys(self.form))}

    async def run_rows(self, pool: DecodePool, source: RowKeys, rows: Batches) -> Batches:
        sets = RowSetBuilder(source.type, sort_key, self.form)
        async with aclosing(rows), aclosing(set_batches(pool, rows, sets)) as batches:
            async for batch in batches:
                yield batch

    async def write(
        self, files: SegmentFiles, source: RowKeys, rows: Batches, *, of_runs: bool = False
    ) -> None:
        await write_row_sets(files, source.type, rows, self.form, of_sets=of_runs, end=source.end)

    async def move(
        self, snapshot: Snapshot, index: Index, moves: Moves, files: SegmentFiles
    ) -> None:
        """Rewrite a segment; keys without rows are dropped."""
        form = self.form
        stored = await _open_sets(snapshot, index, form)
        covered = index.fragment_ids or frozenset()
        handles = [handle for handle in snapshot.handles if handle.id in covered]
        await snapshot.resolve_sizes(handles)
        sizes = {handle.id: handle.num_physical_rows for handle in handles} | moves.old_sizes
        domain, fragment_ids = RowSet.of_fragments(sorted(sizes.items())), frozenset(sizes)

        def moved_sets(contents: Iterable[memoryview]) -> Iterator[bytes | None]:
            # A few corrupt bytes may encode billions of rows, so rows outside of fragments are
            # dropped first.
            claimed = (form.parse(sets).within(domain, fragment_ids) for sets in contents)
            for group in _groups(rows.to_numpy() for rows in claimed):
                rows, has_address = moves.moved(np.concatenate(group))
                ends = offsets_of(has_address)[offsets_of([len(old) for old in group])].tolist()
                for start, end in pairwise(ends):
                    yield form.to_bytes(rows[start:end]) if end > start else None

        ends = NO_END
        if bitmap.LABEL_NULLS in stored.metadata:
            nulls = await stored.buffer_by_key(bitmap.LABEL_NULLS)
            content = await snapshot.engine.pool.run(
                lambda: next(moved_sets([nulls])) or rows_bytes(_NO_ROWS)
            )
            ends = SegmentEnd({bitmap.LABEL_NULLS: "1"}, [np.frombuffer(content, np.uint8)])
        async with aclosing(_changed_sets(stored, moved_sets, form)) as rows:
            type_ = stored.schema.field(form.keys).type
            await write_row_sets(files, type_, rows, form, of_sets=True, end=lambda: ends)

    async def live_rows(
        self,
        snapshot: Snapshot,
        index: Index,
        source: RowKeys,
        live: RowSet,
        covered: frozenset[int],
    ) -> Batches:
        form = self.form

        def live_sets(contents: Iterable[memoryview]) -> Iterator[bytes | None]:
            for content in contents:
                rows = form.parse(content)
                remaining = rows & live
                if len(remaining) == len(rows):
                    yield bytes(content)
                else:
                    yield form.to_bytes(remaining.to_numpy()) if len(remaining) else None

        stored = await _open_sets(snapshot, index, form)
        async with aclosing(_changed_sets(stored, live_sets, form)) as batches:
            async for batch in batches:
                yield batch


async def write_row_sets(
    files: SegmentFiles,
    type_: pa.DataType,
    rows: AsyncIterable[pa.RecordBatch],
    form: KeyedSets = ROW_SETS,
    *,
    of_sets: bool = False,
    end: Callable[[], SegmentEnd] = lambda: NO_END,
) -> None:
    """Write the file of an index with keys and row sets.

    Args:
        rows: values of `type_` in index order, and row numbers.
        form: form of keys and row sets.
        of_sets: True if the second column has row sets instead.
        end: returns further metadata and buffers for the file's end; called after the last row.
    """
    sets = RowSetBuilder(type_, sort_key, form, of_sets=of_sets)

    def whole_end() -> SegmentEnd:
        others = end()
        if form is not ROW_SETS:
            return others
        counts = json.dumps({"num_bitmaps": sets.num_keys}, separators=(",", ":"))
        return SegmentEnd({bitmap.STATS: counts, **others.metadata}, others.buffers)

    batches = set_batches(files.snapshot.engine.pool, rows, sets)
    await files.write(form.file, sets.schema, batches, whole_end)


async def set_batches(
    pool: DecodePool, rows: AsyncIterable[pa.RecordBatch], sets: RowSetBuilder
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield batches of keys with their row sets as they are completed."""
    async for batch in rows:
        for ready in await pool.run(partial(sets.add, batch)):
            yield ready
    for ready in await pool.run(sets.finish):
        yield ready


async def _open_sets(snapshot: Snapshot, index: Index, form: KeyedSets) -> StoredFile:
    stored = await StoredFile.open(snapshot, index, form.file)
    check_columns(stored, [form.keys, form.sets], pa.binary())
    return stored


def _changed_sets(
    stored: StoredFile,
    changed: Callable[[Iterable[memoryview]], Iterator[bytes | None]],
    form: KeyedSets,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield keys with changed row sets.

    Args:
        changed: yields the new sets in order; None if no row of a set remains.
    """
    schema = form.schema(stored.schema.field(0).type)

    def moved(batch: pa.RecordBatch) -> pa.RecordBatch:
        keys, sets = batch.columns
        if sets.null_count:
            raise CorruptFileError("bitmap index: a row set is null")
        distinct = sets.dictionary_encode()  # thousands of labels of a long list have equal sets
        old = (memoryview(rows.as_buffer()) for rows in distinct.dictionary)
        contents = pa.array(list(changed(old)), pa.binary()).take(distinct.indices)
        whole = pa.RecordBatch.from_arrays([keys, contents], schema=schema)
        return whole.filter(contents.is_valid()) if contents.null_count else whole

    return non_empty(stored, moved, MOVED_SET_BYTES // stored.bytes_per_row + 1)


def _groups(sets: Iterable[Int64s]) -> Iterator[list[Int64s]]:
    """Group consecutive sets of row numbers into runs of about `MOVED_ROWS` rows."""
    group: list[Int64s] = []
    num_rows = 0
    for rows in sets:
        group.append(rows)
        num_rows += len(rows)
        if num_rows >= MOVED_ROWS:
            yield group
            group, num_rows = [], 0
    if group:
        yield group
