"""Tables of keys: numbers, what is found, bad buffers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels


def plain(values: list[bytes], *, before: int = 0) -> _kernels.Keys:
    """Keys of any length, their bytes not at the start of the buffer."""
    ends = np.cumsum([before, *(len(value) for value in values)], dtype=np.int64)
    return _kernels.Keys(ends, np.frombuffer(b"x" * before + b"".join(values), np.uint8))


def fixed(values: list[bytes], width: int) -> _kernels.Keys:
    return _kernels.Keys(np.frombuffer(b"".join(values), np.uint8), width)


def numbers_of(table: _kernels.KeyTable, others: _kernels.Keys, count: int) -> list[int]:
    """The number of each key; -1: not there."""
    result = np.full(count, -1)
    places, numbers = table.find(others)
    assert (np.diff(places) > 0).all()
    result[places] = numbers
    bits = np.unpackbits(table.contains(others), count=count, bitorder="little")
    assert ((result >= 0) == bits).all()
    return list(result.tolist())


@given(st.lists(st.binary(max_size=20)), st.lists(st.binary(max_size=2)), st.integers(0, 2**64 - 1))
def test_keys_of_any_length_are_found(values: list[bytes], others: list[bytes], seed: int) -> None:
    table = _kernels.KeyTable(plain(values), seed)
    distinct = list(dict.fromkeys(values))
    assert len(table) == len(distinct)
    target = [*values, *others]
    expected = [distinct.index(item) if item in distinct else -1 for item in target]
    assert numbers_of(table, plain(target, before=3), len(target)) == expected
    assert table.numbers().tolist() == expected[: len(values)]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 21])
def test_keys_of_fixed_width_are_found(width: int) -> None:
    rng = np.random.default_rng(width)
    values = [bytes(integer) for integer in rng.integers(0, 3, (5000, width), np.uint8)]
    table = _kernels.KeyTable(fixed(values, width), 5)
    distinct = {item: number for number, item in enumerate(dict.fromkeys(values))}
    assert table.numbers().tolist() == [distinct[value] for value in values]
    others = [bytes(integer) for integer in rng.integers(0, 4, (5000, width), np.uint8)]
    expected = [distinct.get(other, -1) for other in others]
    assert numbers_of(table, fixed(others, width), len(others)) == expected


def test_hashes_are_of_the_values() -> None:
    values = [b"a" * 8, b"b" * 8, b"a" * 8]
    hashes = fixed(values, 8).hashes(1)
    assert hashes[0] == hashes[2] != hashes[1]
    assert plain(values).hashes(1).tolist() == hashes.tolist()
    assert fixed(values, 8).hashes(2)[0] != hashes[0]


def test_an_empty_table_finds_nothing() -> None:
    table = _kernels.KeyTable(fixed([], 8), 1)
    assert len(table) == 0
    assert numbers_of(table, fixed([b"12345678"], 8), 1) == [-1]
    assert numbers_of(table, fixed([], 8), 0) == []


def test_buffers_that_contradict_themselves() -> None:
    data = np.zeros(8, np.uint8)
    with pytest.raises(ValueError, match="multiple of 3"):
        _kernels.Keys(data, 3)
    with pytest.raises(ValueError, match="keys of 0 bytes"):
        _kernels.Keys(data, 0)
    for offsets in ([0, 9], [4, 2, 8], [-1, 4]):
        with pytest.raises(ValueError, match="decrease or leave"):
            _kernels.Keys(np.array(offsets, np.int64), data)
    with pytest.raises(ValueError, match="no offsets"):
        _kernels.Keys(np.zeros(0, np.int64), data)
    table = _kernels.KeyTable(fixed([], 8), 1)
    for look_up in (table.find, table.contains):
        with pytest.raises(ValueError, match="the table has 8"):
            look_up(fixed([], 4))
    table.numbers()
    with pytest.raises(ValueError, match="taken before"):
        table.numbers()


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(min_size=2, max_size=2), st.binary())))
def test_equal_rows_alone_have_equal_joined_keys(rows: list[tuple[bytes, bytes, bytes]]) -> None:
    """Keys of several columns: equal rows have equal bytes, different rows different bytes."""
    item, two, three = ([row[place] for row in rows] for place in range(3))
    columns = [plain(item, before=1), fixed(two, 2), plain(three)]
    ends, data = _kernels.joined_keys(columns)
    values = [data[a:b].tobytes() for a, b in itertools.pairwise(ends)]
    assert values == [
        len(a).to_bytes(8, "little") + a + b + len(c).to_bytes(8, "little") + c for a, b, c in rows
    ]


def test_joined_columns_of_one_length() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        _kernels.joined_keys([fixed([b"a"], 1), fixed([], 1)])
    with pytest.raises(ValueError, match="no columns"):
        _kernels.joined_keys([])


ROWS = st.lists(st.tuples(st.binary(min_size=3, max_size=3), st.binary(max_size=12), st.booleans()))


def columns(rows: list[tuple[bytes, bytes, bool]], dtype: type) -> list[_kernels.Keys]:
    """Three columns: of three bytes, of any length, of one byte."""
    ends = np.cumsum([0, *(len(item) for _, item, _ in rows)], dtype=dtype)
    text = np.frombuffer(b"".join(item for _, item, _ in rows), np.uint8)
    flags = np.array([item for *_, item in rows], np.bool_).view(np.uint8)
    return [
        fixed([item for item, *_ in rows], 3),
        _kernels.Keys(ends, text),
        _kernels.Keys(flags, 1),
    ]


@given(ROWS, ROWS, st.integers(0, 2**64 - 1), st.sampled_from([np.int32, np.int64]))
def test_columns_side_by_side(
    rows: list[tuple[bytes, bytes, bool]],
    others: list[tuple[bytes, bytes, bool]],
    seed: int,
    dtype: type,
) -> None:
    distinct = list(dict.fromkeys(rows))
    target = [*rows, *others]
    expected = [distinct.index(item) if item in distinct else -1 for item in target]
    keys = _kernels.Keys.beside(columns(rows, np.int64))
    table = _kernels.KeyTable(keys, seed)
    assert table.numbers().tolist() == expected[: len(rows)]
    looked_up = _kernels.Keys.beside(columns(target, dtype))
    assert numbers_of(table, looked_up, len(target)) == expected
    assert len(set(keys.hashes(seed).tolist())) == len(distinct)


def test_columns_that_do_not_fit() -> None:
    item, two = fixed([b"abcd"], 4), fixed([b"abcd"], 2)
    with pytest.raises(ValueError, match="different lengths"):
        _kernels.Keys.beside([item, two])
    with pytest.raises(ValueError, match="no columns"):
        _kernels.Keys.beside([])
    with pytest.raises(ValueError, match="other columns"):
        _kernels.KeyTable(item, 1).find(_kernels.Keys.beside([item, item]))
