"""Slices and choices of blocks of every kind, against lists of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.format.blocks import (
    Block,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from alance.format.encode.rows import block_bytes, select, spread


def fixed(bits: int, count: int) -> FixedWidth:
    data = np.random.default_rng(bits).integers(0, 256, (count * bits + 7) // 8, np.uint8)
    return FixedWidth(bits, count, data)


def strings(count: int, kind: type = np.int32) -> VariableWidth:
    lengths = np.arange(count) * 7 % 5
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    return VariableWidth(offsets, np.arange(offsets[-1], dtype=np.uint8))


COUNT = 21
BLOCKS: dict[str, Block] = {
    **{f"{bits} bits": fixed(bits, COUNT) for bits in (1, 3, 8, 16, 24, 32, 64, 128, 999)},
    "strings": strings(COUNT),
    "large strings": strings(COUNT, np.int64),
    "vectors": FixedSizeListBlock(3, fixed(16, COUNT * 3), None),
    "vectors with nulls": FixedSizeListBlock(3, fixed(16, COUNT * 3), fixed(1, COUNT * 3).data),
    "vectors of bools": FixedSizeListBlock(5, fixed(1, COUNT * 5), fixed(1, COUNT * 5).data),
    "matrices": FixedSizeListBlock(2, FixedSizeListBlock(3, fixed(8, COUNT * 6), None), None),
    "vectors of nulls": FixedSizeListBlock(2, NullBlock(COUNT * 2), fixed(1, COUNT * 2).data),
    "structs": StructBlock(COUNT, (fixed(32, COUNT), strings(COUNT))),
    "dictionary": DictionaryBlock(
        FixedWidth(8, COUNT, np.arange(COUNT, dtype=np.uint8) % 4), strings(4)
    ),
    "nulls": NullBlock(COUNT),
}


def values_of(block: Block) -> list[Any]:
    count = block.num_values
    match block:
        case FixedWidth(bits_per_value=bits, data=data):
            assert len(data) == (count * bits + 7) // 8
            flags = np.unpackbits(data, bitorder="little")[: count * bits]
            return [item.tobytes() for item in flags.reshape(count, bits)]
        case VariableWidth(offsets=offsets, data=data):
            assert offsets[0] == 0
            return [data[offsets[i] : offsets[i + 1]].tobytes() for i in range(count)]
        case FixedSizeListBlock(dimension=size, items=items, validity=validity):
            bits = (
                np.ones(count * size)
                if validity is None
                else np.unpackbits(validity, bitorder="little")
            )
            pairs = list(zip(values_of(items), bits.tolist(), strict=False))
            return [pairs[i * size : (i + 1) * size] for i in range(count)]
        case StructBlock(children=children):
            return list(zip(*map(values_of, children), strict=True))
        case DictionaryBlock(indices=indices, items=items):
            recognized = values_of(items)
            return [recognized[index] for index in indices.data.tolist()]
        case NullBlock():
            return [None] * count


@pytest.mark.parametrize("name", BLOCKS)
def test_every_slice_has_the_values_of_its_places(name: str) -> None:
    block = BLOCKS[name]
    values = values_of(block)
    for start in range(COUNT + 1):
        for stop in range(start, COUNT + 1):
            assert values_of(select(block, slice(start, stop))) == values[start:stop]


@pytest.mark.parametrize("name", BLOCKS)
@given(places=st.lists(st.integers(0, COUNT - 1), max_size=10))
def test_a_choice_has_the_values_of_its_places(name: str, places: list[int]) -> None:
    block = BLOCKS[name]
    values = values_of(block)
    assert values_of(select(block, np.array(places, np.int64))) == [values[i] for i in places]


@pytest.mark.parametrize("name", BLOCKS)
def test_all_of_a_block_is_the_block(name: str) -> None:
    assert select(BLOCKS[name], slice(0, COUNT)) is BLOCKS[name]


@pytest.mark.parametrize("name", BLOCKS)
def test_spread_values_stand_where_something_is_present(name: str) -> None:
    block = BLOCKS[name]
    values = iter(values_of(block))
    present = np.zeros(2 * COUNT, np.bool_)
    present[np.random.default_rng(0).permutation(2 * COUNT)[:COUNT]] = True
    result = values_of(spread(block, present))
    assert len(result) == 2 * COUNT
    for item, is_present in zip(result, present, strict=True):
        if is_present:
            assert item == next(values)


def test_the_memory_of_a_block_is_that_of_its_arrays() -> None:
    assert block_bytes(BLOCKS["structs"]) == COUNT * 4 + (COUNT + 1) * 4 + len(strings(COUNT).data)
    assert block_bytes(NullBlock(1 << 60)) == 0
