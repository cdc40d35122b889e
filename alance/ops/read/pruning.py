"""Pruning: rows of fragments that may pass a filter, by the statistics of files."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from alance.base.deferred import Deferred
from alance.base.records import dataclass
from alance.errors import ColumnNotFoundError, CorruptFileError
from alance.expr.arrow import ArrowCondition
from alance.expr.pruning import Zones, check_of, may_match, num_checks
from alance.expr.tree import plain_type
from alance.file.open.zones import read_zones
from alance.format.numbers import distinct
from alance.format.paths import join_path
from alance.format.plans import together
from alance.format.schema import Remembered
from alance.format.statistics import ColumnBounds, whole_bounds
from alance.io.loop.readahead import grouped
from alance.ops.lookup.work import SHORT_FILTER_WORK, checking_work
from alance.ops.read.filters import TIME_FUNCTIONS, visible_schema
from alance.ops.read.groups import file_bytes
from alance.ops.read.rows import num_rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.expr import Predicate, arrow_parts
    from alance.expr.pruning import Check
    from alance.expr.tree import Column
    from alance.file.open.columns import States
    from alance.file.open.zones import ColumnZones
    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    Spans = Sequence[tuple[int, int]]
else:
    arrow_parts = Deferred("alance.expr.arrow_parts")

NO_FIELD: Final = -1
# Minimum encoded bytes and rows of a fragment for which pruning pays. Pruning takes 100 us per
# fragment, 300 us the first time. Opening a file up to this size fetches it completely, so that
# pruning would save no request.
LEAST_WORK: Final = 64 << 10
# Zones per evaluation: comparing texts holds the GIL, for 5 ms per term with this number.
ZONES_AT_ONCE: Final = 1 << 14


async def pruner_of(
    snapshot: Snapshot, predicate: Predicate, options: ScanOptions
) -> Pruner | None:
    """Return a pruner for a filter; None if statistics are not used or cannot help."""
    if not options.use_stats:
        return None

    def build() -> tuple[Predicate, Pruner | None]:
        condition: object = predicate.condition
        if isinstance(condition, ArrowCondition):
            visible = visible_schema(snapshot).arrow
            implied = arrow_parts.implied_by(condition.expression, visible)
            condition = implied and implied.node
        check = check_of(condition)
        return predicate, None if check is None else Pruner.of(check, snapshot.schema)

    # The memo also holds the filter, so that its id is not reused.
    remember = snapshot.schema.remember(Pruner, Remembered)
    memoized: tuple[Predicate, Pruner | None] | None = remember.get(id(predicate))
    if memoized is None:
        work = checking_work(predicate)
        memoized = built = await snapshot.engine.decode(build, work)
        # Others are parsed anew in each scan, so that they would never be found.
        is_shared = not (
            predicate.has_params
            or isinstance(predicate.condition, ArrowCondition)
            or TIME_FUNCTIONS.search(predicate.text)
        )
        if is_shared and work < SHORT_FILTER_WORK:
            remember(id(predicate), lambda: built)
    pruner = memoized[1]
    return pruner and Pruner(pruner.check, pruner.columns, pruner.num_checks)


@dataclass(slots=True)
class Skipped:
    """Counts of rows that a scan skipped; they are updated while it runs.

    Attributes:
        fragments: number of fragments skipped whole, out of `num_fragments` with statistics.
        zones: number of zones skipped whole, out of `num_zones` in these fragments.
        rows: number of physical rows that were not read.
    """

    fragments: int = 0
    num_fragments: int = 0
    zones: int = 0
    num_zones: int = 0
    rows: int = 0

    def __str__(self) -> str:
        return (
            f"{self.fragments:,} of {self.num_fragments:,} fragments, "
            f"{self.zones:,} of {self.num_zones:,} zones, {self.rows:,} rows skipped"
        )


@dataclass(frozen=True, slots=True)
class FragmentZones:
    """Zones of a fragment, with the bounds of its columns.

    Attributes:
        edges: edges of the zones of all columns; the fragment is cut at each of them.
        columns: zones of each column, by path; at least one column.
    """

    edges: Int64s
    columns: Mapping[tuple[str, ...], ColumnZones]

    @classmethod
    def of(cls, columns: Mapping[tuple[str, ...], ColumnZones]) -> FragmentZones:
        """Combine the zones of a fragment's columns, given by path."""
        edges = [zones.edges for zones in columns.values()]
        return cls(edges[0] if len(edges) == 1 else distinct(np.concatenate(edges))[0], columns)

    @property
    def num_zones(self) -> int:
        return len(self.edges) - 1

    def bounds(self, column: Column) -> ColumnBounds:
        """Return the bounds of a column in each zone."""
        zones = self.columns.get(column.path)
        bounds = None if zones is None else zones.bounds(column.type)
        if zones is None or bounds is None:
            return ColumnBounds.unknown(self.num_zones, column.type)
        return bounds.at_edges(zones.edges, self.edges)


@dataclass(frozen=True, slots=True)
class Pruner:
    """Filter that is first evaluated on statistics.

    Attributes:
        columns: field id of each column that the filter compares.
        num_checks: number of comparisons in the check.
        needed: spans of rows that may pass, by fragment id, for the fragments scanned so far.
    """

    check: Check | None
    columns: Mapping[Column, int]
    num_checks: int
    skipped: Skipped = field(default_factory=Skipped)
    needed: dict[int, Spans] = field(default_factory=dict)

    @classmethod
    def of(cls, check: Check | None, schema: Schema, columns: Iterable[Column] = ()) -> Self:
        """Build the pruner of a filter over a table's schema.

        Args:
            check: the filter; None for a subclass that selects zones of `columns` itself.
        """
        if check is not None:
            columns = {column.path: column for column in check.columns()}.values()
        fields = {column: _field_id(schema, column) for column in columns}
        return cls(check, fields, len(fields) if check is None else num_checks(check))

    def read(
        self, handle: FragmentHandle, fragment: OpenFragment, states: States
    ) -> Plan[FragmentZones | None]:
        """Plan the statistics of an open fragment, in at most one round, or two for wide tables.

        Returns None if there are no statistics, or if reading the fragment would cost less.

        Raises:
            CorruptFileError: the statistics do not match the file.
        """
        if file_bytes(handle) + fragment.num_rows * self.num_checks <= LEAST_WORK:
            return None
        containers = {container.path: container for container in fragment.containers}
        by_file: dict[str, dict[int, int]] = {}
        for key in set(self.columns.values()):
            files = [source for source in handle.sources if key in source.columns]
            if len(files) == 1 and files[0].location in containers:
                by_file.setdefault(files[0].location, {})[key] = files[0].columns[key]
        plans = [read_zones(containers[path], places, states) for path, places in by_file.items()]
        by_field: dict[int, ColumnZones] = {}
        for read in (yield from together(plans)) if plans else ():
            by_field |= read
        for zones in by_field.values():
            if zones.num_rows != fragment.num_rows:
                raise CorruptFileError(
                    f"fragment {handle.id}: statistics of {zones.num_rows} rows, "
                    f"it has {fragment.num_rows}; use_stats=False reads it without them"
                )
        columns = {col.path: by_field[key] for col, key in self.columns.items() if key in by_field}
        return FragmentZones.of(columns) if columns else None

    def spans(
        self, fragments: Sequence[FragmentZones | None], spans: Sequence[Spans]
    ) -> list[Spans]:
        """Return the spans of rows in each fragment for which the filter may be true. CPU work.

        The filter is evaluated twice, for any number of fragments: with each fragment as a zone,
        then on the zones of the remaining fragments.

        Args:
            fragments: zones of each fragment; None if unknown.

        Returns:
            Ascending spans, by fragment.
        """
        needed: list[Spans] = [[span for span in own if span[0] < span[1]] for own in spans]
        zoned = {n: zones for n, zones in enumerate(fragments) if zones is not None and needed[n]}
        if not zoned:
            return needed
        masks = self._masks([*zoned.values()], [needed[place] for place in zoned])
        for (place, zones), mask in zip(zoned.items(), masks, strict=True):
            before, num_needed = needed[place], int(np.count_nonzero(mask))
            after: list[tuple[int, int]] = []
            for span in before if num_needed else ():
                after += spans_of_mask(mask, zones.edges, span)
            self.skipped.num_fragments += 1
            self.skipped.num_zones += len(mask)
            self.skipped.zones += len(mask) - num_needed
            self.skipped.rows += num_rows_of(before) - num_rows_of(after)
            self.skipped.fragments += not after
            needed[place] = after
        return needed

    def _masks(self, fragments: Sequence[FragmentZones], spans: Sequence[Spans]) -> list[Mask]:
        """Return for each fragment the mask of zones in which the filter may be true.

        Args:
            spans: spans of rows to read in each fragment.
        """
        assert self.check is not None
        may = may_match(self.check, whole_zones(fragments, self.columns))
        pairs = zip(fragments, may, strict=True)
        masks = [np.full(fragment.num_zones, flag) for fragment, flag in pairs]
        undecided = [place for place in np.flatnonzero(may).tolist() if len(masks[place]) > 1]
        for places in grouped(undecided, lambda place: len(masks[place]), ZONES_AT_ONCE):
            group = [fragments[place] for place in places]
            may = may_match(self.check, cut_zones(group, self.columns))
            ends = np.cumsum([fragment.num_zones for fragment in group])
            for place, mask in zip(places, np.split(may, ends[:-1]), strict=True):
                masks[place] = mask
        return masks


def whole_zones(fragments: Sequence[FragmentZones], columns: Iterable[Column]) -> Zones:
    """Return the bounds of fragments, with each fragment as a single zone."""

    def whole(column: Column) -> ColumnBounds:
        sources = [fragment.columns.get(column.path) for fragment in fragments]
        heads = [None if zones is None else zones.whole(column.type) for zones in sources]
        return whole_bounds(heads, column.type)

    return Zones(len(fragments), {column.path: whole(column) for column in columns})


def cut_zones(fragments: Sequence[FragmentZones], columns: Iterable[Column]) -> Zones:
    """Return the zones of consecutive fragments, one fragment after the other."""
    bounds = {
        column.path: ColumnBounds.joined([fragment.bounds(column) for fragment in fragments])
        for column in columns
    }
    return Zones(sum(fragment.num_zones for fragment in fragments), bounds)


def spans_of_mask(mask: Mask, edges: Int64s, span: tuple[int, int]) -> Spans:
    """Return the rows of masked zones within a span, as spans."""
    turns = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    cut = np.clip(edges[turns], *span).reshape(-1, 2).tolist()
    return [(start, stop) for start, stop in cut if start < stop]


def _field_id(schema: Schema, column: Column) -> int:
    """Return the id of a column's leaf field that statistics describe, else `NO_FIELD`.

    Statistics do not describe JSON, blobs of version 1, and columns that are read in another type
    than the table's.
    """
    try:
        leaf = schema.field(join_path(column.path))
    except ColumnNotFoundError:
        return NO_FIELD
    if not leaf.is_leaf or leaf.is_json or leaf.is_blob_v1:
        return NO_FIELD
    return leaf.id if plain_type(leaf.arrow_type) == column.type else NO_FIELD
