"""Text field to index: a column, or a field of structs, which may be in lists.

A path omits list items, as in pylance. For example, `l.t` is the field `t` of the structs in the
lists of `l`, although the schema has a list item field between `l` and `t`. All texts of a row form
one document, unless the documents of the index are list elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import ColumnNotFoundError, InvalidInputError, UnsupportedError
from alance.format.field import field_paths
from alance.format.numbers import as_numbers, is_text, is_variable_list, offsets_of
from alance.format.paths import join_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.base.arrays import Int64s
    from alance.format.field import Field
    from alance.format.schema import Schema

TEXT_LIST_TYPES: Final = ("list", "large_list", "list.struct", "large_list.struct")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text field, or a field of lists of texts.

    Attributes:
        stored: names on the way from the column to the field, including list items.
        leaf: the field.
        is_in_lists: True if the field is in structs in lists.
    """

    stored: tuple[str, ...]
    leaf: Field
    is_in_lists: bool

    @classmethod
    def of(cls, schema: Schema, column: str) -> TextSource:
        """Find the field of a path.

        Raises:
            ColumnNotFoundError: there is no such field.
        """
        names = schema.names_of(column)
        field = schema.field(join_path(names[:1]))
        stored = [field.name]
        for depth, name in enumerate(names[1:], 1):
            inside, items = _inside(field)
            stored += [*items, name]
            children = inside.children if inside.logical_type == "struct" else ()
            members = {child.name: child for child in children}
            if name not in members:
                where = join_path(names[:depth])
                raise ColumnNotFoundError(
                    f"column {column!r}: no field {name!r} in {where!r}", column
                )
            field = members[name]
        type_ = field.arrow_type
        if not is_text(type_.value_type if is_variable_list(type_) else type_):
            raise InvalidInputError(f"column {column!r} of type {type_}: expected texts")
        return cls(tuple(stored), field, len(stored) > len(names))

    @property
    def path(self) -> str:
        """Path of the field in the schema, with the names of list items."""
        return join_path(self.stored)

    @property
    def has_lists(self) -> bool:
        """True if the values of the field are lists of texts."""
        return is_variable_list(self.leaf.arrow_type)

    def check_elements(self, column: str) -> None:
        """Check that the elements of the field's lists can be documents."""
        if self.is_in_lists:
            raise UnsupportedError(
                f"column {column!r} is in structs in lists: their elements are no documents here, "
                "expected document_granularity='row'"
            )
        if not self.has_lists:
            type_ = self.leaf.arrow_type
            raise InvalidInputError(f"column {column!r} of type {type_}: no lists, no list_element")

    def texts(self, values: pa.Array) -> pa.Array:
        """Return the text, or the list of texts, of each row of a projected column. CPU work."""
        starts: Int64s | None = None  # first text of each row
        for name in self.stored[1:]:
            if is_variable_list(values.type):
                starts, values = _joined(starts, values)
            else:
                values = values.flatten()[values.type.get_field_index(name)]
        if starts is None:
            return values
        if is_variable_list(values.type):
            starts, values = _joined(starts, values)
        return pa.LargeListArray.from_arrays(pa.array(starts), values)


def text_paths(fields: Iterable[Field]) -> dict[int, tuple[str, ...]]:
    """Return the path of each field and of its descendants, by id; paths omit list items."""

    def members(field: Field) -> Iterable[Field]:
        inside, _ = _inside(field)
        return inside.children if inside.logical_type == "struct" else ()

    return {field.id: path for path, field in field_paths(fields, members)}


def _inside(field: Field) -> tuple[Field, list[str]]:
    """Return the innermost field of nested lists, and the names of the list items above it."""
    items = []
    while field.logical_type in TEXT_LIST_TYPES:
        (field,) = field.children
        items.append(field.name)
    return field, items


def _joined(starts: Int64s | None, lists: pa.Array) -> tuple[Int64s, pa.Array]:
    """Return the start and end offsets of the rows' items, and the concatenated items.

    A null list has no items.

    Args:
        starts: start and end offsets of the rows' lists; None if each row is a list.
    """
    ends = offsets_of(as_numbers(lists.value_lengths().fill_null(0)).astype(np.int64))
    return ends if starts is None else ends[starts], lists.flatten()
