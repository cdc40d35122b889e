"""Values into compressed values: which codec, by the data and by hints.

The entry points of a page: chunks of a mini-block page, rows of a full-zip page, a dictionary,
a block on its own. The modules beside this one hold the codecs of each kind of value.

Source: encodings_v2_1.proto, CompressiveEncoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alance.format.blocks import Block, Bytes, FixedWidth, VariableWidth
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
    raise NotImplementedError


def dictionary_of(values: Block, hints: Hints) -> tuple[FixedWidth, Block] | None:
    """The distinct values and where each stands, if a dictionary makes a page smaller.

    Gives up as soon as there are too many distinct values.

    Args:
        values: of a page; only variable-width values and fixed-width ones of 64 (from 2.2 on) or
            128 bits are looked at.
        hints: the version and the dictionary keys of the field.

    Returns:
        Indices of 32 bits, and the items in the order in which they first appear; or None.

    Raises:
        InvalidInputError: a key of the field is wrong.
    """
    raise NotImplementedError


def block_values(values: Block, hints: Hints) -> tuple[pb.CompressiveEncoding, Bytes]:
    """Compress the items of a dictionary, as one block.

    Args:
        values: fixed-width, variable-width, or fixed-size lists.
        hints: the version and the keys `lance-encoding:dict-values-*` of the field.

    Raises:
        InvalidInputError: a key of the field is wrong.
        UnsupportedError: values that dictionaries do not hold.
    """
    raise NotImplementedError


def per_value(
    values: Block, hints: Hints
) -> tuple[pb.CompressiveEncoding, FixedWidth | VariableWidth]:
    """Compress values one by one, as full-zip pages store them.

    Args:
        values: as of `mini_block_values`; from 2.2 on also structs of any children.
        hints: the version and the compression keys of the field.

    Returns:
        The description, and the encoded values: whole bytes each, or byte strings.

    Raises:
        InvalidInputError: a key of the field is wrong.
        UnsupportedError: values that full-zip pages of this version do not hold.
    """
    raise NotImplementedError
