"""Where the texts of an index are: in a column, or in members of structs, also of those in lists.

A path names members only: `l.t` is the member `t` of the structs in the lists of `l`, whose texts
are one document a row; so does pylance name it. The schema has items of lists as fields between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import ColumnNotFoundError, InvalidInputError, UnsupportedError
from alance.format.numbers import as_numbers, is_text, offsets_of
from alance.format.paths import join_path
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alance.arrays import Int64s
    from alance.format.field import Field
    from alance.format.schema import Schema

LISTS: Final = ("list", "large_list", "list.struct", "large_list.struct")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A field of texts, or of lists of them.

    Attributes:
        stored: the names of the field and those around it, items of lists included.
        leaf: the field.
        is_in_lists: there are structs in lists around it.
    """

    stored: tuple[str, ...]
    leaf: Field
    is_in_lists: bool

    @classmethod
    def of(cls, schema: Schema, column: str) -> TextSource:
        """The field of a path.

        Raises:
            ColumnNotFoundError: no such field.
            InvalidInputError: it has no texts.
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
        if not is_text(type_.value_type if is_list(type_) else type_):
            raise InvalidInputError(f"column {column!r} of type {type_}: expected texts")
        return cls(tuple(stored), field, len(stored) > len(names))

    @property
    def path(self) -> str:
        """Of the field in the schema."""
        return join_path(self.stored)

    @property
    def has_lists(self) -> bool:
        """Whether the field itself is of lists of texts."""
        return is_list(self.leaf.arrow_type)

    def check_elements(self, column: str) -> None:
        """
        Raises:
            InvalidInputError: there are no lists, whose elements might be documents.
            UnsupportedError: elements are not told by one place.
        """
        if self.is_in_lists:
            raise UnsupportedError(
                f"column {column!r} is in structs in lists: their elements are no documents here, "
                "expected document_granularity='row'"
            )
        if not self.has_lists:
            type_ = self.leaf.arrow_type
            raise InvalidInputError(f"column {column!r} of type {type_}: no lists, no list_element")

    def texts(self, values: pa.Array) -> pa.Array:
        """Texts, or of each row a list of them. CPU.

        Args:
            values: of the column at the top, with this field alone.
        """
        starts: Int64s | None = None  # of the texts of each row
        for name in self.stored[1:]:
            if is_list(values.type):
                starts, values = _joined(starts, values)
            else:
                values = values.flatten()[values.type.get_field_index(name)]
        if starts is None:
            return values
        if is_list(values.type):
            starts, values = _joined(starts, values)
        return pa.LargeListArray.from_arrays(pa.array(starts), values)


def text_paths(
    fields: Iterable[Field], above: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The id and path of all fields that `TextSource.of` may find."""
    for field in fields:
        path = (*above, field.name)
        yield field.id, path
        inside, _ = _inside(field)
        if inside.logical_type == "struct":
            yield from text_paths(inside.children, path)


def is_list(type_: pa.DataType) -> bool:
    """Of any length, and no map."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _inside(field: Field) -> tuple[Field, list[str]]:
    """What lists around lists are of, and the names of the items on the way."""
    items = []
    while field.logical_type in LISTS:
        (field,) = field.children
        items.append(field.name)
    return field, items


def _joined(starts: Int64s | None, lists: pa.Array) -> tuple[Int64s, pa.Array]:
    """The items of lists, and where those of each row begin; of nulls there are none."""
    ends = offsets_of(as_numbers(lists.value_lengths().fill_null(0)).astype(np.int64))
    return ends if starts is None else ends[starts], lists.flatten()
