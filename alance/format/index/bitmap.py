"""Bitmap index: each distinct value with the set of rows that have it.

A label list index has the same file. Its keys are list items, each with the rows whose lists
contain it.

`bitmap_page_lookup.lance` has the columns `keys` (of the indexed type, in order, null first) and
`bitmaps` (binary: a row set); the metadata of its schema has the number of keys. A row set has a
32-bit roaring bitmap for each high half of its row numbers:

    u32 number of parts
    parts x (u32 high half, u32 size of the bitmap, the bitmap of low halves)

A size of 0 stands for all rows with that high half. A row number is an address (fragment id << 32 |
row offset) or a stable row id.

Source: what pylance 14.0.2 writes; docs/format/table.md, "Index section".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.numbers import as_mask, as_numbers, strings_array
from alance.format.row_set import RowSet
from alance.format.table.roaring import roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Int64s

BITMAP_FILE: Final = "bitmap_page_lookup.lance"
KEYS_COLUMN: Final = "keys"
BITMAPS: Final = "bitmaps"
STATS: Final = "lance:index_stats"
# Metadata key; its value is the number of the global buffer with the rows of null lists.
LABEL_NULLS: Final = "lance:label_list_nulls"
SET_BATCH_BYTES: Final = 8 << 20  # bytes of row sets per batch
OPEN_ROWS: Final = 1 << 20  # rows of a key (8 bytes each) that wait before they are encoded


def parse_rows(content: memoryview) -> RowSet:
    return RowSet.of_bitmaps(_bitmaps(content))


def _bitmaps(content: memoryview) -> list[tuple[int, memoryview]]:
    """Split a row set into pairs of a high half and its checked bitmap, ascending by high half."""
    try:
        parts = _kernels.address_parts(np.frombuffer(content, np.uint8))
    except ValueError as error:
        raise CorruptFileError(f"row set of {len(content)} bytes: {error}") from error
    for high, _, size in parts:
        if size == 0:
            raise UnsupportedError(f"row set: all rows of part {high}, without their number")
    return [(high, content[start : start + size]) for high, start, size in parts]


def rows_bytes(rows: Int64s) -> bytes:
    """Encode non-negative row numbers, in any order, as a row set."""
    return _kernels.address_set(np.ascontiguousarray(rows, np.int64))


def joined_rows(sets: Sequence[memoryview]) -> bytes:
    """Encode the union of encoded row sets.

    The bitmap of a high half that only one set contains is copied without decoding.
    """
    if len(sets) == 1:
        return bytes(sets[0])
    bitmaps: dict[int, list[memoryview]] = {}
    for rows in sets:
        for high, content in _bitmaps(rows):
            bitmaps.setdefault(high, []).append(content)
    parts: list[bytes | memoryview] = [struct.pack("<I", len(bitmaps))]
    for high in sorted(bitmaps):
        joined: bytes | memoryview = bitmaps[high][0]
        if len(bitmaps[high]) > 1:
            rows_of_all = RowSet.union(RowSet.of_bitmaps([(0, part)]) for part in bitmaps[high])
            joined = roaring_bytes(rows_of_all.to_numpy())
        parts += [struct.pack("<II", high, len(joined)), joined]
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class KeyedSets:
    """Schema and codec of an index file, by its column of row sets and the name of that of keys."""

    file: str
    keys: str
    set_field: pa.Field
    parse: Callable[[memoryview], RowSet]
    to_bytes: Callable[[Int64s], bytes]

    @property
    def sets(self) -> str:
        """Name of the column of row sets."""
        return str(self.set_field.name)

    def schema(self, type_: pa.DataType) -> pa.Schema:
        """Return the schema of the file for keys of a type."""
        return pa.schema([pa.field(self.keys, type_), self.set_field])


ROW_SETS: Final = KeyedSets(
    BITMAP_FILE, KEYS_COLUMN, pa.field(BITMAPS, pa.binary()), parse_rows, rows_bytes
)


class RowSetBuilder:
    """Builder of the keys and row sets of a bitmap index; rows are added sorted by key.

    Args:
        sort_key: maps values to sort keys; values with equal sort keys share one key of the index.
        of_sets: True if each added value comes with an encoded row set instead of a row number.
    """

    def __init__(
        self,
        type_: pa.DataType,
        sort_key: Callable[[pa.Array], pa.Array],
        form: KeyedSets = ROW_SETS,
        *,
        of_sets: bool = False,
    ) -> None:
        self._form = form
        self._sort_key = sort_key
        self._of_sets = of_sets
        self._keys: list[pa.Array] = []
        self._sets: list[bytes] = []
        self._num_bytes = 0
        # Rows of the last key, which more rows may follow, that are not encoded yet.
        self._open: list[Int64s] = []
        self._num_open = 0
        self._open_sets: list[memoryview] = []  # encoded sets of the other rows of the last key
        self._last: pa.Array | None = None
        self.num_keys = 0
        self.schema = form.schema(type_)

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Add values and row numbers (or row sets), and return completed batches."""
        if not batch.num_rows:
            return []
        values, ids = batch.column(0), batch.column(1)
        if not self._of_sets:
            ids = as_numbers(ids).astype(np.int64)
        starts = self._starts(values)
        if not len(starts) or starts[0]:
            self._open_more(ids[: starts[0] if len(starts) else None])
        ready = []
        ends = [*starts.tolist(), len(ids)][1:]
        for start, end in zip(starts.tolist(), ends, strict=True):
            self._close()
            self._open_more(ids[start:end])
            self._keys.append(values.slice(start, 1))
            if self._num_bytes >= SET_BATCH_BYTES:
                ready.append(self._batch(self._keys[:-1]))
                self._keys = self._keys[-1:]
        self._last = values.slice(len(values) - 1, 1)
        return ready

    def finish(self) -> list[pa.RecordBatch]:
        self._close()
        return [self._batch(self._keys)] if self._keys else []

    def _starts(self, values: pa.Array) -> Int64s:
        """Return the positions at which a new key begins."""
        before = values.slice(0, 1) if self._last is None else self._last
        keys = self._sort_key(pa.concat_arrays([before, values]))
        previous, own = keys.slice(0, len(values)), keys.slice(1)
        differs = pc.coalesce(
            pc.not_equal(previous, own), pc.xor(pc.is_null(previous), pc.is_null(own))
        )
        starts = np.flatnonzero(as_mask(differs))
        return starts if self._last is not None else np.concatenate([[0], starts])

    def _open_more(self, rows: Any) -> None:
        """Add row numbers or row sets to the key that was added last."""
        if self._of_sets:
            self._open_sets += [memoryview(content.as_buffer()) for content in rows]
            return
        self._open.append(rows)
        self._num_open += len(rows)
        if self._num_open >= OPEN_ROWS:
            self._encode_open()

    def _encode_open(self) -> None:
        if self._open:
            content = self._form.to_bytes(np.concatenate(self._open))
            self._open_sets.append(memoryview(content))
            self._open, self._num_open = [], 0

    def _close(self) -> None:
        self._encode_open()
        if self._open_sets:
            content = self._joined(self._open_sets)
            self._sets.append(content)
            self._num_bytes += len(content)
            self.num_keys += 1
            self._open_sets = []

    def _joined(self, sets: Sequence[memoryview]) -> bytes:
        if len(sets) == 1:
            return bytes(sets[0])
        if self._form is ROW_SETS:
            return joined_rows(sets)
        return self._form.to_bytes(RowSet.union(map(self._form.parse, sets)).to_numpy())

    def _batch(self, keys: list[pa.Array]) -> pa.RecordBatch:
        ends = np.cumsum([0, *map(len, self._sets)]).astype(np.int32)
        sets = strings_array(pa.binary(), ends, b"".join(self._sets))
        self._sets, self._num_bytes = [], 0
        return pa.RecordBatch.from_arrays([pa.concat_arrays(keys), sets], schema=self.schema)
