"""Per-value encoding of values for full-zip pages; the values and hints determine the codec.

Other modules have the codecs for each kind of value; this one has packed structs.

Source: encodings_v2_1.proto, CompressiveEncoding, PackedStruct and VariablePackedStruct.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import FixedSizeListBlock, FixedWidth, StructBlock, VariableWidth
from alance.format.encode.options import FieldOptions
from alance.format.numbers import offsets_of
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import encodings
from tests.reference.pages.codes import encode_strings
from tests.reference.pages.lists import FixedLists

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int32s, Int64s
    from alance.format.blocks import Block

    Encoded = tuple[pb.CompressiveEncoding, FixedWidth | VariableWidth]
    from alance.format.encode.page_inputs import Hints


def has_fixed_rows(values: StructBlock) -> bool:
    """True if all children have a fixed width."""
    return all(isinstance(child, FixedWidth) for child in values.children)


def struct_rows(values: StructBlock) -> tuple[pb.CompressiveEncoding, FixedWidth]:
    """Zip fixed-width children into rows.

    Raises:
        UnsupportedError: there is no child, or a child has no fixed width or not whole bytes.
    """
    children: list[FixedWidth] = []
    for child in values.children:
        if not isinstance(child, FixedWidth) or child.bits_per_value % 8:
            raise UnsupportedError(f"packed struct of {_name(child)} in rows of fixed width")
        children.append(child)
    if not children:
        raise UnsupportedError("packed struct without children")
    bits = [child.bits_per_value for child in children]
    data = _kernels.zip_columns(
        [child.data for child in children], np.array(bits, np.int64), values.num_values
    )
    return encodings.packed_struct(bits), FixedWidth(sum(bits), values.num_values, data)


def variable_struct_rows(
    values: StructBlock, version: FileVersion, encode: Callable[[Block], Encoded]
) -> tuple[pb.CompressiveEncoding, VariableWidth]:
    """Zip children into rows, with an encoding for each child.

    Args:
        values: structs without nested structs.
        version: file version, 2.2 or later.
        encode: returns the per-value encoding of a child.

    Raises:
        UnsupportedError: the version is below 2.2, or such rows cannot hold a child.
    """
    if version < FileVersion.V2_2:
        raise UnsupportedError(
            f"packed struct with children of variable width in version {version.value}: "
            "expected 2.2 or later"
        )
    message = pb.VariablePackedStruct()
    columns, offsets, wire = [], [], []
    for child in values.children:
        if isinstance(child, StructBlock) or (
            isinstance(child, FixedWidth) and child.bits_per_value % 8
        ):
            raise UnsupportedError(f"packed struct of {_name(child)}")
        encoding, encoded = encode(child)
        columns.append(encoded.data)
        if isinstance(encoded, FixedWidth):
            message.fields.add(value=encoding, bits_per_value=encoded.bits_per_value)
            offsets.append(np.empty(0, np.int64))
            wire.append(encoded.bits_per_value // 8)
        else:
            assert isinstance(child, VariableWidth)
            length_bytes = child.offsets.itemsize
            message.fields.add(value=encoding, bits_per_length=8 * length_bytes)
            offsets.append(encoded.offsets.astype(np.int64))
            wire.append(-length_bytes)
    parts: list[bytes] = []
    for row in range(values.num_values):
        for column, ends_, width in zip(columns, offsets, wire, strict=True):
            start, stop = row * width, (row + 1) * width
            if width < 0:
                start, stop = int(ends_[row]), int(ends_[row + 1])
                parts.append((stop - start).to_bytes(-width, "little"))
            parts.append(column[start:stop].tobytes())
    step = sum(1 + (width < 0) for width in wire)
    sizes = np.array([len(part) for part in parts], np.int64).reshape(-1, step).sum(axis=1)
    ends, data = offsets_of(sizes), np.frombuffer(b"".join(parts), np.uint8)
    rows = VariableWidth(narrowed(ends), data)
    return pb.CompressiveEncoding(variable_packed_struct=message), rows


def narrowed(offsets: Int64s) -> Int32s | Int64s:
    """Convert offsets to 32 bits if they fit."""
    if offsets[-1] > np.iinfo(np.int32).max:
        return offsets
    return offsets.astype(np.int32)


def _name(child: Block) -> str:
    if isinstance(child, FixedWidth):
        return f"values of {child.bits_per_value} bits"
    return type(child).__name__


def per_value(
    values: Block, hints: Hints
) -> tuple[pb.CompressiveEncoding, FixedWidth | VariableWidth]:
    """Encode values one by one, as full-zip pages store them.

    Args:
        values: values of fixed or variable width, fixed-size lists, or structs. Children of structs
            must have a fixed width; from 2.2 on, they can be anything but structs.
        hints: version and compression keys of the field.

    Returns:
        The description, and the encoded values: byte strings, or values of equal width in whole
            bytes.

    Raises:
        InvalidInputError: a key in the field's metadata has a wrong value.
        UnsupportedError: full-zip pages of this version cannot hold the values.
    """
    match values:
        case FixedWidth():
            fixed = _whole_bytes(values)
            return encodings.flat(fixed.bits_per_value), fixed
        case VariableWidth():
            return encode_strings(values, FieldOptions.of(hints))
        case FixedSizeListBlock():
            lists = FixedLists.of(values)
            return lists.encoding, lists.rows()
        case StructBlock() if has_fixed_rows(values):
            return struct_rows(values)
        case StructBlock():
            return variable_struct_rows(
                values, hints.version, lambda child: per_value(child, replace(hints, metadata={}))
            )
        case _:
            raise UnsupportedError(f"full-zip rows of {type(values).__name__}")


def _whole_bytes(values: FixedWidth) -> FixedWidth:
    """Expand booleans to a byte each; other values stay as they are.

    Raises:
        UnsupportedError: values are neither booleans nor whole bytes.
    """
    bits = values.bits_per_value
    if bits % 8 == 0:
        return values
    if bits != 1:
        raise UnsupportedError(f"full-zip values of {bits} bits")
    data = np.unpackbits(values.data, count=values.num_values, bitorder="little")
    return FixedWidth(8, values.num_values, data)
