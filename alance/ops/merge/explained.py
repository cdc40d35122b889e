"""Explanation of a merge: its effects and its reads, before it runs or after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.io.events import trace
from alance.ops.merge.insert import attempt, held
from alance.ops.merge.match import fewest_rows, index_of_keys, scan_of
from alance.ops.merge.plan import RowMerge, gaps_of
from alance.ops.merge.source import SourcePart
from alance.ops.read.explain import explain_scan
from alance.ops.read.options import ScanOptions
from alance.ops.version.conditions import Bound
from alance.ops.version.first_use import load_readers
from alance.ops.write.sources import check_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.ops.merge.options import MergePlan
    from alance.ops.read.explain import Explanation
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data


async def explain_merge(
    snapshot: Snapshot, plan: MergePlan, schema: pa.Schema | None
) -> Explanation:
    """Explain the scan that finds the matches of a merge, with upper bounds of the reads after it.

    See `alance.MergeInsert.explain`.

    Args:
        schema: schema of the data; None: the table's schema.
    """
    check_schema(schema)
    plan.check()
    await load_readers(snapshot, condition=plan.condition or plan.others)
    merge = RowMerge.of(plan, snapshot.schema, schema or snapshot.schema.to_arrow())
    columns, options = scan_of(snapshot, merge)
    scanned = await explain_scan(snapshot, columns, options)
    late = _late(merge)
    at_most = (await explain_scan(snapshot, late, ScanOptions())).steps if late else ()
    return replace(
        scanned,
        what=(
            *_lines(merge),
            *await _ways(snapshot, merge),
            *(f"  {line}" for line in scanned.what),
        ),
        late=late,
        at_most=at_most,
        late_of="that match" if not merge.rewrites_columns else "of fragments that have a match",
    )


async def analyze_merge(
    snapshot: Snapshot, plan: MergePlan, data: Data, schema: pa.Schema | None
) -> str:
    """Run a merge without the commit, and compare the explanation with the measured work.

    The files that it wrote are removed. See `alance.MergeInsert.analyze_plan`.
    """
    async with held(snapshot, plan, [SourcePart(data, schema)]) as (merge, source, scratch):
        explanation = await explain_merge(snapshot, plan, merge.source_schema)
        with trace.trace() as recorder:
            change = await attempt(snapshot, merge, source, scratch)
            await change.give()
        if change.discard is not None:
            await change.discard()
    counts = ", ".join(f"{name} {count:,}" for name, count in (change.summary or {}).items())
    return "\n".join([str(explanation), f"run, without a version: {counts}", recorder.summary()])


def _late(merge: RowMerge) -> tuple[str, ...]:
    """Return the table columns that an update reads only for fragments or rows that match.

    To rewrite columns, these are the columns to write; to rewrite rows, the columns that the data
    lacks in whole or in part. Empty if matched rows are not updated.
    """
    if merge.rewrites_columns:
        return tuple(field.name for field in merge.written.fields)
    if merge.plan.when_matched != "update":
        return ()
    return gaps_of(merge.schema, merge.source_schema)


def _lines(merge: RowMerge) -> list[str]:
    plan = merge.plan
    matched = {
        "nothing": "stay",
        "update": "are written anew",
        "delete": "are deleted",
        "fail": "are an error",
    }[plan.when_matched]
    if merge.rewrites_columns:
        matched = f"get new values of {', '.join(_late(merge))}, in new files for their fragments"
    where = _where(plan.condition)
    names = ", ".join(merge.source_schema.names)
    lines = [
        f"merge on {', '.join(merge.on)}, of data with columns {names}",
        f"  rows that match {matched}{where}",
    ]
    if plan.inserts:
        lines.append("  rows of the data without a match are inserted")
    if plan.deletes_others:
        others = _where(plan.others)
        lines.append(f"  rows of the table without a match are deleted{others}")
    return lines


async def _ways(snapshot: Snapshot, merge: RowMerge) -> list[str]:
    """Describe how the rows that match are found, by the number of rows of the data.

    Empty if no index can look up the keys.
    """
    index = index_of_keys(snapshot, merge)
    if index is None:
        return []
    most = await snapshot.num_live() // fewest_rows(snapshot)
    return [
        f"  up to {most:,} rows of data are looked up by the index {index!r}, beside the rows that "
        "it lacks; more by a scan:"
    ]


def _where(condition: str | Bound | None) -> str:
    text = condition.text if isinstance(condition, Bound) else condition
    return "" if text is None else f", where {text}"
