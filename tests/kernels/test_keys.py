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
    ends = np.cumsum([before, *(len(one) for one in values)], dtype=np.int64)
    return _kernels.Keys(ends, np.frombuffer(b"x" * before + b"".join(values), np.uint8))


def fixed(values: list[bytes], width: int) -> _kernels.Keys:
    return _kernels.Keys(np.frombuffer(b"".join(values), np.uint8), width)


def found_by(table: _kernels.KeyTable, others: _kernels.Keys, count: int) -> list[int]:
    """The number of each key; -1: not there."""
    found = np.full(count, -1)
    places, numbers = table.find(others)
    assert (np.diff(places) > 0).all()
    found[places] = numbers
    return list(found.tolist())


@given(st.lists(st.binary(max_size=20)), st.lists(st.binary(max_size=2)), st.integers(0, 2**64 - 1))
def test_any_length(values: list[bytes], others: list[bytes], seed: int) -> None:
    table = _kernels.KeyTable(plain(values), seed)
    distinct = list(dict.fromkeys(values))
    assert len(table) == len(distinct)
    wanted = [*values, *others]
    expected = [distinct.index(one) if one in distinct else -1 for one in wanted]
    assert found_by(table, plain(wanted, before=3), len(wanted)) == expected
    assert table.numbers().tolist() == expected[: len(values)]


@pytest.mark.parametrize("width", [1, 3, 8, 16, 21])
def test_fixed_width(width: int) -> None:
    rng = np.random.default_rng(width)
    values = [bytes(one) for one in rng.integers(0, 3, (5000, width), np.uint8)]
    table = _kernels.KeyTable(fixed(values, width), 5)
    distinct = {one: number for number, one in enumerate(dict.fromkeys(values))}
    assert table.numbers().tolist() == [distinct[one] for one in values]
    others = [bytes(one) for one in rng.integers(0, 4, (5000, width), np.uint8)]
    expected = [distinct.get(one, -1) for one in others]
    assert found_by(table, fixed(others, width), len(others)) == expected


def test_hashes_are_of_the_values() -> None:
    values = [b"a" * 8, b"b" * 8, b"a" * 8]
    hashes = fixed(values, 8).hashes(1)
    assert hashes[0] == hashes[2] != hashes[1]
    assert plain(values).hashes(1).tolist() == hashes.tolist()
    assert fixed(values, 8).hashes(2)[0] != hashes[0]


def test_nothing() -> None:
    table = _kernels.KeyTable(fixed([], 8), 1)
    assert len(table) == 0
    assert found_by(table, fixed([b"12345678"], 8), 1) == [-1]
    assert found_by(table, fixed([], 8), 0) == []


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
    with pytest.raises(ValueError, match="the table has 8"):
        table.find(fixed([], 4))
    table.numbers()
    with pytest.raises(ValueError, match="taken before"):
        table.numbers()


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(min_size=2, max_size=2), st.binary())))
def test_joined(rows: list[tuple[bytes, bytes, bytes]]) -> None:
    """Of several columns: the same bytes for the same rows, others for others."""
    one, two, three = ([row[place] for row in rows] for place in range(3))
    columns = [plain(one, before=1), fixed(two, 2), plain(three)]
    ends, data = _kernels.joined_keys(columns)
    made = [data[a:b].tobytes() for a, b in itertools.pairwise(ends)]
    assert made == [
        len(a).to_bytes(8, "little") + a + b + len(c).to_bytes(8, "little") + c for a, b, c in rows
    ]


def test_joined_columns_of_one_length() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        _kernels.joined_keys([fixed([b"a"], 1), fixed([], 1)])
    with pytest.raises(ValueError, match="no columns"):
        _kernels.joined_keys([])
