"""The columns of a fragment whose neighbouring rows the kernel takes, all in one call."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.columns import OpenColumn
from alance.format.numbers import is_large, is_text, is_variable, storage_type
from alance.format.plans import ByteRange
from alance.format.types import is_nested, leaf_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.arrays import Int64s
    from alance.file.leaves import OpenLeaf
    from alance.format.container import Container
    from alance.format.field import Field

NO_FORM: Final = -1  # no width of values
MOST_LIST_BYTES: Final = 255  # of longer lists pages are full-zip, which are views, not copied


class RangedColumns(NamedTuple):
    """The leaves of a fragment whose pages the kernel may take ranges of rows from.

    Attributes:
        numbers: of the leaves, ascending.
        widths: bytes of a value, 0: a bit, -4 or -8: strings by the bytes of their offsets.
        texts: whether values are UTF-8.
        files: of each, the number of its path; shape (n,).
        containers: by their paths.
    """

    numbers: Sequence[int]
    leaves: Sequence[OpenLeaf]
    tables: Sequence[_kernels.RowTable]
    widths: Sequence[int]
    texts: Sequence[bool]
    paths: Sequence[str]
    files: Int64s
    containers: Mapping[str, Container]
    schema: pa.Schema
    stored: pa.Schema  # as the kernel gives them: lists are bytes

    @classmethod
    def of(
        cls, leaves: Sequence[OpenLeaf], tables: Sequence[_kernels.RowTable | None]
    ) -> RangedColumns:
        """Those of all leaves that have tables, and values of a plain type."""
        numbers, widths, texts = [], [], []
        for number, (leaf, table) in enumerate(zip(leaves, tables, strict=True)):
            width, are_text = NO_FORM, False
            if table is not None and leaf.is_top and isinstance(leaf.column, OpenColumn):
                width, are_text = range_form(leaf.leaf.field)
            if width != NO_FORM:
                numbers.append(number)
                widths.append(width)
                texts.append(are_text)
        leaves = [*map(leaves.__getitem__, numbers)]
        paths = [leaf.column.container.path for leaf in leaves]
        containers = {leaf.column.container.path: leaf.column.container for leaf in leaves}
        places = {path: place for place, path in enumerate(containers)}
        fields = [leaf.leaf.field.to_arrow() for leaf in leaves]
        schema = pa.schema(fields)
        return cls(
            numbers,
            leaves,
            [table for number in numbers if (table := tables[number]) is not None],
            widths,
            texts,
            [*containers],
            np.array([*map(places.__getitem__, paths)], np.int64),
            containers,
            schema,
            stored_schema(schema, widths),
        )

    def plan(self, spans: Sequence[tuple[int, int]]) -> _kernels.RangePlan:
        """Where ranges of rows are, as far as the tables know.

        Args:
            spans: ascending, none of them empty.

        Raises:
            CorruptFileError: pages that contradict each other.
        """
        try:
            return _kernels.RangePlan(self.tables, self.widths, self.texts, spans)
        except ValueError as error:
            raise CorruptFileError(f"{', '.join(self.paths)}: {error}") from error

    def ranges(self, plan: _kernels.RangePlan) -> list[ByteRange]:
        """The bytes of each page of a plan."""
        columns, starts, stops = (numbers.tolist() for numbers in plan.ranges)
        files = self.files.tolist()
        paths = [self.paths[files[column]] for column in columns]
        return list(map(ByteRange, paths, starts, stops))


def _lists(array: pa.FixedSizeBinaryArray, arrow: pa.FixedSizeListType) -> pa.Array:
    """Bytes as lists of the items that they are, in the same memory."""
    valid, content = array.buffers()
    count = len(array)
    items = pa.Array.from_buffers(arrow.value_type, count * arrow.list_size, [None, content])
    return pa.Array.from_buffers(arrow, count, [valid], array.null_count, children=[items])


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow))


def stored_schema(schema: pa.Schema, widths: Sequence[int]) -> pa.Schema:
    """A schema as the kernel gives it: lists are bytes. The same object where there are none."""
    are_lists = [*map(pa.types.is_fixed_size_list, schema.types)]
    if not any(are_lists):
        return schema
    return pa.schema(
        field.with_type(pa.binary(width)) if is_list else field
        for field, width, is_list in zip(schema, widths, are_lists, strict=True)
    )


def imported(address: int, schema: pa.Schema, stored: pa.Schema) -> pa.RecordBatch:
    """The columns of a struct array of the kernel, which is given away.

    Args:
        stored: the `stored_schema` of the schema.
    """
    batch = pa.RecordBatch._import_from_c(address, stored)
    if stored is schema:
        return batch
    arrays = [
        _lists(array, field.type) if pa.types.is_fixed_size_list(field.type) else array
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def range_form(field: Field) -> tuple[int, bool]:
    """How the values of a field that is its own leaf lie in an array of neighbouring rows: see
    `form_of`; short lists of numbers as well.
    """
    told = form_of(field)
    return (_list_width(field), False) if told[0] == NO_FORM else told


def _list_width(field: Field) -> int:
    """Bytes of a value that is a short list of numbers; `NO_FORM` of other fields."""
    arrow = field.to_arrow().type
    if not pa.types.is_fixed_size_list(arrow) or not _is_number(arrow.value_type):
        return NO_FORM
    width = int(arrow.list_size * arrow.value_type.bit_width // 8)
    return width if 0 < width <= MOST_LIST_BYTES else NO_FORM


def form_of(field: Field) -> tuple[int, bool]:
    """How the values of a leaf lie in an array: their width as in `RangedColumns`, or `NO_FORM`
    where kernels do not make such arrays, and whether they are UTF-8.
    """
    return _form_with_metadata(field) if field.metadata else _form_of_type(field.logical_type)


def _form_with_metadata(field: Field) -> tuple[int, bool]:
    if field.is_json or field.is_blob_v1:
        return NO_FORM, False
    return _form(storage_type(field.to_arrow().type))


@lru_cache(maxsize=256)
def _form_of_type(logical_type: str) -> tuple[int, bool]:
    """The form of fields that have nothing special about them: a table has few types."""
    if is_nested(logical_type) or logical_type == "json":
        return NO_FORM, False
    return _form(leaf_type(logical_type))


def _form(storage: pa.DataType) -> tuple[int, bool]:
    if is_variable(storage):
        return (-8 if is_large(storage) else -4), is_text(storage)
    if pa.types.is_nested(storage) or pa.types.is_dictionary(storage):
        return NO_FORM, False
    if pa.types.is_boolean(storage):
        return 0, False
    try:
        return int(storage.bit_width // 8), False
    except ValueError:
        return NO_FORM, False


_NOTHING: Final = pa.schema([])
NO_COLUMNS: Final = RangedColumns(
    (), (), (), (), (), (), np.empty(0, np.int64), {}, _NOTHING, _NOTHING
)
