"""Leaves of open fragments, and a leaf's rows in several parts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from alance.base.records import dataclass
from alance.file.batches import leaf_bytes
from alance.file.open.files import from_content
from alance.file.rows.field_forms import FieldForms, forms_of
from alance.file.rows.kernel_arrays import has_values
from alance.format.layouts.fields import leaf_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance._kernels import RowTable
    from alance.base.arrays import Int64s
    from alance.file.older.v2_0 import FieldColumn, FieldRows
    from alance.file.rows.fragment import Found
    from alance.format.container import Container
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan
    from alance.format.schema import Schema


class LeafSet:
    """Leaves that fragments have; one object for all fragments of a schema with the same leaves.

    Attributes:
        ids: field id of each leaf.
        times: number of rows of each leaf's column per row of the table.
        places: place of each leaf by its field id.
        is_described: True if the forms of the schema's fields have been found.
        packed: ids of fixed-size lists of structs, which own a column only in files of 2.0.
    """

    def __init__(self, schema: Schema, columns: Sequence[LeafColumn]) -> None:
        self._fields = schema.fields
        self.is_described = False
        self.columns = columns
        self.ids = tuple([column.field.id for column in columns])
        self.times = [column.multiplier for column in columns]
        self.places = {field_id: place for place, field_id in enumerate(self.ids)}
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
    """Field of a file of 2.0 or 0.1 with its open columns."""

    leaf: LeafColumn
    column: FieldColumn

    @property
    def container(self) -> Container:
        """File of the field's first column."""
        return self.column.container

    @property
    def num_rows(self) -> int:
        return self.column.num_rows

    def listed(self) -> tuple[RowTable | None, int, int]:
        """Return the page table, its encoded bytes and its memory, as `LeafTables` takes them.

        The table is None if the kernel cannot take rows from the pages.
        """
        table = self.column.row_table() if has_values(self.leaf.field) else None
        return table, self.column.encoded_bytes, self.column.column.num_bytes

    def read(self, start: int, stop: int) -> Plan[FieldRows]:
        """Plan the rows from `start` to `stop`."""
        return from_content(self.column.read(start, stop), self.column.container)

    def take(self, rows: Int64s) -> Plan[FieldRows]:
        """Plan single rows."""
        return from_content(self.column.take(rows), self.column.container)


class Parts(NamedTuple):
    """Rows of a leaf in several consecutive parts, each decoded in its own way."""

    parts: Sequence[Found]
