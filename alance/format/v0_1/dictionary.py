"""The values of dictionary fields: one block a data file, and again in each manifest file.

`Field.dictionary` is their place in the file that holds the field's message, and their number.
They are stored as a page of a field that is nullable; an empty string is null.

Source: file format 0.1, "Dictionary".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import kernel_errors
from alance.format.layouts.arrays import is_variable
from alance.format.plans import ByteRange, run
from alance.format.v0_1.arrays import Items, row_bits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.field import Field
    from alance.format.plans import Plan

ITEMS: Final = "items"  # in `Field.derived`: the values of the dictionary


def read_items(field: Field, path: str, file_bytes: int) -> Plan[Items]:
    """Plan the values of a dictionary: one round, two for strings.

    Args:
        field: of a dictionary type, as the file itself has it.

    Raises:
        CorruptFileError: values outside of the file.
    """
    start, count = field.message.dictionary.offset, field.message.dictionary.length
    arrow = field.arrow_type.value_type
    is_text = is_variable(arrow)
    bits = 64 if is_text else row_bits(arrow) or 0
    stop = start + ((count + is_text) * bits + 7) // 8
    if start < 0 or count < 0 or stop > file_bytes:
        raise CorruptFileError(
            f"dictionary of field {field.name!r}: {count} values at {start} of {path}, which has "
            f"{file_bytes} bytes"
        )
    (content,) = yield [ByteRange(path, start, stop)]
    data = np.frombuffer(content, np.uint8)
    if not is_text:
        return Items(FixedWidth(bits, count, data.copy()), None)
    with kernel_errors:
        starts, stops, offsets, _ = _kernels.page_offsets_64(
            data, np.array([count], np.int64), False, 0, file_bytes
        )
    if stops[0] > starts[0]:
        (content,) = yield [ByteRange(path, int(starts[0]), int(stops[0]))]
        data = np.frombuffer(content, np.uint8).copy()
    valid = offsets[1:] > offsets[:-1]
    return Items(VariableWidth(offsets, data), None if valid.all() else valid)


def items_of(field: Field) -> Items | None:
    """The values that came with a field of a manifest; None where there were none."""
    found: Items | None = field.derived.get(ITEMS)
    return found


def attach_items(fields: Iterable[Field], content: memoryview, where: str) -> None:
    """Give the dictionary fields of a manifest the values that lie in its file.

    Raises:
        CorruptFileError: values outside of the file.
    """
    for field in fields:
        if field.message.dictionary.length and pa.types.is_dictionary(field.arrow_type):
            field.derived[ITEMS] = run(read_items(field, where, len(content)), bytes(content))[0]
