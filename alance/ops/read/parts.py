"""Parts of a scan: rows of one fragment that one pool job decodes.

Of a local file that the page cache holds they are read by the job itself; others are fetched
ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance.file.batches import fixed_bytes
from alance.file.fragment import FragmentTask
from alance.file.in_place import LocalRows
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import together
from alance.io import trace
from alance.ops.read.rows import RowFilter, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.ops.read.groups import AnyPart
    from alance.ops.read.rows import ScanPlan
    from alance.ops.read.scan import OpenSource
    from alance.ops.version.snapshot import Snapshot

AT_ONCE: Final = 4  # parts of a filter's columns in one job, where the others are narrow
LATE_BYTES: Final = 64  # of a row of the others


def parts_at_once(plan: ScanPlan) -> int:
    """Parts that are filtered in one job: more than one where rows have few bytes.

    Should the filter keep all rows, the other columns must not be too many bytes at once.
    """
    if plan.late_schema is None:
        return 1
    leaves = [one for field in plan.late_schema.fields for one in leaf_columns(field)]
    widths = [one.multiplier * fixed_bytes(one.field.arrow_type) for one in leaves]
    return AT_ONCE if min(widths) > 0 and sum(widths) <= LATE_BYTES else 1


@dataclass(frozen=True, slots=True)
class Part:
    """Fetched rows `start` to `stop` of a fragment, to be decoded."""

    source: OpenSource
    start: int
    task: FragmentTask | LocalRows

    async def decode(self, snapshot: Snapshot, plan: ScanPlan) -> pa.RecordBatch | None:
        """One pool job: decode, drop deleted rows, filter; then what late columns need."""
        handle, engine, task = self.source.handle, snapshot.engine, self.task
        first, found = RowFilter(plan, handle, self.start), None
        if isinstance(task, LocalRows):
            local = task
            if not self.source.states.is_cold:
                found = await engine.pool.run(lambda: local.run(first.run))
            if found is None:
                task = await engine.drive(local.plan(), "scan", bulk=True)
        if isinstance(task, FragmentTask):
            read = task
            found = await engine.pool.run(lambda: first.run(read.decode()))
        assert found is not None
        batch, rows = found
        if batch is None or plan.late_schema is None:
            return batch
        span = (self.start, self.start + self.task.num_rows)
        return await finish(snapshot, plan, handle, batch, rows, span)


async def fetch(
    snapshot: Snapshot, source: OpenSource, parts: Sequence[tuple[int, int]]
) -> Sequence[AnyPart]:
    """The bytes of some parts: one round, whose ranges merge over them; none of open files."""
    engine = snapshot.engine
    if not (snapshot.is_remote or trace.active or source.states.is_cold):
        places = [one.location for one in source.handle.sources]
        files = {place: file for place in places if (file := engine.local_file(place))}
        if files:
            local = [LocalRows(source.fragment, *part, source.states, files) for part in parts]
            return [Part(source, one.start, one) for one in local]
    plans = [source.fragment.read(*part, source.states) for part in parts]
    tasks = await engine.drive(together(plans), "scan", bulk=True)
    return [Part(source, start, task) for (start, _), task in zip(parts, tasks, strict=True)]
