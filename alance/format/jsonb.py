"""JSONB, the stored form of JSON columns: to JSON text, and from it.

    container    u32 header: kind in the top three bits, count in the rest
                 u32 descriptors: type in bits 28 to 30, bytes of the payload below
                 payloads, in the order of the descriptors

Big-endian throughout. An object has its keys, sorted by bytes, before its values.

Source: docs/format/file.md, "JSONB".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance import _kernels
from alance.errors import InvalidInputError, UnsupportedError, kernel_errors
from alance.format.blocks import VariableWidth
from alance.format.numbers import contents_of, mask_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.arrays import Mask


def json_text(values: VariableWidth, valid: Mask | None) -> VariableWidth:
    """Compact JSON text of each value; empty for nulls.

    Args:
        values: one JSONB container each.
        valid: shape (n,); None: all are valid.

    Raises:
        CorruptFileError: bytes that contradict the format.
        UnsupportedError: values that JSON text has not, or more than 2 GiB of text.
    """
    try:
        with kernel_errors:
            return VariableWidth(
                *_kernels.jsonb_to_text(values.offsets, values.data, mask_bytes(valid))
            )
    except TypeError as error:
        raise UnsupportedError(str(error)) from error


def jsonb(texts: pa.Array, valid: Mask | None, where: str) -> VariableWidth:
    """JSONB of each text; empty for nulls.

    Args:
        texts: JSON, large strings.
        valid: shape (n,); None: none is null.
        where: the field's name, for messages.

    Raises:
        InvalidInputError: text that is no JSON, or a value of more than 256 MiB.
    """
    try:
        return VariableWidth(*_kernels.text_to_jsonb(*contents_of(texts), mask_bytes(valid)))
    except ValueError as error:
        raise InvalidInputError(f"field {where!r}: {error}") from None
