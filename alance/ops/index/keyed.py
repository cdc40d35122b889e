"""What is indexed of a column: its values or those at a path of its JSON documents; and what an
index has as keys of a row: the value, the items of its list, the n-grams of its text.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance import compute as pc
from alance.errors import InvalidInputError
from alance.expr.json_values import path_steps, scalars
from alance.expr.tree import FAILURES, Problem, plain, plain_type
from alance.format.index import bitmap
from alance.format.index.addresses import rows_bytes
from alance.format.index.bitmap import ROW_SETS
from alance.format.index.ngram import POSTING_LISTS, token_rows
from alance.format.numbers import as_numbers, to_arrow
from alance.ops.index.runs import run_schema
from alance.ops.lookup.segments import BTREE, LABELS, NGRAMS
from alance.ops.lookup.stored import NO_END, SegmentEnd
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.arrays import Int64s
    from alance.expr.json_values import Step
    from alance.format.index.bitmap import KeyedSets


class OtherTypeError(Exception):
    """Values at a path are of another type than those before them: all are to be read again."""

    def __init__(self, values: ColumnValues) -> None:
        super().__init__(str(values.type))
        self.values = values


@dataclass(slots=True, eq=False)
class ColumnValues:
    """The values of a column that an index is of, while rows pass by.

    Attributes:
        type: that they have; of JSON values so far.
        path: of JSON values.
        is_told: values of that type were there.
    """

    column: str
    type: pa.DataType
    path: str | None = None
    is_told: bool = False
    _steps: tuple[Step, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._steps = path_steps(self.path) if self.path is not None else ()

    @classmethod
    def at(cls, column: str, type_: pa.DataType, path: str | None) -> ColumnValues:
        """Of a column of a type; at a path of it texts, as long as there are no values."""
        return cls(column, type_ if path is None else pa.string(), path)

    def of(self, values: pa.Array) -> pa.Array:
        """What is indexed of the next rows. CPU.

        Raises:
            InvalidInputError: JSON values of several types, arrays or objects.
            OtherTypeError: they are of one type, and that is not `type`.
        """
        if self.path is None:
            return values
        try:
            inside = scalars(plain(values), self._steps)
        except (*FAILURES, Problem) as error:
            where = f"JSON index of {self.column!r}, path {self.path!r}"
            raise InvalidInputError(f"{where}: {error}") from error
        if inside.type != pa.null():
            joined = self.joined(inside.type)
            if joined.type != self.type:
                raise OtherTypeError(joined)
            self.is_told = True
        return inside.cast(self.type, safe=False)

    def joined(self, type_: pa.DataType) -> ColumnValues:
        """JSON values that are these and others of a type: whole numbers are among others.

        Raises:
            InvalidInputError: those would be of several types.
        """
        if self.is_told and type_ != self.type:
            if {type_, self.type} != {pa.int64(), pa.float64()}:
                raise InvalidInputError(
                    f"JSON index of {self.column!r}: values at {self.path!r}: expected one type, "
                    f"found {self.type} and {type_}"
                )
            type_ = pa.float64()
        return replace(self, type=type_, is_told=True)


@dataclass(slots=True, eq=False)
class RowKeys:
    """The keys of rows, while these pass by.

    Attributes:
        type: of the keys.
        null_rows: of labels the rows that are null, which no key has.
    """

    kind: str
    type: pa.DataType
    null_rows: list[Int64s] = field(default_factory=list)

    @classmethod
    def of(cls, kind: str, type_: pa.DataType) -> RowKeys:
        """Of an index of a kind on values of a type."""
        if kind == LABELS:
            type_ = plain_type(plain_type(type_).value_type)
        return cls(kind, pa.uint32() if kind == NGRAMS else type_)

    @property
    def form(self) -> KeyedSets:
        """How keys and the rows of each are stored."""
        return POSTING_LISTS if self.kind == NGRAMS else ROW_SETS

    @property
    def schema(self) -> pa.Schema:
        """Keys, each with the number of a row."""
        return run_schema(BTREE, self.type)

    @property
    def run_schema(self) -> pa.Schema:
        """Of a sorted run: of a B-tree the same, else each key with its rows as they are stored."""
        return self.schema if self.kind == BTREE else self.form.schema(self.type)

    def add(self, values: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        """The keys of the next rows. CPU.

        Args:
            rows: the number of each row, uint64.
        """
        values = plain(values)
        if self.kind == NGRAMS:
            tokens, numbers = token_rows(values, as_numbers(rows))
            return self._batch(to_arrow(tokens), to_arrow(numbers))
        if self.kind == LABELS:
            if values.null_count:
                self.null_rows.append(as_numbers(rows.filter(values.is_null())).astype(np.int64))
            return self._batch(plain(values.flatten()), rows.take(pc.list_parent_indices(values)))
        return self._batch(values, rows)

    def _batch(self, keys: pa.Array, rows: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([keys, rows], schema=self.schema)

    def end(self) -> SegmentEnd:
        """What the file has behind the keys."""
        if self.kind != LABELS:
            return NO_END
        rows = np.concatenate([np.empty(0, np.int64), *self.null_rows])
        content = np.frombuffer(rows_bytes(rows), np.uint8)
        return SegmentEnd({bitmap.LABEL_NULLS: "1"}, [content])
