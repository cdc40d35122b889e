"""Dictionaries of mini-block pages: distinct values that the page's values are indices into."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from alance.base.records import dataclass
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
            items = decode_block(self.codec, np.frombuffer(content, np.uint8), self.num_items)
            self._items = items
            self.content = b""
        return items
