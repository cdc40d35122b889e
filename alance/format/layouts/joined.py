"""Values of neighbouring pages as one block, where they are stored alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors
from alance.format.blocks import FixedWidth, VariableWidth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.blocks import Block


def joined_values(blocks: Sequence[Block]) -> Block | None:
    """Values of fixed width, or strings, end to end; None for others, and for single bits.

    Raises:
        UnsupportedError: strings of more bytes than their offsets can say.
        CorruptFileError: offsets that leave their bytes.
    """
    fixed = [block for block in blocks if isinstance(block, FixedWidth)]
    if len(fixed) == len(blocks):
        return _joined_fixed(fixed)
    strings = [block for block in blocks if isinstance(block, VariableWidth)]
    return _joined_strings(strings) if len(strings) == len(blocks) else None


def _joined_fixed(blocks: Sequence[FixedWidth]) -> FixedWidth | None:
    bits = blocks[0].bits_per_value
    if bits % 8 or any(block.bits_per_value != bits for block in blocks):
        return None
    width = bits // 8
    pieces = [block.data[: block.num_values * width] for block in blocks]
    total = sum(block.num_values for block in blocks)
    if any(
        len(piece) != block.num_values * width for piece, block in zip(pieces, blocks, strict=True)
    ):
        return None
    return FixedWidth(bits, total, _kernels.join_bytes(pieces))


def _joined_strings(blocks: Sequence[VariableWidth]) -> VariableWidth:
    pieces = [block.data for block in blocks]
    total = sum(int(block.offsets[-1]) for block in blocks)
    is_ascii = all(block.is_ascii for block in blocks)
    with kernel_errors:
        if total < 1 << 31 and all(block.offsets.dtype == np.int32 for block in blocks):
            short = [block.offsets.view(np.int32) for block in blocks]
            return VariableWidth(*_kernels.join_strings_32(short, pieces), is_ascii)
        long = [block.offsets.astype(np.int64, copy=False) for block in blocks]
        return VariableWidth(*_kernels.join_strings_64(long, pieces), is_ascii)
