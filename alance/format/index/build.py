"""Builders, from sorted rows, of a B-tree's page table and of a bitmap index's row sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.format.index.addresses import joined_rows
from alance.format.index.bitmap import ROW_SETS
from alance.format.index.btree import LOOKUP_COLUMNS, PAGE_ROWS
from alance.format.numbers import as_mask, as_numbers, strings_array, to_arrow
from alance.format.row_set import RowSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int64s
    from alance.format.index.bitmap import KeyedSets

SET_BATCH_BYTES: Final = 8 << 20  # bytes of row sets per batch
OPEN_ROWS: Final = 1 << 20  # rows of a key (8 bytes each) that wait before they are encoded


class PageTableBuilder:
    """Builder of a B-tree page table; rows are added in order.

    Args:
        type_: type of the values.
        page_rows: number of rows of a page.
    """

    def __init__(self, type_: pa.DataType, page_rows: int = PAGE_ROWS) -> None:
        self._page_rows = page_rows
        self._lows: list[pa.Array] = []
        self._highs: list[pa.Array] = []
        self._last: pa.Array | None = None
        self._num_rows = self._num_nulls = 0
        low, high, nulls, place = LOOKUP_COLUMNS
        self.schema = pa.schema(
            [
                pa.field(low, type_),
                pa.field(high, type_),
                pa.field(nulls, pa.uint32(), nullable=False),
                pa.field(place, pa.uint32(), nullable=False),
            ]
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows: sorted values in the first column, nulls first."""
        values = batch.column(0)
        page = self._page_rows
        starts = np.arange(-self._num_rows % page, len(values), page)
        ends = np.arange((-1 - self._num_rows) % page, len(values), page)
        self._lows.append(values.take(to_arrow(starts)))
        self._highs.append(values.take(to_arrow(ends)))
        self._last = values.slice(len(values) - 1, 1) if len(values) else self._last
        self._num_rows += len(values)
        self._num_nulls += values.null_count

    def finish(self) -> pa.RecordBatch:
        """Return the rows of the page table."""
        num_pages = -(-self._num_rows // self._page_rows)
        if self._num_rows % self._page_rows and self._last is not None:
            self._highs.append(self._last)
        empty = pa.nulls(0, self.schema.field(0).type)
        places = np.arange(num_pages)
        rows = np.minimum(self._num_rows - places * self._page_rows, self._page_rows)
        nulls = np.clip(self._num_nulls - places * self._page_rows, 0, rows)
        return pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([empty, *self._lows]),
                pa.concat_arrays([empty, *self._highs]),
                to_arrow(nulls.astype(np.uint32)),
                to_arrow(places.astype(np.uint32)),
            ],
            schema=self.schema,
        )


class RowSetBuilder:
    """Builder of the keys and row sets of a bitmap index; rows are added sorted by key.

    Args:
        type_: type of the values.
        sort_key: maps values to sort keys; values with equal sort keys share one key of the index.
        form: schema and codec of the file.
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
        self._open: list[Any] = []  # rows or sets of the last key, which more rows may follow
        self._num_open = 0  # rows of the last key that are not encoded yet
        self._open_sets: list[bytes] = []  # encoded sets of earlier rows of the last key
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
        """Return the remaining batches."""
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
        self._open.append(rows)
        self._num_open += len(rows)
        if not self._of_sets and self._num_open >= OPEN_ROWS:
            self._open_sets.append(self._set_of_open())

    def _close(self) -> None:
        if self._open or self._open_sets:
            content = self._set()
            self._sets.append(content)
            self._num_bytes += len(content)
            self.num_keys += 1
            self._open, self._num_open, self._open_sets = [], 0, []

    def _set_of_open(self) -> bytes:
        content = self._form.to_bytes(np.concatenate(self._open))
        self._open, self._num_open = [], 0
        return content

    def _set(self) -> bytes:
        if self._of_sets:
            sets = [memoryview(rows.as_buffer()) for part in self._open for rows in part]
        else:
            rest = [self._set_of_open()] if self._open else []
            sets = [memoryview(content) for content in (*self._open_sets, *rest)]
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
