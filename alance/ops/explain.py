"""What a scan would ask of the store, told before it does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance.file.columns import ScanStates
from alance.file.fragment import open_fragment
from alance.format.plans import Pieces, together
from alance.io.coalesce import coalesce, split
from alance.ops.planning import plan_scan
from alance.ops.scan import OpenSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.fragment import OpenFragment
    from alance.format.plans import ByteRange, Plan
    from alance.format.schema import Schema
    from alance.io.profile import StoreProfile
    from alance.ops.handle import FragmentHandle
    from alance.ops.options import ScanOptions
    from alance.ops.projection import Columns
    from alance.ops.rows import ScanPlan
    from alance.ops.snapshot import Snapshot

WINDOW: Final = 64  # fragments opened at once


@dataclass(slots=True)
class _Total:
    """What some columns of all fragments cost."""

    num_spans: int = 0
    num_requests: int = 0
    num_bytes: int = 0
    num_rows: int = 0

    def __str__(self) -> str:
        return (
            f"{_count(self.num_bytes, 'byte')} of {_count(self.num_rows, 'row')} in "
            f"{_count(self.num_requests, 'request')}, fetched as {_count(self.num_spans, 'span')}"
        )


async def explain_scan(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> str:
    """The plan of a scan as text: columns read first and late, fragments, requests and bytes.

    Late columns are counted as if the filter kept every row. An offset or limit behind a filter
    is not counted either: it ends the scan early.

    Cost: footers and page tables are read (and kept), page data are not.

    Raises:
        InvalidInputError: an unknown column or fragment, or a bad filter.
    """
    plan = await plan_scan(snapshot, columns, options)
    first, late = _Total(), _Total()
    for begin in range(0, len(plan.handles), WINDOW):
        handles = plan.handles[begin : begin + WINDOW]
        await snapshot.resolve_sizes(handles)
        await _add(snapshot, plan, handles, plan.first_schema, first)
        if plan.late_schema is not None:
            await _add(snapshot, plan, handles, plan.late_schema, late)
    return "\n".join(_lines(snapshot, plan, options, first, late))


def _lines(
    snapshot: Snapshot, plan: ScanPlan, options: ScanOptions, first: _Total, late: _Total
) -> list[str]:
    with_deletions = sum(handle.fragment.deletion_file is not None for handle in plan.handles)
    lines = [
        f"scan of {snapshot.uri}, version {snapshot.version}",
        f"  fragments: {len(plan.handles)} of {len(snapshot.handles)}, "
        f"{with_deletions} with deleted rows",
        f"  output: {', '.join(output.name for output in plan.projection.outputs) or 'no columns'}",
    ]
    if options.filter is not None:
        lines.append(f"  filter: {options.filter}")
    lines += [
        f"  {name}: {value}"
        for name, value in (("offset", options.offset), ("limit", options.limit))
        if value is not None
    ]
    if options.order_by:
        lines.append(f"  sorted in memory by: {', '.join(options.order_by)}")
    lines.append(f"  read first: {_names(plan.first_schema)}")
    lines.append(f"    {first}")
    if plan.late_schema is not None:
        lines.append(f"  read late, of rows that the filter keeps: {_names(plan.late_schema)}")
        lines.append(f"    at most {late}")
    rounds = 1 if plan.late_schema is None else 2
    lines.append(
        f"  rounds: {_count(rounds, 'round')} a span, spans of several fragments side by side"
    )
    return lines


async def _add(
    snapshot: Snapshot,
    plan: ScanPlan,
    handles: Sequence[FragmentHandle],
    schema: Schema,
    total: _Total,
) -> None:
    """Open some fragments for a schema and count what reading them asks for."""
    engine = snapshot.engine
    all_states = [ScanStates(engine.cache) for _ in handles]
    plans: list[Plan[OpenFragment]] = [
        open_fragment(schema, handle.sources, handle.num_physical_rows, states)
        for handle, states in zip(handles, all_states, strict=True)
    ]
    opened = await engine.drive(together(plans), "open files")
    sources = [
        OpenSource(handle, fragment, states)
        for handle, fragment, states in zip(handles, opened, all_states, strict=True)
    ]
    loads = [
        source.fragment.load(*plan.span_of(source.handle), source.states) for source in sources
    ]
    await engine.drive(together(loads), "page tables")
    profile = snapshot.table.store.profile
    for source in sources:
        part_rows = source.part_rows(plan.options.batch_size)
        step = part_rows * source.span_parts(part_rows, remote=snapshot.is_remote)
        start, stop = plan.span_of(source.handle)
        total.num_rows += stop - start
        for begin in range(start, stop, step):
            end = min(stop, begin + step)
            ranges = _first_round(source.fragment.read(begin, end, source.states))
            total.num_spans += 1
            total.num_bytes += sum(one.num_bytes for one in ranges)
            total.num_requests += _requests(ranges, profile)


def _first_round(plan: Plan[object]) -> Sequence[ByteRange]:
    """What a plan asks for first; nothing where it needs no bytes."""
    try:
        return [
            each
            for one in next(plan)
            for each in (one.ranges() if isinstance(one, Pieces) else [one])
        ]
    except StopIteration:
        return ()
    finally:
        plan.close()


def _requests(ranges: Sequence[ByteRange], profile: StoreProfile) -> int:
    by_file: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for location, start, stop in ranges:
        if start < stop:
            by_file[location].append((start, stop))
    return sum(
        len(split(*span, profile.max_request_bytes))
        for spans in by_file.values()
        for span in coalesce(spans, profile.scan_gap, profile.max_request_bytes).spans
    )


def _names(schema: Schema) -> str:
    return ", ".join(field.name for field in schema.fields) or "no columns"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
