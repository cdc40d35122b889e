"""Picking values of every kind of block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.format.blocks import (
    Block,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    gather,
)
from tests.reference.chunks import fixed, strings, variable

NUM = 20
RNG = np.random.default_rng(0)
index_lists = st.lists(st.integers(0, NUM - 1), max_size=30).map(lambda x: np.array(x, np.int64))


def bits_of(data: np.ndarray, count: int) -> np.ndarray:
    return np.unpackbits(data, count=count, bitorder="little")


def random_block(bits: int, count: int = NUM) -> FixedWidth:
    data = RNG.integers(0, 256, -(-count * bits // 8), dtype=np.uint8)
    return FixedWidth(bits, count, data)


@pytest.mark.parametrize("bits", [1, 3, 8, 24, 64, 128])
@given(indices=index_lists)
def test_values_of_fixed_width_are_gathered(bits: int, indices: np.ndarray) -> None:
    block = random_block(bits)
    picked = gather(block, indices)
    assert isinstance(picked, FixedWidth)
    expected = bits_of(block.data, NUM * bits).reshape(NUM, bits)[indices]
    np.testing.assert_array_equal(bits_of(picked.data, len(indices) * bits), expected.ravel())


@given(index_lists)
def test_strings_are_gathered_by_index(indices: np.ndarray) -> None:
    values = [b"x" * i for i in range(NUM)]
    assert strings(gather(variable(values), indices)) == [values[i] for i in indices]


@pytest.mark.parametrize("with_validity", [True, False])
@pytest.mark.parametrize(("bits", "dimension"), [(32, 3), (1, 3), (1, 8)])
@given(indices=index_lists)
def test_lists_and_their_validity_are_gathered(
    bits: int, dimension: int, with_validity: bool, indices: np.ndarray
) -> None:
    items, valid = random_block(bits, NUM * dimension), random_block(1, NUM * dimension).data
    picked = gather(FixedSizeListBlock(dimension, items, valid if with_validity else None), indices)
    assert isinstance(picked, FixedSizeListBlock)
    assert isinstance(picked.items, FixedWidth)
    assert picked.num_values == len(indices)
    rows = bits_of(items.data, NUM * dimension * bits).reshape(NUM, -1)[indices]
    np.testing.assert_array_equal(bits_of(picked.items.data, rows.size), rows.ravel())
    if with_validity:
        assert picked.validity is not None
        rows = bits_of(valid, NUM * dimension).reshape(NUM, dimension)[indices]
        np.testing.assert_array_equal(bits_of(picked.validity, rows.size), rows.ravel())


def test_lists_of_lists_dictionaries_structs_and_constants() -> None:
    numbers = FixedWidth(8, 24, np.arange(24, dtype=np.uint8))
    nested = FixedSizeListBlock(3, FixedSizeListBlock(2, numbers, None), np.full(2, 255, np.uint8))
    dictionary = DictionaryBlock(
        FixedWidth(8, 4, np.array([1, 0, 1, 0], np.uint8)), variable([b"a", b"b"])
    )
    nulls = NullBlock(4)
    picked = gather(StructBlock(4, (nested, dictionary, nulls)), np.array([2, 0]))
    assert isinstance(picked, StructBlock)
    lists, words, constants = picked.children
    assert leaf(lists) == [*range(12, 18), *range(6)]
    assert isinstance(words, DictionaryBlock)
    assert fixed(words.indices, "u1") == [1, 1]
    assert words.items is dictionary.items
    assert constants == NullBlock(2)


def leaf(block: Block) -> list[int]:
    while isinstance(block, FixedSizeListBlock):
        block = block.items
    return fixed(block, "u1")


def test_an_index_outside_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="an index"):
        gather(random_block(8), np.array([NUM]))
