"""Source of a merge: read once, then held for all attempts, together with the keys of its rows."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.file.batches import one_batch, work_bytes
from alance.file.write.small_batches import in_groups, merged
from alance.format.keys import KEY_COLUMN, ROW_COLUMN, KeyColumns, key_values
from alance.format.numbers import python_value, to_arrow
from alance.io.reading.engine import DECODED_INLINE_BYTES
from alance.ops.merge.plan import SOURCE_SIDE, gaps_of
from alance.ops.version.first_use import of_fields
from alance.ops.write.sources import conform
from alance.ops.write.spool import Spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.base.arrays import Int64s
    from alance.ops.merge.plan import RowMerge
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data, RowSource
    from alance.ops.write.spool import Scratch

SHARE: Final = 4  # rows and keys in memory each take this fraction of the budget: 1/4


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Rows of a merge's source that have the same columns.

    Attributes:
        data: the rows.
        schema: schema of the data, as for `open_source`; None: unknown.
        replaces: True if updated rows become null in the columns that the data lacks; False if they
            keep their values there.
    """

    data: Data
    schema: pa.Schema | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows of a part of a merge's source.

    Attributes:
        rows: the columns of the part, in the table's order.
        first: number of the first row in the whole source.
        replaces: as in `SourcePart`.
    """

    rows: Spool
    first: int
    replaces: bool

    async def gaps(self, base: Snapshot) -> tuple[str, ...]:
        """Return the columns that an update of these rows takes from the table."""
        if self.replaces:
            return ()
        find = partial(gaps_of, base.schema, self.rows.schema)
        return await of_fields(base.engine, base.schema.num_fields, find)


@dataclass(slots=True)
class HeldSource:
    """Rows of a merge's source.

    Attributes:
        parts: the rows, in the order of the source.
        keys: for each row its key (`KEY_COLUMN`), its number (`ROW_COLUMN`), and the columns of the
            condition. The keys to delete follow in the same form; their numbers continue those of
            the rows.
        deleted: columns of the keys to delete; None if there are none.
    """

    parts: tuple[HeldRows, ...]
    keys: Spool
    deleted: pa.RecordBatch | None = None

    @property
    def num_rows(self) -> int:
        return sum(part.rows.num_rows for part in self.parts)

    @property
    def num_keys(self) -> int:
        """Number of rows plus number of keys to delete."""
        return self.keys.num_rows

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of all parts."""
        for part in self.parts:
            async with aclosing(part.rows.batches()) as batches:
                async for batch in batches:
                    yield batch

    async def key_of(self, merge: RowMerge, row: int) -> str:
        """Return the key of a row as text for messages."""
        first = 0
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                if row < first + batch.num_rows:
                    place = row - first
                    return ", ".join(
                        f"{name} = {python_value(batch.column(name)[place])!r}" for name in merge.on
                    )
                first += batch.num_rows
        return f"row {row}"


async def hold(
    sources: Sequence[RowSource],
    replaces: Sequence[bool],
    merge: RowMerge,
    scratch: Scratch,
    deleted: pa.RecordBatch | None = None,
) -> HeldSource:
    """Read all parts of a source to their ends.

    Data that the caller holds in memory is not copied; other data is held in memory up to a share
    of the budget, and the rest on the disk.

    Args:
        sources: parts of the source.
        replaces: for each part, as in `SourcePart`.
        deleted: keys of rows to delete, which the source must not contain; None: none.

    Raises:
        InvalidInputError: values that do not cast to the table's columns.
        UnsupportedError: key columns of a type that cannot be a key.
    """
    keys = Spool(scratch, key_schema(merge), merge.plan.memory_bytes // SHARE)
    parts: list[HeldRows] = []
    for number, source in enumerate(sources):
        memory = None if source.num_rows is not None else keys.memory
        rows = Spool(scratch, merge.source_schemas[number], memory)
        parts.append(HeldRows(rows, keys.num_rows, replaces[number]))
        await _hold_part(source, merge, rows, keys)
    if deleted is not None:
        columns = [deleted.column(name) for name in merge.on]
        first, count = keys.num_rows, deleted.num_rows
        arrays = [key_values(columns), to_arrow(np.arange(first, first + count))]
        arrays += [pa.nulls(count, kind.type) for kind in list(keys.schema)[len(arrays) :]]
        await keys.append(pa.RecordBatch.from_arrays(arrays, schema=keys.schema))
    return HeldSource(tuple(parts), keys, deleted)


async def _hold_part(source: RowSource, merge: RowMerge, rows: Spool, keys: Spool) -> None:
    """Read a part of the source into `rows`, and its keys into `keys`."""
    names = merge.condition_columns[0]

    def prepare(
        group: Sequence[pa.RecordBatch], first: int
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        batch = one_batch([conform(batch, rows.schema) for batch in merged(group)])
        arrays = [
            key_values([batch.column(name) for name in merge.on]),
            to_arrow(np.arange(first, first + batch.num_rows)),
            *(batch.column(name) for name in names),
        ]
        return batch, pa.RecordBatch.from_arrays(arrays, schema=keys.schema)

    async for group in in_groups(source.batches):
        is_little = work_bytes(group) <= DECODED_INLINE_BYTES
        work = partial(prepare, group, keys.num_rows)
        whole, part = await keys.scratch.pool.run(work, inline=is_little)
        await rows.append(whole)
        await keys.append(part)


def key_schema(merge: RowMerge) -> pa.Schema:
    """Return the schema of the held keys of source rows."""
    empty = [pa.nulls(0, merge.source_schema.field(name).type) for name in merge.on]
    fields = [pa.field(KEY_COLUMN, key_values(empty).type), pa.field(ROW_COLUMN, pa.int64())]
    names = merge.condition_columns[0]
    fields += [merge.source_schema.field(name).with_name(f"{SOURCE_SIDE}.{name}") for name in names]
    return pa.schema(fields)


def key_widths(merge: RowMerge) -> Int64s:
    """Return the bytes of each key column; 0 for variable width."""
    return KeyColumns.of(
        [pa.nulls(0, merge.source_schema.field(name).type) for name in merge.on]
    ).widths


async def pieces(spool: Spool, num_rows: int) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches in slices of at most `num_rows` rows."""
    async with aclosing(spool.batches()) as batches:
        async for batch in batches:
            for start in range(0, batch.num_rows, num_rows):
                yield batch.slice(start, num_rows)
