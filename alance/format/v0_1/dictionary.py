"""Values of dictionary fields: a block in each data file, and in each manifest file.

A field's message has the position of the values in the same file, and their number
(`Field.dictionary`). The values are stored as a page of a nullable field, in which an empty string
is null.

All batches and files of a field share one list of values. If the table already has values, no new
ones can be added, because the dictionaries of existing files would lack them.

Source: docs/format/file-0.1.md, "Dictionary".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.errors import CorruptFileError, InvalidInputError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.encode.leaves import block_of
from alance.format.layouts.fields import variable_array
from alance.format.layouts.place import PagePlace
from alance.format.numbers import as_numbers, as_scalar, is_variable, numpy_type
from alance.format.plans import ByteRange, run
from alance.format.v2_0.fixed import plain_array, row_bits
from alance.format.v2_0.strings import decode_ends

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from alance.base.arrays import Int64s, Mask
    from alance.format.field import Field
    from alance.format.plans import Plan

# Key in `Field.derived`: the `KeptValues` of a field being written.
DERIVED_VALUES: Final = "values"
DERIVED_ITEMS: Final = "items"  # key in `Field.derived`: the parsed values of the dictionary


def is_text(field: Field) -> bool:
    """True if the values of a dictionary field are strings or bytes."""
    return is_variable(field.arrow_type.value_type)


def read_items(
    field: Field, path: str, file_bytes: int, start: int | None = None
) -> Plan[pa.Array]:
    """Plan the values of a dictionary: one round, or two for strings. Empty strings are null.

    Args:
        start: position of the page; None for the position in the field's message.
    """
    arrow = field.arrow_type.value_type
    count, text = field.message.dictionary.length, is_variable(arrow)
    if start is None:
        start = field.message.dictionary.offset
    bits = 64 if text else row_bits(arrow) or 0
    stop = start + ((count + text) * bits + 7) // 8
    if start < 0 or count < 0 or stop > file_bytes:
        raise CorruptFileError(
            f"dictionary of field {field.name!r}: {count} values at {start} of {path}, which has "
            f"{file_bytes} bytes"
        )
    (content,) = yield [ByteRange(path, start, stop)]
    data = np.frombuffer(content, np.uint8)
    if not text:
        return plain_array(arrow, count, data.copy())
    place = PagePlace(path, ((start, stop - start),), count)
    with place.checking():
        ends = decode_ends(data, np.array([count], np.int64), file_bytes)
    start, stop = int(ends.spans.starts[0]), int(ends.spans.stops[0])
    data = data[:0]
    if stop > start:
        (content,) = yield [ByteRange(path, start, stop)]
        data = np.frombuffer(content, np.uint8).copy()
    valid = ends.offsets[1:] > ends.offsets[:-1]
    with place.checking():
        return variable_array(arrow, ends.offsets, data, None if valid.all() else valid)


def items_of(field: Field) -> pa.Array | None:
    """Return the dictionary values in the field message of a manifest; None if it has none."""
    items: pa.Array | None = field.derived.get(DERIVED_ITEMS)
    if items is None and field.message.dictionary.values:
        content = bytes(field.message.dictionary.values)
        page_bytes = 8 * (field.message.dictionary.length + 1)
        start = len(content) - page_bytes if is_text(field) else 0
        plan = read_items(field, "memory", len(content), start)
        items = field.derived[DERIVED_ITEMS] = run(plan, content)[0]
    return items


class KeptValues:
    """Dictionary values of a field being written, in the order of their keys."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._arrow = field.arrow_type
        self._last: tuple[pa.Array, Int64s] | None = None
        self._values = pa.nulls(0, self._arrow.value_type)
        self._is_open = not field.message.dictionary.length
        if not self._is_open:
            items = items_of(field)
            if items is None:
                raise InvalidInputError(
                    f"field {field.name!r}: the table does not have the values of its dictionary"
                )
            self._values = items
            if items.null_count:
                self._values = pc.fill_null(items, as_scalar(b"", items.type))

    def keys(self, array: pa.DictionaryArray, valid: Mask | None) -> npt.NDArray[Any]:
        """Return the key of each row; 0 for nulls."""
        indices = array.indices.cast(pa.int64())
        places = np.from_dlpack(indices.fill_null(0) if valid is not None else indices)
        table = self._table(array.dictionary)
        if len(places) and int(places.max()) >= len(table):
            if valid is None or len(table):
                raise InvalidInputError(f"field {self._field.name!r}: index {places.max()}")
            table = np.zeros(1, np.int64)
        numbers = table[places]
        if valid is not None:
            numbers = np.where(valid, numbers, 0)
        keys: npt.NDArray[Any] = numbers.astype(numpy_type(self._arrow.index_type))
        return keys

    def _table(self, dictionary: pa.Array) -> Int64s:
        """Return the key of each value in an array's dictionary; add new values."""
        if self._last is not None and self._last[0].equals(dictionary):
            return self._last[1]
        if self._is_open:
            self._values = pc.unique(pa.concat_arrays([self._values, dictionary]))
        places = pc.index_in(dictionary, value_set=self._values)
        if places.null_count:
            value = pc.filter(dictionary, pc.is_null(places))[0].as_py()
            raise InvalidInputError(
                f"field {self._field.name!r}: {value!r} is not in the dictionary of the "
                f"table, which has {len(self._values)} values; files of 0.1 share one"
            )
        most = int(np.iinfo(numpy_type(self._arrow.index_type)).max) + 1
        if len(self._values) > most:
            raise InvalidInputError(
                f"field {self._field.name!r}: {len(self._values)} distinct values, "
                f"{self._arrow.index_type} says {most}"
            )
        table = as_numbers(places).astype(np.int64)
        self._last = dictionary, table
        return table

    def keep(self) -> None:
        """Store the values in the field's message, for manifests and for the end of the file."""
        message = self._field.message.dictionary
        message.length = len(self._values)
        block = block_of(self._values, None, self._field.name)
        if isinstance(block, VariableWidth):
            # The bytes of strings, then the page. Offsets are relative to the first of these bytes.
            message.values = bytes(block.data) + block.offsets.astype("<i8").tobytes()
        else:
            assert isinstance(block, FixedWidth)
            message.values = block.data.tobytes()


def values_of(fields: Iterable[Field]) -> dict[int, KeptValues]:
    """Return the values of dictionary fields by field id; all files of a schema share them."""
    retained = {}
    for field in fields:
        if field.logical_type.startswith("dict:"):
            if DERIVED_VALUES not in field.derived:
                field.derived[DERIVED_VALUES] = KeptValues(field)
            retained[field.id] = field.derived[DERIVED_VALUES]
    return retained
