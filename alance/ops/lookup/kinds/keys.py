"""Keys of rows in an index: values, list items, or n-grams of texts."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.tree import plain, plain_type
from alance.format.index import bitmap, btree
from alance.format.index.bitmap import rows_bytes
from alance.format.index.ngram import token_rows
from alance.format.numbers import as_numbers, to_arrow
from alance.ops.lookup.stored import NO_END, SegmentEnd

if TYPE_CHECKING:
    from alance.base.arrays import Int64s
    from alance.format.index.bitmap import KeyedSets


def row_schema(type_: pa.DataType) -> pa.Schema:
    """Return the columns of sorted rows: a key of a type, and a row number."""
    ids = pa.field(btree.IDS, pa.uint64(), nullable=False)
    return pa.schema([pa.field(btree.VALUES_COLUMN, type_), ids])


@dataclass(slots=True, eq=False)
class RowKeys:
    """Source of an index whose keys are the column's values.

    Attributes:
        type: type of the keys.
        form: form of keys and row sets; None if each row is stored with its key.
        null_rows: numbers of the rows that are null and have no key.
    """

    type: pa.DataType
    form: KeyedSets | None = None
    null_rows: list[Int64s] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Columns of keys and row numbers."""
        return row_schema(self.type)

    @property
    def run_schema(self) -> pa.Schema:
        """Columns of a sorted run: keys, with row sets if there is a `form`, else row numbers."""
        return self.schema if self.form is None else self.form.schema(self.type)

    def add(self, values: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        """Return the keys of the next rows. CPU work.

        Args:
            rows: number of each row, uint64.
        """
        return self._batch(plain(values), rows)

    def _batch(self, keys: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([keys, rows], schema=self.schema)

    def end(self) -> SegmentEnd:
        """Return the metadata and buffers at the end of the file."""
        return NO_END


@dataclass(slots=True, eq=False)
class LabelKeys(RowKeys):
    """Source of an index whose keys are list items; `null_rows` collects null lists."""

    @classmethod
    def of(cls, type_: pa.DataType, form: KeyedSets) -> LabelKeys:
        """Return the source for lists of a type."""
        return cls(plain_type(plain_type(type_).value_type), form)

    def add(self, values: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        values = plain(values)
        if values.null_count:
            self.null_rows.append(as_numbers(rows.filter(values.is_null())).astype(np.int64))
        return self._batch(plain(values.flatten()), rows.take(pc.list_parent_indices(values)))

    def end(self) -> SegmentEnd:
        rows = np.concatenate([np.empty(0, np.int64), *self.null_rows])
        content = np.frombuffer(rows_bytes(rows), np.uint8)
        return SegmentEnd({bitmap.LABEL_NULLS: "1"}, [content])


@dataclass(slots=True, eq=False)
class TokenKeys(RowKeys):
    """Source of an index whose keys are n-grams of texts."""

    def add(self, values: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        tokens, numbers = token_rows(plain(values), as_numbers(rows))
        return self._batch(to_arrow(tokens), to_arrow(numbers))
