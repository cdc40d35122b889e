"""Statistics buffer: null counts and bounds for each zone of rows, by column.

  global buffer, before the search-cache buffer:
    header     8 bytes `alancest`, u16 version (1), u16 zero, u32 rows of a zone, u64 rows,
               u32 columns, u32 bytes of the head
    entries    one a column, 40 bytes: see COLUMN_ENTRY
    bounds     of the whole file: low and high bound of each entry, end to end
    u32        CRC-32 of all the above, the head
    blocks     one a column, zlib: the zones, see `parse_zones`

The head is enough to prune a whole file. To prune zones, blocks of the filter's columns are read.

Source: docs/statistics.md.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.layouts.fields import narrow
from alance.format.numbers import bitmap, is_large, is_variable, offsets_of, strings_array, to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask

STATISTICS_HEADER: Final = struct.Struct("<8sHHIQII")
STATISTICS_MAGIC: Final = b"alancest"
STATISTICS_VERSION: Final = 1
COLUMN_ENTRY: Final = np.dtype(
    [
        ("column", "<u4"),  # number of the column in the file
        ("kind", "u1"),  # position in ZONE_VALUE_KINDS
        ("flags", "u1"),  # flags of the whole file
        ("low", "<u2"),  # bytes of the low bound of the whole file
        ("high", "<u2"),
        ("zero", "<u2"),
        ("raw", "<u4"),  # bytes of the uncompressed block
        ("nulls", "<u8"),
        ("offset", "<u4"),  # offset of the block in the buffer
        ("num_bytes", "<u4"),
        ("crc", "<u4"),
        ("zero2", "<u4"),
    ]
)
ZONE_VALUE_KINDS: Final = (
    *("i1", "i2", "i4", "i8", "i16"),
    *("u1", "u2", "u4", "u8"),
    *("f2", "f4", "f8"),
    *("b", "s"),
)
HAS_LOW: Final = 1  # the low bound is known
HAS_HIGH: Final = 2
HAS_VALUES: Final = 4  # some values are neither null nor NaN
HAS_NANS: Final = 8
MAX_PARSED_ZONES: Final = 1 << 16  # a buffer with more zones is refused

U8: Final = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Bounds of a column in n zones of rows.

    Attributes:
        has_nulls: the zone may have nulls; shape (n,).
        has_values: the zone may have values other than null and NaN; shape (n,).
        has_nans: the zone may have NaN; shape (n,).
        low: lower bounds of the values other than null and NaN; n values of the column's type, null
            if unknown. Bounds of text and binary may be truncated, so they need not be values of
            the zone. A float bound of zero is -0.0.
        high: upper bounds, likewise. A float bound of zero is 0.0.
    """

    has_nulls: Mask
    has_values: Mask
    has_nans: Mask
    low: pa.Array
    high: pa.Array

    @property
    def num_bytes(self) -> int:
        return 300 + 3 * len(self.has_nulls) + int(self.low.nbytes + self.high.nbytes)

    @classmethod
    def unknown(cls, num_zones: int, arrow: pa.DataType) -> ColumnBounds:
        """Return bounds of zones about which nothing is known."""
        maybe = np.ones(num_zones, np.bool_)
        nothing = pa.nulls(num_zones, arrow)
        return cls(maybe, maybe, maybe, nothing, nothing)

    @classmethod
    def joined(cls, many: Sequence[ColumnBounds]) -> ColumnBounds:
        if len(many) == 1:
            return many[0]
        return cls(
            np.concatenate([bounds.has_nulls for bounds in many]),
            np.concatenate([bounds.has_values for bounds in many]),
            np.concatenate([bounds.has_nans for bounds in many]),
            pa.concat_arrays([bounds.low for bounds in many]),
            pa.concat_arrays([bounds.high for bounds in many]),
        )

    def at_edges(self, own: Int64s, edges: Int64s) -> ColumnBounds:
        """Split zones at additional edges; each part inherits the bounds of its zone.

        Args:
            own: first row of each zone, then the number of rows; shape (n + 1,).
            edges: `own` and additional rows, ascending.
        """
        if np.array_equal(own, edges):
            return self
        places = np.searchsorted(own, edges[:-1], "right") - 1
        taken = to_arrow(places)
        return ColumnBounds(
            self.has_nulls[places],
            self.has_values[places],
            self.has_nans[places],
            self.low.take(taken),
            self.high.take(taken),
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Head of a statistics buffer.

    Attributes:
        zone_rows: rows per zone; the last zone of a file may have fewer.
        entries: array of COLUMN_ENTRY, one per column.
        rows: position of each column in `entries`, by column number.
        bounds: encoded bounds of the whole file, for all entries.
        places: offsets of each entry's bounds in `bounds`; shape (n + 1,).
    """

    zone_rows: int
    num_rows: int
    entries: npt.NDArray[np.void]
    rows: Mapping[int, int]
    bounds: Bytes
    places: Int64s

    @property
    def num_zones(self) -> int:
        return -(-self.num_rows // self.zone_rows)

    @property
    def num_bytes(self) -> int:
        return 300 + self.entries.nbytes + self.bounds.nbytes + 100 * len(self.rows)

    def kind(self, column: int) -> str:
        """Return the kind of bounds of a column, which must have an entry."""
        return ZONE_VALUE_KINDS[int(self.entries["kind"][self.rows[column]])]

    def block(self, column: int) -> tuple[int, int]:
        """Return the offset and size of a column's block in the buffer.

        The column must have an entry.
        """
        entry = self.entries[self.rows[column]]
        return int(entry["offset"]), int(entry["num_bytes"])


def whole_bounds(
    files: Sequence[tuple[Statistics, int] | None], arrow: pa.DataType
) -> ColumnBounds:
    """Return the bounds of a column in several files, where each file is a zone.

    Args:
        files: statistics of each file, with the column's number in the file; None for a file
            without statistics.
    """
    if not any(files):
        return ColumnBounds.unknown(len(files), arrow)
    kind = kind_of(arrow)
    assert kind is not None
    unknown = bytes(width_of(kind))
    nulls, flags = np.ones(len(files), np.int64), np.full(len(files), HAS_VALUES | HAS_NANS, "u1")
    lows, highs = [unknown] * len(files), [unknown] * len(files)
    for place, file in enumerate(files):
        if file is None:
            continue
        head, row = file[0], file[0].rows[file[1]]
        entry, start = head.entries[row], head.places[row]
        content = head.bounds[start : head.places[row + 1]].tobytes()
        nulls[place], flags[place], cut = entry["nulls"], entry["flags"], entry["low"]
        lows[place], highs[place] = content[:cut], content[cut:]
    return _bounds(arrow, nulls, flags, _side(kind, lows), _side(kind, highs))


def kind_of(arrow: pa.DataType) -> str | None:
    """Return the kind of bounds for a storage type; None if the type has no statistics."""
    if pa.types.is_boolean(arrow):
        return "b"
    if pa.types.is_unsigned_integer(arrow):
        return f"u{arrow.bit_width // 8}"
    if pa.types.is_floating(arrow):
        return f"f{arrow.bit_width // 8}"
    if pa.types.is_decimal128(arrow):
        return "i16"
    if pa.types.is_integer(arrow) or pa.types.is_temporal(arrow):
        return f"i{arrow.bit_width // 8}" if not pa.types.is_interval(arrow) else None
    return "s" if is_variable(arrow) else None


def width_of(kind: str) -> int:
    """Return the bytes per bound; 0 if lengths vary."""
    if kind in ("b", "s"):
        return 1 if kind == "b" else 0
    return int(kind[1:])


ZONE_VALUE_WIDTHS: Final = np.array([width_of(kind) for kind in ZONE_VALUE_KINDS])


def head_bytes(where: str, content: memoryview) -> int | None:
    """Return the size of a statistics buffer's head by its first bytes; None for other buffers."""
    if len(content) < STATISTICS_HEADER.size:
        return None
    magic, version, _, zone_rows, num_rows, columns, size = STATISTICS_HEADER.unpack_from(content)
    if magic != STATISTICS_MAGIC or version != STATISTICS_VERSION:
        return None
    if (
        zone_rows == 0
        or num_rows > zone_rows * MAX_PARSED_ZONES
        or size < STATISTICS_HEADER.size + columns * COLUMN_ENTRY.itemsize + 4
    ):
        raise CorruptFileError(
            f"{where}: statistics of {columns} columns of {num_rows} rows in zones of "
            f"{zone_rows}, with a head of {size} bytes"
        )
    return int(size)


def parse_head(where: str, content: memoryview, num_bytes: int) -> Statistics:
    """Parse the head of a buffer of `num_bytes` bytes."""
    crc = int.from_bytes(content[-4:], "little")
    if zlib.crc32(content[:-4]) != crc:
        raise CorruptFileError(f"{where}: the head of the statistics has another checksum")
    _, _, _, zone_rows, num_rows, columns, _ = STATISTICS_HEADER.unpack_from(content)
    entries = np.frombuffer(content, COLUMN_ENTRY, columns, STATISTICS_HEADER.size).copy()
    bounds = np.frombuffer(content, U8, offset=STATISTICS_HEADER.size + entries.nbytes)[:-4].copy()
    kinds = entries["kind"]
    places = offsets_of(entries["low"].astype(np.int64) + entries["high"])
    widths = ZONE_VALUE_WIDTHS[np.minimum(kinds, len(ZONE_VALUE_KINDS) - 1)]
    odd = (widths > 0) & ((entries["low"] != widths) | (entries["high"] != widths))
    stops = entries["offset"].astype(np.int64) + entries["num_bytes"]
    bad = (
        odd | (kinds >= len(ZONE_VALUE_KINDS)) | (entries["nulls"] > num_rows) | (stops > num_bytes)
    )
    if bad.any() or places[-1] > len(bounds):
        raise CorruptFileError(f"{where}: statistics of {columns} columns do not fit")
    rows = {column: row for row, column in enumerate(entries["column"].tolist())}
    return Statistics(zone_rows, num_rows, entries, rows, bounds, places)


def parse_zones(
    where: str, head: Statistics, column: int, content: memoryview, arrow: pa.DataType
) -> ColumnBounds:
    """Parse the zones in a column's block as bounds of an Arrow type.

    Args:
        arrow: type of the bounds; it must have the column's kind.

    The uncompressed block has the u32 number of nulls of each zone, and the u8 flags of each zone.
    Then, for kinds of fixed width, all low bounds and all high bounds; for text, the u8 sizes of
    the low bounds, those of the high bounds, all low bounds and all high bounds.
    """
    entry = head.entries[head.rows[column]]
    crc, num_raw = int(entry["crc"]), int(entry["raw"])
    kind, count = head.kind(column), head.num_zones
    place = f"{where}: statistics of column {column}"
    if zlib.crc32(content) != crc:
        raise CorruptFileError(f"{place} have another checksum")
    width = width_of(kind)
    if num_raw > count * (5 + 2 * (width or 256)):
        raise CorruptFileError(f"{place}: {num_raw} bytes for {count} zones")
    try:
        raw = zlib.decompressobj().decompress(content, num_raw + 1)
    except zlib.error as error:
        raise CorruptFileError(f"{place}: {error}") from error
    least = count * (5 + 2 * (width or 1))
    if len(raw) != num_raw or len(raw) < least:
        raise CorruptFileError(f"{place}: {len(raw)} bytes for {count} zones")
    sizes = None if width else np.frombuffer(raw, np.uint8, 2 * count, 5 * count)
    need = least if sizes is None else least + int(sizes.sum())
    if len(raw) != need:
        raise CorruptFileError(f"{place}: {len(raw)} bytes, expected {need} for {count} zones")
    nulls = np.frombuffer(raw, "<u4", count).astype(np.int64)
    flags = np.frombuffer(raw, np.uint8, count, 4 * count)
    sides: list[FixedWidth | VariableWidth] = []
    if sizes is None:
        values = np.frombuffer(raw, np.uint8, offset=5 * count).reshape(2, count * width)
        sides += [FixedWidth(8 * width, count, values[side].copy()) for side in (0, 1)]
    else:
        values = np.frombuffer(raw, np.uint8, offset=7 * count)
        for part in sizes.reshape(2, count):
            offsets = offsets_of(part)
            sides.append(VariableWidth(offsets, values[: offsets[-1]]))
            values = values[offsets[-1] :]
    return _bounds(arrow, nulls, flags, *sides)


def _side(kind: str, bounds: Sequence[bytes]) -> FixedWidth | VariableWidth:
    """Concatenate encoded bounds to a block."""
    content = np.frombuffer(b"".join(bounds), np.uint8)
    if kind != "s":
        return FixedWidth(8 * width_of(kind), len(bounds), content)
    offsets = offsets_of([len(bound) for bound in bounds])
    return VariableWidth(offsets, content)


def _bounds(
    arrow: pa.DataType,
    nulls: Int64s,
    flags: Bytes,
    lows: FixedWidth | VariableWidth,
    highs: FixedWidth | VariableWidth,
) -> ColumnBounds:
    """Build bounds from stored zones; a bound becomes null unless its flag is set."""
    return ColumnBounds(
        nulls > 0,
        flags & HAS_VALUES != 0,
        flags & HAS_NANS != 0,
        _array(lows, arrow, flags & HAS_LOW != 0),
        _array(highs, arrow, flags & HAS_HIGH != 0),
    )


def _array(side: FixedWidth | VariableWidth, arrow: pa.DataType, valid: Mask) -> pa.Array:
    data = side.data
    if isinstance(side, VariableWidth):
        offsets = narrow(side.offsets, large=is_large(arrow))
        return strings_array(arrow, offsets, np.ascontiguousarray(data), valid)
    if pa.types.is_boolean(arrow):
        data = np.packbits(data != 0, bitorder="little")
    return pa.Array.from_buffers(arrow, side.num_values, [bitmap(valid), pa.py_buffer(data)])
