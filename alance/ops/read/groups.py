"""Groups of fragments, and splits of groups.

A read of fragments has costs that do not depend on the number of rows: calls per column, a job, a
filter, a batch. A group has these costs only once. It is a large fragment, or consecutive small
fragments of some MiB in total. So scans work on groups.
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from alance.file.rows.leaves import LeafSet
from alance.file.rows.placing import load_states
from alance.file.rows.whole import FragmentFiles, group_key, read_together, read_whole
from alance.io.loop.readahead import grouped
from alance.ops.read.physical_rows import PhysicalRows
from alance.ops.version.handle import live_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.in_place import LocalRows
    from alance.file.rows.tasks import FragmentTask
    from alance.file.rows.whole import WholeFragments, WholeRows
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle

    # Task that decodes the rows of a split.
    Task: TypeAlias = FragmentTask | WholeRows | WholeFragments | LocalRows

_ENCODED_BYTES, _FILE_BYTES = map(attrgetter, ("encoded_bytes", "file_bytes"))
# Limits of a small fragment.
SMALL_FRAGMENT_BYTES: Final = 1 << 20
SMALL_GROUP_ROWS: Final = 64 << 10
SMALL_DECODED_BYTES: Final = 16 << 20
# Maximum encoded bytes and fragments of a group of small fragments.
SCAN_GROUP_BYTES: Final = 4 << 20
GROUP_FRAGMENTS: Final = 64
# Maximum columns, rows and encoded bytes of a little group, which the event loop decodes. Columns
# count per fragment, and take some 30 us each.
LITTLE_COLUMNS: Final = 8
LITTLE_ROWS: Final = 1 << 10
LITTLE_BYTES: Final = 64 << 10


class FragmentGroup(NamedTuple):
    """Fragments that are read together; their physical rows are numbered consecutively.

    Attributes:
        opened: opened fragments with the first columns; empty if whole files are read.
        states: cache for page states.
        spans: ranges of rows to read, ascending.
        is_small: True if all rows are read, without page tables.
        late: opened fragment with the late columns; None if it is opened later.
        eager_stop: for rows below this number, late columns are read together with the first ones.
    """

    handles: Sequence[FragmentHandle]
    opened: Sequence[OpenFragment]
    states: States
    spans: Sequence[tuple[int, int]]
    is_small: bool = False
    late: OpenFragment | None = None
    eager_stop: int = 0

    @property
    def num_bytes(self) -> int:
        """Encoded bytes of the first columns; if whole files are read, the size of the files."""
        if not self.opened:
            return sum(map(file_bytes, self.handles))
        return sum(map(_ENCODED_BYTES, self.opened))

    @property
    def is_little(self) -> bool:
        """True if decoding and filtering take little more time than a hop to the pool."""
        return (
            self.is_small
            and 0 < sum([len(fragment.containers) for fragment in self.opened]) <= LITTLE_COLUMNS
            and self.spans[-1][1] <= LITTLE_ROWS
            and self.num_bytes <= LITTLE_BYTES
        )

    def page_states(self, spans: Sequence[tuple[int, int]]) -> list[Plan[None]]:
        """Return plans that load the page states of spans of rows."""
        loads = [load_states(self.opened[0], spans, self.states)]
        if self.late is not None:
            eager = [span for span in spans if span[0] < self.eager_stop]
            loads.append(load_states(self.late, eager, self.states))
        return loads


class Split(NamedTuple):
    """Rows of a group that one pool job decodes.

    Attributes:
        start, stop: range of rows in the group.
    """

    group: FragmentGroup
    start: int
    stop: int

    def at(self, numbers: Int64s | None) -> PhysicalRows:
        """Select rows by ascending numbers in the split, or all.

        Fragments without rows are omitted, but if there are no rows at all, the first one remains.
        """
        handles = self.group.handles
        rows = np.arange(self.start, self.stop) if numbers is None else numbers + self.start
        if len(handles) == 1 or not len(rows):
            return PhysicalRows(handles[:1], rows, [len(rows)])
        firsts = [*accumulate([handle.num_physical_rows for handle in handles], initial=0)]
        ends = np.searchsorted(rows, firsts[1:])
        counts = np.diff(ends, prepend=0)
        places = np.flatnonzero(counts).tolist()
        offsets = rows - np.repeat(firsts[:-1], counts)
        return PhysicalRows([handles[place] for place in places], offsets, ends[places].tolist())

    def live_mask(self) -> Mask | None:
        """Return the mask of live rows; None if all are live."""
        handles = self.group.handles
        if len(handles) == 1:
            return handles[0].live_mask(self.start, self.stop)
        return live_rows(handles)  # the split is the whole group

    def halves(self) -> list[Split]:
        """Divide the rows into smaller splits.

        A range of rows of several fragments becomes a split per fragment. Returns an empty list for
        a single row. The fragments of the group must be open.
        """
        group = self.group
        if len(group.handles) > 1:
            pairs = zip(group.handles, group.opened, strict=True)
            counts = [handle.num_physical_rows for handle in group.handles]
            return [
                Split(FragmentGroup([handle], [fragment], group.states, [(0, count)]), 0, count)
                for (handle, fragment), count in zip(pairs, counts, strict=True)
                if count
            ]
        if self.stop - self.start <= 1:
            return []
        single = group._replace(is_small=False, late=None, eager_stop=0)
        bounds = [self.start, (self.start + self.stop) // 2, self.stop]
        return [Split(single, *span) for span in pairwise(bounds)]


def read_splits(schema: Schema, splits: Sequence[Split]) -> Plan[Sequence[Task]]:
    """Plan to read splits of a group, with the fields of a schema."""
    group = splits[0].group
    if group.opened and not group.is_small:
        (fragment,) = group.opened
        return (yield from fragment.read_parts(spans_of(splits), group.states))
    if not group.opened:
        files = [
            FragmentFiles(handle.id, handle.sources, handle.num_physical_rows)
            for handle in group.handles
        ]
        return [(yield from read_whole(schema, files))]
    return [(yield from read_together(group.opened))]


def spans_of(splits: Sequence[Split]) -> list[list[tuple[int, int]]]:
    """Return the row range of each split, as a list of one range."""
    return [[(split.start, split.stop)] for split in splits]


def is_small(handle: FragmentHandle, row_bytes: float) -> bool:
    """Return True if the fixed cost of reading a fragment exceeds the cost of its bytes.

    Args:
        row_bytes: decoded bytes per row.
    """
    rows = handle.num_physical_rows
    return (
        file_bytes(handle) <= SMALL_FRAGMENT_BYTES
        and rows <= SMALL_GROUP_ROWS
        and rows * row_bytes <= SMALL_DECODED_BYTES
    )


def file_bytes(handle: FragmentHandle) -> int:
    """Return the total size of a fragment's files; the size of each file must be known."""
    return sum(map(_FILE_BYTES, handle.sources))


def fixed_row_bytes(schema: Schema) -> float:
    """Return the memory per decoded row of fixed-width columns; other columns count as 0.

    The result depends only on the schema; bytes in files say little, because constant pages
    have none.
    """
    return sum(LeafSet.of_schema(schema).row_bytes)


def with_neighbours(groups: Sequence[FragmentGroup], row_bytes: float) -> Iterator[FragmentGroup]:
    """Yield groups in order, and merge consecutive small groups.

    Args:
        groups: groups with one open fragment each.
    """

    def key(group: FragmentGroup) -> tuple[int, ...] | None:
        (handle,), (fragment,) = group.handles, group.opened
        if list(group.spans) != [(0, fragment.num_rows)] or not is_small(handle, row_bytes):
            return None
        return group_key(fragment)

    for fields, run in groupby(groups, key):
        if fields is None:
            yield from run
        else:
            handles, opened = zip(*[(*own.handles, *own.opened) for own in run], strict=True)
            sizes = [*map(_ENCODED_BYTES, opened)]
            yield from small_groups(handles, opened, sizes, groups[0].states)


def small_groups(
    handles: Sequence[FragmentHandle],
    opened: Sequence[OpenFragment],
    sizes: Sequence[int],
    states: States,
) -> Iterator[FragmentGroup]:
    """Group consecutive small fragments within the limits of a group. CPU work.

    Args:
        opened: opened fragments; empty if whole files are read.
        sizes: bytes to read of each fragment.
    """
    counts = [handle.num_physical_rows for handle in handles]
    # Rows count as bytes, so that groups within the limit of bytes have few enough rows.
    row_bytes = SCAN_GROUP_BYTES // SMALL_GROUP_ROWS
    costs = [max(size, row_bytes * rows) for size, rows in zip(sizes, counts, strict=True)]
    places = range(len(handles))
    for group in grouped(places, costs.__getitem__, SCAN_GROUP_BYTES, GROUP_FRAGMENTS):
        own = slice(group[0], group[-1] + 1)
        spans = [(0, sum(counts[own]))]
        yield FragmentGroup(handles[own], opened[own], states, spans, is_small=True)
