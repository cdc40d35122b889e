"""Rows that a filter may keep, found on the driver by indices and statistics.

A task receives these rows with its split, and reads no index or statistics again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from pyroaring import BitMap

from alance.base.records import dataclass
from alance.distributed.splits import FILE_COST, WORTH_A_TASK, field_ids, fragment_bytes
from alance.format.row_set import RowSet
from alance.ops.read.aggregates.count import count_live
from alance.ops.read.filters import parse_predicate
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.rows import num_rows_of
from alance.ops.read.scan import with_statistics
from alance.ops.version.projection import META, ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.compute as pc

    from alance.datasets import Dataset
    from alance.format.table.fragment import Fragment
    from alance.ops.read.rows import ScanPlan

# Maximum number of fragments whose statistics the driver reads, at 100 to 300 us each. If there are
# more, the tasks read the statistics.
MAX_ASKS: Final = 1024
# Tasks open the remaining files again: reading statistics here adds at most 1 / ASKING_SHARE of the
# cost of the scan.
ASKING_SHARE: Final = 4
# Maximum bytes of row offsets that the driver sends to all tasks together. If there are more, it
# sends spans of rows.
OFFSETS_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Rows of a version that a filter may keep.

    Attributes:
        fragments: ids of the fragments with such rows.
        spans: ascending spans of such rows, by fragment id; a fragment without an entry has them
            anywhere.
        offsets: serialized roaring bitmaps of the offsets of such rows, by the ids of fragments for
            which an index has answered; no other rows of these fragments pass.
        pruned: ids of the fragments whose statistics are taken into account.
        is_exact: True if all rows of `offsets` pass the filter, unless an index is wrong.
        num_counted: number of rows that pass in other fragments; 0 unless rows are counted.
    """

    fragments: frozenset[int]
    spans: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    offsets: Mapping[int, bytes] = field(default_factory=dict)
    pruned: frozenset[int] = frozenset()
    is_exact: bool = False
    num_counted: int = 0

    def num_rows(self, fragment: Fragment) -> int:
        """Return an upper bound of the number of rows of a fragment that pass.

        Args:
            fragment: fragment of the version.
        """
        if fragment.id not in self.fragments:
            return 0
        if fragment.id in self.offsets:
            return len(BitMap.deserialize(self.offsets[fragment.id]))
        spans = self.spans.get(fragment.id)
        return fragment.physical_rows if spans is None else num_rows_of(spans)


async def select_rows(
    dataset: Dataset,
    filter: str | pc.Expression,
    columns: Sequence[str],
    *,
    counts: bool = False,
    use_stats: bool = True,
) -> SelectedRows | None:
    """Select rows by a filter, for `plan_splits`, by the same rules as a scan of this process.

    Returns None if no row is ruled out, or if the filter compares meta columns other than
    `_rowaddr`.

    Cost: of the indices as in a scan. For at most `MAX_ASKS` other fragments, their footers
    and statistics, unless that costs more than a quarter of a scan, or the scan is less than
    `WORTH_A_TASK` bytes.

    Args:
        dataset: the version.
        filter: SQL text or a pyarrow expression.
        columns: names or paths of the columns that tasks will read.
        counts: True if the rows that pass are only counted. Indices then may count them here.
        use_stats: False to leave statistics to the tasks.

    Raises:
        InvalidInputError: bad SQL, or an unknown column.
        StoreError: the store failed. An index that cannot be read is not used.
    """
    snapshot = dataset._snapshot
    predicate = parse_predicate(snapshot.schema, filter)
    assert predicate is not None
    if {*META}.difference([ROW_ADDRESS]).intersection(predicate.columns):
        return None
    plan = await plan_scan(snapshot, [], ScanOptions(filter=filter), counts=counts)
    num_counted = 0 if plan.counted is None else await count_live(snapshot, plan.counted)
    pruned: frozenset[int] = frozenset()
    if use_stats and _is_worth_asking(dataset, plan, columns):
        unread = [handle.id for handle in plan.handles if handle.id not in plan.picked]
        plan, pruned = await with_statistics(snapshot, plan), frozenset(unread)
    if plan.handles is snapshot.handles and not plan.picked and not plan.spans:
        return None
    return await snapshot.engine.pool.run(lambda: _selected(plan, pruned, num_counted))


def _is_worth_asking(dataset: Dataset, plan: ScanPlan, columns: Sequence[str]) -> bool:
    if plan.pruner is None or len(plan.handles) - len(plan.picked) > MAX_ASKS:
        return False
    assert plan.predicate is not None
    fields = field_ids(dataset, [*columns, *plan.predicate.columns])
    sizes = [
        fragment_bytes(handle.fragment, fields)
        for handle in plan.handles
        if handle.id not in plan.picked
    ]
    return sum(sizes) > max(WORTH_A_TASK, ASKING_SHARE * FILE_COST * len(sizes))


def _selected(plan: ScanPlan, pruned: frozenset[int], num_counted: int) -> SelectedRows:
    offsets, spans, remaining = {}, dict(plan.spans), OFFSETS_BYTES
    for number, rows in plan.picked.items():
        content = BitMap(rows).serialize()
        remaining -= len(content)
        if remaining >= 0:
            offsets[number] = content
        else:
            spans[number] = RowSet(rows).spans_of(0)
    ids = frozenset(handle.id for handle in plan.handles)
    return SelectedRows(ids, spans, offsets, pruned, plan.is_exact, num_counted)
