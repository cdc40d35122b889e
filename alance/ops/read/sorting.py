"""Rows put into the order that `order_by` asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.read.options import ColumnOrdering


def in_order(table: pa.Table, orderings: Sequence[ColumnOrdering]) -> pa.Table:
    """The rows of a table in the order of some of its columns; equal ones stay as they are. CPU.

    NaN is greater than all numbers, and the two zeros are equal.

    Raises:
        UnsupportedError: a column of a type whose values have no order.
    """
    arrays: list[pa.ChunkedArray] = []
    keys: list[tuple[str, str]] = []
    for ordering in orderings:
        direction = "ascending" if ordering.ascending else "descending"
        values = table.column(ordering.column_name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_float16(values.type):  # Arrow has no order for them
            values = values.cast(pa.float32())
        parts = [(values, direction)]
        if pa.types.is_floating(values.type):
            parts.insert(0, (pc.is_nan(values), direction))
        if ordering.nulls_first:
            parts.insert(0, (pc.is_null(values), "descending"))
        for array, way in parts:
            keys.append((str(len(arrays)), way))
            arrays.append(array)
    try:
        places = pc.sort_indices(pa.table(arrays, [name for name, _ in keys]), sort_keys=keys)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        types = ", ".join(
            f"{ordering.column_name}: {table.schema.field(ordering.column_name).type}"
            for ordering in orderings
        )
        raise UnsupportedError(f"order_by: values without an order ({types})") from error
    return table.take(places)


@dataclass(slots=True)
class FirstRows:
    """The first rows of a stream in an order; keeps no more than twice as many, or `spare`.

    Attributes:
        num_rows: to give; None: all.
        spare: rows that are kept before they are sorted and cut.
    """

    schema: pa.Schema
    orderings: Sequence[ColumnOrdering]
    num_rows: int | None
    spare: int = 64 << 10
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _num_kept: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Some rows more. CPU where it cuts."""
        self._batches.append(batch)
        self._num_kept += batch.num_rows
        if self.num_rows is not None and self._num_kept > max(2 * self.num_rows, self.spare):
            self._batches = self.result().to_batches()
            self._num_kept = sum(kept.num_rows for kept in self._batches)

    def result(self) -> pa.Table:
        """The rows in order. CPU."""
        table = pa.Table.from_batches(self._batches, schema=self.schema)
        return in_order(table, self.orderings).slice(0, self.num_rows)
