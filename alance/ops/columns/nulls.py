"""Whether columns have nulls: asked before a schema forbids them."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.ops.columns.cast import pruned_plan
from alance.ops.read.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot


async def check_no_nulls(snapshot: Snapshot, paths: Sequence[str]) -> None:
    """Check that no live row has a null in some columns. Cost: a scan of them.

    A field of a struct that is null counts as null.

    Raises:
        InvalidInputError: one has.
    """
    for path in paths:
        for handle in snapshot.handles:
            await _check(snapshot, handle, path)


async def _check(snapshot: Snapshot, handle: FragmentHandle, path: str) -> None:
    schema = snapshot.schema.project([path])
    names = schema.names_of(path)[1:]
    async with aclosing(scan(snapshot, pruned_plan(schema, handle))) as batches:
        async for batch in batches:
            found = await snapshot.engine.pool.run(partial(_num_nulls, batch.column(0), names))
            if found:
                raise InvalidInputError(
                    f"column {path!r}: it has nulls, in fragment {handle.id} at least, and cannot "
                    "forbid them"
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
