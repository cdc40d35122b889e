"""New values of columns for the rows of a fragment that other data has, found by a key."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.format.numbers import to_arrow
from alance.format.proto import table_pb2
from alance.format.table.apply_columns import TOMBSTONE
from alance.format.table.roaring import roaring_bytes
from alance.ops.blobs.leaves import has_blobs
from alance.ops.columns.backfill import Backfill, owned_ids
from alance.ops.columns.cast import cast
from alance.ops.columns.join import Joined
from alance.ops.columns.replace import whole_columns
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.write.blob_moves import as_moved, moved_blobs, moved_type, with_payloads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import numpy.typing as npt

    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data


async def update_in_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    data: Data,
    left_on: str,
    right_on: str | None = None,
) -> tuple[table_pb2.DataFragment, tuple[int, ...], bytes]:
    """A fragment with other values. See `DatasetFragment.update_columns`."""
    joined = await Joined.of(snapshot, data, left_on, right_on or left_on)
    schema = whole_columns(snapshot, joined.columns.schema.names)
    moved_blobs(snapshot, joined.columns.schema.names)  # refuses what cannot be
    target = pa.schema([_target(one) for one in schema.fields])
    columns = pa.Table.from_batches(
        await snapshot.engine.pool.run(
            lambda: [_conformed(batch, schema, target) for batch in joined.columns.to_batches()]
        ),
        schema=target,
    )
    values = Updated(Joined(left_on, columns, joined.index))
    backfill = Backfill(values)
    try:
        (made,) = await backfill.fragments(snapshot, schema, [handle])
        offsets = await snapshot.engine.pool.run(partial(values.offsets, handle))
    except BaseException:
        await backfill.discard()
        raise
    fields = owned_ids(schema)
    return _replaced(made, fields), tuple(fields), offsets


def _target(field: Field) -> pa.Field:
    """The field of new values and of those that are there, next to each other."""
    arrow = field.logical_arrow()
    return arrow.with_type(moved_type(field)) if has_blobs(field) else arrow


def _conformed(batch: pa.RecordBatch, schema: Schema, target: pa.Schema) -> pa.RecordBatch:
    arrays = [
        as_moved(field, array) if has_blobs(field) else array
        for field, array in zip(schema.fields, batch.columns, strict=True)
    ]
    return cast(pa.RecordBatch.from_arrays(arrays, names=target.names), target)


@dataclass(slots=True)
class Updated:
    """Values of other data where it has a row's key, else those that are there.

    Attributes:
        hits: which live rows of the fragment were found, batch by batch.
    """

    joined: Joined
    hits: list[npt.NDArray[np.bool_]] = field(default_factory=list)

    @property
    def is_physical(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return True

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return None

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        names = self.joined.columns.schema.names
        read = list(dict.fromkeys([self.joined.left_on, *names]))
        blobs = moved_blobs(snapshot, names)
        options = ScanOptions(
            fragments=[handle.id], io_buffer_bytes=ahead_bytes, with_row_address=bool(blobs)
        )
        rows = scan(snapshot, await plan_scan(snapshot, read, options))
        if blobs:
            rows = with_payloads(snapshot, rows, blobs, keep_address=True)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield await snapshot.engine.pool.run(partial(self._values, batch, names))

    async def end(self, snapshot: Snapshot) -> None:
        pass

    def offsets(self, handle: FragmentHandle) -> bytes:
        """The physical offsets of the rows that were found, as a roaring bitmap. CPU."""
        hits = np.concatenate(self.hits) if self.hits else np.zeros(0, np.bool_)
        return roaring_bytes(handle.physical(np.flatnonzero(hits)))

    def _values(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        places, found = self.joined.index.find([batch.column(self.joined.left_on)])
        self.hits.append(found)
        before = pa.RecordBatch.from_arrays([batch.column(one) for one in names], list(names))
        schema = self.joined.columns.schema
        if not found.any():
            return pa.RecordBatch.from_arrays(before.columns, schema=schema)
        taken = self.joined.columns.take(to_arrow(places[found]))
        rows = np.arange(batch.num_rows)
        rows[found] = batch.num_rows + np.arange(taken.num_rows)
        order = to_arrow(rows)
        arrays = [
            pa.concat_arrays([old.cast(new.type), *new.chunks]).take(order)
            for old, new in zip(before.columns, taken.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _replaced(fragment: table_pb2.DataFragment, fields: Sequence[int]) -> table_pb2.DataFragment:
    """A fragment whose last file has other values of fields: they are gone from the others."""
    gone = set(fields)
    made = table_pb2.DataFragment()
    made.CopyFrom(fragment)
    made.ClearField("files")
    for file in fragment.files[:-1]:
        kept = table_pb2.DataFile()
        kept.CopyFrom(file)
        kept.fields[:] = [TOMBSTONE if one in gone else one for one in file.fields]
        if any(one != TOMBSTONE for one in kept.fields):
            made.files.append(kept)
    made.files.append(fragment.files[-1])
    return made
