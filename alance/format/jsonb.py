"""JSONB, the stored form of JSON columns: conversion to and from JSON text.

  container    u32 header: kind in the top three bits, count in the rest
               u32 descriptors: type in bits 28 to 30, bytes of the payload below
               payloads, in the order of the descriptors

All numbers are big-endian. An object has its keys, sorted by bytes, before its values.

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
    """Convert values to compact JSON text; empty for nulls.

    Args:
        values: one JSONB container each.
        valid: shape (n,); None: all are valid.

    Raises:
        CorruptFileError: bytes that contradict the format.
        UnsupportedError: values that JSON text cannot express, or more than 2 GiB of text.
    """
    try:
        with kernel_errors:
            return VariableWidth(
                *_kernels.jsonb_to_text(values.offsets, values.data, mask_bytes(valid))
            )
    except TypeError as error:
        raise UnsupportedError(str(error)) from error


def jsonb(texts: pa.Array, valid: Mask | None, where: str) -> VariableWidth:
    """Convert JSON texts to JSONB; empty for nulls.

    Args:
        texts: JSON, large strings.
        valid: shape (n,); None: no nulls.
        where: name of the field, for messages.

    Raises:
        InvalidInputError: text that is not JSON, or a value of more than 256 MiB.
    """
    try:
        return VariableWidth(*_kernels.text_to_jsonb(*contents_of(texts), mask_bytes(valid)))
    except ValueError as error:
        raise InvalidInputError(f"field {where!r}: {error}") from None
