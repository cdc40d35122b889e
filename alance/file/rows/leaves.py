"""Leaves of open fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.file.batches import leaf_bytes
from alance.file.rows.field_forms import forms_of
from alance.format.layouts.fields import leaf_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.rows.field_forms import FieldForms
    from alance.format.layouts.fields import LeafColumn
    from alance.format.schema import Schema

FEW_FIELDS: Final = 16  # maximum fields that are described when their files are opened


class LeafSet:
    """Leaves that fragments have; one object for all fragments of a schema with the same leaves.

    Attributes:
        ids: field id of each leaf.
        times: number of rows of each leaf's column per row of the table.
        places: place of each leaf by its field id.
        packed: ids of fixed-size lists of structs, which own a column only in files of 2.0.
    """

    def __init__(self, schema: Schema, columns: Sequence[LeafColumn]) -> None:
        self._fields = schema.fields
        self._forms: FieldForms | None = None
        self._row_bytes: list[float] | None = None
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

    def part(self, schema: Schema, places: Sequence[int]) -> LeafSet:
        """Return the leaves at these places; the object itself for all places."""
        if len(places) == len(self.ids):
            return self
        return LeafSet.of_columns(schema, [*map(self.columns.__getitem__, places)])

    @classmethod
    def described(cls, schema: Schema) -> LeafSet:
        """Return all leaves of a schema, with their `forms` and `row_bytes`; 10 to 30 us a leaf."""
        own = cls.of_schema(schema)
        assert own.forms is not None
        assert own.row_bytes is not None
        return own

    # No `cached_property`: before Python 3.12, threads that compute one wait for each other.
    @property
    def row_bytes(self) -> list[float]:
        """Bytes of a row of each fixed-width leaf; 0 for other leaves."""
        if self._row_bytes is None:
            self._row_bytes = [*map(leaf_bytes, self.columns)]
        return self._row_bytes

    @property
    def forms(self) -> FieldForms:
        """Fields whose arrays the kernel builds."""
        if self._forms is None:
            self._forms = forms_of(self._fields, self.ids)
        return self._forms
