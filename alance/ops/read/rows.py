"""From decoded rows to output rows: deletions, filter, meta columns, late columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.file.fragment import open_fragment
from alance.file.tracing import describe
from alance.format.numbers import as_mask, to_arrow
from alance.ops.version.handle import local_files
from alance.ops.version.projection import META

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.expr import Predicate
    from alance.expr.tree import Node
    from alance.file.columns import States
    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.layouts.paged_rows import LocalFile
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.read.groups import HandleGroup
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.pruning import Pruner
    from alance.ops.version.projection import Projection
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

# What a single row of a column costs: the chunk that holds it is read and decoded as a whole.
CHUNK_BYTES: Final = 4 << 10
TAKEN_SHARE: Final = 16  # of one row in so many, taking from a file is the cheaper way


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan, decided: what is read first, what late, of which fragments and rows.

    Attributes:
        first_schema: fields read of every row.
        late_schema: fields read only of rows that the filter kept; None: there are none.
        spans: physical rows to read by fragment id, where not all of them.
        pruner: what rules out rows by statistics; None: nothing does.
        picked: row offsets by fragment id, where an index gave them: only these are read.
        picked_by: the part of the filter that is true of these rows, if the index is right.
        index_lines: what was asked of indices, for `explain`.
    """

    options: ScanOptions
    projection: Projection
    predicate: Predicate | None
    first_schema: Schema
    late_schema: Schema | None
    handles: Sequence[FragmentHandle]
    spans: dict[int, tuple[int, int]]
    meta: frozenset[str]
    pruner: Pruner | None = None
    picked: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    picked_by: Node | None = None
    index_lines: tuple[str, ...] = ()

    def span_of(self, handle: FragmentHandle) -> tuple[int, int]:
        """The physical rows of a fragment that this scan reads."""
        return self.spans.get(handle.id, (0, handle.num_physical_rows))


@dataclass(frozen=True, slots=True)
class RowFilter:
    """CPU half of a part: runs in the pool."""

    plan: ScanPlan
    handle: FragmentHandle | HandleGroup
    start: int

    def run(
        self, batch: pa.RecordBatch
    ) -> tuple[pa.RecordBatch | None, npt.NDArray[np.int64] | None]:
        """The rows kept and their physical offsets (None: all); no batch where none is kept.

        Without late columns the batch is already the output.
        """
        plan = self.plan
        mask = None
        if not plan.options.include_deleted_rows:
            mask = self.handle.live_mask(self.start, self.start + batch.num_rows)
        if plan.predicate is not None:
            asked = plan.meta.intersection(plan.predicate.columns)
            if asked:
                batch = with_meta(batch, self.handle, self._rows(batch), asked)
            kept = plan.predicate.mask(batch)
            selected = as_mask(kept)
            mask = selected if mask is None else mask & selected
        rows_kept = None
        if mask is not None:
            count = int(np.count_nonzero(mask))
            if count == 0:
                return None, None
            if count < batch.num_rows:
                offsets = np.flatnonzero(mask)
                rows_kept = offsets + self.start
                batch = select(batch, mask, offsets)
        if batch.num_rows == 0:
            return None, None
        if plan.meta:
            rows = self._rows(batch) if rows_kept is None else rows_kept
            batch = with_meta(batch, self.handle, rows, plan.meta)
        if plan.late_schema is None:
            return plan.projection.apply(batch), rows_kept
        return batch, rows_kept

    def _rows(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The physical offsets of a batch of all rows of the part."""
        return np.arange(self.start, self.start + batch.num_rows, dtype=np.int64)


def select(
    batch: pa.RecordBatch, mask: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]
) -> pa.RecordBatch:
    """The rows of a batch where the mask is true; `offsets` are their positions."""
    if batch.num_columns == 0:
        return batch.slice(0, len(offsets))
    if len(offsets) * 8 < len(mask):
        return batch.take(to_arrow(offsets))
    return batch.filter(to_arrow(mask))


def with_meta(
    batch: pa.RecordBatch,
    handle: FragmentHandle | HandleGroup,
    rows: npt.NDArray[np.int64],
    meta: frozenset[str],
) -> pa.RecordBatch:
    """The batch with meta columns of its rows; `rows` are physical row offsets."""
    arrays, fields = list(batch.columns), list(batch.schema)
    for name in META:
        if name not in meta or batch.schema.get_field_index(name) >= 0:
            continue
        arrays.append(handle.meta(name, rows))
        fields.append(pa.field(name, pa.uint64()))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata=batch.schema.metadata)
    )


@dataclass(frozen=True, slots=True)
class LateRows:
    """The rows of a part that the filter kept, and the columns that they still need.

    Attributes:
        opened: the fragment with its late columns.
        batch: the first columns of these rows.
        rows: their physical offsets.
        span: physical rows of the part.
        files: as of `OpenFragment.take`.
    """

    plan: ScanPlan
    opened: OpenFragment
    batch: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    span: tuple[int, int]
    files: Mapping[str, LocalFile]

    @property
    def all_bytes(self) -> float:
        """Encoded bytes of the late columns in the span."""
        share = (self.span[1] - self.span[0]) / max(1, self.opened.num_rows)
        return share * self.opened.encoded_bytes

    @property
    def taken_bytes(self) -> int:
        """Encoded bytes of the chunks that hold the rows, about."""
        return len(self.rows) * len(self.opened.leaves) * CHUNK_BYTES

    @property
    def is_sparse(self) -> bool:
        """Whether rows are taken one by one: where that touches fewer bytes than their range."""
        # From an open file even chunks that are all read cost less than their whole decoding.
        few = len(self.rows) * TAKEN_SHARE <= self.span[1] - self.span[0]
        return self.taken_bytes <= self.all_bytes or (bool(self.files) and few)

    def reading(self, states: States, *, guess: bool) -> Plan[FragmentTask]:
        """Plan the late columns; arguments as of `OpenFragment.take`."""
        if self.is_sparse:
            return self.opened.take(self.rows, states, guess=guess, files=self.files)
        return self.opened.read(*self.span, states)

    def merge(self, task: FragmentTask, *, is_whole: bool) -> pa.RecordBatch:
        """The output: first and late columns side by side. CPU, for the pool.

        Args:
            is_whole: the task has all rows of the span.
        """
        late = task.decode()
        if is_whole and len(self.rows) < late.num_rows:
            offsets = self.rows - self.span[0]
            mask = np.zeros(late.num_rows, np.bool_)
            mask[offsets] = True
            late = select(late, mask, offsets)
        arrays = [*self.batch.columns, *late.columns]
        schema = pa.schema([*self.batch.schema, *late.schema])
        return self.plan.projection.apply(pa.RecordBatch.from_arrays(arrays, schema=schema))


async def finish(
    snapshot: Snapshot,
    plan: ScanPlan,
    handle: FragmentHandle,
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64] | None,
    span: tuple[int, int],
) -> pa.RecordBatch:
    """The output of a part from its filtered first columns: reads the late ones, one round."""
    assert plan.late_schema is not None
    engine = snapshot.engine
    opening = open_fragment(
        plan.late_schema, handle.sources, handle.num_physical_rows, engine.cache
    )
    opened = await engine.drive(opening, "open files")
    describe(opened)
    if rows is None:
        rows = np.arange(*span, dtype=np.int64)
    late = LateRows(plan, opened, batch, rows, span, local_files([handle]))
    is_sparse = late.is_sparse
    reading = late.reading(engine.cache, guess=snapshot.is_remote)
    task = await engine.drive(reading, "late columns", bulk=not is_sparse)
    return await engine.pool.run(lambda: late.merge(task, is_whole=not is_sparse))
