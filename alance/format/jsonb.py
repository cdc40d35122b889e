"""JSONB, the stored form of JSON columns: conversion to and from JSON text.

  container    u32 header: kind in the top three bits, count in the rest
               u32 descriptors: type in bits 28 to 30, size of the payload in the lower bits
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

    from alance.base.arrays import Mask


def json_text(values: VariableWidth, valid: Mask | None) -> VariableWidth:
    """Convert JSONB values to compact JSON text; nulls become empty."""
    try:
        with kernel_errors:
            return VariableWidth(
                *_kernels.jsonb_to_text(values.offsets, values.data, mask_bytes(valid))
            )
    except TypeError as error:
        raise UnsupportedError(str(error)) from error


def jsonb(texts: pa.Array, valid: Mask | None, where: str) -> VariableWidth:
    """Convert JSON texts to JSONB; nulls become empty."""
    try:
        return VariableWidth(*_kernels.text_to_jsonb(*contents_of(texts), mask_bytes(valid)))
    except ValueError as error:
        raise InvalidInputError(f"field {where!r}: {error}") from None
