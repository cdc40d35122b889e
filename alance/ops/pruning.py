"""Which rows of fragments a filter may keep, by the statistics of their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.expr.prune import Bounds, may_match
from alance.expr.tree import plain_type
from alance.file.columns import OpenColumn
from alance.file.zones import read_statistics
from alance.format.numbers import to_arrow
from alance.format.plans import together
from alance.format.statistics import HAS_NANS, HAS_VALUES, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.expr.prune import Check
    from alance.expr.tree import Column
    from alance.file.columns import States
    from alance.file.fragment import OpenFragment
    from alance.file.zones import FileStatistics
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.snapshot import FragmentHandle

    Mask = npt.NDArray[np.bool_]
    Spans = Sequence[tuple[int, int]]

NO_FIELD: Final = -1


@dataclass(slots=True)
class Skipped:
    """What a scan did not read, counted while it runs.

    Attributes:
        fragments: of which no row was read, of `num_fragments` that have statistics.
        zones: of which no row was read, of `num_zones` in these fragments.
        rows: physical rows that were not read.
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
class Pruner:
    """A filter that is asked of statistics first.

    Attributes:
        field_ids: the field of each column that the filter compares.
        kept: the rows that may match, by fragment, as far as the scan has come.
    """

    check: Check
    field_ids: Mapping[tuple[str, ...], int]
    skipped: Skipped = field(default_factory=Skipped)
    kept: dict[int, Spans] = field(default_factory=dict)

    @classmethod
    def of(cls, check: Check, schema: Schema) -> Pruner:
        """The pruner of a filter over a table's schema."""
        ids = {column.path: _field_id(schema, column) for column in check.columns()}
        return cls(check, ids)

    def read(
        self, handle: FragmentHandle, fragment: OpenFragment, states: States
    ) -> Plan[FragmentZones | None]:
        """Plan the statistics of an open fragment: at most a round, two of wide tables."""
        wanted = set(self.field_ids.values())
        found: dict[int, OpenColumn] = {}
        for one in fragment.leaves:
            key = one.leaf.field.id
            if key in wanted and isinstance(one.column, OpenColumn) and one.leaf.multiplier == 1:
                files = [source for source in handle.sources if key in source.columns]
                if len(files) == 1:
                    found[key] = one.column
        by_file: dict[str, list[OpenColumn]] = {}
        for column in found.values():
            by_file.setdefault(column.container.path, []).append(column)
        if not by_file:
            return None
        plans = [
            read_statistics(some[0].container, [one.column.index for one in some], states)
            for some in by_file.values()
        ]
        read: list[FileStatistics] = yield from together(plans)
        known = dict(zip(by_file, read, strict=True))
        for path, statistics in known.items():
            head = statistics.head
            if head is not None and head.num_rows != fragment.num_rows:
                raise CorruptFileError(
                    f"{path}: statistics of {head.num_rows} rows, the file has {fragment.num_rows}"
                )
        columns = {
            path: (known[found[key].container.path], found[key].column.index)
            for path, key in self.field_ids.items()
            if key in found
        }
        return FragmentZones.of(fragment.num_rows, columns)

    def spans(self, zones: FragmentZones | None, span: tuple[int, int]) -> Spans:
        """The rows of a span in which the filter may be true, as ascending spans. CPU."""
        rows = span[1] - span[0]
        if zones is None or not rows:
            return [span] if rows else []
        mask = may_match(self.check, zones.whole())
        if mask.all():
            mask = may_match(self.check, zones)
            found = _spans_of(mask, zones.zone_rows, span)
        else:
            found, mask = [], np.zeros(zones.num_zones, np.bool_)
        self.skipped.num_fragments += 1
        self.skipped.num_zones += len(mask)
        self.skipped.zones += len(mask) - int(np.count_nonzero(mask))
        self.skipped.rows += rows - sum(stop - start for start, stop in found)
        self.skipped.fragments += not found
        return found


@dataclass(frozen=True, slots=True)
class FragmentZones:
    """The zones of a fragment's columns, of the finest of its files' zones.

    Attributes:
        columns: where the statistics of a path are: a file's, and the column in it.
    """

    num_rows: int
    zone_rows: int
    columns: Mapping[tuple[str, ...], tuple[FileStatistics, int]]
    is_whole: bool = False

    @classmethod
    def of(
        cls, num_rows: int, columns: Mapping[tuple[str, ...], tuple[FileStatistics, int]]
    ) -> FragmentZones | None:
        """The zones; None where no file says anything of the columns."""
        known = {
            path: (statistics, column)
            for path, (statistics, column) in columns.items()
            if statistics.head is not None and column in statistics.zones
        }
        sizes = [one.head.zone_rows for one, _ in known.values() if one.head is not None]
        if not sizes or any(size % min(sizes) for size in sizes):
            return None
        return cls(num_rows, min(sizes), known)

    def whole(self) -> FragmentZones:
        """The fragment as one zone."""
        return FragmentZones(self.num_rows, self.num_rows, self.columns, is_whole=True)

    @property
    def num_zones(self) -> int:
        return -(-self.num_rows // self.zone_rows)

    def bounds(self, column: Column) -> Bounds | None:
        """The bounds of a column; None: nothing is known, or it is of another type there."""
        place = self.columns.get(column.path)
        if place is None or place[0].head is None:
            return None
        (statistics, number), head = place, place[0].head
        zones = head.files[number] if self.is_whole else statistics.zones[number]
        if kind_of(column.type) != zones.kind:
            return None
        bounds = Bounds(
            zones.nulls > 0,
            zones.flags & HAS_VALUES != 0,
            zones.flags & HAS_NANS != 0,
            zones.low(column.type),
            zones.high(column.type),
        )
        repeats = 1 if self.is_whole else head.zone_rows // self.zone_rows
        return bounds if repeats == 1 else _repeated(bounds, repeats, self.num_zones)


def _repeated(bounds: Bounds, repeats: int, num_zones: int) -> Bounds:
    """Zones cut into smaller ones: what may be in the large one may be in each."""
    places = np.repeat(np.arange(len(bounds.has_nulls)), repeats)[:num_zones]
    return Bounds(
        bounds.has_nulls[places],
        bounds.has_values[places],
        bounds.has_nans[places],
        bounds.low.take(to_arrow(places)),
        bounds.high.take(to_arrow(places)),
    )


def _spans_of(mask: Mask, zone_rows: int, span: tuple[int, int]) -> list[tuple[int, int]]:
    """The rows of the zones of a mask that are inside a span."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    cut = np.clip(edges * zone_rows, *span).reshape(-1, 2).tolist()
    return [(start, stop) for start, stop in cut if start < stop]


def _field_id(schema: Schema, column: Column) -> int:
    """The field of a path; NO_FIELD where it is none, or of another type than its bounds."""
    fields: Sequence[Field] = schema.fields
    found = None
    for name in column.path:
        found = next((one for one in fields if one.name == name), None)
        if found is None:
            return NO_FIELD
        fields = found.children
    if found is None or not found.is_leaf or found.is_json or found.is_blob_v1:
        return NO_FIELD
    return found.id if plain_type(found.arrow_type) == column.type else NO_FIELD
