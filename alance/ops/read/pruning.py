"""Which rows of fragments a filter may keep, by the statistics of their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError
from alance.expr.prune import may_match
from alance.expr.tree import plain_type
from alance.file.open import from_content
from alance.file.zones import read_statistics
from alance.format.plans import together
from alance.format.v0_1.metadata import BatchContainer
from alance.format.v0_1.statistics import read_statistics as read_batch_statistics
from alance.ops.read.pruning_known import OldStatistics, OwnStatistics, at_edges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.expr.prune import Bounds, Check
    from alance.expr.tree import Column
    from alance.file.columns import States
    from alance.file.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.ops.read.pruning_known import Known
    from alance.ops.read.pruning_maps import ZoneMap
    from alance.ops.version.snapshot import FragmentHandle

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
        maps: zone maps by field id, for fragments whose files have no statistics.
    """

    check: Check
    field_ids: Mapping[tuple[str, ...], int]
    skipped: Skipped = field(default_factory=Skipped)
    kept: dict[int, Spans] = field(default_factory=dict)
    maps: dict[int, list[ZoneMap]] = field(default_factory=dict)

    @classmethod
    def of(cls, check: Check, schema: Schema) -> Pruner:
        """The pruner of a filter over a table's schema."""
        ids = {column.path: _field_id(schema, column) for column in check.columns()}
        return cls(check, ids)

    def read(
        self, handle: FragmentHandle, fragment: OpenFragment, states: States
    ) -> Plan[FragmentZones | None]:
        """Plan the statistics of an open fragment: at most a round, two of wide tables.

        Raises:
            CorruptFileError: statistics that are not those of the file.
        """
        containers = {one.column.container.path: one.column.container for one in fragment.leaves}
        by_file: dict[str, dict[int, int]] = {}
        for key in set(self.field_ids.values()):
            files = [source for source in handle.sources if key in source.columns]
            if len(files) == 1 and files[0].location in containers:
                by_file.setdefault(files[0].location, {})[key] = files[0].columns[key]
        plans = [_read(containers[path], places, states) for path, places in by_file.items()]
        known: dict[int, Known] = {}
        for found in (yield from together(plans)) if plans else ():
            known |= found
        for one in known.values():
            if one.edges[-1] != fragment.num_rows:
                raise CorruptFileError(
                    f"fragment {handle.id}: statistics of {one.edges[-1]} rows, "
                    f"it has {fragment.num_rows}; use_stats=False reads it without them"
                )
        for key, maps in self.maps.items():
            for mapped in () if key in known else maps:
                zones = mapped.of_fragment(handle.id, fragment.num_rows)
                if zones is not None:
                    known[key] = zones
        columns = {path: known[key] for path, key in self.field_ids.items() if key in known}
        return FragmentZones.of(columns) if columns else None

    def spans(self, zones: FragmentZones | None, span: tuple[int, int]) -> Spans:
        """The rows of a span in which the filter may be true, as ascending spans. CPU."""
        rows = span[1] - span[0]
        if zones is None or not rows:
            return [span] if rows else []
        mask = np.zeros(zones.num_zones, np.bool_)
        if may_match(self.check, zones.whole()).all():
            mask = may_match(self.check, zones)
        found = _spans_of(mask, zones.edges, span)
        self.skipped.num_fragments += 1
        self.skipped.num_zones += len(mask)
        self.skipped.zones += len(mask) - int(np.count_nonzero(mask))
        self.skipped.rows += rows - sum(stop - start for start, stop in found)
        self.skipped.fragments += not found
        return found


@dataclass(frozen=True, slots=True)
class FragmentZones:
    """The zones of a fragment: those of all its columns' statistics, cut at all their edges."""

    edges: npt.NDArray[np.int64]
    columns: Mapping[tuple[str, ...], Known]
    is_whole: bool = False

    @classmethod
    def of(cls, columns: Mapping[tuple[str, ...], Known]) -> FragmentZones:
        """The zones of columns, by path."""
        edges = [one.edges for one in columns.values()]
        return cls(edges[0] if len(edges) == 1 else np.unique(np.concatenate(edges)), columns)

    def whole(self) -> FragmentZones:
        """The fragment as one zone."""
        return FragmentZones(self.edges[[0, -1]], self.columns, is_whole=True)

    @property
    def num_zones(self) -> int:
        return len(self.edges) - 1

    def bounds(self, column: Column) -> Bounds | None:
        """The bounds of a column; None: nothing is known, or it is of another type there."""
        known = self.columns.get(column.path)
        if known is None or self.is_whole:
            return None if known is None else known.whole(column)
        found = known.bounds(column)
        return None if found is None else at_edges(found, known.edges, self.edges)


def _read(
    container: Container, places: Mapping[int, int], states: States
) -> Plan[dict[int, Known]]:
    """Plan what a file says of fields, by their ids; `places` are their columns in it."""
    if isinstance(container, BatchContainer):
        plans = [_read_batches(container, key, states) for key in places]
        read = dict(zip(places, (yield from together(plans)), strict=True))
        return {key: one for key, one in read.items() if one.statistics is not None}
    statistics = yield from read_statistics(container, list(places.values()), states)
    own = {key: OwnStatistics.of(statistics, column) for key, column in places.items()}
    return {key: one for key, one in own.items() if one is not None}


def _read_batches(container: BatchContainer, key: int, states: States) -> Plan[OldStatistics]:
    place = ("batch statistics", container.path, key)
    known: OldStatistics | None = states.peek(place)
    if known is None:
        read = yield from from_content(read_batch_statistics(container, key), container)
        known = OldStatistics(read)
        states.put(place, known, known.num_bytes)
    return known


def _spans_of(mask: Mask, edges: npt.NDArray[np.int64], span: tuple[int, int]) -> Spans:
    """The rows of the zones of a mask that are inside a span."""
    turns = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    cut = np.clip(edges[turns], *span).reshape(-1, 2).tolist()
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
