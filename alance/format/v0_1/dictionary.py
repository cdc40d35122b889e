"""The values of dictionary fields: one block a data file, and again in each manifest file.

`Field.dictionary` is their place in the file that holds the field's message, and their number.
They are stored as a page of a field that is nullable; an empty string is null.

Source: docs/format/file-0.1.md, "Dictionary".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError, kernel_errors
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.layouts.arrays import is_variable
from alance.format.plans import ByteRange, run
from alance.format.v0_1.arrays import Items, row_bits

if TYPE_CHECKING:
    from alance.format.field import Field
    from alance.format.plans import Plan

ITEMS: Final = "items"  # in `Field.derived`: the values of the dictionary


def is_text(field: Field) -> bool:
    """Whether the values of a dictionary field are strings or bytes."""
    return is_variable(field.arrow_type.value_type)


def value_dtype(field: Field) -> np.dtype[Any]:
    """The type of values that are integers."""
    arrow = field.arrow_type.value_type
    kind = "i" if pa.types.is_signed_integer(arrow) else "u"
    return np.dtype(f"<{kind}{arrow.bit_width // 8}")


def read_items(field: Field, path: str, file_bytes: int, start: int | None = None) -> Plan[Items]:
    """Plan the values of a dictionary: one round, two for strings.

    Args:
        field: of a dictionary type, as the file itself has it.
        start: where its page is; None: where its message says.

    Raises:
        CorruptFileError: values outside of the file.
    """
    count, text = field.message.dictionary.length, is_text(field)
    if start is None:
        start = field.message.dictionary.offset
    bits = 64 if text else row_bits(field.arrow_type.value_type) or 0
    stop = start + ((count + text) * bits + 7) // 8
    if start < 0 or count < 0 or stop > file_bytes:
        raise CorruptFileError(
            f"dictionary of field {field.name!r}: {count} values at {start} of {path}, which has "
            f"{file_bytes} bytes"
        )
    (content,) = yield [ByteRange(path, start, stop)]
    data = np.frombuffer(content, np.uint8)
    if not text:
        return Items(FixedWidth(bits, count, data.copy()), None)
    with kernel_errors:
        starts, stops, offsets, _ = _kernels.page_offsets_64(
            data, np.array([count], np.int64), False, 0, file_bytes
        )
    data = data[:0]
    if stops[0] > starts[0]:
        (content,) = yield [ByteRange(path, int(starts[0]), int(stops[0]))]
        data = np.frombuffer(content, np.uint8).copy()
    valid = offsets[1:] > offsets[:-1]
    return Items(VariableWidth(offsets, data), None if valid.all() else valid)


def stored(field: Field, items: Items) -> bytes:
    """Values as a file has them: the page, and before it the bytes of strings.

    Offsets of strings are counted from the first byte.
    """
    block = items.block
    if isinstance(block, VariableWidth):
        return bytes(block.data) + block.offsets.astype("<i8").tobytes()
    assert isinstance(block, FixedWidth)
    return block.data.tobytes()


def page_start(field: Field) -> int:
    """Where the page begins in what is `stored` of a field with values."""
    message = field.message.dictionary
    return len(message.values) - 8 * (message.length + 1) if is_text(field) else 0


def items_of(field: Field) -> Items | None:
    """The values that came with a field of a manifest; None where there were none.

    Raises:
        CorruptFileError: bytes that are no values.
    """
    found: Items | None = field.derived.get(ITEMS)
    if found is None and field.message.dictionary.values:
        content = bytes(field.message.dictionary.values)
        plan = read_items(field, "memory", len(content), page_start(field))
        found = field.derived[ITEMS] = run(plan, content)[0]
    return found
