"""Leaves of open fragments, and a leaf's rows in several parts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.file.batches import leaf_bytes
from alance.file.open.columns import OpenColumn
from alance.file.open.files import from_content
from alance.file.rows.field_forms import FieldForms, forms_of
from alance.file.rows.kernel_arrays import is_built
from alance.format.layouts.fields import leaf_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance._kernels import RowTable
    from alance.base.arrays import Int64s
    from alance.file.older.v2_0 import FieldColumn
    from alance.file.open.columns import States
    from alance.file.rows.fragment import Found
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan
    from alance.format.schema import Schema


class LeafSet:
    """Leaves that fragments have; one object for all fragments of a schema with the same leaves.

    Attributes:
        ids: field id of each leaf.
        times: number of rows of each leaf's column per row of the table.
        places: place of each leaf by its field id.
        usable: True for each leaf whose arrays the kernel builds.
        packed: ids of fixed-size lists of structs; only in files of 2.0, they have a column.
    """

    def __init__(self, schema: Schema, columns: Sequence[LeafColumn]) -> None:
        self._fields = schema.fields
        self.columns = columns
        self.ids = tuple([column.field.id for column in columns])
        self.times = [column.multiplier for column in columns]
        self.places = {field_id: place for place, field_id in enumerate(self.ids)}
        self.usable = [is_built(column.field) for column in columns]
        self.packed = frozenset(
            [
                member.id
                for field in schema.fields
                if not field.is_leaf
                for member in field.walk()
                if member.logical_type.startswith("fixed_size_list:struct:")
            ]
        )

    @classmethod
    def of_schema(cls, schema: Schema) -> LeafSet:
        """Return all leaves of a schema."""
        return schema.remember(
            LeafSet,
            lambda: cls(schema, [leaf for field in schema.fields for leaf in leaf_columns(field)]),
        )

    @classmethod
    def of_columns(cls, schema: Schema, columns: Sequence[LeafColumn]) -> LeafSet:
        """Return the leaves of a schema that own these columns."""
        ids = tuple([column.field.id for column in columns])
        return schema.remember((LeafSet, ids), lambda: cls(schema, columns))

    @cached_property
    def row_bytes(self) -> list[float]:
        """Bytes of a row of each fixed-width leaf; 0 for other leaves."""
        return [*map(leaf_bytes, self.columns)]

    @cached_property
    def forms(self) -> FieldForms:
        """Fields whose arrays the kernel builds."""
        return forms_of(self._fields, self.ids)


@dataclass(slots=True)  # not frozen, because that would triple the time to create it
class OpenLeaf:
    """Leaf field with its open column. A row of the table is `multiplier` rows of the column."""

    leaf: LeafColumn
    column: OpenColumn | FieldColumn

    def listed(self, *, is_usable: bool) -> tuple[RowTable | None, int, int]:
        """Return the page table, its encoded bytes and its memory, as `LeafTables` takes them."""
        column = self.column
        if isinstance(column, OpenColumn):
            kernel = column.kernel
            return kernel if is_usable else None, kernel.buffer_bytes, kernel.num_bytes
        table = column.row_table() if is_usable else None
        return table, column.encoded_bytes, column.column.num_bytes

    def rows(self, rows: Int64s) -> Int64s:
        """Convert row numbers of the table to row numbers of the column."""
        if (dimension := self.leaf.multiplier) == 1:
            return rows
        return (rows[:, None] * dimension + np.arange(dimension)).reshape(-1)

    def read(self, start: int, stop: int, states: States) -> Plan[Found]:
        """Plan the rows of the table from `start` to `stop`."""
        times = self.leaf.multiplier
        reading: Plan[Found] = self.column.read(start * times, stop * times, states)
        return from_content(reading, self.column.container)

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Plan the page states that a range of rows needs, in at most one round."""
        times = self.leaf.multiplier
        loading = self.column.load(start * times, stop * times, states)
        return from_content(loading, self.column.container)


class Parts(NamedTuple):
    """Rows of a leaf in several consecutive parts, each decoded in its own way."""

    parts: Sequence[Found]
