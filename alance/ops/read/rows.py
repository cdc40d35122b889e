"""From decoded rows to output rows: deletions, filter, meta columns, late columns.

All of it is work for the pool, and plans: nothing here waits.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.file.batches import in_order, one_batch
from alance.file.rows.grouped import read_together
from alance.format.numbers import as_mask, to_arrow, true_rows
from alance.ops.version.projection import META
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.expr import Predicate
    from alance.expr.tree import Node
    from alance.file.open.columns import States
    from alance.file.rows.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan, Reader
    from alance.format.row_set import RowSet
    from alance.format.schema import Schema
    from alance.ops.read.groups import FragmentGroup, Split, Task
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.pruning import Pruner
    from alance.ops.version.projection import Projection
    from alance.ops.version.snapshot import FragmentHandle

# What a single row of a column costs: the chunk that holds it is read and decoded as a whole.
CHUNK_BYTES: Final = 4 << 10
TAKEN_SHARE: Final = 16  # of one row in so many, taking from a file is the cheaper way


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan, decided: what is read first, what late, of which fragments and rows.

    Attributes:
        first_schema: fields read of every row.
        late_schema: fields read only of rows that the filter kept; None: there are none.
        spans: physical rows to read by fragment id, where not all of them: ascending spans.
        pruner: what rules out rows by statistics; None: nothing does.
        picked: row offsets by fragment id, where an index gave them: only these are read.
        picked_by: the part of the filter that is true of these rows, if the index is right.
        index_lines: what was asked of indices, for `explain`.
        counted: the rows that indices count, deleted ones included, of fragments that are not
            scanned; None: they count none.
        reads_files_whole: each file of a small fragment is read as a whole, by one request, and
            nothing is kept of it. Then there is no filter, and the fragments are prepared.
    """

    options: ScanOptions
    projection: Projection
    predicate: Predicate | None
    first_schema: Schema
    late_schema: Schema | None
    handles: Sequence[FragmentHandle]
    spans: Mapping[int, Sequence[tuple[int, int]]]
    meta: frozenset[str]
    pruner: Pruner | None = None
    picked: Mapping[int, Int64s] = field(default_factory=dict)
    picked_by: Node | None = None
    index_lines: tuple[str, ...] = ()
    counted: RowSet | None = None
    reads_files_whole: bool = False

    def spans_of(self, handle: FragmentHandle) -> Sequence[tuple[int, int]]:
        """The physical rows of a fragment that this scan reads."""
        return self.spans.get(handle.id, [(0, handle.num_physical_rows)])


def num_rows_of(spans: Sequence[tuple[int, int]]) -> int:
    """Return the number of rows in spans."""
    return sum(stop - start for start, stop in spans)


class RowFilter(NamedTuple):
    """CPU half of a split: runs in the pool."""

    plan: ScanPlan
    split: Split

    def run(self, task: Task) -> tuple[pa.RecordBatch | None, Int64s | None] | None:
        """The rows kept and their offsets in the group (None: all); no batch where none is kept.

        Without late columns the batch is already the output, or what it is computed from. None
        where the bytes of a local file are not at hand: then they are to be fetched.

        Raises:
            CorruptFileError: bytes that contradict the format, or an index.
        """
        plan, split = self.plan, self.split
        batch = task.decode()
        if batch is None:
            return None
        kept: Int64s | None = None  # all
        if plan.predicate is not None:
            asked = plan.meta.intersection(plan.predicate.columns)
            if asked:
                batch = with_meta(batch, split.group, split.offsets(), asked)
            selected = plan.predicate.mask(batch)
            if selected.true_count < batch.num_rows:
                kept = true_rows(selected)
                if split.rows is not None:
                    _check_index(plan, split, batch)
        live = None if plan.options.include_deleted_rows else split.live_mask()
        if live is not None:
            kept = np.flatnonzero(live) if kept is None else kept[live[kept]]
        if (batch.num_rows if kept is None else len(kept)) == 0:
            return None, None
        rows_kept = None
        if kept is not None and len(kept) < batch.num_rows:
            rows_kept = split.offsets_of(kept)
            batch = select(plan.projection.needed(batch, plan.meta), kept)
        if plan.meta:
            rows = split.offsets() if rows_kept is None else rows_kept
            batch = with_meta(batch, split.group, rows, plan.meta)
        if plan.late_schema is None:
            return plan.projection.ready(batch), rows_kept
        return batch, rows_kept


def _check_index(plan: ScanPlan, split: Split, batch: pa.RecordBatch) -> None:
    """Where a row is not what the index says, another one may be missing; for rows of which the
    filter does not keep all.

    Raises:
        CorruptFileError: there is such a row.
    """
    if plan.picked_by is None:
        return
    from alance.expr.tree import broadcast

    wrong = np.flatnonzero(~as_mask(broadcast(plan.picked_by.evaluate(batch), batch.num_rows)))
    if len(wrong):
        ((handle, rows),) = split.group.by_fragment(split.offsets()[wrong[:1]])
        raise CorruptFileError(
            f"row {rows[0]} of fragment {handle.id} is not what an index says of "
            f"it ({'; '.join(plan.index_lines)}): make the index again, or scan with "
            "use_scalar_index=False"
        )


def select(batch: pa.RecordBatch, offsets: Int64s) -> pa.RecordBatch:
    """The rows of a batch at ascending offsets."""
    if batch.num_columns == 0:
        return batch.slice(0, len(offsets))
    if len(offsets) * 8 < batch.num_rows:
        return in_order(batch, offsets)
    from alance.compute import call_function

    mask = np.zeros(batch.num_rows, np.bool_)
    mask[offsets] = True
    return call_function("filter", [batch, to_arrow(mask)])  # `batch.filter` loads all functions


def with_meta(
    batch: pa.RecordBatch, group: FragmentHandle | FragmentGroup, rows: Int64s, meta: frozenset[str]
) -> pa.RecordBatch:
    """The batch with meta columns of its rows; `rows` are their offsets in the group."""
    arrays, fields = list(batch.columns), list(batch.schema)
    for name in META:
        if name not in meta or batch.schema.get_field_index(name) >= 0:
            continue
        arrays.append(group.meta(name, rows))
        fields.append(pa.field(name, pa.uint64()))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata=batch.schema.metadata)
    )


@dataclass(frozen=True)
class LateRows:
    """Rows that the filter kept, and the columns that they still need.

    Attributes:
        handles: of the fragments.
        opened: the fragment with its late columns; or several, which are read as one.
        rows: offsets in the fragment; in several they are numbered one behind the other.
        start, stop: rows of which these were kept; of several fragments all.
        states: where plans leave what they learn.
        is_near: they are in files of this machine.
    """

    handles: Sequence[FragmentHandle]
    opened: Sequence[OpenFragment]
    rows: Int64s
    start: int
    stop: int
    states: States
    is_near: bool = False

    @property
    def num_bytes(self) -> float:
        """Encoded bytes that are read."""
        return self._taken_bytes if self.is_sparse else self._all_bytes

    @cached_property
    def _all_bytes(self) -> float:
        """Encoded bytes of the late columns from `start` to `stop`."""
        share = (self.stop - self.start) / max(
            1, sum(fragment.num_rows for fragment in self.opened)
        )
        return share * sum(fragment.encoded_bytes for fragment in self.opened)

    @property
    def _taken_bytes(self) -> int:
        """Encoded bytes of the chunks that hold the rows, about."""
        return len(self.rows) * len(self.opened[0].leaves) * CHUNK_BYTES

    @cached_property
    def is_sparse(self) -> bool:
        """Whether rows are taken one by one: where that touches fewer bytes than their range."""
        if len(self.opened) > 1:
            return False
        # From files here even chunks that are all read cost less than their whole decoding.
        few = len(self.rows) * TAKEN_SHARE <= self.stop - self.start
        return self._taken_bytes <= self._all_bytes or (self.is_near and few)

    def cut(self, most_bytes: float) -> Sequence[LateRows]:
        """The same rows in parts of about so many encoded bytes. Single rows stay together, since
        their chunks are near each other, and so do those of several fragments.
        """
        count = math.ceil(self.num_bytes / most_bytes)
        if count <= 1 or self.is_sparse or len(self.opened) > 1:
            return [self]
        cuts = np.linspace(self.start, self.stop, count + 1).astype(np.int64)
        places = np.unique(np.searchsorted(self.rows, cuts)).tolist()
        parts = [self.rows[first:last] for first, last in pairwise(places)]
        return [
            replace(self, rows=rows, start=int(rows[0]), stop=int(rows[-1]) + 1) for rows in parts
        ]

    def reading(self, *, guess: bool) -> Plan[FragmentTask]:
        """Plan the late columns, without what is `unread` of the task.

        Args:
            guess: fetch, beside the state of an unknown page, what is likely to hold its rows.
        """
        if len(self.opened) > 1:
            return read_together(self.opened)
        (fragment,) = self.opened
        if self.is_sparse:
            return fragment.place(self.rows, self.states, guess=guess)
        return fragment.read(self.start, self.stop, self.states)

    def decode(self, task: FragmentTask, read: Reader) -> pa.RecordBatch:
        """Return the late columns of the rows.

        Args:
            read: brings the bytes of `task.unread`.
        """
        batch = task.decode(read)
        if len(self.rows) < batch.num_rows:
            batch = select(batch, self.rows - self.start)
        return batch


class Kept(NamedTuple):
    """The rows of a split that the filter kept: their first columns, and the places of the late."""

    batch: pa.RecordBatch
    late: Sequence[LateRows]  # in row order

    @property
    def num_bytes(self) -> float:
        """Encoded bytes of late columns that are read."""
        return sum(rows.num_bytes for rows in self.late)

    def cut(self, most_bytes: float) -> Iterator[Kept]:
        """The same in parts, about so many encoded bytes of late columns each."""
        first = 0
        for rows in [part for late in self.late for part in late.cut(most_bytes)]:
            yield Kept(self.batch.slice(first, len(rows.rows)), [rows])
            first += len(rows.rows)

    def halves(self) -> Iterator[Kept]:
        """Divide the rows, which must be of one fragment, into two parts."""
        (late,) = self.late
        middle = len(late.rows) // 2
        for first, last in ((0, middle), (middle, len(late.rows))):
            rows = late.rows[first:last]
            part = replace(late, rows=rows, start=int(rows[0]), stop=int(rows[-1]) + 1)
            yield Kept(self.batch.slice(first, last - first), [part])

    def merge(self, plan: ScanPlan, tasks: Sequence[tuple[FragmentTask, Reader]]) -> pa.RecordBatch:
        """The output, or what it is computed from: first and late columns side by side.

        Args:
            tasks: of the late columns, each with what brings its unread bytes.
        """
        parts = [rows.decode(*task) for rows, task in zip(self.late, tasks, strict=True)]
        late = one_batch(parts)
        arrays = [*self.batch.columns, *late.columns]
        schema = pa.schema([*self.batch.schema, *late.schema])
        return plan.projection.ready(pa.RecordBatch.from_arrays(arrays, schema=schema))
