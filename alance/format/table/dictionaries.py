"""Values of dictionary fields of 0.1 tables, stored at the start of the manifest's file.

  bytes of strings | i64 offsets into the file, one more than values      or plain integers
                     ^ `Field.dictionary.offset`

In memory, a field's message has the values, with offsets relative to the first byte of the first
value. So later versions keep the values, even if their fields are rebuilt.

Source: docs/format/file-0.1.md, "Dictionary" and "Datasets of the 0.1 era".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.types import leaf_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.proto import file_pb2

KEYED_TYPES: Final = ("string", "large_string", "binary", "large_binary")


def value_type(message: file_pb2.Field) -> str:
    """Return the logical type of a dictionary field's values."""
    return message.logical_type.removeprefix("dict:").rsplit(":", 2)[0]


def attach_values(fields: Iterable[file_pb2.Field], content: memoryview) -> None:
    """Copy dictionary values from the manifest's file into its fields' messages."""
    for message in fields:
        if message.dictionary.length and message.logical_type.startswith("dict:"):
            message.dictionary.values = _values(message, content)


def _values(message: file_pb2.Field, content: memoryview) -> bytes:
    kind, start = value_type(message), message.dictionary.offset
    is_keyed = kind in KEYED_TYPES
    if not is_keyed and not pa.types.is_integer(leaf_type(kind)):
        return b""  # no known release writes other types
    count = message.dictionary.length + is_keyed
    width = 8 if is_keyed else leaf_type(kind).bit_width // 8
    if start < 0 or count < 0 or start + count * width > len(content):
        raise CorruptFileError(
            f"dictionary of field {message.name!r}: {message.dictionary.length} values at {start} "
            f"of a manifest of {len(content)} bytes"
        )
    if not is_keyed:
        return bytes(content[start : start + count * width])
    offsets = np.frombuffer(content, "<i8", count, start)
    if offsets[0] < 0 or offsets[-1] > len(content) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFileError(f"dictionary of field {message.name!r}: offsets decrease")
    text = bytes(content[int(offsets[0]) : int(offsets[-1])])
    return text + bytes((offsets - offsets[0]).data)


def place_values(fields: Iterable[file_pb2.Field], start: int) -> list[bytes]:
    """Serialize the dictionaries of a file, and set the fields' offsets into the file.

    Args:
        fields: messages to write into the file; their `values` are removed.
    """
    parts = []
    for message in fields:
        dictionary = message.dictionary
        if not dictionary.values:
            continue
        content = bytes(dictionary.values)
        dictionary.ClearField("values")
        dictionary.offset = start
        if value_type(message) in KEYED_TYPES:
            count = dictionary.length + 1
            text = len(content) - 8 * count
            offsets = np.frombuffer(content, "<i8", count, text) + start
            content = content[:text] + offsets.tobytes()
            dictionary.offset = start + text
        parts.append(content)
        start += len(content)
    return parts
