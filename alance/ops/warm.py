"""Takes from remote fragments that were taken from before: one round, planned in few calls."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.file.taken_now import fetch_known, known_rows
from alance.file.tracing import describe
from alance.file.warm_rows import RowTables, fetch_rows, find_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan
    from alance.io.cache import SearchCache
    from alance.ops.snapshot import FragmentHandle, Wanted

    Int64s = npt.NDArray[np.int64]

SMALL_ROWS: Final = 1 << 10  # pieces one by one; of larger takes they stay in arrays


def warm_plan(
    cache: SearchCache,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[Int64s],
    wanted: Wanted,
) -> Plan[list[FragmentTask]] | None:
    """A plan of rows of fragments that are open, with all pages known; else None.

    Args:
        rows_of: physical row offsets of each fragment, sorted and unique; at least one.
    """
    keys = [("rows", handle, wanted.key) for handle in handles]
    tables: list[RowTables] = []
    for key in keys:
        table: RowTables | None = cache.peek(key)
        if table is None or not table.is_on:
            break
        tables.append(table)
    is_small = sum(map(len, rows_of)) <= SMALL_ROWS
    if len(tables) == len(keys) and is_small:
        rows = rows_of[0] if len(rows_of) == 1 else np.concatenate(rows_of)
        leaves = find_rows(tables, rows, [*accumulate(map(len, rows_of))])
        if leaves is not None:
            for table in tables:
                describe(table.opened)
            return fetch_rows(wanted.schema, len(rows), leaves)
    opened = []
    for handle in handles:
        one: OpenFragment | None = cache.peek(("fragment", handle, wanted.key))
        if one is None:
            return None
        opened.append(one)
    known = []
    for one, rows in zip(opened, rows_of, strict=True):
        found = known_rows(one, rows, cache)
        if found is None:
            return None
        known.append(found)
    for key, one, rows in zip(keys, opened, rows_of, strict=True):
        describe(one)
        if is_small:
            table = cache.peek(key) or RowTables(one)
            if table.is_on:
                table.learn(rows, cache)
            cache.put(key, table, table.num_bytes)
    return fetch_known(known)
