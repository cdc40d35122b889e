"""Dictionaries: what they hold, and when they are worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.format.blocks import DictionaryBlock, FixedWidth, VariableWidth
from alance.format.encode.page_inputs import PageMode, page_by_mode
from alance.format.layouts.base import Layer, PageValues
from tests.reference.chunks import strings, variable
from tests.reference.encoded import hints, through_block
from tests.reference.pages.dictionary import dictionary_of
from tests.reference.pages.miniblock import mini_block_page

if TYPE_CHECKING:
    from alance.format.encode.page_inputs import Hints

RNG = np.random.default_rng(3)


def fixed_of(values: np.ndarray, bits: int) -> FixedWidth:
    width = bits // 8
    data = np.zeros((len(values), width), np.uint8)
    data[:, -8:] = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    return FixedWidth(bits, len(values), data.reshape(-1))


def indices_of(values: FixedWidth | VariableWidth, request: Hints) -> tuple[np.ndarray, int] | None:
    """The indices of a dictionary, which must stand for the values, and the number of items."""
    result = dictionary_of(values, request)
    block = values if result is None else DictionaryBlock(*result)
    if values.num_values:
        page = PageValues((Layer.ALL_VALID_ITEM,), None, None, values, values.num_values)
        chosen = page_by_mode(page, request, PageMode.VALUES)
        expected = mini_block_page(page._replace(values=block), request)
        assert chosen.description == expected.description
        for part, other in zip(chosen.buffers, expected.buffers, strict=True):
            np.testing.assert_array_equal(part, other)
    if result is None:
        return None
    indices, items = result
    assert indices.bits_per_value == 32
    assert indices.num_values == values.num_values
    numbers = indices.data.view(np.uint32)
    firsts = np.unique(numbers, return_index=True)[1]
    assert len(firsts) == items.num_values
    assert np.all(np.diff(firsts) > 0)
    if isinstance(values, FixedWidth):
        assert isinstance(items, FixedWidth)
        width = values.bits_per_value // 8
        table = items.data.reshape(-1, width)
        np.testing.assert_array_equal(table[numbers], values.data.reshape(-1, width))
    else:
        assert isinstance(items, VariableWidth)
        assert items.offsets.dtype == values.offsets.dtype
        texts = strings(items)
        assert [texts[i] for i in numbers] == strings(values)
    return numbers, items.num_values


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("words", [[b"RAIL", b"", b"AIR"], [b"A", b"N", b"R"], [b"x" * 5000]])
def test_few_distinct_strings_get_a_dictionary(dtype: str, words: list[bytes]) -> None:
    values = variable([words[i] for i in RNG.integers(0, len(words), 1000)], dtype)
    indices = indices_of(values, hints())
    assert indices is not None
    assert indices[1] == len(words)


@pytest.mark.parametrize("bits", [64, 128])
def test_few_fixed_values(bits: int) -> None:
    values = fixed_of(RNG.integers(0, 50, 5000) + 2**60, bits)
    indices = indices_of(values, hints("2.2"))
    assert indices is not None
    assert indices[1] == 50
    assert (indices_of(values, hints("2.1")) is None) == (bits == 64)


def test_other_widths_have_none() -> None:
    assert dictionary_of(FixedWidth(32, 1000, np.zeros(4000, np.uint8)), hints("2.2")) is None


def test_few_values_have_none() -> None:
    assert indices_of(variable([b"same text"] * 99), hints()) is None
    assert indices_of(variable([b"same text"] * 100), hints()) is not None
    assert indices_of(variable([]), hints()) is None


def test_values_that_pack_better_without() -> None:
    small = np.arange(5000) % 50
    content = small.astype("<u8").view(np.uint8)
    assert indices_of(FixedWidth(64, 5000, content), hints("2.2")) is None
    runs = np.repeat(RNG.integers(0, 2**62, 10), 500)
    assert indices_of(fixed_of(runs, 64), hints("2.2")) is None


def test_numbers_that_fill_their_bits_have_none() -> None:
    numbers = RNG.integers(0, 1000, 1 << 20).astype("<u8").view(np.uint8)
    assert indices_of(FixedWidth(64, 1 << 20, numbers), hints("2.2")) is None
    few = 8 * RNG.integers(0, 125, 1 << 20).astype("<u8")
    indices = indices_of(FixedWidth(64, 1 << 20, few.view(np.uint8)), hints("2.2"))
    assert indices is not None  # 7 bits instead of 10
    assert indices[1] == 125


def test_runs_of_few_values_keep_a_dictionary() -> None:
    runs = np.repeat(RNG.integers(0, 4, 2000) + 2**60, 5)
    indices = indices_of(fixed_of(runs, 64), hints("2.2"))
    assert indices is not None
    assert indices[1] == 4


@pytest.mark.parametrize("count", [1000, 300_000])
def test_distinct_values_have_none(count: int) -> None:
    assert indices_of(fixed_of(RNG.permutation(count), 128), hints()) is None
    texts = [b"%d" % i for i in RNG.permutation(count)]
    assert indices_of(variable(texts), hints()) is None


@pytest.mark.parametrize("order", ["shuffled", "sorted", "in turn"])
def test_many_values_with_repeats_are_found_in_any_order(order: str) -> None:
    numbers = np.arange(300_000) // 10
    if order == "shuffled":
        numbers = RNG.permutation(numbers)
    elif order == "in turn":
        numbers = np.arange(300_000) % 30_000
    indices = indices_of(fixed_of(numbers, 128), hints())
    assert indices is not None
    assert indices[1] == 30_000


def test_keys_of_the_field_bound_it() -> None:
    values = fixed_of(RNG.integers(0, 300, 1000), 128)
    assert indices_of(values, hints()) is not None
    assert indices_of(values, hints(dict_divisor="4")) is None
    assert indices_of(values, hints(dict_divisor="3")) is not None
    assert indices_of(values, hints(dict_size_ratio="0.3")) is None
    assert indices_of(values, hints(dict_max_size="4000")) is None
    assert indices_of(values, hints(dict_max_size="4800")) is not None
    words = variable([b"word %d" % i for i in range(300)] * 4)
    assert indices_of(words, hints()) is not None
    assert indices_of(words, hints(dict_max_size="1000")) is None


@settings(max_examples=100)
@given(
    texts=st.lists(st.binary(max_size=20), min_size=1, max_size=40),
    times=st.integers(5, 60),
    dtype=st.sampled_from(["i4", "i8"]),
)
def test_distinct_strings_come_in_the_order_of_their_first_places(
    texts: list[bytes], times: int, dtype: str
) -> None:
    values = variable(texts * times, dtype)
    result = _kernels.distinct_strings(values.offsets, values.data, 10**6, 10**9)
    assert result is not None
    numbers, offsets, items = result
    words = strings(VariableWidth(offsets, items))
    assert words == list(dict.fromkeys(texts))
    assert [words[i] for i in numbers] == texts * times
    assert _kernels.distinct_strings(values.offsets, values.data, len(words) - 1, 10**9) is None
    most = len(b"".join(words)) - 1
    assert _kernels.distinct_strings(values.offsets, values.data, 10**6, most) is None
    indices_of(values, hints())


@pytest.mark.parametrize(("version", "codec"), [("2.1", "variable"), ("2.2", "general")])
def test_items_as_a_block(version: str, codec: str) -> None:
    texts = [b"item number %d" % i for i in range(2000)]
    name, result = through_block(variable(texts), hints(version))
    assert name == codec
    assert strings(result) == texts
    name, _ = through_block(variable(texts), hints(version, dict_values_compression="none"))
    assert name == "variable"
    name, result = through_block(variable(texts), hints(version, dict_values_compression="zstd"))
    assert name == codec
    assert strings(result) == texts


@pytest.mark.parametrize(
    ("numbers", "version", "codec"),
    [
        (np.arange(3), "2.1", "flat"),
        (np.arange(1000), "2.1", "inline_bitpacking"),
        (np.arange(3000), "2.1", "out_of_line_bitpacking"),
        (np.repeat(np.arange(10), 300), "2.1", "out_of_line_bitpacking"),
        (np.repeat(np.arange(10), 300), "2.2", "rle"),
        (RNG.integers(0, 2**63, 500), "2.2", "flat"),
    ],
)
def test_fixed_items_as_a_block(numbers: np.ndarray, version: str, codec: str) -> None:
    values = FixedWidth(64, len(numbers), numbers.astype("<u8").view(np.uint8))
    name, result = through_block(values, hints(version))
    assert name == codec
    assert isinstance(result, FixedWidth)
    np.testing.assert_array_equal(result.data, values.data)


def test_int64_items_as_they_are_known() -> None:
    numbers = np.array([10**17, 2 * 10**17], np.int64)
    name, result = through_block(FixedWidth(64, 2, numbers.view(np.uint8)), hints("2.2"))
    assert name == "flat"
    assert isinstance(result, FixedWidth)
    assert result.data.tobytes() == numbers.tobytes()


def test_kernels_refuse_offsets_that_leave_their_bytes() -> None:
    for wrong in [[0, 5], [3, 1], [-1, 2], []]:
        with pytest.raises(ValueError, match="offsets"):
            _kernels.distinct_strings(np.array(wrong, np.int32), np.zeros(4, np.uint8), 9, 9)
