"""Values of columns under another type: cast batch by batch, with an error where one is lost."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import InvalidInputError
from alance.format.schema import Schema
from alance.ops.options import ScanOptions
from alance.ops.projection import project
from alance.ops.rows import ScanPlan
from alance.ops.scan import scan

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from alance.ops.handle import FragmentHandle
    from alance.ops.snapshot import Snapshot

_NONE = Schema((), {})


@dataclass(slots=True)
class Casts:
    """The columns of one schema as those of another of the same names.

    Attributes:
        read: what is cast, with its parents.
        made: the same fields with other types.
    """

    read: Schema = _NONE
    made: Schema = _NONE

    @property
    def in_order(self) -> bool:
        return False

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return frozenset(one.id for one in self.read.walk())

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        target = self.made.to_arrow()
        async with aclosing(scan(snapshot, pruned_plan(self.read, handle))) as batches:
            async for batch in batches:
                yield await snapshot.engine.pool.run(partial(cast, batch, target))

    async def end(self, snapshot: Snapshot) -> None:
        pass


def pruned_plan(schema: Schema, handle: FragmentHandle) -> ScanPlan:
    """A scan of the live rows of a fragment that gives fields with their parents."""
    projection = project(schema, None, flat=False)
    return ScanPlan(ScanOptions(), projection, None, schema, None, [handle], {}, frozenset())


def cast(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """A batch in another schema of the same names. CPU.

    Raises:
        InvalidInputError: a value that the new type cannot hold, or types that do not cast.
    """
    arrays = []
    for array, field in zip(batch.columns, target, strict=True):
        try:
            made = array if array.type == field.type else array.cast(field.type)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"column {field.name!r}: {array.type} does not cast to {field.type}: {error}"
            ) from error
        if _num_infinite(made) > _num_infinite(array):
            raise InvalidInputError(
                f"column {field.name!r}: values of {array.type} beyond the range of {field.type}"
            )
        arrays.append(made)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _num_infinite(array: pa.Array) -> int:
    """Infinite floats at any depth: a narrower float turns large values into them."""
    if pa.types.is_floating(array.type):
        return int(pc.is_inf(array).true_count)
    if pa.types.is_struct(array.type):
        return sum(_num_infinite(one) for one in array.flatten())
    if pa.types.is_nested(array.type) and not pa.types.is_union(array.type):
        return _num_infinite(array.flatten() if not pa.types.is_map(array.type) else array.items)
    return 0
