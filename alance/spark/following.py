"""Following a table: the rows that its versions add, fragment by fragment.

An offset names a version and the number of its added fragments that have been read:

  {"version": 7, "fragments": 2, "snapshot": 0}

The additions of all earlier versions have been read. With `snapshot` 1, all fragments of the
version are read, not only the added ones, because a stream may begin with the existing rows.
Fragments are immutable, and are read as of the version that added them, so a repeated batch has the
same rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from alance import NotFoundError, UnsupportedError, distributed
from alance.distributed import META, Added, ColumnsAcross, fragment_bytes, fragments_of
from alance.spark.reader import planned
from alance.spark.versions import Version, open_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from alance import Dataset
    from alance.spark.options import StreamOptions
    from alance.spark.reader import PartitionRows
    from alance.types import Fragment

MAX_VERSIONS: Final = 1000  # newer versions examined for a batch, at most
ROWS_UNIT: Final = "rows"
BYTES_UNIT: Final = "bytes"
FILES_UNIT: Final = "files"


async def added_by(dataset: Dataset, version: int, options: StreamOptions) -> Added:
    """Return the fragments that a version adds to the one before it.

    Cost: as `distributed.added_by`.

    Raises:
        NotFoundError: the version was cleaned up.
        UnsupportedError: the version replaced rows, and the options do not say `skip`.
    """
    try:
        added = await distributed.added_by(dataset, version)
    except NotFoundError as error:
        error.add_note("the stream has to read it: clean up only what all streams have read")
        raise
    if added.replaced_by is not None and options.on_change != "skip":
        raise UnsupportedError(
            f"dataset {dataset.uri!r}: version {version} ({added.replaced_by}) replaces"
            " rows, which a stream of new rows does not show; option on_change=skip passes it"
        )
    return added


@dataclass(frozen=True, slots=True)
class Offset:
    """Position of a stream; see the docstring of this module."""

    version: int
    fragments: int
    snapshot: bool = False

    @classmethod
    def of(cls, values: dict[str, Any]) -> Offset:
        """Parse the offset in a Spark checkpoint."""
        return cls(int(values["version"]), int(values["fragments"]), bool(values["snapshot"]))

    def dict(self) -> dict[str, int]:
        """Return the offset for Spark, as numbers only."""
        return {
            "version": self.version,
            "fragments": self.fragments,
            "snapshot": int(self.snapshot),
        }

    def text(self) -> str:
        """Return the offset as JSON, in which Spark stores it for either kind of reader."""
        return json.dumps(self.dict())


class Limit(NamedTuple):
    """Rate limit of a batch, which consists of whole fragments, at least one.

    Attributes:
        unit: `rows`, `bytes` or `files`.
        most: maximum number of units.
    """

    unit: str
    most: int

    @classmethod
    def of(cls, options: StreamOptions) -> Limit | None:
        """Return the rate limit of the options; None if they set none."""
        limits = {
            ROWS_UNIT: options.max_rows_per_batch,
            BYTES_UNIT: options.max_bytes_per_batch,
            FILES_UNIT: options.max_fragments_per_batch,
        }
        chosen = (cls(unit, most) for unit, most in limits.items() if most is not None)
        return next(chosen, None)

    def cost(self, fragment: Fragment) -> int:
        """Return the units that a fragment costs: its rows, its bytes, or 1 for `files`."""
        if self.unit == ROWS_UNIT:
            return fragment.num_rows or fragment.physical_rows
        return fragment_bytes(fragment) if self.unit == BYTES_UNIT else 1


class StreamPart(NamedTuple):
    """Rows of a batch that one version added.

    Attributes:
        version: version in which the rows are read.
        rows: rows of each task.
        condition: filter of the rows; None: all rows.
        columns: the stream's columns, matched to the version's columns.
    """

    version: Version
    rows: list[PartitionRows]
    condition: str | None
    columns: ColumnsAcross


class StreamFollower:
    """Planner of the batches of a stream over the versions of a table."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self._table: Dataset | None = None
        self._references: dict[tuple[str, ...], Dataset] = {}

    async def latest(self) -> int:
        """Return the number of the latest version.

        Cost: a LIST; once also that of opening the table.
        """
        return await (await self._open()).latest_version()

    async def initial(self) -> Offset:
        """Return the first offset of a new query.

        Cost: one GET, and one LIST unless `start` is a number.
        """
        start = self.options.start
        if start.isdecimal():
            dataset = await open_version(self.options, int(start))
            return Offset(dataset.version, len(fragments_of(dataset)), True)
        dataset = await open_version(self.options)
        read = 0 if start == "snapshot" else len(fragments_of(dataset))
        return Offset(dataset.version, read, True)

    async def next(self, start: Offset, limit: Limit | None, target: int | None) -> Offset:
        """Return the end of the next batch.

        Cost: a LIST unless `target` is set; two GETs for the version of `start` and for each newer
        version that is examined.

        Args:
            limit: limit of the batch; None: only `MAX_VERSIONS`.
            target: last version that the batch may read; None: the latest.
        """
        target = await self.latest() if target is None else target
        used, end = 0, start
        async for added, first in self._added(start, target):
            if added.version > end.version:
                end = Offset(added.version, 0)
            for fragment in added.fragments[first:]:
                if limit is not None:
                    cost = limit.cost(fragment)
                    if used and used + cost > limit.most:
                        return end
                    used += max(1, cost)
                end = Offset(end.version, end.fragments + 1, end.snapshot)
        return end

    async def parts(self, start: Offset, end: Offset, names: Sequence[str]) -> list[StreamPart]:
        """Plan the tasks of a batch.

        Cost: two GETs for each version of the batch; at first also as `_reference`.

        Args:
            names: columns to read, by their names when the query started.

        Raises:
            InvalidInputError: a column was dropped.
        """
        parts: list[StreamPart] = []
        async for added, first in self._added(start, end.version):
            last = end.fragments if added.version == end.version else None
            ids = {fragment.id for fragment in added.fragments[first:last]}
            if ids:
                version = Version.of(added.dataset, self.options)
                columns = ColumnsAcross.of(
                    await self._reference(tuple(names)), added.dataset, names
                )
                rows = planned(added.dataset, columns.names, self.options, ids)
                parts.append(StreamPart(version, rows, added.filter, columns))
        return parts

    async def _reference(self, names: tuple[str, ...]) -> Dataset:
        """Return a version that has all columns of a query under these names.

        Returns the open version if it has them, otherwise the newest older version that has them,
        and the open version if none has. Cost: a GET for each examined version, at most
        `MAX_VERSIONS`.
        """
        if names not in self._references:
            self._references[names] = await self._newest_with(names)
        return self._references[names]

    async def _newest_with(self, names: tuple[str, ...]) -> Dataset:
        table = await self._open()
        if has_columns(table, names):
            return table
        newest = await self.latest()
        for version in range(newest, max(0, newest - MAX_VERSIONS), -1):
            try:
                dataset = await open_version(self.options, version)
            except NotFoundError:
                break  # cleaned up, as all earlier versions are
            if has_columns(dataset, names):
                return dataset
        return table

    async def _open(self) -> Dataset:
        if self._table is None:
            self._table = await open_version(self.options)
        return self._table

    async def _added(self, start: Offset, target: int) -> AsyncIterator[tuple[Added, int]]:
        """Yield the fragments added by each version, and the number of those already read."""
        table = await self._open()
        if start.snapshot:
            dataset = await open_version(self.options, start.version)
            everything = tuple(fragments_of(dataset))
            if start.fragments < len(everything):
                yield Added(start.version, dataset, everything), start.fragments
        elif start.version <= target:
            added = await added_by(table, start.version, self.options)
            if start.fragments < len(added.fragments):
                yield added, start.fragments
        for version in range(start.version + 1, min(target, start.version + MAX_VERSIONS) + 1):
            yield await added_by(table, version, self.options), 0


def has_columns(dataset: Dataset, names: Sequence[str]) -> bool:
    """True if a version has all of these columns; meta columns always exist."""
    return {*dataset.schema.names, *META}.issuperset(names)


def filtered(options: StreamOptions, condition: str | None) -> str | None:
    """Combine the filter of the options with the condition of a part; None if both are absent."""
    conditions = [text for text in (options.filter, condition) if text]
    return " AND ".join(f"({text})" for text in conditions) or None
