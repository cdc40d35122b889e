"""Values in chunks: which codec, by the data and by hints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.errors import UnsupportedError
from alance.format.blocks import FixedSizeListBlock, FixedWidth, StructBlock, VariableWidth
from alance.format.encode.options import FieldOptions
from tests.reference.pages.chunks import flat_chunks
from tests.reference.pages.fixed import fixed_chunks, list_chunks
from tests.reference.pages.lists import FixedLists
from tests.reference.pages.one_by_one import struct_rows
from tests.reference.pages.strings import string_chunks

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.encode.page_inputs import Hints
    from tests.reference.pages.base import MiniBlockValues


def struct_chunks(values: StructBlock) -> MiniBlockValues:
    """The chunks of a page of structs of fixed-width children.

    Raises:
        InvalidInputError: rows are too wide for chunks.
        UnsupportedError: another child, or one of single bits.
    """
    encoding, rows = struct_rows(values)
    return replace(flat_chunks(rows), encoding=encoding)


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
    options = FieldOptions.of(hints)
    match values:
        case FixedWidth():
            return fixed_chunks(values, options)
        case VariableWidth():
            return string_chunks(values, options, hints.version)
        case FixedSizeListBlock():
            return list_chunks(FixedLists.of(values))
        case StructBlock():
            return struct_chunks(values)
        case _:
            raise UnsupportedError(f"mini-blocks of {type(values).__name__}")
