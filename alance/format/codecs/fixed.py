"""Fixed-width rows with children: fixed-size lists, which may be nested, and packed structs.

The description of lists nests from the outside in, and ends in Flat or Constant. A level may store
the validity of its items (1 is valid, LSB first). D is the product of all dimensions, D_k the
product of the dimensions of levels 1 to k. In mini-blocks, a chunk of n rows has:

    one buffer per level with validity, outermost first: n * D_k bits
    items: n * D values, as Flat

Zipped rows and blocks have, for each row:

    ceil(D_k / 8) bytes for each level with validity, outermost first
    D * bits_per_item / 8 bytes of items; none if all items of the page are null (Constant)

A row of a packed struct has the bytes of the children in the order of the struct, without padding.

Source: encodings_v2_1.proto, messages FixedSizeList and PackedStruct; docs/format/encodings.md,
"FixedSizeList" and "PackedStruct".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import MAX_BITS_PER_VALUE, expect, flat_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import encodings_v2_1_pb2 as pb

MOST_LENGTHS: Final = 64  # maximum depth of nested fixed-size lists
IN_LISTS: Final = ("fixed_size_list", "flat", "constant")


class FixedSizeLists(NamedTuple):
    """Nested lists.

    Attributes:
        item_bits: bits of all items per row; 0 if all items are null and take no bytes.
        masks: items per row at each depth, outermost first, 0 at a depth without item validity;
            empty if no depth has item validity.
    """

    item_bits: int
    masks: Sequence[int]

    @classmethod
    def from_proto(cls, message: pb.FixedSizeList) -> FixedSizeLists:
        masks: list[int] = []
        items_per_row, name = 1, "fixed_size_list"
        while name == "fixed_size_list":
            items_per_row *= message.items_per_value
            if items_per_row == 0:
                raise UnsupportedError("fixed-size list of 0 items")
            if items_per_row > MAX_BITS_PER_VALUE:
                raise CorruptFileError(f"fixed-size list of {items_per_row} items")
            if len(masks) == MOST_LENGTHS:
                raise UnsupportedError(f"fixed-size lists of more than {MOST_LENGTHS} dimensions")
            masks.append(items_per_row if message.has_validity else 0)
            values = message.values
            name = expect(values, IN_LISTS, "fixed-size list")
            message = values.fixed_size_list
        if name == "constant" and values.constant.HasField("value"):
            raise UnsupportedError("fixed-size list of constant items that are not null")
        bits = 0 if name == "constant" else flat_bits(values.flat)
        if items_per_row * bits > MAX_BITS_PER_VALUE:
            raise CorruptFileError(f"fixed-size list of {items_per_row} items of {bits} bits")
        return cls(items_per_row * bits, masks if any(masks) else ())

    @property
    def num_buffers(self) -> int:
        """Number of buffers in a chunk of a mini-block page."""
        return 1 + sum(items > 0 for items in self.masks)

    @property
    def row_bits(self) -> int:
        """Bits of a zipped row, with the validity of each depth."""
        if self.item_bits % 8:
            raise UnsupportedError(f"fixed-size list: zipped items of {self.item_bits} bits")
        bits = self.item_bits + 8 * sum(-(-items // 8) for items in self.masks)
        if bits == 0:
            raise CorruptFileError("fixed-size list: rows without bytes")
        return bits


def packed_bits(message: pb.PackedStruct) -> int:
    """Return the bits per row of a packed struct whose children have fixed widths."""
    expect(message.values, ("flat",), "packed struct")
    row_bits = flat_bits(message.values.flat)
    child_bits = tuple(message.bits_per_value)
    if any(bits % 8 for bits in child_bits):
        raise UnsupportedError(f"packed struct with children of {child_bits} bits")
    if not all(child_bits) or sum(child_bits) != row_bits:
        raise CorruptFileError(
            f"packed struct: children of {child_bits} bits in rows of {row_bits}"
        )
    return row_bits
