"""Plan of a scan: first and late columns, fragments, and rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Final, TypeVar, cast

import numpy as np

from alance.base.checks import check_type, some_of
from alance.errors import InvalidInputError
from alance.file.rows.leaves import FEW_FIELDS, LeafSet
from alance.format.schema import Schema
from alance.io.loop.tasks import in_turns
from alance.ops.read.filters import parsed_predicate
from alance.ops.read.options import condition_of
from alance.ops.read.rows import TAKEN_SHARE, ScanPlan, num_rows_of
from alance.ops.version.first_use import load_readers, parsed
from alance.ops.version.projection import META, plain_names, project
from alance.ops.version.snapshot import Handles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from alance.base.arrays import Int64s
    from alance.expr import Predicate
    from alance.expr.tree import Node
    from alance.ops.lookup.look_up import IndexUse
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.rows import ChosenRows
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

T = TypeVar("T")

LARGE_ROWS: Final = 1 << 19
LARGE_BATCH_BYTES: Final = 16 << 20  # bytes of a decoded batch
# Maximum rows that are always taken singly: rows from an index in a fragment, or of a limit.
PLACED_ROWS: Final = 128
# Spans are scanned if an index selects at least 1 / DENSE_SHARE of their rows.
DENSE_SHARE: Final = 2
# Work as bytes to decode: per fragment with rows from an index, and per fragment of the scan.
PICKING: Final = 256
PASSING: Final = 8
# Maximum rows from an exact index for which all columns are read at once.
AT_ONCE_ROWS: Final = 4096
# The same for an index that is not exact, because only a few rows may pass the filter.
UNSURE_ROWS: Final = 16


async def plan_scan(
    snapshot: Snapshot,
    columns: Columns,
    options: ScanOptions,
    *,
    counts: bool = False,
    flat: bool = True,
) -> ScanPlan:
    """Plan a scan.

    Deletion vectors are only read if a limit or offset without a filter needs them, or for a bitmap
    index of a table with stable row ids; see `look_up`.

    Args:
        counts: True if rows are only counted. Rows that an index has counted exactly are then not
            read.
        flat: True to return struct members as columns, False to return their structs.

    Raises:
        InvalidInputError: a column or fragment is unknown, or the filter is invalid.
    """
    condition = condition_of(options)
    await load_readers(snapshot, columns, condition)
    predicate = await parsed_predicate(snapshot, condition)

    def choose() -> tuple[Projection, Schema, Schema | None]:
        projection = projection_of(snapshot, columns, options, flat=flat)
        of_filter = predicate and (predicate.columns, predicate.documents)
        first, late = snapshot.schema.remember(
            (split_fields, projection.fields, of_filter, options.late_materialization),
            lambda: split_fields(snapshot.schema, projection, predicate, options),
        )
        for own in (first, late):
            if own is not None and len(own.fields) > FEW_FIELDS:
                LeafSet.described(own)
        return projection, first, late

    projection, first, late = await parsed(snapshot, columns, choose)
    meta = projection.meta
    if predicate is not None:
        meta = meta.union(name for name in predicate.columns if name in META)
    handles = await chosen_in_turns(snapshot, options)
    if options.fast_search and predicate is not None and may_ask(snapshot, options):
        from alance.ops.lookup.look_up import covered_fragments

        covered = await covered_fragments(snapshot, predicate)
        if covered is not None:
            handles = [handle for handle in handles if handle.id in covered]
    spans: Mapping[int, tuple[int, int]] = {}
    if is_cut := predicate is None and (options.limit is not None or bool(options.offset)):
        handles, spans = await narrow(snapshot, handles, options)
    if meta:
        await snapshot.load_meta(handles, meta)
    plan = ScanPlan(
        options,
        projection,
        predicate,
        first,
        late,
        handles,
        {number: [span] for number, span in spans.items()},
        meta,
        picked=few_rows(handles, spans) if is_cut and not options.include_deleted_rows else {},
        is_cut=is_cut,
    )
    if predicate is None:
        return plan
    plan = await with_indices(snapshot, plan, counts=counts)
    if len(plan.picked) == len(plan.handles):
        return plan
    from alance.ops.read.pruning import pruner_of

    return replace(plan, pruner=await pruner_of(snapshot, predicate, options))


def chosen(snapshot: Snapshot, options: ScanOptions) -> Sequence[FragmentHandle]:
    """Return the fragments that the options select, in dataset order.

    Raises:
        InvalidInputError: a fragment does not exist.
    """
    return (
        snapshot.handles
        if options.fragments is None
        else snapshot.handles.at(_places(snapshot, options.fragments))
    )


async def chosen_in_turns(snapshot: Snapshot, options: ScanOptions) -> Sequence[FragmentHandle]:
    """Return the fragments that the options select; other callers of the loop run meanwhile.

    Raises:
        InvalidInputError: a fragment does not exist.
    """
    if options.fragments is None:
        return snapshot.handles
    handles: list[FragmentHandle] = []
    async for part in in_turns(_places(snapshot, options.fragments)):
        handles += snapshot.handles.at(part)
    return handles


def _places(snapshot: Snapshot, fragment_ids: Iterable[int]) -> list[int]:
    """Return the positions of fragments in the version's list, ascending."""
    check_type("fragments", fragment_ids, Iterable, "a list of the ids of fragments")
    numbers = [*fragment_ids]
    try:
        sought = np.array([*map(index, numbers)], np.int64)
    except (TypeError, OverflowError):
        raise InvalidInputError(
            f"fragments {some_of(numbers)}: expected a list of the ids of fragments"
        ) from None
    places = snapshot.manifest.fragments.positions_of(sought)
    if missing := sorted({numbers[place] for place in np.flatnonzero(places < 0).tolist()}):
        raise InvalidInputError(
            f"fragments {some_of(missing)}: not in version {snapshot.version}, which has "
            f"{some_of(snapshot.handles.ids)}"
        )
    return sorted({*places.tolist()})


def projection_of(
    snapshot: Snapshot, columns: Columns, options: ScanOptions, *, flat: bool = True
) -> Projection:
    """Return the projection of a scan; memoized by column names.

    Raises:
        InvalidInputError: a column is unknown, or an expression is invalid.
    """

    def make() -> Projection:
        return project(
            snapshot.schema,
            columns,
            flat=flat,
            with_row_id=options.with_row_id,
            with_row_address=options.with_row_address,
        )

    names = plain_names(columns)
    if columns is not None and names is None:
        return make()
    key = (projection_of, names, options.with_row_id, options.with_row_address, flat)
    return snapshot.schema.remember(key, make)


def split_fields(
    schema: Schema,
    projection: Projection,
    predicate: Predicate | None,
    options: ScanOptions,
) -> tuple[Schema, Schema | None]:
    """Return the fields to read for all rows, and the fields to read only for rows that pass.

    The second schema is None if all fields are read for all rows.
    """
    if predicate is None:
        return schema.project(projection.fields), None
    filtered = [name for name in predicate.columns if name not in META]
    if options.late_materialization is False:
        first = schema.project(list(dict.fromkeys([*filtered, *projection.fields])))
        return _as_needed(first, projection, predicate), None
    tops = {schema.names_of(name)[0] for name in filtered}
    early = [name for name in projection.fields if schema.names_of(name)[0] in tops]
    late = [name for name in projection.fields if schema.names_of(name)[0] not in tops]
    first = schema.project(list(dict.fromkeys([*filtered, *early])))
    return _as_needed(first, projection, predicate), schema.project(late) if late else None


def _as_needed(first: Schema, projection: Projection, predicate: Predicate) -> Schema:
    """Return the first fields, with JSON columns as stored JSONB if only the filter reads them."""
    inside = predicate.documents.difference(projection.fields)
    if not any(field.is_json and field.name in inside for field in first.fields):
        return first
    fields = [
        field.as_stored() if field.is_json and field.name in inside else field
        for field in first.fields
    ]
    return Schema(tuple(fields), first.metadata)


async def narrow(
    snapshot: Snapshot, handles: Sequence[FragmentHandle], options: ScanOptions
) -> tuple[list[FragmentHandle], dict[int, tuple[int, int]]]:
    """Return the fragments and physical rows that an offset and a limit select without a filter.

    Deletion vectors are only read for the first and the last fragment.
    """
    skip = options.offset or 0
    remaining = sys.maxsize if options.limit is None else options.limit
    first = 0
    if options.fragments is None and not options.include_deleted_rows:
        first, skip = _skipped(snapshot, skip)
    needed: list[FragmentHandle] = []
    spans: dict[int, tuple[int, int]] = {}
    for position in range(first, len(handles)):
        if remaining == 0:
            break
        handle = handles[position]
        rows = (
            handle.num_physical_rows
            if options.include_deleted_rows
            else await snapshot.live_count(handle)
        )
        if skip >= rows:
            skip -= rows
            continue
        taken = min(rows - skip, remaining)
        if options.include_deleted_rows:
            spans[handle.id] = skip, skip + taken
        elif skip or taken < rows:
            await handle.deletions()
            spans[handle.id] = handle.physical_span(skip, skip + taken)
        needed.append(handle)
        skip, remaining = 0, remaining - taken
    return needed, spans


def few_rows(
    handles: Sequence[FragmentHandle], spans: Mapping[int, tuple[int, int]]
) -> dict[int, Int64s]:
    """Return the row offsets of each fragment if there are few rows; else an empty mapping.

    Few rows are taken, because a take decodes them on the event loop and caches what it learns of
    their pages.

    Args:
        spans: range of rows by fragment id; all rows of fragments without an entry.
    """
    own = {handle.id: spans.get(handle.id, (0, handle.num_physical_rows)) for handle in handles}
    if num_rows_of(own.values()) > PLACED_ROWS:
        return {}
    return {number: np.arange(*span) for number, span in own.items()}


def _skipped(snapshot: Snapshot, num_rows: int) -> tuple[int, int]:
    """Return the number of fragments that an offset skips, and the rows to skip after them.

    Fragments are skipped only up to the first one whose row count is not in the manifest.
    """
    if not num_rows:
        return 0, 0
    counts = snapshot.manifest.fragments.num_rows
    unknown = np.flatnonzero(counts < 0)
    ends = np.cumsum(counts[: unknown[0]] if len(unknown) else counts)
    number = int(np.searchsorted(ends, num_rows, "right"))
    return number, num_rows - (int(ends[number - 1]) if number else 0)


async def with_indices(snapshot: Snapshot, plan: ScanPlan, *, counts: bool = False) -> ScanPlan:
    """Restrict the plan to the rows that indices allow, if there are indices for the filter.

    Cost: for each index, one round for its page table (once), and one round for its pages.
    """
    if plan.predicate is None or not may_ask(snapshot, plan.options):
        return plan
    from alance.ops.lookup.look_up import look_up

    use = await look_up(snapshot, plan.predicate, plan.handles, counts=counts)
    if use is None:
        return plan
    if counts and use.is_exact:
        return counting(plan, use)
    work = PICKING * min(len(use.rows), len(use.covered)) + PASSING * len(plan.handles)
    return await snapshot.engine.decode(lambda: picking(plan, use), work)


def may_ask(snapshot: Snapshot, options: ScanOptions) -> bool:
    """Return True if a scan with a filter may use indices."""
    return (
        bool(snapshot.manifest.indices)
        and options.use_scalar_index
        and not options.include_deleted_rows
    )


def counting(plan: ScanPlan, use: IndexUse) -> ScanPlan:
    """Return the plan of a count, which scans only the fragments that indices do not cover."""
    handles = without(plan.handles, use.covered)
    rows = use.rows
    if len(plan.handles) - len(handles) < len(use.covered):
        from alance.format.row_set import RowSet

        counted = (handle for handle in plan.handles if handle.id in use.covered)
        rows &= RowSet.of_fragments((handle.id, handle.num_physical_rows) for handle in counted)
    return replace(plan, handles=handles, counted=rows, index_lines=tuple(use.lines))


def without(
    handles: Sequence[FragmentHandle], left_out: AbstractSet[int]
) -> Sequence[FragmentHandle]:
    """Return the fragments that are not in `left_out`; creates handles of these alone."""
    ids = handles.ids if isinstance(handles, Handles) else [handle.id for handle in handles]
    return [handles[place] for place, own in enumerate(ids) if own not in left_out]


def picking(plan: ScanPlan, use: IndexUse) -> ScanPlan:
    """Remove from a plan the rows that indices rule out. CPU work.

    In fragments with many remaining rows, spans of rows are scanned; in others, single rows are
    taken.
    """
    picked, spans = {}, dict(plan.spans)
    handles = without(plan.handles, use.covered.difference(use.rows.fragments()))
    for handle in handles:
        if handle.id in use.covered:
            count = use.rows.count_of(handle.id)
            runs = use.rows.spans_of(handle.id) if count > PLACED_ROWS else []
            is_dense = num_rows_of(runs) <= DENSE_SHARE * count
            if count <= max(PLACED_ROWS, handle.num_physical_rows // TAKEN_SHARE) and not (
                runs and is_dense
            ):
                picked[handle.id] = use.rows.offsets_of(handle.id)
            else:
                spans[handle.id] = runs
    plan = replace(plan, handles=handles, spans=spans, index_lines=tuple(use.lines))
    return _with_picked(plan, picked, use.condition, is_exact=use.is_exact)


def _with_picked(
    plan: ScanPlan, picked: Mapping[int, Int64s], picked_by: Node | None, *, is_exact: bool
) -> ScanPlan:
    """Return the plan with picked rows; if these are few, with all of their columns at once."""
    first, late = plan.first_schema, plan.late_schema
    if len(picked) == len(plan.handles):
        first, late = at_once(first, late, picked, is_sure=is_exact or picked_by is not None)
    return replace(
        plan,
        first_schema=first,
        late_schema=late,
        picked=picked,
        picked_by=picked_by,
        is_exact=is_exact,
    )


def restricted(plan: ScanPlan, rows: ChosenRows) -> ScanPlan:
    """Restrict a plan to chosen rows."""
    plan = replace(plan, spans={**plan.spans, **rows.spans})
    if not rows.picked:
        return plan
    from alance.expr.arrow import ArrowCondition

    condition = plan.predicate.condition if plan.predicate and rows.is_exact else None
    picked_by = None if isinstance(condition, ArrowCondition) else cast("Node | None", condition)
    return _with_picked(plan, rows.picked, picked_by, is_exact=rows.is_exact)


def at_once(
    first: Schema, late: Schema | None, picked: Mapping[int, Int64s], *, is_sure: bool
) -> tuple[Schema, Schema | None]:
    """Return the first and late fields; for few rows, all fields are first and late is None.

    Args:
        picked: rows from indices, as in `ScanPlan`.
        is_sure: True if the filter is true for these rows, unless the index is wrong.
    """
    most = AT_ONCE_ROWS if is_sure else UNSURE_ROWS
    if late is None or sum(map(len, picked.values())) > most:
        return first, late
    # Memoized by identity, because `first` and `late` are memoized schemas.
    plan = first.remember(
        (at_once, late), lambda: Schema((*first.fields, *late.fields), first.metadata)
    )
    return plan, None


def in_large_batches(plan: ScanPlan) -> ScanPlan:
    """Return the plan with larger batches if its rows are small, because a batch has a fixed cost.

    The batch size does not change if the width of a column is unknown, as for strings.
    """
    widths = LeafSet.of_schema(plan.first_schema).row_bytes
    if not widths or not all(widths):
        return plan
    rows = int(min(LARGE_ROWS, LARGE_BATCH_BYTES / sum(widths)))
    return replace(plan, options=replace(plan.options, batch_size=rows))
