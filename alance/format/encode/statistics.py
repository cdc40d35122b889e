"""Statistics of the columns of a file while they are encoded, and their buffer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.statistics import (
    ENTRY,
    HAS_HIGH,
    HAS_LOW,
    HAS_NANS,
    HAS_VALUES,
    HEADER,
    KINDS,
    MAGIC,
    VERSION,
    kind_of,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn

ZONE_ROWS: Final = 8192
MAX_ZONES: Final = 1024  # of a column; then two become one
TEXT_BYTES: Final = (32, 16)  # of a bound; the second where bounds do not compress
STORED_BYTES: Final = 80  # so few are stored as they are: one zone of any column, for example
_FLOATS: Final = {"f2": Struct("<e"), "f4": Struct("<f"), "f8": Struct("<d")}
ALL_VALID: Final = np.empty(0, np.uint8)


@dataclass(slots=True)
class _Zone:
    """Rows of a zone so far; bounds are Python's numbers, or the first bytes of text."""

    num_rows: int
    nulls: int
    nans: int
    low: Any = None
    high: Any = None

    def add(self, other: _Zone) -> None:
        self.num_rows += other.num_rows
        self.nulls += other.nulls
        self.nans += other.nans
        if other.low is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)


class ColumnCollector:
    """The zones of one column, from its rows in order. For one thread at a time.

    Args:
        kind: of its bounds, such as `i8` or `f4`: what `statistics.kind_of` gives.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.zone_rows = ZONE_ROWS
        self.zones: list[_Zone] = []

    def add(self, values: PageValues) -> None:
        """Count the next rows, which have no lists around them. CPU: about 1 ns a number."""
        count = values.num_rows
        valid = ALL_VALID
        if values.definition is not None:
            valid = (values.definition == 0).view(np.uint8)
        done = self.zones[-1].num_rows if self.zones else self.zone_rows
        first = min(count, self.zone_rows - done)
        cuts = (
            [0, *range(first, count, self.zone_rows), count]
            if first
            else [
                *range(0, count, self.zone_rows),
                count,
            ]
        )
        zones = self._measure(values.values, valid, cuts)
        if first and zones:
            self.zones[-1].add(zones.pop(0))
        self.zones += zones
        while len(self.zones) > MAX_ZONES:
            self.widen()

    def widen(self) -> None:
        """Make one zone of each two."""
        for zone, following in zip(self.zones[::2], self.zones[1::2], strict=False):
            zone.add(following)
        self.zones = self.zones[::2]
        self.zone_rows *= 2

    def _measure(self, block: object, valid: Bytes, bounds: Sequence[int]) -> list[_Zone]:
        rows = [stop - start for start, stop in pairwise(bounds)]
        cuts = np.array(bounds, np.int64)
        lows: Sequence[Any]
        if isinstance(block, VariableWidth):
            least, most, present = _kernels.zone_strings(block.offsets, block.data, valid, cuts)
            lows, highs = (_heads(block, places.tolist()) for places in (least, most))
            nans = [0] * len(rows)
        else:
            assert isinstance(block, FixedWidth)
            data, kind = block.data, self.kind
            if kind == "b":
                data, kind = np.unpackbits(data, count=block.num_values, bitorder="little"), "u1"
            elif kind == "f2":
                data, kind = data.view(np.float16).astype(np.float32).view(np.uint8), "f4"
            low, high, present, num_nans = _kernels.zone_bounds(data, kind, valid, cuts)
            lows, highs = (_numbers(side, kind) for side in (low, high))
            nans = num_nans.tolist()
        return [
            _Zone(count, count - there, nan, *((lo, hi) if there > nan else (None, None)))
            for count, there, nan, lo, hi in zip(
                rows, present.tolist(), nans, lows, highs, strict=True
            )
        ]


class FileStatistics:
    """The statistics of a file that is being written: one collector a column that has them."""

    def __init__(self, columns: Sequence[LeafColumn]) -> None:
        self._collectors: dict[int, ColumnCollector] = {}
        for number, column in enumerate(columns):
            field = column.field
            special = field.is_blob_v1 or field.is_blob_v2 or field.is_packed or field.is_json
            if special or not field.is_leaf or column.multiplier != 1:
                continue
            kind = kind_of(field.arrow_type)
            if kind is not None:
                self._collectors[number] = ColumnCollector(kind)

    def add(self, column: int, values: PageValues) -> None:
        """Count the next rows of a column; what lies in lists has no statistics."""
        if values.rep is not None:
            self._collectors.pop(column, None)
        elif (collector := self._collectors.get(column)) is not None:
            collector.add(values)

    def finish(self) -> Bytes | None:
        """The buffer; None where there is nothing to say. CPU: about 0.1 ms a column."""
        collectors = {
            number: collector for number, collector in self._collectors.items() if collector.zones
        }
        if not collectors:
            return None
        zone_rows = max(collector.zone_rows for collector in collectors.values())
        for collector in collectors.values():
            while collector.zone_rows < zone_rows:
                collector.widen()
        return _buffer(zone_rows, collectors)


def _buffer(zone_rows: int, columns: dict[int, ColumnCollector]) -> Bytes:
    entries = np.zeros(len(columns), ENTRY)
    num_rows = sum(zone.num_rows for zone in next(iter(columns.values())).zones)
    bounds: list[bytes] = []
    blocks: list[bytes] = []
    for entry, (number, column) in zip(entries, columns.items(), strict=True):
        whole = _Zone(0, 0, 0)
        for zone in column.zones:
            whole.add(zone)
        limit, raw, packed = _block(column)
        low, high, flags = _encoded(column.kind, whole, limit)
        bounds += [low, high]
        blocks.append(packed)
        entry["column"], entry["kind"] = number, KINDS.index(column.kind)
        entry["flags"], entry["nulls"] = flags, whole.nulls
        entry["low"], entry["high"] = len(low), len(high)
        entry["num_bytes"], entry["raw"], entry["crc"] = len(packed), raw, zlib.crc32(packed)
    head_size = HEADER.size + entries.nbytes + sum(map(len, bounds)) + 4
    ends = np.cumsum([head_size, *map(len, blocks)])
    entries["offset"] = ends[:-1]
    header = HEADER.pack(MAGIC, VERSION, 0, zone_rows, num_rows, len(columns), head_size)
    head = header + entries.tobytes() + b"".join(bounds)
    crc = zlib.crc32(head).to_bytes(4, "little")
    return np.frombuffer(b"".join([head, crc, *blocks]), np.uint8)


def _block(column: ColumnCollector) -> tuple[int, int, bytes]:
    """The limit of text, the bytes before zlib, and the block."""
    for limit in TEXT_BYTES:
        encoded = [_encoded(column.kind, zone, limit) for zone in column.zones]
        lows, highs = [bounds[0] for bounds in encoded], [bounds[1] for bounds in encoded]
        nulls = np.array([zone.nulls for zone in column.zones], "<u4").tobytes()
        parts = [nulls, bytes(flags for _, _, flags in encoded)]
        if not width_of(column.kind):
            parts += [bytes(map(len, lows)), bytes(map(len, highs))]
        raw = b"".join([*parts, *lows, *highs])
        is_stored = len(raw) <= STORED_BYTES
        packed = zlib.compress(raw, 0 if is_stored else 1)
        if column.kind != "s" or is_stored or len(packed) <= 3 * limit // 2 * len(lows):
            break
    return limit, len(raw), packed


def _encoded(kind: str, zone: _Zone, limit: int) -> tuple[bytes, bytes, int]:
    """Low bound, high bound, and flags."""
    flags = HAS_NANS if zone.nans else 0
    if zone.low is None:
        empty = bytes(width_of(kind))
        return empty, empty, flags
    flags |= HAS_VALUES | HAS_LOW
    if kind == "s":
        low, high = zone.low[:limit], _rounded_up(zone.high, limit)
        return low, high or b"", flags | (HAS_HIGH if high is not None else 0)
    flags |= HAS_HIGH
    low, high = (_packed(kind, bound) for bound in (zone.low, zone.high))
    return low, high, flags


def _packed(kind: str, bound: float) -> bytes:
    if kind[0] == "f":
        return _FLOATS[kind].pack(bound)
    assert isinstance(bound, int)
    return bound.to_bytes(width_of(kind), "little", signed=kind[0] == "i")


def _rounded_up(text: bytes, limit: int) -> bytes | None:
    """The shortest text of at most `limit` bytes that is no less; None: there is none."""
    if len(text) <= limit:
        return text
    cut = text[:limit].rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None


def _heads(block: VariableWidth, places: list[int]) -> list[bytes]:
    """The first bytes of some strings: one more than a bound may have, so that a cut shows."""
    limit = TEXT_BYTES[0] + 1
    offsets, data = block.offsets, block.data
    return [
        data[offsets[place] : min(int(offsets[place + 1]), int(offsets[place]) + limit)].tobytes()
        if place >= 0
        else b""
        for place in places
    ]


def _numbers(side: Bytes, kind: str) -> list[Any]:
    if kind != "i16":
        return side.view(f"<{kind}").tolist()  # type: ignore[no-any-return]
    content = side.tobytes()
    return [
        int.from_bytes(content[at : at + 16], "little", signed=True)
        for at in range(0, len(content), 16)
    ]
