"""Steps from decoded rows to output rows: deletions, filter, meta columns, late columns.

Functions here are either CPU work for the pool, or plans; none waits.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file.batches import in_order, side_by_side
from alance.file.rows.placing import placed_rows
from alance.file.rows.tasks import TakenRows
from alance.file.rows.whole import group_key, read_together
from alance.format.numbers import as_mask, to_arrow, true_rows
from alance.format.plans import together
from alance.ops.version.projection import META

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.expr import Predicate
    from alance.expr.tree import Node
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.file.rows.whole import WholeRows
    from alance.format.plans import Plan, Reader
    from alance.format.row_set import RowSet
    from alance.format.schema import Schema
    from alance.ops.read.groups import Split
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.physical_rows import PhysicalRows
    from alance.ops.read.pruning import Pruner
    from alance.ops.version.projection import Projection
    from alance.ops.version.snapshot import FragmentHandle

    # Task that decodes late columns.
    LateTask: TypeAlias = FragmentTask | TakenRows | WholeRows

# Estimated bytes to read and decode for a single row of a column, because its whole chunk is read.
SPARSE_CHUNK_BYTES: Final = 4 << 10
# A take of at most 1 / TAKEN_SHARE of a range's rows is cheaper than a scan of the range.
TAKEN_SHARE: Final = 16
# Maximum encoded bytes of late columns that one request reads for a whole fragment.
LATE_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Plan of a scan: first and late columns, fragments, and rows.

    Attributes:
        first_schema: fields to read for every row.
        late_schema: fields to read only for rows that pass the filter; None if there are none.
        spans: ascending spans of physical rows to read, by fragment id; all rows of fragments
            without an entry.
        pruner: pruner of rows by statistics; None without pruning.
        picked: offsets of rows to take, by fragment id; only these rows of the fragment are read.
            They are from an index, or the few rows of a limit.
        picked_by: part of the filter that is true for these rows, unless the index is wrong; None
            if there is no such part.
        is_exact: True if the whole filter is true for these rows, unless the index is wrong.
        index_lines: texts for `explain` about the use of indices.
        counted: rows that indices have counted, including deleted rows, in fragments that are not
            scanned; None if indices count no rows.
        is_cut: True if the scan must not apply the options' offset and limit, such as when `spans`
            already have only the rows inside these.
        reads_files_whole: True to read each file of a small fragment with one request, without
            caching. There must be no filter, and the fragments must be prepared.
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
    is_exact: bool = False
    index_lines: tuple[str, ...] = ()
    counted: RowSet | None = None
    is_cut: bool = False
    reads_files_whole: bool = False

    def spans_of(self, handle: FragmentHandle) -> Sequence[tuple[int, int]]:
        """Return the spans of physical rows of a fragment to read."""
        return self.spans.get(handle.id, [(0, handle.num_physical_rows)])


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Physical rows to which a scan is restricted; other fragments are read whole.

    Attributes:
        spans: ascending spans of rows, by fragment id.
        picked: offsets of rows from an index, by fragment id.
        is_exact: True if the filter is true for all rows of `picked`, unless the index is wrong.
    """

    spans: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    picked: Mapping[int, Int64s] = field(default_factory=dict)
    is_exact: bool = False


def num_rows_of(spans: Iterable[tuple[int, int]]) -> int:
    """Return the total number of rows in spans."""
    return sum(stop - start for start, stop in spans)


def passing(
    plan: ScanPlan, rows: Split | PhysicalRows, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch | None, PhysicalRows | None]:
    """Return the rows that pass the filter, and where their late columns are. CPU work.

    The batch is None if no row passes. Without late columns, it is the output, or the input of
    computed columns, and the second result is None.

    Args:
        rows: the rows of the batch.
        batch: the first columns.
    """
    chosen: Int64s | None = None  # positions of the selected rows; None for all rows
    if plan.predicate is not None:
        filtered_meta = plan.meta.intersection(plan.predicate.columns)
        if filtered_meta:
            batch = with_meta(batch, rows.at(None), filtered_meta)
        selected = plan.predicate.mask(batch)
        if selected.true_count < batch.num_rows:
            chosen = true_rows(selected)
    live = None if plan.options.include_deleted_rows else rows.live_mask()
    if live is not None:
        chosen = np.flatnonzero(live) if chosen is None else chosen[live[chosen]]
    if (batch.num_rows if chosen is None else len(chosen)) == 0:
        return None, None
    if chosen is not None and len(chosen) == batch.num_rows:
        chosen = None
    if chosen is not None:
        batch = select(plan.projection.needed(batch, plan.meta), chosen)
    if plan.late_schema is None and not plan.meta:
        return plan.projection.ready(batch), None
    passed = rows.at(chosen)
    if plan.meta:
        batch = with_meta(batch, passed, plan.meta)
    if plan.late_schema is None:
        return plan.projection.ready(batch), None
    return batch, passed


def check_index(plan: ScanPlan, rows: PhysicalRows, batch: pa.RecordBatch) -> None:
    """Check that rows that an index returned satisfy the condition that it answered.

    If a row does not, the index is wrong, and may also lack rows.

    Args:
        rows: the rows of the batch, as the index returned them.
        batch: first columns of these rows.

    Raises:
        CorruptFileError: a row does not match the index.
    """
    if plan.picked_by is None:
        return
    from alance.expr.tree import broadcast

    wrong = np.flatnonzero(~as_mask(broadcast(plan.picked_by.evaluate(batch), batch.num_rows)))
    if len(wrong):
        ((handle, offsets),) = rows.at(wrong[:1]).by_fragment()
        raise CorruptFileError(
            f"row {offsets[0]} of fragment {handle.id} is not what an index says of "
            f"it ({'; '.join(plan.index_lines)}): make the index again, or scan with "
            "use_scalar_index=False"
        )


def select(batch: pa.RecordBatch, offsets: Int64s) -> pa.RecordBatch:
    """Select rows of a batch.

    Args:
        offsets: numbers of the rows in the batch, ascending and unique.
    """
    if batch.num_columns == 0:
        return batch.slice(0, len(offsets))
    if len(offsets) * 8 < batch.num_rows:
        return in_order(batch, offsets)
    from alance.base.compute import call_function

    mask = np.zeros(batch.num_rows, np.bool_)
    mask[offsets] = True
    return call_function("filter", [batch, to_arrow(mask)])  # `batch.filter` loads all functions


def with_meta(batch: pa.RecordBatch, rows: PhysicalRows, meta: frozenset[str]) -> pa.RecordBatch:
    """Append meta columns to a batch of these rows."""
    arrays, fields = list(batch.columns), list(batch.schema)
    for name in META:
        if name not in meta or batch.schema.get_field_index(name) >= 0:
            continue
        arrays.append(rows.meta(name))
        fields.append(pa.field(name, pa.uint64()))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata=batch.schema.metadata)
    )


@dataclass(frozen=True)
class LateSplit:
    """Rows of a split that passed the filter: their first columns, and where the late ones are.

    Attributes:
        batch: first columns.
        opened: for each fragment of the rows, the opened fragment with the late columns.
        start, stop: range that the rows were selected from; for several fragments, all rows, which
            are numbered consecutively.
        states: cache for page states.
        is_near: True if the files are on this machine.
    """

    batch: pa.RecordBatch
    rows: PhysicalRows
    opened: Sequence[OpenFragment]
    start: int
    stop: int
    states: States
    is_near: bool = False

    @property
    def num_bytes(self) -> float:
        """Number of encoded bytes to read."""
        return self._taken_bytes if self.is_sparse else self._all_bytes

    @cached_property
    def _all_bytes(self) -> float:
        share = (self.stop - self.start) / max(1, sum(own.num_rows for own in self.opened))
        return share * sum(own.encoded_bytes for own in self.opened)

    @property
    def _taken_bytes(self) -> int:
        return self.rows.num_rows * len(self.opened[0].containers) * SPARSE_CHUNK_BYTES

    @cached_property
    def _are_together(self) -> bool:
        """True if one plan can read all rows of several fragments."""
        keys = {*map(group_key, self.opened)}
        return len(self.opened) > 1 and len(keys) == 1 and None not in keys

    @cached_property
    def is_sparse(self) -> bool:
        """True if rows are taken singly.

        That is so if a take reads no more bytes than a read of the range, or if the files are local
        and the rows are few. Several fragments with little to read are read whole.
        """
        if self._are_together and all(own.encoded_bytes <= LATE_BYTES for own in self.opened):
            return False
        # For local files, decoding all rows of the chunks costs more than reading them.
        few = self.rows.num_rows * TAKEN_SHARE <= self.stop - self.start
        return self._taken_bytes <= self._all_bytes or (self.is_near and few)

    def cut(self, most_bytes: float) -> Sequence[LateSplit]:
        """Cut the rows into parts of about `most_bytes` encoded bytes.

        Rows of several fragments are not cut. Neither are rows that are taken singly, because their
        chunks are near each other.
        """
        count = math.ceil(self.num_bytes / most_bytes)
        if count <= 1 or self.is_sparse or len(self.opened) > 1:
            return [self]
        cuts = np.linspace(self.start, self.stop, count + 1).astype(np.int64)
        return self._parts(np.unique(np.searchsorted(self.rows.offsets, cuts)).tolist())

    def halves(self) -> list[LateSplit]:
        """Return the two halves of the rows, which must be of one fragment."""
        return self._parts([0, self.rows.num_rows // 2, self.rows.num_rows])

    def _parts(self, places: Sequence[int]) -> list[LateSplit]:
        """Cut the rows of one fragment at these positions, which include 0 and the end."""
        parts = []
        for first, last in pairwise(places):
            rows = self.rows._replace(offsets=self.rows.offsets[first:last], ends=[last - first])
            batch = self.batch.slice(first, last - first)
            start, stop = int(rows.offsets[0]), int(rows.offsets[-1]) + 1
            parts.append(replace(self, batch=batch, rows=rows, start=start, stop=stop))
        return parts

    def reading(self, *, guess: bool) -> Plan[LateTask]:
        """Plan the late columns; the task's `unread` lists bytes that remain to be read.

        Args:
            guess: True to guess the positions of rows in pages of unknown state, and to read rows
                and page states in one round.
        """
        schema = self.opened[0].schema
        if self.is_sparse:
            _, offsets, ends = self.rows
            placing = placed_rows(schema, self.opened, offsets, ends, self.states, guess=guess)
            return TakenRows(schema, (yield from placing))
        if self._are_together:
            return (yield from read_together(self.opened))
        is_single = len(self.opened) == 1
        spans = [(self.start, self.stop) if is_single else (0, own.num_rows) for own in self.opened]
        pairs = zip(self.opened, spans, strict=True)
        plans = [
            fragment.read(*span, self.states, is_read=not self.is_near) for fragment, span in pairs
        ]
        return TakenRows(schema, (yield from together(plans)))

    def merge(self, plan: ScanPlan, task: LateTask, read: Reader) -> pa.RecordBatch:
        """Combine first and late columns into the output, or into the input of computed columns.

        Args:
            task: task of the late columns.
            read: opens the bytes of `task.unread`.
        """
        late = task.decode(read)
        if self.rows.num_rows < late.num_rows:
            counts = np.diff(self.rows.ends, prepend=0)
            firsts = np.cumsum([0, *(own.num_rows for own in self.opened[:-1])]) - self.start
            late = select(late, self.rows.offsets + np.repeat(firsts, counts))
        return with_late(plan, self.batch, late)


def with_late(plan: ScanPlan, batch: pa.RecordBatch, late: pa.RecordBatch) -> pa.RecordBatch:
    """Combine first and late columns into the output, or into the input of computed columns."""
    return plan.projection.ready(side_by_side([batch, late]))
