"""Kernels over mini-block chunks, against plain Python."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

EMPTY = np.empty(0, np.uint16)
NONE = np.empty(0, np.int64)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def levels(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint16)


def padded(content: bytes) -> bytes:
    return content + b"\xfe" * (-len(content) % 8)


def chunk(entries: int, level_buffers: list[bytes], values: list[bytes], large: bool) -> bytes:
    header = struct.pack("<H", entries)
    header += b"".join(struct.pack("<H", len(one)) for one in level_buffers)
    header += b"".join(struct.pack("<I" if large else "<H", len(one)) for one in values)
    return padded(header) + b"".join(padded(one) for one in [*level_buffers, *values])


def split(
    data: bytes, sizes: list[int], level_buffers: int, value_buffers: int, large: bool
) -> tuple[list[int], list[list[bytes]]]:
    lengths = ints(*sizes)
    entries = np.empty(len(sizes), np.int64)
    spans = np.empty((2, level_buffers + value_buffers, len(sizes)), np.int64)
    array = np.frombuffer(data, np.uint8)
    _kernels.split_chunks(
        array,
        np.cumsum(lengths) - lengths,
        lengths,
        level_buffers,
        value_buffers,
        large,
        entries,
        spans[0].reshape(-1),
        spans[1].reshape(-1),
    )
    buffers = [
        [data[start : start + size] for start, size in spans[:, :, number].T.tolist()]
        for number in range(len(sizes))
    ]
    return entries.tolist(), buffers


@given(
    large=st.booleans(),
    level_buffers=st.integers(0, 2),
    value_buffers=st.integers(0, 3),
    data=st.data(),
)
def test_split_gives_back_the_buffers_of_each_chunk(
    large: bool, level_buffers: int, value_buffers: int, data: st.DataObject
) -> None:
    buffers = st.lists(
        st.binary(max_size=20),
        min_size=level_buffers + value_buffers,
        max_size=level_buffers + value_buffers,
    )
    wanted = data.draw(st.lists(st.tuples(st.integers(0, 65535), buffers), max_size=5))
    chunks = [
        chunk(entries, found[:level_buffers], found[level_buffers:], large)
        for entries, found in wanted
    ]
    entries, found = split(
        b"".join(chunks), [len(one) for one in chunks], level_buffers, value_buffers, large
    )
    assert entries == [one for one, _ in wanted]
    assert found == [one for _, one in wanted]


@given(content=st.binary(min_size=8, max_size=80), large=st.booleans())
def test_split_of_garbage_gives_spans_inside_the_chunk_or_fails(
    content: bytes, large: bool
) -> None:
    content = content[: len(content) // 8 * 8]
    try:
        _, found = split(content, [len(content)], 2, 2, large)
    except ValueError:
        return
    assert sum(len(one) for one in found[0]) <= len(content)


def test_split_refuses_a_chunk_outside_the_data() -> None:
    with pytest.raises(ValueError, match="chunk"):
        split(bytes(16), [24], 0, 1, False)


def test_split_refuses_a_chunk_smaller_than_its_header() -> None:
    with pytest.raises(ValueError, match="its header has 14"):
        split(bytes(8), [8], 1, 5, False)


def test_split_refuses_a_buffer_that_leaves_its_chunk() -> None:
    good = chunk(0, [], [b"12345678"], False)
    with pytest.raises(ValueError, match="chunk 0: buffer 0 of 9 bytes"):
        split(good[:2] + b"\x09" + good[3:] * 2, [len(good), len(good)], 0, 1, False)


def test_split_refuses_arrays_of_other_lengths() -> None:
    with pytest.raises(ValueError, match="unequal length"):
        _kernels.split_chunks(
            np.zeros(8, np.uint8), ints(0), ints(8), 0, 1, False, ints(0), NONE, NONE
        )


def check(rep: list[int], definition: list[int], entries: np.ndarray, **known: object) -> None:
    _kernels.check_levels(
        levels(rep),
        levels(definition),
        entries,
        known.get("max_rep", 1),
        known.get("max_def", 3),
        known.get("max_visible", 1),
        known.get("values", NONE),
        known.get("rows", NONE),
        np.array(known.get("carries", []), np.uint8),
    )


def test_levels_that_agree_pass() -> None:
    check(
        [1, 0, 0, 1], [0, 1, 2, 0], ints(2, 2), values=ints(2, 1), rows=ints(1, 1), carries=[0, 1]
    )


@pytest.mark.parametrize(
    ("rep", "definition", "known", "message"),
    [
        ([2, 0], [0, 0], {}, "chunk 0: repetition level 2, the layers have 1 lists"),
        ([1, 0], [0, 4], {}, "chunk 0: definition level 4, the layers use 3"),
        ([1, 0], [0, 2], {"values": ints(2)}, "chunk 0: 1 visible entries, expected 2"),
        ([1, 1], [0, 0], {"rows": ints(1)}, "chunk 0: 2 rows begin, expected 1"),
        ([1, 1], [0, 0], {"carries": [1]}, "but it begins inside a row"),
        ([0, 1], [0, 0], {"carries": [0]}, "but it begins with a row"),
        ([1, 1, 0], [0, 0, 0], {}, "3 repetition and 3 definition levels, expected 2"),
        ([1, 1], [0], {}, "2 repetition and 1 definition levels"),
    ],
)
def test_levels_that_disagree_are_refused(
    rep: list[int], definition: list[int], known: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check(rep, definition, ints(2), **known)


def test_large_counts_do_not_overflow() -> None:
    many = 200_000
    zeros = np.zeros(many, np.uint16)
    _kernels.check_levels(
        zeros, zeros, ints(many), 1, 0, 0, ints(many), ints(0), np.ones(1, np.uint8)
    )
    with pytest.raises(ValueError, match="200000 rows begin"):
        _kernels.check_levels(
            zeros + 1, zeros, ints(many), 1, 0, 0, ints(many), ints(0), np.zeros(0, np.uint8)
        )


def test_counts_whose_sum_wraps_are_refused() -> None:
    """2^64 levels and three, of which three are there."""
    entries = np.append(np.full(1 << 16, 1 << 48), 3)
    with pytest.raises(ValueError, match="a chunk of 281474976710656 levels"):
        check([1, 0, 0], [], entries)


def spans_of(
    rep: list[int], definition: list[int], breaks: list[int], wanted: list[int], visible: int
) -> list[tuple[int, int, int, int]]:
    """What `row_spans` gives, the slow way."""
    found = []
    start_of_run = 0
    for stop in breaks:
        starts = [i for i in range(start_of_run, stop) if rep[i] == 1]
        found += list(zip(starts, [*starts[1:], stop], strict=False))
        start_of_run = stop
    values = [0, *np.cumsum([d <= visible for d in definition]).tolist()]
    return [(a, b, values[a], values[b]) for a, b in (found[row] for row in wanted)]


@given(
    entries=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
    data=st.data(),
)
def test_row_spans_are_those_of_plain_python(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    rep, definition = [one for one, _ in entries], [one for _, one in entries]
    breaks = sorted({*data.draw(st.lists(st.integers(0, len(rep)), max_size=3)), len(rep)})
    wanted = sorted(data.draw(st.sets(st.integers(0, max(0, sum(rep) - 1))))) if sum(rep) else []
    spans = np.empty((4, len(wanted)), np.int64)
    _kernels.row_spans(
        levels(rep), levels(definition), ints(*breaks), ints(*wanted), 1, 1, spans.reshape(-1)
    )
    assert list(map(tuple, spans.T.tolist())) == spans_of(rep, definition, breaks, wanted, 1)


def test_row_spans_without_definition_levels_count_every_entry() -> None:
    spans = np.empty(4, np.int64)
    _kernels.row_spans(levels([1, 0, 1, 0, 0]), EMPTY, ints(5), ints(1), 1, 0, spans)
    assert spans.tolist() == [2, 5, 2, 5]


def test_row_spans_refuse_a_row_that_does_not_begin() -> None:
    with pytest.raises(ValueError, match="2 rows begin, row 2 of them was expected"):
        _kernels.row_spans(
            levels([1, 0, 1]), EMPTY, ints(3), ints(0, 2), 1, 0, np.empty(8, np.int64)
        )


def test_row_spans_refuse_breaks_outside_the_levels() -> None:
    with pytest.raises(ValueError, match="breaks"):
        _kernels.row_spans(levels([1]), EMPTY, ints(2), ints(0), 1, 0, np.empty(4, np.int64))
