"""Blocks of neighbouring rows as one block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import (
    ConstantBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    StructBlock,
    VariableWidth,
)
from alance.format.layouts.selection import block_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.blocks import Block, Bytes

MAX_OFFSET: Final = (1 << 31) - 1


def join_blocks(blocks: Sequence[Block]) -> Block:
    """The values of all blocks, in order; copies, unless there is one.

    Raises:
        InvalidInputError: blocks of different kinds.
        UnsupportedError: strings of more than 2^31 - 1 bytes in 32-bit offsets.
    """
    if len(blocks) == 1:
        return blocks[0]
    count = sum(block.num_values for block in blocks)
    fixed = [block for block in blocks if isinstance(block, FixedWidth)]
    if len(fixed) == len(blocks):
        bits = fixed[0].bits_per_value
        return FixedWidth(
            bits,
            count,
            join_bits([one.data for one in fixed], [one.num_values * bits for one in fixed]),
        )
    strings = [block for block in blocks if isinstance(block, VariableWidth)]
    if len(strings) == len(blocks):
        return _join_strings(strings)
    lists = [block for block in blocks if isinstance(block, FixedSizeListBlock)]
    if len(lists) == len(blocks):
        return _join_lists(lists)
    structs = [block for block in blocks if isinstance(block, StructBlock)]
    if len(structs) == len(blocks):
        columns = zip(*(one.children for one in structs), strict=True)
        return StructBlock(count, tuple(join_blocks(column) for column in columns))
    indices = [block for block in blocks if isinstance(block, DictionaryBlock)]
    if len(indices) == len(blocks):
        return _join_dictionaries(indices)
    if all(isinstance(block, ConstantBlock) and block.value is None for block in blocks):
        return ConstantBlock(count, None)
    kinds = sorted({type(block).__name__ for block in blocks})
    raise InvalidInputError(f"values of different kinds in one page: {kinds}")


def join_bits(parts: Sequence[Bytes], counts: Sequence[int]) -> Bytes:
    """Bits of all parts, LSB first, without gaps."""
    if all(count % 8 == 0 for count in counts[:-1]):
        ends = [(count + 7) // 8 for count in counts]
        return np.concatenate([part[:end] for part, end in zip(parts, ends, strict=True)])
    bits = [
        np.unpackbits(part, count=count, bitorder="little")
        for part, count in zip(parts, counts, strict=True)
    ]
    return np.packbits(np.concatenate(bits), bitorder="little")


def _join_strings(blocks: Sequence[VariableWidth]) -> VariableWidth:
    dtype = blocks[0].offsets.dtype
    sizes = [int(block.offsets[-1]) for block in blocks]
    if dtype == np.int32 and sum(sizes) > MAX_OFFSET:
        raise UnsupportedError(f"a page of {sum(sizes)} bytes of strings: 32-bit offsets")
    offsets = np.zeros(sum(block.num_values for block in blocks) + 1, dtype)
    at, total = 1, 0
    for block, size in zip(blocks, sizes, strict=True):
        np.add(block.offsets[1:], total, out=offsets[at : at + block.num_values])
        at += block.num_values
        total += size
    return VariableWidth(
        offsets,
        np.concatenate([block.data[:size] for block, size in zip(blocks, sizes, strict=True)]),
    )


def _join_lists(blocks: Sequence[FixedSizeListBlock]) -> FixedSizeListBlock:
    validity = None
    if any(block.validity is not None for block in blocks):
        counts = [block.items.num_values for block in blocks]
        parts = [
            np.full((count + 7) // 8, 0xFF, np.uint8) if block.validity is None else block.validity
            for block, count in zip(blocks, counts, strict=True)
        ]
        validity = join_bits(parts, counts)
    items = join_blocks([block.items for block in blocks])
    return FixedSizeListBlock(blocks[0].dimension, items, validity)


def _join_dictionaries(blocks: Sequence[DictionaryBlock]) -> DictionaryBlock:
    """One dictionary: parts that are equal are there once, others one behind the other."""
    kept: list[Block] = []
    starts: list[int] = []
    shifts = []
    total = 0
    for block in blocks:
        if not block.items.num_values and kept:
            shifts.append(0)  # nothing but nulls, whose indices must be ones that are there
            continue
        number = next((n for n, one in enumerate(kept) if _are_equal(one, block.items)), None)
        if number is None:
            number = len(kept)
            kept.append(block.items)
            starts.append(total)
            total += block.items.num_values
        shifts.append(starts[number])
    if total > 1 << 31:
        raise UnsupportedError(f"a page with a dictionary of {total} values")
    own = max(block.indices.bits_per_value for block in blocks)
    bits = max(own, next(bits for bits in (8, 16, 32) if total <= 1 << bits))
    parts = [
        block.indices.data.view(f"<u{block.indices.bits_per_value // 8}").astype(f"<u{bits // 8}")
        + np.array(shift, f"<u{bits // 8}")
        for block, shift in zip(blocks, shifts, strict=True)
    ]
    indices = np.concatenate(parts)
    return DictionaryBlock(
        FixedWidth(bits, len(indices), indices.view(np.uint8)), join_blocks(kept)
    )


def _are_equal(one: Block, other: Block) -> bool:
    """Whether two dictionaries are the same; quick where they are one object."""
    if one is other:
        return True
    if one.num_values != other.num_values or block_bytes(one) != block_bytes(other):
        return False
    if isinstance(one, VariableWidth) and isinstance(other, VariableWidth):
        return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.data, other.data)
    if isinstance(one, FixedWidth) and isinstance(other, FixedWidth):
        return np.array_equal(one.data, other.data)
    return False
