"""Fixed-size lists and packed structs: encoded and decoded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import (
    Block,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from tests.reference.chunks import strings, variable
from tests.reference.encoded import hints, through_block, through_chunks, through_rows
from tests.reference.pages.one_by_one import per_value
from tests.reference.pages.values import mini_block_values

RNG = np.random.default_rng(11)


def bits_of(data: np.ndarray, count: int) -> list[int]:
    return np.unpackbits(data, count=count, bitorder="little").tolist()


def fixed(bits: int, count: int) -> FixedWidth:
    return FixedWidth(bits, count, RNG.integers(0, 256, -(-count * bits // 8), np.uint8))


def lists(num_rows: int, dimensions: list[int], bits: int, with_validity: list[bool]) -> Block:
    """Random lists; dimensions from the outside in."""
    num_items = num_rows * int(np.prod(dimensions))
    block: Block = fixed(bits, num_items)
    for dimension, has in zip(reversed(dimensions), reversed(with_validity), strict=True):
        validity = fixed(1, num_items).data if has else None
        block = FixedSizeListBlock(dimension, block, validity)
        num_items //= dimension
    return block


def check_equal(block: Block, values: Block) -> None:
    assert type(block) is type(values)
    assert block.num_values == values.num_values
    if isinstance(values, FixedWidth):
        assert isinstance(block, FixedWidth)
        count = values.num_values * values.bits_per_value
        assert block.bits_per_value == values.bits_per_value
        assert bits_of(block.data, count) == bits_of(values.data, count)
    elif isinstance(values, VariableWidth):
        assert strings(block) == strings(values)
    elif isinstance(values, FixedSizeListBlock):
        assert isinstance(block, FixedSizeListBlock)
        assert block.dimension == values.dimension
        assert (block.validity is None) == (values.validity is None)
        if values.validity is not None:
            assert block.validity is not None
            count = values.items.num_values
            assert bits_of(block.validity, count) == bits_of(values.validity, count)
        check_equal(block.items, values.items)
    elif isinstance(values, StructBlock):
        assert isinstance(block, StructBlock)
        for child, expected in zip(block.children, values.children, strict=True):
            check_equal(child, expected)


@settings(max_examples=80)
@given(
    num_rows=st.sampled_from([0, 1, 2, 7, 1024, 1025, 5000]),
    dimensions=st.lists(st.sampled_from([1, 2, 3, 8]), min_size=1, max_size=3),
    bits=st.sampled_from([1, 8, 16, 64, 128]),
    validity=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_lists_come_back(
    num_rows: int, dimensions: list[int], bits: int, validity: list[bool]
) -> None:
    assume(int(np.prod(dimensions)) * bits < 1 << 15)  # two rows fit a chunk
    values = lists(num_rows, dimensions, bits, validity[: len(dimensions)])
    check_equal(through_chunks(values, hints())[1], values)
    if int(np.prod(dimensions)) * bits % 8 == 0:
        name, result = through_rows(values, hints())
        assert name == "fixed_size_list"
        check_equal(result, values)
        check_equal(through_block(values, hints("2.2"))[1], values)
    else:
        with pytest.raises(UnsupportedError, match="bits"):
            per_value(values, hints())


def known_lists() -> FixedSizeListBlock:
    items = np.array([1, 0, 3, 4, 5, 6, 0, 0, 9, 10, 11, 12], np.int16)
    return FixedSizeListBlock(
        3, FixedWidth(16, 12, items.view(np.uint8)), np.array([0x3D, 0x0F], np.uint8)
    )


def test_lists_as_they_are_known() -> None:
    encoded = mini_block_values(known_lists(), hints())
    assert encoded.encoding.SerializeToString().hex() == "5a0a080312040a0208101801"
    assert [buffer.tobytes().hex() for buffer in encoded.buffers] == [
        "3d0f",
        "010000000300040005000600000000000900" + "0a000b000c00",
    ]
    encoding, rows = per_value(known_lists(), hints())
    assert encoding.SerializeToString().hex() == "5a0a080312040a0208101801"
    assert isinstance(rows, FixedWidth)
    assert rows.bits_per_value == 56
    assert rows.data.tobytes().hex() == "05010000000300" + "07040005000600" + (
        "04000000000900" + "070a000b000c00"
    )


def test_nested_lists_as_they_are_known() -> None:
    items = np.array([1, 0, 0, 0, 5, 6, 7, 8, 9, 10, 11, 12], np.uint8)
    inner = FixedSizeListBlock(2, FixedWidth(8, 12, items), np.array([0xF1, 0x0F], np.uint8))
    outer = FixedSizeListBlock(3, inner, np.array([0x3D], np.uint8))
    encoded = mini_block_values(outer, hints())
    assert encoded.encoding.SerializeToString().hex() == "5a120803120c5a0a080212040a02080818011801"
    assert [buffer.tobytes().hex() for buffer in encoded.buffers] == [
        "3d",
        "f10f",
        "0100000005060708090a0b0c",
    ]


def test_lists_of_nulls_are_their_validity() -> None:
    values = FixedSizeListBlock(3, NullBlock(6), np.zeros(1, np.uint8))
    encoding, rows = per_value(values, hints())
    assert encoding.fixed_size_list.values.WhichOneof("compression") == "constant"
    assert isinstance(rows, FixedWidth)
    assert rows.data.tobytes() == b"\0\0"


def test_vectors_are_rows_without_a_copy() -> None:
    values = lists(10, [768], 32, [False])
    assert isinstance(values, FixedSizeListBlock)
    assert isinstance(values.items, FixedWidth)
    _, rows = per_value(values, hints())
    assert rows.data is values.items.data
    assert mini_block_values(values, hints()).counts.tolist() == [2] * 5
    with pytest.raises(InvalidInputError, match="two must fit"):
        mini_block_values(lists(10, [1536], 32, [False]), hints())


def test_packed_structs_come_back() -> None:
    for count in [0, 1, 5000]:
        values = StructBlock(count, tuple(fixed(bits, count) for bits in [32, 8, 64, 128, 24]))
        encoded, result = through_chunks(values, hints())
        assert encoded.encoding.WhichOneof("compression") == "packed_struct"
        check_equal(result, values)
        check_equal(through_rows(values, hints())[1], values)


def test_packed_structs_as_they_are_known() -> None:
    values = StructBlock(
        2,
        (
            FixedWidth(32, 2, np.array([0, 1], np.int32).view(np.uint8)),
            FixedWidth(8, 2, np.array([1, 2], np.uint8)),
            FixedWidth(64, 2, np.array([0.0, 1.0]).view(np.uint8)),
        ),
    )
    encoded = mini_block_values(values, hints())
    assert encoded.encoding.SerializeToString().hex() == "620b0a0320084012040a020868"
    assert encoded.buffers[0].tobytes().hex() == (
        "00000000010000000000000000" + "0100000002000000000000f03f"
    )


def test_variable_packed_structs_as_they_are_known() -> None:
    values = StructBlock(
        3,
        (
            FixedWidth(16, 3, np.array([0, 1, 2], np.int16).view(np.uint8)),
            variable([b"", b"ab", b"abab"], "i8"),
            variable([b"zzz", b"zz", b"z"]),
        ),
    )
    encoding, rows = per_value(values, hints("2.2"))
    assert encoding.SerializeToString().hex() == (
        "6a260a080a040a02081010100a0c0a0812060a040a02084018400a0c0a0812060a040a0208201820"
    )
    assert [row.hex() for row in strings(rows)] == [
        "0000000000000000000003000000" + "7a7a7a",
        "01000200000000000000" + "6162020000007a7a",
        "02000400000000000000" + "61626162010000007a",
    ]
    with pytest.raises(UnsupportedError, match=r"2\.1"):
        per_value(values, hints("2.1"))


@pytest.mark.parametrize("num_rows", [0, 1, 3000])
def test_variable_packed_structs_come_back(num_rows: int) -> None:
    texts = [b"some words that repeat %d" % (i % 100) for i in range(num_rows)]
    children = (
        fixed(64, num_rows),
        variable(texts),
        lists(num_rows, [3], 8, [True]),
        variable([b"x" * (i % 5) for i in range(num_rows)], "i8"),
    )
    values = StructBlock(num_rows, children)
    name, result = through_rows(values, hints("2.2"))
    assert name == "variable_packed_struct"
    check_equal(result, values)


@pytest.mark.parametrize(
    "child",
    [fixed(1, 4), StructBlock(4, (fixed(8, 4),)), NullBlock(4)],
)
def test_children_that_no_struct_packs_are_refused(child: Block) -> None:
    for children in [(child,), (child, variable([b""] * 4))]:
        with pytest.raises(UnsupportedError):
            per_value(StructBlock(4, children), hints("2.2"))
        with pytest.raises(UnsupportedError):
            mini_block_values(StructBlock(4, children), hints("2.2"))


def test_other_blocks_are_refused() -> None:
    nothing = NullBlock(3)
    with pytest.raises(UnsupportedError, match="NullBlock"):
        mini_block_values(nothing, hints())
    with pytest.raises(UnsupportedError, match="NullBlock"):
        per_value(nothing, hints())
    with pytest.raises(UnsupportedError, match="fixed-size lists of VariableWidth"):
        mini_block_values(FixedSizeListBlock(2, variable([b"", b""]), None), hints())
    with pytest.raises(UnsupportedError, match="bits"):
        per_value(fixed(3, 8), hints())
