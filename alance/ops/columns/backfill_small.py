"""New files beside those of many small fragments: one scan and one pool job for some of them."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.batches import fixed_bytes
from alance.format.numbers import to_arrow
from alance.ops.columns.spread import Spread
from alance.ops.read.groups import (
    GROUP_FRAGMENTS,
    SMALL_DECODED_BYTES,
    SMALL_ROWS,
    fixed_row_bytes,
    is_small,
)
from alance.ops.write.files_at_once import write_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.ops.columns.values import GroupedValues
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.files_at_once import FileAtOnce


def small_groups(
    snapshot: Snapshot, new: Schema, handles: Sequence[FragmentHandle]
) -> Iterator[list[FragmentHandle]]:
    """Neighbours of which all are small, some together; the others are left out.

    Args:
        handles: prepared.
    """
    if any(one.is_blob_v2 for one in new.walk()):
        return
    row_bytes = max(
        fixed_row_bytes(snapshot.schema),
        sum(fixed_bytes(one.arrow_type) for one in new.walk() if one.is_leaf),
    )
    group: list[FragmentHandle] = []
    rows = 0
    for handle in handles:
        if not is_small(handle, row_bytes):
            continue
        most = min(SMALL_ROWS, SMALL_DECODED_BYTES / max(1, row_bytes))
        if group and (rows + handle.num_physical_rows > most or len(group) == GROUP_FRAGMENTS):
            yield group
            group, rows = [], 0
        group.append(handle)
        rows += handle.num_physical_rows
    if len(group) > 1:
        yield group


async def write_group(
    snapshot: Snapshot,
    new: Schema,
    values: GroupedValues,
    handles: Sequence[FragmentHandle],
    ahead_bytes: int,
) -> list[tuple[table_pb2.DataFile | None, FileAtOnce | None]]:
    """The record of the new file of each fragment, and the file; None where it has no live rows.

    Raises:
        InvalidInputError: values too many or too few, or that do not fit.
        StoreError: the store failed; no file stays.
    """
    spreads = [Spread.of(handle) for handle in handles]
    wanted = sum(spread.num_live for spread in spreads)
    found: list[pa.RecordBatch] = []
    rows = 0
    async with aclosing(values.grouped(snapshot, handles, ahead_bytes)) as batches:
        async for batch in batches:
            found.append(batch)
            rows += batch.num_rows
    if rows != wanted:
        raise InvalidInputError(
            f"new columns: {rows} values for fragments {handles[0].id} to {handles[-1].id}, "
            f"expected {wanted}"
        )
    made = iter(await write_at_once(snapshot, new, lambda: _cut(found, spreads)))
    files = [next(made) if spread.num_live else None for spread in spreads]
    return [(None if one is None else one.record, one) for one in files]


def _cut(found: Sequence[pa.RecordBatch], spreads: Sequence[Spread]) -> list[pa.RecordBatch]:
    """The rows of each fragment that has live ones, with the deleted ones; CPU work."""
    if not found:
        return []
    rows = found[0] if len(found) == 1 else pa.concat_batches(found)
    parts, start = [], 0
    for spread in spreads:
        part = rows.slice(start, spread.num_live)
        start += spread.num_live
        sources = spread.sources(0, spread.num_live)
        if spread.num_live:
            parts.append(part if sources is None else part.take(to_arrow(sources)))
    return parts
