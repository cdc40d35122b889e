"""B-trees, bitmap, label and n-gram indices with the addresses rows have after a compaction."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.index import bitmap, btree
from alance.format.index.addresses import rows_bytes
from alance.format.index.bitmap import ROW_SETS
from alance.format.index.ngram import POSTING_LISTS
from alance.format.numbers import as_numbers, to_arrow
from alance.format.row_set import RowSet
from alance.ops.index.build import write_row_sets, write_tree
from alance.ops.index.runs import run_schema
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.segments import BTREE
from alance.ops.lookup.stored import NO_END, SegmentEnd, StoredFile, spans_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from alance.arrays import Int64s, Mask
    from alance.format.index.bitmap import KeyedSets
    from alance.format.index.remap import Moves
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.version.snapshot import Snapshot

SET_BYTES: Final = 4 << 20  # of row sets that are translated at once, about


async def moved_tree(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Write a B-tree again: the same values, without those of rows that are gone.

    Raises:
        CorruptFileError, UnsupportedError: a tree that cannot be read.
    """
    type_ = (await IndexFiles(snapshot, index).page_table()).low.type
    async with aclosing(tree_rows(snapshot, index, moves.moved)) as rows:
        await write_tree(new, type_, rows)


async def tree_rows(
    snapshot: Snapshot, index: Index, moved: Callable[[Int64s], tuple[Int64s, Mask]]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of a B-tree, as `write_tree` takes them.

    Args:
        moved: gives the new numbers of those of some rows that stay, and which these are.

    Raises:
        CorruptFileError, UnsupportedError: a tree that cannot be read.
    """
    table = await IndexFiles(snapshot, index).page_table()  # says that the files belong together
    type_ = table.low.type
    schema = run_schema(BTREE, type_)

    def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
        values, ids = batch.columns
        if ids.null_count:
            raise CorruptFileError("B-tree index: a row number is null")
        rows, is_kept = moved(as_numbers(ids).view(np.int64))
        if not is_kept.all():
            values = values.filter(to_arrow(is_kept))
        return pa.RecordBatch.from_arrays([values, to_arrow(rows.view(np.uint64))], schema=schema)

    for name in table.files:
        data = await StoredFile.open(snapshot, index, name)
        _check_columns(data, [btree.VALUES, btree.IDS], pa.uint64())
        if data.schema.field(btree.VALUES).type != type_:
            raise CorruptFileError(f"B-tree index: {name} is not of {type_}, as its table says")
        async with aclosing(_batches(data, kept)) as batches:
            async for batch in batches:
                yield batch


async def moved_row_sets(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Write a bitmap or label index again; keys that no row has any more are left out.

    Raises:
        CorruptFileError, UnsupportedError: an index that cannot be read.
    """
    await _moved_sets(snapshot, index, moves, new, ROW_SETS)


async def moved_ngrams(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Write an n-gram index again; tokens that no row has any more are left out.

    Raises:
        CorruptFileError, UnsupportedError: an index that cannot be read.
    """
    await _moved_sets(snapshot, index, moves, new, POSTING_LISTS)


async def _moved_sets(
    snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles, form: KeyedSets
) -> None:
    """Write an index of keys with row sets again.

    Raises:
        CorruptFileError, UnsupportedError: an index that cannot be read.
    """
    stored = await _open_sets(snapshot, index, form)
    covered = index.fragment_ids or frozenset()
    handles = [handle for handle in snapshot.handles if handle.id in covered]
    await snapshot.resolve_sizes(handles)
    sizes = {handle.id: handle.num_physical_rows for handle in handles} | moves.old_sizes
    domain, fragment_ids = RowSet.of_fragments(sorted(sizes.items())), frozenset(sizes)

    def moved_set(content: memoryview) -> bytes | None:
        # A few bytes may claim billions of rows: those that are not there are found out first.
        claimed = form.parse(content).within(domain, fragment_ids)
        rows, _ = moves.moved(claimed.to_numpy())
        return form.to_bytes(rows) if len(rows) else None

    ends = NO_END
    if bitmap.LABEL_NULLS in stored.metadata:
        nulls = await stored.told_buffer(bitmap.LABEL_NULLS)
        content = await snapshot.engine.pool.run(lambda: moved_set(nulls) or rows_bytes(_NO_ROWS))
        ends = SegmentEnd({bitmap.LABEL_NULLS: "1"}, [np.frombuffer(content, np.uint8)])
    async with aclosing(_changed_sets(stored, moved_set, form)) as rows:
        type_ = stored.schema.field(form.keys).type
        await write_row_sets(new, type_, rows, form, of_sets=True, end=lambda: ends)


_NO_ROWS: Final = np.empty(0, np.int64)


async def set_rows(
    snapshot: Snapshot,
    index: Index,
    moved_set: Callable[[memoryview], bytes | None],
    form: KeyedSets,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The keys and row sets of an index, as `write_row_sets` takes them.

    Args:
        moved_set: gives the new set; None: no row is left.

    Raises:
        CorruptFileError: an index that cannot be read.
    """
    stored = await _open_sets(snapshot, index, form)
    async with aclosing(_changed_sets(stored, moved_set, form)) as batches:
        async for batch in batches:
            yield batch


async def _open_sets(snapshot: Snapshot, index: Index, form: KeyedSets) -> StoredFile:
    stored = await StoredFile.open(snapshot, index, form.file)
    _check_columns(stored, [form.keys, form.sets], pa.binary())
    return stored


def _changed_sets(
    stored: StoredFile, moved_set: Callable[[memoryview], bytes | None], form: KeyedSets
) -> AsyncGenerator[pa.RecordBatch, None]:
    schema = form.schema(stored.schema.field(0).type)

    def moved(batch: pa.RecordBatch) -> pa.RecordBatch:
        keys, sets = batch.columns
        if sets.null_count:
            raise CorruptFileError("bitmap index: a row set is null")
        contents = pa.array([moved_set(memoryview(rows.as_buffer())) for rows in sets], pa.binary())
        whole = pa.RecordBatch.from_arrays([keys, contents], schema=schema)
        return whole.filter(contents.is_valid()) if contents.null_count else whole

    return _batches(stored, moved, SET_BYTES // stored.bytes_per_row + 1)


async def _batches(
    stored: StoredFile,
    moved: Callable[[pa.RecordBatch], pa.RecordBatch],
    step: int | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    spans = spans_of(stored.num_rows, step) if step else spans_of(stored.num_rows)
    async with aclosing(stored.batches(spans, moved)) as batches:
        async for batch in batches:
            if batch.num_rows:
                yield batch


def _check_columns(stored: StoredFile, names: list[str], second: pa.DataType) -> None:
    schema = stored.schema
    if schema.names != names or schema.field(1).type != second:
        raise CorruptFileError(f"index file with columns {schema}, expected {names}")
