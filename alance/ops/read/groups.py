"""Scans of many small fragments: neighbours are read together, and decoded in one pool job.

A fragment of a few rows costs a round of calls for each of its columns, and a job, a filter and a
batch of its own; together they cost that once for some MiB.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from alance.file.batches import fixed_bytes
from alance.file.fragment import open_fragment
from alance.file.grouped import group_key, read_together
from alance.file.tracing import describe
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import together
from alance.io.readahead import Job
from alance.ops.read.rows import RowFilter, finish, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.read.rows import ScanPlan
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

    Int64s = npt.NDArray[np.int64]

SMALL_BYTES: Final = 1 << 20  # of a fragment's files
SMALL_ROWS: Final = 64 << 10
SMALL_DECODED_BYTES: Final = 16 << 20
GROUP_BYTES: Final = 4 << 20  # encoded
GROUP_FRAGMENTS: Final = 64
LATE_BYTES: Final = 64 << 10  # of a fragment's late columns: one request has them all


def is_small(handle: FragmentHandle, row_bytes: float) -> bool:
    """Whether calls cost more than bytes in a fragment; `row_bytes` as of `fixed_row_bytes`."""
    rows = handle.num_physical_rows
    return (
        file_bytes(handle) <= SMALL_BYTES
        and rows <= SMALL_ROWS
        and rows * row_bytes <= SMALL_DECODED_BYTES
    )


def file_bytes(handle: FragmentHandle) -> int:
    """Bytes of a fragment's files, whose sizes are known."""
    return sum(source.file_bytes for source in handle.sources)


def fixed_row_bytes(schema: Schema) -> float:
    """Memory of a decoded row, of values of fixed width: constant pages have no bytes at all."""
    return sum(
        leaf.multiplier * fixed_bytes(leaf.field.arrow_type)
        for field in schema.fields
        for leaf in leaf_columns(field)
    )


def grouping(
    schema: Schema,
) -> Callable[[FragmentHandle, OpenFragment, Sequence[tuple[int, int]]], bool]:
    """What tells whether spans of rows of a fragment are read together with its neighbours."""
    row_bytes = fixed_row_bytes(schema)
    return lambda handle, fragment, spans: (
        list(spans) == [(0, fragment.num_rows)]
        and is_small(handle, row_bytes)
        and group_key(fragment) is not None
    )


@dataclass(frozen=True, slots=True)
class HandleGroup:
    """Fragments as one: their physical rows are numbered one behind the other."""

    handles: Sequence[FragmentHandle]
    bounds: Int64s  # shape (n + 1,): rows before each fragment, and all

    @classmethod
    def of(cls, handles: Sequence[FragmentHandle]) -> HandleGroup:
        rows = accumulate((handle.num_physical_rows for handle in handles), initial=0)
        return cls(handles, np.array(list(rows), np.int64))

    def live_mask(self, start: int, stop: int) -> npt.NDArray[np.bool_] | None:
        """Which rows are live, of all; None: all."""
        assert (start, stop) == (0, self.bounds[-1])
        if all(handle.deleted is None for handle in self.handles):
            return None
        masks = []
        for handle in self.handles:
            mask = handle.live_mask(0, handle.num_physical_rows)
            masks.append(np.ones(handle.num_physical_rows, np.bool_) if mask is None else mask)
        return np.concatenate(masks)

    def meta(self, name: str, rows: Int64s) -> pa.Array:
        """A meta column of some rows; errors as of `FragmentHandle.meta`."""
        return pa.concat_arrays([handle.meta(name, mine) for handle, mine in self.split(rows)])

    def split(self, rows: Int64s) -> list[tuple[FragmentHandle, Int64s]]:
        """Ascending rows by fragment, counted from its first row; those without are left out."""
        cuts = np.searchsorted(rows, self.bounds).tolist()
        first = self.bounds.tolist()
        return [
            (handle, rows[cuts[n] : cuts[n + 1]] - first[n])
            for n, handle in enumerate(self.handles)
            if cuts[n] < cuts[n + 1]
        ] or [(self.handles[0], rows)]


class AnyPart(Protocol):
    """Fetched rows, to be decoded."""

    async def decode(self, snapshot: Snapshot, plan: ScanPlan) -> pa.RecordBatch | None:
        """The output rows; None: there are none."""


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Fetched fragments, to be decoded."""

    group: HandleGroup
    task: FragmentTask

    async def decode(self, snapshot: Snapshot, plan: ScanPlan) -> pa.RecordBatch | None:
        """One pool job: decode, drop deleted rows, filter; then what late columns need."""
        first = RowFilter(plan, self.group, 0)
        batch, rows = await snapshot.engine.pool.run(lambda: first.run(self.task.decode()))
        if batch is None or plan.late_schema is None:
            return batch
        return await self._finish(snapshot, plan, batch, rows)

    async def _finish(
        self, snapshot: Snapshot, plan: ScanPlan, batch: pa.RecordBatch, rows: Int64s | None
    ) -> pa.RecordBatch:
        """The late columns of the rows that were kept, by fragment."""
        if rows is None:
            rows = np.arange(self.group.bounds[-1], dtype=np.int64)
        split = self.group.split(rows)
        late = await _open_late(snapshot, plan, [handle for handle, _ in split])
        if late is not None:
            return await _merge(snapshot, plan, late, batch, [mine for _, mine in split])
        counts = [len(mine) for _, mine in split]
        starts = accumulate(counts, initial=0)
        pieces = await asyncio.gather(
            *(
                finish(
                    snapshot,
                    plan,
                    handle,
                    batch.slice(start, len(mine)),
                    mine,
                    (0, handle.num_physical_rows),
                )
                for (handle, mine), start in zip(split, starts, strict=False)
            )
        )
        return pa.concat_batches(pieces)


async def _open_late(
    snapshot: Snapshot, plan: ScanPlan, handles: Sequence[FragmentHandle]
) -> list[OpenFragment] | None:
    """Fragments with their late columns; None: they are not read together."""
    schema, engine = plan.late_schema, snapshot.engine
    assert schema is not None
    plans: list[Plan[OpenFragment]] = [
        open_fragment(schema, handle.sources, handle.num_physical_rows, engine.cache)
        for handle in handles
    ]
    opened = await engine.drive(together(plans), "open files")
    keys = {group_key(fragment) for fragment in opened}
    if len(keys) > 1 or None in keys or len(opened) == 1:
        return None
    if any(fragment.encoded_bytes > LATE_BYTES for fragment in opened):
        return None
    for fragment in opened:
        describe(fragment)
    return opened


async def _merge(
    snapshot: Snapshot,
    plan: ScanPlan,
    opened: Sequence[OpenFragment],
    batch: pa.RecordBatch,
    rows: Sequence[Int64s],
) -> pa.RecordBatch:
    """The output from filtered first columns, and all late ones of the fragments with rows."""
    task = await snapshot.engine.drive(read_together(opened), "late columns", bulk=True)

    def merge() -> pa.RecordBatch:
        late = task.decode()
        firsts = accumulate((fragment.num_rows for fragment in opened), initial=0)
        offsets = np.concatenate([mine + n for mine, n in zip(rows, firsts, strict=False)])
        if len(offsets) < late.num_rows:
            mask = np.zeros(late.num_rows, np.bool_)
            mask[offsets] = True
            late = select(late, mask, offsets)
        arrays = [*batch.columns, *late.columns]
        schema = pa.schema([*batch.schema, *late.schema])
        return plan.projection.apply(pa.RecordBatch.from_arrays(arrays, schema=schema))

    return await snapshot.engine.pool.run(merge)


def groups(
    pairs: Sequence[tuple[FragmentHandle, OpenFragment]],
) -> Iterator[tuple[int, list[FragmentHandle], list[OpenFragment]]]:
    """Neighbours that are read together, with their encoded bytes."""
    for _, run in groupby(pairs, lambda pair: group_key(pair[1])):
        handles: list[FragmentHandle] = []
        opened: list[OpenFragment] = []
        num_bytes = rows = 0
        for handle, fragment in run:
            size = fragment.encoded_bytes
            full = num_bytes + size > GROUP_BYTES or rows + fragment.num_rows > SMALL_ROWS
            if handles and (full or len(handles) == GROUP_FRAGMENTS):
                yield num_bytes, handles, opened
                handles, opened = [], []
                num_bytes = rows = 0
            handles.append(handle)
            opened.append(fragment)
            num_bytes += size
            rows += fragment.num_rows
        if handles:
            yield num_bytes, handles, opened


def group_jobs(
    snapshot: Snapshot, pairs: Sequence[tuple[FragmentHandle, OpenFragment]]
) -> Iterator[Job[Sequence[AnyPart]]]:
    """Jobs that fetch small fragments, some together."""
    for num_bytes, handles, opened in groups(pairs):
        yield Job(
            num_bytes,
            lambda handles=handles, opened=opened: _fetch(snapshot, handles, opened),  # type: ignore[misc]
        )


async def _fetch(
    snapshot: Snapshot, handles: Sequence[FragmentHandle], opened: Sequence[OpenFragment]
) -> Sequence[AnyPart]:
    task = await snapshot.engine.drive(read_together(opened), "scan", bulk=True)
    return [GroupPart(HandleGroup.of(handles), task)]
