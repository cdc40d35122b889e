"""Chunks built from their buffers, and blocks as lists: shared by the tests of codecs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alance.format.blocks import FixedWidth, NullBlock, VariableWidth
from alance.format.encode.rows import join_blocks
from alance.format.layouts.miniblock import mini_block_codec
from tests.reference.decoders import decode_block, decode_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import Block
    from alance.format.proto import encodings_v2_1_pb2 as pb


class Chunk(NamedTuple):
    """The buffers of a chunk, and how many values it has."""

    buffers: list[Bytes]
    count: int


def chunked(chunks: Sequence[Sequence[bytes]], counts: Sequence[int]) -> list[Chunk]:
    """Chunks as lists of their buffers, each at an odd place of an array."""
    return [
        Chunk([np.frombuffer(b"?" + buffer, np.uint8)[1:] for buffer in chunk], count)
        for chunk, count in zip(chunks, counts, strict=True)
    ]


def placed(chunks: Sequence[bytes]) -> tuple[Bytes, Int64s, Int64s]:
    """Buffers put into one array at odd places: the array, where each begins, and its bytes."""
    sizes = np.array([*map(len, chunks)], np.int64)
    data = np.frombuffer(b"?" + b"?".join(chunks) + b"?", np.uint8)
    return data, 1 + np.cumsum(sizes + 1) - (sizes + 1), sizes


def decode_chunks(encoding: pb.CompressiveEncoding, chunks: Sequence[Chunk]) -> Block:
    """The values of all chunks, end to end."""
    if not chunks:
        while encoding.HasField("general"):
            encoding = encoding.general.values
        num_buffers = 1 if encoding.HasField("flat") else mini_block_codec(encoding).num_buffers
        chunks = [Chunk([np.empty(0, np.uint8)] * num_buffers, 0)]
    return end_to_end([decode_chunk(encoding, *chunk) for chunk in chunks])


def decode_blocks(encoding: pb.CompressiveEncoding, chunks: Sequence[Chunk]) -> Block:
    """The values of blocks, each of which is the only buffer of a chunk."""
    return end_to_end([decode_block(encoding, chunk.buffers[0], chunk.count) for chunk in chunks])


def end_to_end(blocks: Sequence[Block]) -> Block:
    """Values of one kind as one block."""
    return join_blocks(blocks) if blocks else NullBlock(0)


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


def padded(content: bytes) -> bytes:
    """Fill bytes up to a multiple of eight."""
    return content + b"\xfe" * (-len(content) % 8)
