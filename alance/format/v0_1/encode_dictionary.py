"""The values of dictionary fields that are written: one list for all batches and files of a field.

Where the table has values already, they are all that there are: files before know no others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.v0_1.arrays import Items
from alance.format.v0_1.dictionary import is_text, items_of, stored, value_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from alance.format.field import Field

VALUES: Final = "values"  # in `Field.derived`: of a field that is being written


class Values:
    """The values of one field, in the order of their keys."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._arrow = field.arrow_type
        self._last: tuple[pa.Array, npt.NDArray[np.int64]] | None = None
        known: list[object] = []
        self._is_open = not field.message.dictionary.length
        if not self._is_open:
            items = items_of(field)
            if items is None:
                raise InvalidInputError(
                    f"field {field.name!r}: the table does not have the values of its dictionary"
                )
            known = _listed(field, items)
        self._places = {value: place for place, value in reversed(list(enumerate(known)))}
        self._values = known

    def keys(
        self, array: pa.DictionaryArray, valid: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[Any]:
        """The keys of rows; 0 for nulls.

        Raises:
            InvalidInputError: values that the table does not have, or more than keys can say.
        """
        indices = array.indices.cast(pa.int64())
        places = np.from_dlpack(indices.fill_null(0) if valid is not None else indices)
        table = self._table(array.dictionary)
        if len(places) and int(places.max()) >= len(table):
            if valid is None or len(table):
                raise InvalidInputError(f"field {self._field.name!r}: index {places.max()}")
            table = np.zeros(1, np.int64)
        found = table[places]
        if valid is not None:
            found = np.where(valid, found, 0)
        index = self._arrow.index_type
        kind = "i" if pa.types.is_signed_integer(index) else "u"
        keys: npt.NDArray[Any] = found.astype(f"<{kind}{index.bit_width // 8}")
        return keys

    def _table(self, dictionary: pa.Array) -> npt.NDArray[np.int64]:
        """The place of each value of an array's dictionary."""
        if self._last is not None and self._last[0].equals(dictionary):
            return self._last[1]
        values = dictionary.to_pylist()
        for value in values:
            if value in self._places:
                continue
            if not self._is_open:
                raise InvalidInputError(
                    f"field {self._field.name!r}: {value!r} is not in the dictionary of the "
                    f"table, which has {len(self._values)} values; files of 0.1 share one"
                )
            self._places[value] = len(self._values)
            self._values.append(value)
        most = 1 << (self._arrow.index_type.bit_width - 1)
        if pa.types.is_unsigned_integer(self._arrow.index_type):
            most *= 2
        if len(self._values) > most:
            raise InvalidInputError(
                f"field {self._field.name!r}: {len(self._values)} distinct values, "
                f"{self._arrow.index_type} says {most}"
            )
        found = np.array([self._places[value] for value in values], np.int64)
        self._last = dictionary, found
        return found

    def keep(self) -> None:
        """Put the values so far into the field's message, for manifests and the file's end."""
        message = self._field.message.dictionary
        message.length = len(self._values)
        message.values = stored(self._field, self._items())

    def _items(self) -> Items:
        if not is_text(self._field):
            data = np.array(self._values, value_dtype(self._field)).view(np.uint8)
            return Items(FixedWidth(8 * value_dtype(self._field).itemsize, len(data), data), None)
        texts = [_bytes(value) for value in self._values]
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        return Items(VariableWidth(offsets, np.frombuffer(b"".join(texts), np.uint8)), None)


def _bytes(value: object) -> bytes:
    if value is None:
        return b""
    assert isinstance(value, str | bytes)
    return value.encode() if isinstance(value, str) else value


def _listed(field: Field, items: Items) -> list[object]:
    """Values as Python has them."""
    block = items.block
    if isinstance(block, FixedWidth):
        return list(block.data.view(value_dtype(field)).tolist())
    assert isinstance(block, VariableWidth)
    content, offsets = block.data.tobytes(), block.offsets.tolist()
    texts = [content[start:stop] for start, stop in pairwise(offsets)]
    if field.logical_type.split(":")[1].endswith("binary"):
        return list(texts)
    return [text.decode() for text in texts]


def values_of(fields: Iterable[Field]) -> dict[int, Values]:
    """The values of dictionary fields; the same for all files that are written of one schema."""
    found = {}
    for field in fields:
        if field.logical_type.startswith("dict:"):
            if VALUES not in field.derived:
                field.derived[VALUES] = Values(field)
            found[field.id] = field.derived[VALUES]
    return found
