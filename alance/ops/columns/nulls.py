"""Whether columns have nulls: asked before a schema forbids them."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.expr.logic import is_null, junction
from alance.expr.pruning import check_of
from alance.expr.tree import Column, plain_type
from alance.format.numbers import as_numbers
from alance.ops.read.options import ScanOptions
from alance.ops.read.pruning import Pruner
from alance.ops.read.rows import ScanPlan
from alance.ops.read.scan import scan
from alance.ops.version.projection import ROW_ADDRESS, project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.format.schema import Schema
    from alance.ops.version.snapshot import Snapshot


async def check_no_nulls(snapshot: Snapshot, paths: Sequence[str]) -> None:
    """Check that no live row has a null in some columns.

    A field of a struct that is null counts as null. Cost: one scan of the columns, of the zones of
    rows in which statistics count nulls or say nothing.

    Raises:
        InvalidInputError: one has.
    """
    if not paths:
        return
    schema = snapshot.schema.project(paths)
    names = {path: schema.names_of(path) for path in paths}
    projection = project(schema, None, flat=False, with_row_address=True)
    plan = ScanPlan(
        ScanOptions(),
        projection,
        None,
        schema,
        None,
        snapshot.handles,
        {},
        projection.meta,
        _pruner(schema, names),
    )
    async with aclosing(scan(snapshot, plan)) as batches:
        async for batch in batches:
            await snapshot.engine.pool.run(partial(_check, batch, names))


def _pruner(schema: Schema, names: Mapping[str, Sequence[str]]) -> Pruner | None:
    """What rules out rows in which none of the columns is null."""
    columns = [
        Column(tuple(parts), plain_type(schema.field(path).arrow_type))
        for path, parts in names.items()
    ]
    check = check_of(junction(False, [is_null(column) for column in columns]))
    return None if check is None else Pruner.of(check, schema)


def _check(batch: pa.RecordBatch, names: Mapping[str, Sequence[str]]) -> None:
    """Refuse nulls, and name the first fragment that has one; CPU work."""
    for path, (column, *below) in names.items():
        array = batch.column(column)
        if _num_nulls(array, below):
            fragments = as_numbers(batch.column(ROW_ADDRESS)).astype(np.int64) >> 32
            edges = [*np.flatnonzero(np.diff(fragments, prepend=-1)).tolist(), len(fragments)]
            first = next(
                int(fragments[start])
                for start, stop in pairwise(edges)
                if _num_nulls(array.slice(start, stop - start), below)
            )
            raise InvalidInputError(
                f"column {path!r}: it has nulls, in fragment {first} at least, and cannot forbid "
                "them"
            )


def _num_nulls(array: pa.Array, names: Sequence[str]) -> int:
    """Nulls of a field below an array."""
    for name in names:
        if pa.types.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(name)]
        elif pa.types.is_map(array.type):
            array = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        else:
            array = array.flatten()
    return int(array.null_count)
