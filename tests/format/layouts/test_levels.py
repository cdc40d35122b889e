"""Levels and chunks decoded by numpy, against plain Python."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.format.codecs.fixed import Flat
from alance.format.layouts.base import Layer
from alance.format.layouts.levels import NOT_CHECKED, Levels, Shape
from alance.format.layouts.miniblock_task import ChunkForm
from alance.format.layouts.place import PagePlace
from alance.format.layouts.repdef import list_layer
from tests.reference.chunks import padded

LISTS = Shape.from_proto([Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST])  # levels 1; 2, 3


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def levels(rep: list[int], definition: list[int] | None) -> Levels:
    return Levels(
        LISTS,
        len(rep),
        np.array(rep, np.uint16),
        None if definition is None else np.array(definition, np.uint16),
    )


def check(
    rep: list[int], definition: list[int], entries: np.ndarray, **recognized: np.ndarray
) -> None:
    levels(rep, definition).check(
        entries,
        values=recognized.get("values", NOT_CHECKED),
        rows=recognized.get("rows", NOT_CHECKED),
        carries=recognized.get("carries"),
    )


def test_levels_that_agree_pass() -> None:
    check(
        [1, 0, 0, 1],
        [0, 1, 2, 0],
        ints(2, 2),
        values=ints(2, 1),
        rows=ints(1, 1),
        carries=np.array([False, True]),
    )


@pytest.mark.parametrize(
    ("rep", "definition", "bounds", "message"),
    [
        ([2, 0], [0, 0], {}, "chunk 0: repetition level 2, the layers have 1 lists"),
        ([1, 0], [0, 4], {}, "chunk 0: definition level 4, the layers use 3"),
        ([1, 0], [0, 2], {"values": ints(2)}, "chunk 0: 1 visible entries, expected 2"),
        ([1, 1], [0, 0], {"rows": ints(1)}, "chunk 0: 2 rows begin, expected 1"),
        ([1, 1], [0, 0], {"carries": np.array([True])}, "but it begins inside a row"),
        ([0, 1], [0, 0], {"carries": np.array([False])}, "but it begins with a row"),
        ([1, 1, 0], [0, 0, 0], {}, "3 levels, expected 2"),
    ],
)
def test_levels_that_disagree_are_refused(
    rep: list[int], definition: list[int], bounds: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        check(rep, definition, ints(2), **bounds)


def spans_of(
    rep: list[int], definition: list[int], breaks: list[int], numbers: list[int]
) -> tuple[list[int], list[int]]:
    """Entries and values of rows, the slow way."""
    rows, begin = [], 0
    for stop in breaks:
        starts = [at for at in range(begin, stop) if rep[at] == 1]
        rows += list(zip(starts, [*starts[1:], stop], strict=False))
        begin = stop
    entries = [entry for row in numbers for entry in range(*rows[row])]
    before = np.cumsum([0, *[level <= LISTS.max_visible for level in definition]])
    return entries, [int(before[at]) for at in entries if definition[at] <= LISTS.max_visible]


@given(
    entries=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
    data=st.data(),
)
def test_rows_are_found_as_by_plain_python(
    entries: list[tuple[int, int]], data: st.DataObject
) -> None:
    rep, definition = [begins for begins, _ in entries], [level for _, level in entries]
    breaks = sorted({*data.draw(st.lists(st.integers(1, len(rep)), max_size=3)), len(rep)})
    rows = sorted(data.draw(st.sets(st.integers(0, sum(rep) - 1)))) if sum(rep) else []
    for own in (definition, None):
        chosen = levels(rep, own).choose(ints(*rows), ints(*breaks))
        values = [
            [*range(part.start, part.stop)] if isinstance(part, slice) else part.tolist()
            for part in chosen
        ]
        assert tuple(values) == spans_of(rep, own or [0] * len(rep), breaks, rows)


def test_a_row_that_does_not_begin_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="2 rows begin, row 2 of them was expected"):
        levels([1, 0, 1], None).choose(ints(0, 2), ints(3))


def layer_of(
    rep: list[int], definition: list[int], child: int, slot: int, empty: int
) -> tuple[list[int], list[bool], list[int], list[int]]:
    """Compute the result of `list_layer` in plain Python."""
    offsets, valid, outer_rep, outer_def, children = [], [], [], [], 0
    for begins, level in zip(rep, definition, strict=True):
        if begins and level <= slot:
            offsets.append(children)
            valid.append(level <= child or level == empty)
        if begins:
            outer_rep.append(begins - 1)
            outer_def.append(level)
        children += level <= child
    return [*offsets, children], valid, outer_rep, outer_def


@given(
    entries=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=40),
    child=st.integers(0, 2),
    more=st.integers(0, 2),
    empty=st.integers(-1, 4),
)
def test_a_list_layer_is_that_of_plain_python(
    entries: list[tuple[int, int]], child: int, more: int, empty: int
) -> None:
    rep, definition = [begins for begins, _ in entries], [level for _, level in entries]
    offsets, valid, outer_rep, outer_def = layer_of(rep, definition, child, child + more, empty)
    numbers = np.array(rep, np.uint16)
    lists, reps, definitions = list_layer(
        numbers, np.array(definition, np.uint16), child, child + more, empty
    )
    assert lists.offsets.tolist() == offsets
    assert (lists.valid is None) == all(valid)
    assert lists.valid is None or lists.valid.tolist() == valid
    assert reps.tolist() == outer_rep
    assert definitions is not None
    assert definitions.tolist() == outer_def
    if not any(definition):
        lists, reps, definitions = list_layer(numbers, None, child, child + more, empty)
        assert (lists.offsets.tolist(), reps.tolist()) == (offsets, outer_rep)


def test_levels_of_different_numbers_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="2 repetition and 1 definition"):
        list_layer(np.ones(2, np.uint16), np.ones(1, np.uint16), 0, 1, -1)


def form(value_buffers: int, *, large: bool) -> ChunkForm:
    class Values(Flat):
        num_buffers = value_buffers

    codec = Flat(16)
    return ChunkForm(PagePlace("", (), 0), LISTS, codec, codec, Values(8), large)


def chunk(entries: int, buffers: list[bytes], *, large: bool) -> bytes:
    header = struct.pack("<HHH", entries, len(buffers[0]), len(buffers[1]))
    header += b"".join(struct.pack("<I" if large else "<H", len(own)) for own in buffers[2:])
    return padded(header) + b"".join(map(padded, buffers))


@given(
    large=st.booleans(),
    entries=st.integers(0, 65535),
    buffers=st.lists(st.binary(max_size=20), min_size=2, max_size=5),
)
def test_a_chunk_is_taken_apart(*, large: bool, entries: int, buffers: list[bytes]) -> None:
    content = np.frombuffer(chunk(entries, buffers, large=large), np.uint8)
    own = form(len(buffers) - 2, large=large)
    result, parts = own.buffers_of(content, 0)
    assert (result, [part.tobytes() for part in parts]) == (entries, buffers)
    with pytest.raises(CorruptFileError, match="chunk 3: 5 bytes, its header has"):
        own.buffers_of(content[:5], 3)


@given(content=st.binary(max_size=80), large=st.booleans())
def test_garbage_gives_buffers_inside_the_chunk_or_is_refused(
    *, content: bytes, large: bool
) -> None:
    try:
        _, parts = form(2, large=large).buffers_of(np.frombuffer(content, np.uint8), 0)
    except CorruptFileError:
        return
    assert sum(map(len, parts)) <= len(content)
