"""Plans for the statistics of files; the search cache stores the results.

Files of 2.1 and later have statistics in a global buffer, which starts with a magic number. Files
of 0.1 have pages with the statistics of each batch.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file.open.files import from_content, from_end
from alance.file_version import FileVersion
from alance.format.layouts.place import fetch
from alance.format.numbers import as_scalar, to_arrow
from alance.format.plans import ByteRange, together
from alance.format.statistics import ColumnBounds, head_bytes, kind_of, parse_head, parse_zones

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.format.statistics import Statistics
    from alance.format.v0_1.metadata import BatchContainer
    from alance.format.v0_1.statistics import BatchStatistics

# Bytes; a statistics buffer up to this size is read in one request.
WHOLE_STATISTICS_BYTES: Final = 256 << 10
HEAD_BYTES: Final = 64 << 10  # bytes to read first of a larger buffer, before the requested columns


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """Statistics of a file, with the blocks of the columns that were read.

    Attributes:
        head: head of the statistics buffer; None if the file has no statistics.
        start: offset of the statistics buffer in the file.
        blocks: encoded block of each column that was read, by column number.
    """

    path: str
    head: Statistics | None
    start: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)
    _zones: dict[tuple[int, pa.DataType], ColumnBounds] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Memory in bytes, for a cache's budget."""
        head = 0 if self.head is None else self.head.num_bytes
        return 100 + head + sum(100 + 8 * len(block) for block in self.blocks.values())

    def zones(self, column: int, arrow: pa.DataType) -> ColumnBounds:
        """Return the bounds of a column's zones. CPU work in the first call; then cached.

        The column's block must have been read, and its kind must fit the type.
        """
        bounds = self._zones.get((column, arrow))
        if bounds is None:
            assert self.head is not None
            block = memoryview(self.blocks[column])
            bounds = parse_zones(self.path, self.head, column, block, arrow)
            self._zones[column, arrow] = bounds
        return bounds


@dataclass(frozen=True, slots=True)
class StoredZones:
    """Bounds of a column by zones of rows, from a statistics buffer."""

    statistics: FileStatistics
    head: Statistics
    column: int

    @property
    def edges(self) -> Int64s:
        """First row of each zone, then the number of rows; ascending; shape (n + 1,)."""
        num_rows, step = self.head.num_rows, self.head.zone_rows
        edges = np.arange(0, num_rows + step, step)
        edges[-1] = num_rows
        return edges

    @property
    def num_rows(self) -> int:
        return self.head.num_rows

    def bounds(self, arrow: pa.DataType) -> ColumnBounds | None:
        """Return the bounds of each zone; None if the stored bounds have another type."""
        is_known = kind_of(arrow) == self.head.kind(self.column)
        return self.statistics.zones(self.column, arrow) if is_known else None

    def whole(self, arrow: pa.DataType) -> tuple[Statistics, int] | None:
        """Return the statistics and the column number that `whole_bounds` takes.

        Returns None if there are no bounds of all rows.
        """
        is_known = kind_of(arrow) == self.head.kind(self.column)
        return (self.head, self.column) if is_known else None


@dataclass(frozen=True, slots=True)
class BatchZones:
    """Bounds of a field of a 0.1 file, by batch; each batch is assumed to have nulls and NaN.

    Attributes:
        statistics: statistics of the field; None if the file has none.
    """

    statistics: BatchStatistics | None

    @property
    def num_bytes(self) -> int:
        """Memory in bytes, for a cache's budget."""
        batches = self.statistics
        return 100 if batches is None else 200 + int(batches.least.nbytes + batches.most.nbytes)

    @property
    def edges(self) -> Int64s:
        assert self.statistics is not None
        return self.statistics.first_rows

    @property
    def num_rows(self) -> int:
        return int(self.edges[-1])

    def bounds(self, arrow: pa.DataType) -> ColumnBounds | None:
        batches = self.statistics
        if batches is None or batches.least.type != arrow or batches.most.type != arrow:
            return None
        maybe = np.ones(len(batches.least), np.bool_)
        nans = maybe & pa.types.is_floating(arrow)
        low, high = batches.least, batches.most
        if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow):
            low, high = _with_zeros(low, high, to_arrow(batches.null_counts > 0))
        return ColumnBounds(maybe, maybe, nans, low, high)

    def whole(self, arrow: pa.DataType) -> None:
        """Return None: 0.1 files have no bounds of all rows."""


ColumnZones: TypeAlias = StoredZones | BatchZones


def _with_zeros(low: pa.Array, high: pa.Array, has_zeros: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Extend bounds to include zero for batches with nulls, which 0.1 files store as zeros."""
    if pa.types.is_boolean(low.type):
        return pc.if_else(has_zeros, pc.and_(low, as_scalar(False)), low), high
    zero = as_scalar(0, low.type)
    lows = pc.min_element_wise(low, zero, skip_nulls=False)
    highs = pc.max_element_wise(high, zero, skip_nulls=False)
    return pc.if_else(has_zeros, lows, low), pc.if_else(has_zeros, highs, high)


def read_zones(
    container: Container, places: Mapping[int, int], states: States
) -> Plan[dict[int, ColumnZones]]:
    """Plan the zones of fields, by field id; fields without statistics are omitted.

    Cost: as for `read_statistics`.

    Args:
        places: column number of each field, by field id.
    """
    if container.version is FileVersion.V0_1:
        plans = [_read_batches(cast("BatchContainer", container), key, states) for key in places]
        read = dict(zip(places, (yield from together(plans)), strict=True))
        return {key: zones for key, zones in read.items() if zones.statistics is not None}
    statistics = yield from read_statistics(container, list(places.values()), states)
    head = statistics.head
    if head is None:
        return {}
    return {
        key: StoredZones(statistics, head, column)
        for key, column in places.items()
        if column in statistics.blocks
    }


def _read_batches(container: BatchContainer, key: int, states: States) -> Plan[BatchZones]:
    place = ("batch statistics", container.path, key)
    zones: BatchZones | None = states.peek(place)
    if zones is None:
        # Imported here, only for files of 0.1, because the import takes 0.1 s.
        from alance.format.v0_1.statistics import read_statistics as read_batch_statistics

        read = yield from from_content(read_batch_statistics(container, key), container)
        zones = BatchZones(read)
        states.put(place, zones, zones.num_bytes)
    return zones


def read_statistics(
    container: Container, columns: Sequence[int], states: States
) -> Plan[FileStatistics]:
    """Plan the statistics of columns.

    Cost: no round if the cache or the file's tail has them; else one round for a buffer of at most
    256 KiB, and two or three rounds for a larger buffer, whose head is read first.

    Raises:
        CorruptFileError: the statistics are damaged.
    """
    key = ("statistics", container.path)
    statistics: FileStatistics | None = states.peek(key)
    if statistics is None:
        statistics = yield from _opened(container, columns)
        states.put(key, statistics, statistics.num_bytes)
    head = statistics.head
    if head is None:
        return statistics
    blocks = statistics.blocks
    missing = [column for column in columns if column in head.rows and column not in blocks]
    if missing:
        spans = [head.block(column) for column in missing]
        contents = yield from _read(
            container,
            [(statistics.start + at, statistics.start + at + size) for at, size in spans],
        )
        for column, content in zip(missing, contents, strict=True):
            blocks[column] = bytes(content)
        states.put(key, statistics, statistics.num_bytes)
    return statistics


def _opened(container: Container, columns: Sequence[int]) -> Plan[FileStatistics]:
    """Plan the head of the statistics, with the blocks that the same request reads."""
    number = len(container.buffers) - 1 - (container.search is not None)
    where = container.path
    if number < 1 or container.version <= FileVersion.V2_0:
        return FileStatistics(where, None)
    start, stop = (int(edge) for edge in container.buffers[number])
    first = stop if stop - start <= WHOLE_STATISTICS_BYTES else start + HEAD_BYTES
    (content,) = yield from _read(container, [(start, first)])
    size = head_bytes(where, content)
    if size is None:
        return FileStatistics(where, None)
    if size > stop - start:
        raise CorruptFileError(f"{where}: statistics of {stop - start} bytes, their head {size}")
    if size > len(content):
        (content,) = yield from _read(container, [(start, start + size)])
    head = parse_head(where, content[:size], stop - start)
    statistics = FileStatistics(where, head, start)
    for column in columns:
        if column in head.rows:
            offset, num_bytes = head.block(column)
            if offset + num_bytes <= len(content):
                statistics.blocks[column] = bytes(content[offset : offset + num_bytes])
    return statistics


def _read(container: Container, spans: Sequence[tuple[int, int]]) -> Plan[list[memoryview]]:
    reading = fetch([ByteRange(container.path, *span) for span in spans])
    return (yield from from_end(reading, container))
