"""Chunks built from their buffers, and blocks as lists: shared by the tests of codecs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import ChunkBuffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.blocks import Block


def chunked(chunks: Sequence[Sequence[bytes]], counts: Sequence[int]) -> ChunkBuffers:
    """Chunks as lists of their buffers, put into one array at odd places."""
    num_buffers = len(chunks[0]) if chunks else 1
    data = bytearray(b"?")
    starts = np.zeros((num_buffers, len(chunks)), np.int64)
    sizes = np.zeros((num_buffers, len(chunks)), np.int64)
    for c, chunk in enumerate(chunks):
        for b, buffer in enumerate(chunk):
            starts[b, c], sizes[b, c] = len(data), len(buffer)
            data += buffer + b"?"
    return ChunkBuffers(
        np.frombuffer(bytes(data), np.uint8), starts, sizes, np.array(counts, np.int64)
    )


def fixed(block: Block, dtype: str) -> list[Any]:
    """The values of a fixed-width block."""
    assert isinstance(block, FixedWidth)
    values = np.frombuffer(block.data, np.dtype(dtype))
    assert values.itemsize * 8 == block.bits_per_value
    assert len(values) == block.num_values
    return values.tolist()


def strings(block: Block) -> list[bytes]:
    """The values of a variable-width block."""
    assert isinstance(block, VariableWidth)
    assert block.offsets[0] == 0
    assert block.offsets[-1] == len(block.data)
    text, offsets = block.data.tobytes(), block.offsets.tolist()
    return [text[start:stop] for start, stop in itertools.pairwise(offsets)]


def variable(values: Sequence[bytes], dtype: str = "i4") -> VariableWidth:
    """A variable-width block of some values."""
    offsets = np.zeros(len(values) + 1, dtype)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return VariableWidth(offsets, np.frombuffer(b"".join(values), np.uint8))


def variable_chunk(values: Sequence[bytes], bits_per_offset: int = 32, gap: int = 0) -> bytes:
    """The buffer of one chunk of Variable, with `gap` bytes between offsets and values."""
    word = bits_per_offset // 8
    offsets = np.zeros(len(values) + 1, f"<i{word}")
    np.cumsum([len(value) for value in values], out=offsets[1:])
    offsets += word * len(offsets) + gap
    buffer = offsets.tobytes() + b"?" * gap + b"".join(values)
    return buffer + b"H" * (-len(buffer) % word)
