"""Values into compressed values: which codec, by the data and by hints.

The entry points of a page: chunks of a mini-block page, rows of a full-zip page. The modules beside
this one hold the codecs of each kind of value.

Source: encodings_v2_1.proto, CompressiveEncoding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import UnsupportedError
from alance.format.blocks import FixedSizeListBlock, FixedWidth, StructBlock, VariableWidth
from alance.format.encode import encodings
from alance.format.encode.fixed import FixedLists, fixed_chunks
from alance.format.encode.options import Options
from alance.format.encode.strings import aligned, encode_strings, string_chunks
from alance.format.encode.structs import (
    has_fixed_rows,
    struct_chunks,
    struct_rows,
    variable_struct_rows,
)

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.encode.base import Hints, MiniBlockValues
    from alance.format.proto import encodings_v2_1_pb2 as pb


def mini_block_values(values: Block, hints: Hints) -> MiniBlockValues:
    """Compress the values of a mini-block page, chunk by chunk.

    Args:
        values: fixed-width of any bits, variable-width, fixed-size lists (also nested) with the
            validity of their items, or a struct of fixed-width children (packed).
        hints: the version and the compression keys of the field.

    Returns:
        Chunks within the limits of mini-blocks; none if there are no values.

    Raises:
        InvalidInputError: a value is too wide for a chunk, or a key of the field is wrong.
        UnsupportedError: values that mini-blocks do not hold.
    """
    options = Options.of(hints)
    match values:
        case FixedWidth():
            return fixed_chunks(values, options)
        case VariableWidth():
            return string_chunks(aligned(values), options, hints.version)
        case FixedSizeListBlock():
            return FixedLists.of(values).chunks()
        case StructBlock():
            return struct_chunks(values)
        case _:
            raise UnsupportedError(f"mini-blocks of {type(values).__name__}")


def per_value(
    values: Block, hints: Hints
) -> tuple[pb.CompressiveEncoding, FixedWidth | VariableWidth]:
    """Compress values one by one, as full-zip pages store them.

    Args:
        values: fixed-width of any bits, variable-width, fixed-size lists, or a struct: of
            fixed-width children, from 2.2 on of any but structs.
        hints: the version and the compression keys of the field.

    Returns:
        The description, and the encoded values: whole bytes each, or byte strings.

    Raises:
        InvalidInputError: a key of the field is wrong.
        UnsupportedError: values that full-zip pages of this version do not hold.
    """
    match values:
        case FixedWidth():
            fixed = _whole_bytes(values)
            return encodings.flat(fixed.bits_per_value), fixed
        case VariableWidth():
            return encode_strings(aligned(values), Options.of(hints))
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
    """Booleans as a byte each, other values as they are.

    Raises:
        UnsupportedError: values of other numbers of bits.
    """
    bits = values.bits_per_value
    if bits % 8 == 0:
        return values
    if bits != 1:
        raise UnsupportedError(f"full-zip values of {bits} bits")
    data = np.unpackbits(values.data, count=values.num_values, bitorder="little")
    return FixedWidth(8, values.num_values, data)
