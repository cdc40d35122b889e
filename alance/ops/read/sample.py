"""Rows drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.errors import InvalidInputError
from alance.ops.read.take import take

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def sample(
    snapshot: Snapshot, num_rows: int, columns: Columns = None, *, seed: int | None = None
) -> pa.Table:
    """Different rows drawn at random, in dataset order.

    Raises:
        InvalidInputError: a negative number, or more rows than there are.
    """
    return await take(snapshot, await drawn(snapshot, num_rows, seed), columns)


async def drawn(snapshot: Snapshot, num_rows: int, seed: int | None) -> Int64s:
    """The positions of the rows of `sample`, ascending."""
    total = int((await snapshot.live_counts()).sum())
    if not 0 <= num_rows <= total:
        raise InvalidInputError(f"sample of {num_rows} rows: the dataset has {total}")
    return np.sort(np.random.default_rng(seed).choice(total, num_rows, replace=False))
