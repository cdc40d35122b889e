"""Mapping of a schema's fields to 2.0 columns, and of their rows to pages.

Source: file format 2.0, "From schema to columns", "Rules for our 2.0 writer".
"""

from __future__ import annotations

from dataclasses import field as attribute
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import VariableWidth
from alance.format.encode.arrays import children_of, leaf_values, need
from alance.format.encode.base import EncodedPage
from alance.format.encode.container import FileBuilder, column_encoding, padded
from alance.format.encode.leaves import check_offsets
from alance.format.layouts.fields import owns_column
from alance.format.numbers import is_variable_list, lists_of, storage_of, validity_of
from alance.format.proto import encodings_v2_0_pb2 as pb
from alance.format.v2_0.arrays import ARRAY_ENCODING
from alance.format.v2_0.encode import Buffers, ends_of, leaf_page, no_nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Bytes, Mask
    from alance.format.field import Field
    from alance.format.schema import Schema

STRUCT_HEADER: Final = pb.ArrayEncoding(struct=pb.SimpleStruct())
V2_0_NESTED = ("struct", "list", "list.struct", "large_list", "large_list.struct")


@dataclass(frozen=True, slots=True)
class Blobs:
    """Rows of a blob column whose payloads have no position in the file yet."""

    payloads: VariableWidth
    valid: Mask | None


@dataclass(frozen=True, slots=True)
class HeaderRows:
    """Rows of a struct; all rows of its column become a single page."""

    num_rows: int


# Number of a column, with its next page or rows.
Output: TypeAlias = "tuple[int, EncodedPage | Blobs | HeaderRows]"


@dataclass(frozen=True, slots=True)
class Unit:
    """Leaf or list that is not in a list; its rows are buffered and encoded together."""

    field: Field
    path: tuple[int, ...]  # position of the top-level field, then of the child in each struct


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a file.

    Attributes:
        by_field: column number of each field, by field id, in column order.
        units: leaves and lists that are not in lists.
        headers: columns of structs that are not in lists; they have one row per row of the file.
    """

    by_field: dict[int, int] = attribute(default_factory=dict)
    units: list[Unit] = attribute(default_factory=list)
    headers: list[int] = attribute(default_factory=list)
    blobs: set[int] = attribute(default_factory=set)

    @classmethod
    def of(cls, fields: Sequence[Field]) -> Columns:
        """Number the columns of a schema, depth-first."""
        columns = cls()
        for place, field in enumerate(fields):
            columns._visit(field, (place,), in_list=False)
        return columns

    def _visit(self, field: Field, path: tuple[int, ...], *, in_list: bool) -> None:
        is_held = owns_column(field) or field.logical_type in V2_0_NESTED
        if field.is_blob_v2 or not is_held:
            kind = "blobs of version 2" if field.is_blob_v2 else field.logical_type
            raise UnsupportedError(f"field {field.name!r}: {kind} in a file of version 2.0")
        number = self.by_field[field.id] = len(self.by_field)
        if field.is_blob_v1:
            self.blobs.add(number)
        if field.logical_type == "struct" and not field.is_packed:
            if not field.children and not in_list:
                # The column has to be written, because no child has the number of rows.
                self.units.append(Unit(field, path))
            elif not in_list:
                self.headers.append(number)
            for place, child in enumerate(field.children):
                self._visit(child, (*path, place), in_list=in_list)
            return
        if not in_list:
            self.units.append(Unit(field, path))
        if not owns_column(field):
            self._visit(field.children[0], path, in_list=True)


def part_of(unit: Unit, schema: Sequence[Field], array: pa.Array) -> pa.Array:
    """Return the rows of a unit from the rows of its top-level field."""
    field = schema[unit.path[0]]
    for place in unit.path[1:]:
        array = children_of(field, as_struct(field, array))[place]
        field = field.children[place]
    return array


def as_struct(field: Field, array: pa.Array) -> pa.Array:
    """Return the rows of a struct with a header, in the storage type. None may be null in 2.0."""
    array = storage_of(array)
    need(field, array, pa.types.is_struct(array.type))
    if array.null_count:
        raise InvalidInputError(
            f"field {field.name!r}: null structs cannot be stored in a file of version 2.0"
        )
    return array


def field_pages(field: Field, array: pa.Array, columns: Columns) -> Iterator[Output]:
    """Encode rows of a field and its descendants as pages."""
    number = columns.by_field[field.id]
    if field.is_blob_v1:
        leaf = leaf_values(field, array)[field.id]
        valid = None if leaf.definition is None else leaf.definition == 0
        assert isinstance(leaf.values, VariableWidth)
        yield number, Blobs(leaf.values, valid)
    elif field.logical_type == "struct" and not field.is_packed:
        array = as_struct(field, array)
        yield number, HeaderRows(len(array))
        for child, part in zip(field.children, children_of(field, array), strict=True):
            yield from field_pages(child, part, columns)
    elif owns_column(field):
        yield number, leaf_page(field, array)
    else:
        page, items = _lists(field, storage_of(array))
        yield number, page
        yield from field_pages(field.children[0], items, columns)


def _lists(field: Field, array: pa.Array) -> tuple[EncodedPage, pa.Array]:
    """Return the page of a list's offsets, and its items. Items of null lists are included."""
    need(field, array, is_variable_list(array.type))
    valid = validity_of(array)
    if valid is not None and not field.nullable:
        raise InvalidInputError(f"field {field.name!r}: nulls, and the field is not nullable")
    offsets, items = lists_of(array)
    check_offsets(offsets, len(items), field.name)
    buffers = Buffers()
    entries, adjustment = ends_of(offsets, valid)
    encoding = pb.ArrayEncoding(
        list=pb.List(
            offsets=no_nulls(buffers.flat(64, entries)),
            null_offset_adjustment=adjustment,
            num_items=len(items),
        )
    )
    return EncodedPage.of(encoding, tuple(buffers.all), len(array)), items


class ArrayFileBuilder(FileBuilder):
    """Builder of a 2.0 file: a `FileBuilder` with array-encoded pages."""

    def __init__(self, schema: Schema, columns: Columns) -> None:
        numbers = range(len(columns.by_field))
        encodings = [column_encoding(is_blob=number in columns.blobs) for number in numbers]
        super().__init__(schema, FileVersion.V2_0, search_bytes=0, encodings=encodings)
        self._headers = set(columns.headers)
        self._tops = {columns.by_field[field.id] for field in schema.fields}

    @property
    def num_rows(self) -> int:
        """Number of rows of the longest top-level column so far."""
        return max((self._lengths[number] for number in self._tops), default=0)

    def add_array_page(self, column: int, page: EncodedPage) -> list[Bytes]:
        """Return the bytes of a column's next page: its buffers with padding."""
        self._container.add_page(
            column, ARRAY_ENCODING, page.description, page.buffers, (), page.num_rows, priority=0
        )
        self._lengths[column] += page.num_rows
        return [chunk for buffer in page.buffers for chunk in padded(buffer)]

    def add_header_rows(self, column: int, num_rows: int) -> None:
        """Count rows of a struct; its page is written at the end."""
        self._headers.add(column)
        self._lengths[column] += num_rows

    def finish(self) -> list[Bytes]:
        """Return the bytes at the end of the file."""
        num_rows = self.num_rows
        for number in self._tops:
            if self._lengths[number] != num_rows:
                raise InvalidInputError(
                    f"column {number} has {self._lengths[number]} rows, expected {num_rows}"
                )
        for number in sorted(self._headers):
            length, self._lengths[number] = self._lengths[number], 0
            self.add_array_page(number, EncodedPage.of(STRUCT_HEADER, (), length))
        return self._end(num_rows)
