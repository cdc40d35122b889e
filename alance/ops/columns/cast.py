"""Casts of columns to another type, batch by batch; loss of a value is an error."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.exact import in_zone_of
from alance.format.numbers import to_arrow
from alance.format.schema import Schema
from alance.ops.columns.sources import OfLiveRows, whole_if_small
from alance.ops.read.options import ScanOptions
from alance.ops.read.rows import ScanPlan
from alance.ops.read.scan import scan
from alance.ops.version.handle import live_rows
from alance.ops.version.projection import project

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Mask
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

_NONE = Schema((), {})


@dataclass(slots=True)
class Casts(OfLiveRows):
    """Columns of a schema, cast to another schema of the same names.

    Attributes:
        read: fields to cast, with their parents.
        target: the same fields with other types.
        names: names of the top-level columns, for messages.
    """

    read: Schema = _NONE
    target: Schema = _NONE
    names: Mapping[str, str] = field(default_factory=dict)

    def set_columns(self, before: Schema, after: Schema, paths: Sequence[str]) -> None:
        """Cast some columns to the types that they have in another schema."""
        self.read, self.target = before.project(paths), after.project(paths)
        self.names = {
            root.name: ", ".join(path for path in paths if before.names_of(path)[0] == root.name)
            for root in self.read.fields
        }

    @property
    def is_physical(self) -> bool:
        # If the members of a list are in several files, its lengths must be equal in all of them,
        # also for deleted rows.
        return True

    @property
    def is_grouped(self) -> bool:
        return True

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return frozenset(field.id for field in self.read.walk())

    async def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        target, live = self.target.to_arrow(), live_rows(handles)
        start = 0
        plan = whole_if_small(snapshot, _all_rows(self.read, handles, ahead_bytes))
        async with aclosing(scan(snapshot, plan)) as batches:
            async for batch in batches:
                mask = None if live is None else live[start : start + batch.num_rows]
                start += batch.num_rows
                yield await snapshot.engine.pool.run(partial(cast, batch, target, mask, self.names))


def _all_rows(
    schema: Schema, handles: Sequence[FragmentHandle], ahead_bytes: int | None
) -> ScanPlan:
    """Return a scan of all rows of fragments, deleted ones too, for fields and their parents."""
    projection = project(schema, None, flat=False)
    # The flag of row ids only means that the caller can recognize deleted rows.
    options = ScanOptions(with_row_id=True, include_deleted_rows=True, io_buffer_bytes=ahead_bytes)
    return ScanPlan(options, projection, None, schema, None, handles, {}, frozenset())


def cast(
    batch: pa.RecordBatch,
    target: pa.Schema,
    live: Mask | None = None,
    names: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """Cast a batch to another schema of the same names. CPU work.

    Args:
        live: mask of the rows whose values matter, shape (n,); None for all rows. Other rows get
            arbitrary values.
        names: names of columns in messages.

    Raises:
        InvalidInputError: the new type cannot hold a value, or there is no such cast.
    """
    if live is not None:
        cast(batch.filter(to_arrow(live)), target, names=names)
        return _loose(batch, target)
    arrays = []
    for array, target_field in zip(batch.columns, target, strict=True):
        name = (names or {}).get(target_field.name, target_field.name)
        try:
            values = array
            if array.type != target_field.type:
                values = _clocks_in_zone(array, target_field.type).cast(target_field.type)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"column {name!r}: {array.type} does not cast to {target_field.type}: {error}"
            ) from error
        if _num_infinite(values) > _num_infinite(array):
            raise InvalidInputError(
                f"column {name!r}: values of {array.type} beyond the range of {target_field.type}"
            )
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _clocks_in_zone(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Read timestamps without a zone as local times in the zone of `type_`; keep other values."""
    return in_zone_of(values, type_) if pa.types.is_timestamp(values.type) else values


def overlaid(
    rows: pa.RecordBatch, places: npt.NDArray[np.integer[Any]], values: pa.RecordBatch
) -> pa.RecordBatch:
    """Return rows with new values at some positions. CPU work.

    Args:
        places: positions of the rows with new values; shape (number of values,).
        values: the new values; they have at least the columns of the rows.
    """
    numbers = np.arange(rows.num_rows)
    numbers[places] = rows.num_rows + np.arange(values.num_rows)
    order = to_arrow(numbers)
    arrays = [
        pa.concat_arrays([column, values.column(name)]).take(order)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _loose(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to another schema; values that do not fit are truncated."""
    arrays = []
    for array, target_field in zip(batch.columns, target, strict=True):
        try:
            arrays.append(array.cast(target_field.type, safe=False))
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"column {target_field.name!r}: a deleted row does not cast to "
                f"{target_field.type}; compact the table first: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _num_infinite(array: pa.Array) -> int:
    """Return the number of infinite floats at any depth; a cast makes large values infinite."""
    if pa.types.is_floating(array.type):
        return int(pc.is_inf(array).true_count)
    if pa.types.is_struct(array.type):
        return sum(_num_infinite(child) for child in array.flatten())
    if pa.types.is_nested(array.type) and not pa.types.is_union(array.type):
        return _num_infinite(array.flatten() if not pa.types.is_map(array.type) else array.items)
    return 0
