"""Dictionaries of mini-block pages: distinct values that the page's values are indices into."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.fixed import Flat
from alance.format.codecs.general import GeneralBlock, Scheme
from alance.format.codecs.strings import Variable
from alance.format.layouts.miniblock_task import decode_block
from alance.format.layouts.selection import block_bytes

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec


@dataclass(slots=True)
class Dictionary:
    """Distinct values of a page, decoded on first use and then cached.

    Two threads may decode at the same time; they get equal values.
    """

    codec: BlockCodec
    content: bytes  # encoded items; empty once they are decoded
    num_items: int
    _items: Block | None = field(default=None, repr=False)

    @property
    def num_bytes(self) -> int:
        """Memory of the items in bytes; an estimate until they are decoded."""
        if self._items is not None:
            return block_bytes(self._items)
        # Estimate: dictionaries are stored raw, bit-packed or LZ4-compressed.
        return 4 * len(self.content)

    def items(self) -> Block:
        """Distinct values.

        Raises:
            CorruptFileError: the encoded items contradict their description.
            ValueError: the kernel cannot decode the items.
        """
        # Read the content before the items: another thread clears it only after setting the items.
        content = self.content
        items = self._items
        if items is None:
            items = _in_one_call(self.codec, content, self.num_items)
            if items is None:
                data = np.frombuffer(content, np.uint8)
                items = decode_block(self.codec, data, self.num_items)
            self._items = items
            self.content = b""
        return items


def usual_items(codec: BlockCodec) -> tuple[bool, bool, int] | None:
    """Describe the codec of items that the kernel decodes in one call; None for other codecs.

    Returns two flags (items are compressed; items are strings), and the bits per item or offset.
    """
    is_compressed = isinstance(codec, GeneralBlock)
    if isinstance(codec, GeneralBlock):
        if codec.scheme is not Scheme.LZ4:
            return None
        codec = codec.inner
    if isinstance(codec, Flat):
        return is_compressed, False, codec.bits_per_value
    if isinstance(codec, Variable):
        return is_compressed, True, codec.bits_per_offset
    return None


def _in_one_call(codec: BlockCodec, content: bytes, num_items: int) -> Block | None:
    """Decode items by one kernel call. None for unknown codecs and for invalid bytes."""
    usual = usual_items(codec)
    if usual is None or num_items >> 62:
        return None
    strings = _kernels.decode_items(content, *usual, num_items)
    if strings is None:
        return None
    (offsets, data), bits = strings, usual[2]
    values = np.frombuffer(data, np.uint8)
    if offsets is None:
        return FixedWidth(bits, num_items, values)
    return VariableWidth(np.frombuffer(offsets, f"<i{bits // 8}"), values)
