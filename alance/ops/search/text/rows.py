"""The rows of concurrent searches, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from alance.file.batches import batch_bytes
from alance.format.numbers import offsets_of, to_arrow
from alance.ops.read.take import batch_of, flat_rows, take_rows
from alance.ops.search.joined import MAX_ROWS, UNDER_WAY, Joint, Part
from alance.ops.search.nearest import SHARED_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.arrays import UInt64s
    from alance.ops.version.projection import Projection
    from alance.ops.version.snapshot import Snapshot

MOST: Final = 1024  # more rows of one search are taken by themselves
_NUMBERS: Final = np.empty(0, np.int32)


async def shared_rows(
    snapshot: Snapshot, row_ids: UInt64s, projection: Projection
) -> pa.RecordBatch:
    """Rows by id, as of `flat_rows`; searches that ask for the same columns share a take."""
    if not 0 < len(row_ids) <= MOST:
        return await flat_rows(snapshot, row_ids, projection)
    needed = list(dict.fromkeys([*projection.fields, *sorted(projection.meta)]))

    async def answer(queries: Any, counts: Sequence[int]) -> list[Part]:
        batch = batch_of(await take_rows(snapshot, queries, needed))
        if len(counts) == 1:
            return [Part(_NUMBERS, batch)]
        starts = offsets_of(counts).tolist()
        parts = [batch.slice(start, count) for start, count in zip(starts, counts, strict=False)]
        if batch_bytes(batch) > SHARED_BYTES:  # else the rows of one would keep those of all
            parts = [part.take(to_arrow(np.arange(part.num_rows))) for part in parts]
        return [Part(_NUMBERS, part) for part in parts]

    key = (shared_rows, *needed)
    joint = snapshot.remember(key, lambda: Joint(MAX_ROWS, UNDER_WAY[snapshot.is_remote]))
    part = await joint.ask(cast("Any", row_ids), answer)
    return projection.apply(part.batch)
