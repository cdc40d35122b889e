"""Takes from fragments that were taken from before: planned in few calls."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.file.taken_now import fetch_known, known_rows
from alance.file.tracing import describe
from alance.file.warm_rows import RowTables, fetch_rows, find_rows, rows_in_files
from alance.io import trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.file.warm_rows import WarmLeaf
    from alance.format.layouts.paged_rows import LocalFile
    from alance.format.plans import Plan
    from alance.io.cache import SearchCache
    from alance.ops.version.snapshot import FragmentHandle, Wanted

    Int64s = npt.NDArray[np.int64]

MAX_LEARNED: Final = 64  # fragments; 20 microseconds each
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
    is_small = sum(map(len, rows_of)) <= SMALL_ROWS
    if is_small and (tables := _tables(cache, handles, wanted)) is not None:
        leaves, count = _find(tables, rows_of, with_pieces=True)
        if leaves is not None:
            for table in tables:
                describe(table.opened)
            return fetch_rows(wanted.schema, count, leaves)
    opened = []
    for handle in handles:
        one: OpenFragment | None = cache.peek(("fragment", handle.identity, wanted.key))
        if one is None:
            return None
        opened.append(one)
    known = []
    for one, rows in zip(opened, rows_of, strict=True):
        found = known_rows(one, rows, cache)
        if found is None:
            return None
        known.append(found)
    for one in opened:
        describe(one)
    if is_small:
        learn(cache, handles, rows_of, wanted)
    return fetch_known(known)


def warm_files(
    cache: SearchCache,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[Int64s],
    wanted: Wanted,
    files: Mapping[str, LocalFile],
) -> list[FragmentTask] | None:
    """Rows of local fragments whose pages are all known; else None. Arguments as of `warm_plan`.

    Traces want them file by file.
    """
    if trace.current() is not None or (tables := _tables(cache, handles, wanted)) is None:
        return None
    leaves, count = _find(tables, rows_of, with_pieces=False)
    task = None if leaves is None else rows_in_files(wanted.schema, count, leaves, files)
    return None if task is None else [task]


def learn(
    cache: SearchCache,
    handles: Sequence[FragmentHandle],
    rows_of: Sequence[Int64s],
    wanted: Wanted,
) -> None:
    """Note in tables which pages rows were taken from, as far as these are known now.

    A take from very many fragments, which are unlikely to be all met again, leaves that out.
    """
    if len(handles) > MAX_LEARNED:
        return
    for handle, rows in zip(handles, rows_of, strict=True):
        opened: OpenFragment | None = cache.peek(("fragment", handle.identity, wanted.key))
        if opened is None:
            continue
        key = "rows", handle, wanted.key
        table: RowTables | None = cache.peek(key)
        if table is None:
            table = RowTables(opened)
        elif not table.is_on:
            continue
        if table.is_on:
            table.learn(rows, cache)
        cache.put(key, table, table.num_bytes)


def _tables(
    cache: SearchCache, handles: Sequence[FragmentHandle], wanted: Wanted
) -> list[RowTables] | None:
    """The tables of fragments; None where one has none."""
    tables: list[RowTables] = []
    for handle in handles:
        table: RowTables | None = cache.peek(("rows", handle, wanted.key))
        if table is None or not table.is_on:
            return None
        tables.append(table)
    return tables


def _find(
    tables: Sequence[RowTables], rows_of: Sequence[Int64s], *, with_pieces: bool
) -> tuple[list[WarmLeaf] | None, int]:
    rows = rows_of[0] if len(rows_of) == 1 else np.concatenate(rows_of)
    ends = [*accumulate(map(len, rows_of))]
    return find_rows(tables, rows, ends, with_pieces=with_pieces), len(rows)
