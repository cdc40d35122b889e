"""Kernels of the write side refuse what does not fit together."""

from __future__ import annotations

import weakref
from typing import Final

import numpy as np
import pytest

from alance import _kernels
from alance.file_version import FileVersion
from alance.format.encode.options import FieldOptions
from alance.format.encode.page_inputs import Hints, PageMode
from alance.format.layouts.base import Layer

NOTHING = np.empty(0, np.uint8)


def levels(*values: int) -> np.ndarray:
    return np.array(values, np.uint16)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def octets(*values: int) -> np.ndarray:
    return np.array(values, np.uint8)


def test_nulls_are_marked_by_their_level() -> None:
    definition = levels(0, 7, 2, 0)
    _kernels.mark_nulls(definition, 5, octets(1, 1, 0), 3)
    assert definition.tolist() == [3, 7, 2, 0]


@pytest.mark.parametrize(
    ("nulls", "level"),
    [(octets(1), 3), (octets(0, 0, 0), 3), (octets(1, 0), 0), (octets(1, 0), 1 << 16)],
)
def test_nulls_that_do_not_fit(nulls: np.ndarray, level: int) -> None:
    with pytest.raises(ValueError, match="levels"):
        _kernels.mark_nulls(levels(0, 9, 0), 5, nulls, level)


def test_lists_are_expanded_to_levels() -> None:
    rep, definition = _kernels.expand_lists(
        levels(0, 2, 0, 0), levels(0, 9, 0, 0), 5, numbers(0, 2, 2, 2), octets(0, 1, 0), 1, 3, 4
    )
    assert rep.tolist() == [1, 0, 2, 1, 1]
    assert definition.tolist() == [0, 0, 9, 3, 4]


@pytest.mark.parametrize(
    ("definition", "offsets", "nulls", "numbered"),
    [
        (levels(0), numbers(0, 1, 2), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(0, 1), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(0, 1, 2, 3), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(0, 2, 1), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(-1, 1, 2), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(0, 1, 2), octets(0), (1, 2, 3)),
        (levels(0, 0), numbers(0, 1, 2), octets(1, 0), (1, 2, 3)),
        (levels(1, 0), numbers(0, 1, 2), NOTHING, (1, 2, 3)),
        (levels(0, 0), numbers(0, 0, 1), NOTHING, (1, 2, -1)),
        (levels(0, 0), numbers(0, 0, 1), octets(1, 0), (1, -1, 3)),
        (levels(0, 0), numbers(0, 1, 2), NOTHING, (0, 2, 3)),
        (levels(0, 0), numbers(0, 1, 2), NOTHING, (1, 1 << 16, 3)),
    ],
)
def test_lists_that_do_not_fit(
    definition: np.ndarray, offsets: np.ndarray, nulls: np.ndarray, numbered: tuple[int, int, int]
) -> None:
    with pytest.raises(ValueError, match="levels"):
        _kernels.expand_lists(levels(0, 0), definition, 5, offsets, nulls, *numbered)


def test_strings_are_placed_with_filler_between() -> None:
    offsets = np.array([0, 2, 2, 5], np.int32)
    result = _kernels.place_strings(offsets, octets(1, 2, 3, 4, 5), numbers(0, 0, 4), 8, 7)
    assert result.tolist() == [1, 2, 7, 7, 3, 4, 5, 7]


@pytest.mark.parametrize(
    ("offsets", "starts", "total"),
    [
        ([0, 2, 5], numbers(0, 1), 8),
        ([0, 2, 5], numbers(0, 6), 8),
        ([0, 2, 5], numbers(-1, 4), 8),
        ([0, 2, 6], numbers(0, 2), 8),
        ([2, 0, 5], numbers(0, 2), 8),
        ([0, 2, 5], numbers(0), 8),
        ([], numbers(), 8),
    ],
)
def test_places_that_do_not_fit(offsets: list[int], starts: np.ndarray, total: int) -> None:
    for dtype in (np.int32, np.int64):
        ends = np.array(offsets, dtype)
        with pytest.raises(ValueError, match="strings"):
            _kernels.place_strings(ends, octets(1, 2, 3, 4, 5), starts, total, 0)


# Nullable items of lists that may be empty: definition levels of 1 have a value, those of 2 none.
LISTS: Final = (Layer.NULLABLE_ITEM, Layer.EMPTYABLE_LIST)
NUMBERS: Final = (3, "fixed", 8, octets(1, 2, 3))


def zipped(
    values: tuple[object, ...],
    layers: tuple[Layer, ...] = (Layer.ALL_VALID_ITEM,),
    rep: np.ndarray | None = None,
    definition: np.ndarray | None = None,
) -> list[str]:
    """The buffers of a full-zip page, in hexadecimal digits."""
    options = FieldOptions.of(Hints(FileVersion.V2_2, {}))
    page = (layers, rep, definition, values, None, options, 2, PageMode.ZIPPED, 0)
    result = _kernels.encode_pages([page], lambda data, _: data)[0]
    assert isinstance(result, tuple)
    assert len(result) == 3
    assert result[2] == tuple(range(1, len(result[1])))
    return [buffer.tobytes().hex() for buffer in result[1]]


def test_rows_are_zipped_with_their_levels() -> None:
    nested = LISTS, levels(1, 0, 1), levels(0, 1, 2)
    values = (2, "fixed", 16, octets(5, 6, 7, 8))
    assert zipped(values, *nested) == ["04050601070806", "000607"]
    strings = (2, "strings", np.array([0, 1, 2], np.int32), octets(5, 6))
    assert zipped(strings, *nested) == ["0401000000050106", "000708"]


def test_lists_and_structs_are_zipped_without_levels() -> None:
    items = (4, "fixed", 8, octets(1, 2, 3, 4))
    lists = (2, "lists", 2, octets(0b0111), items)
    assert zipped(lists) == ["030102010304"]
    assert zipped((2, "lists", 2, octets(0b0111), (4, "nulls"))) == ["0301"]
    strings = (2, "strings", np.array([0, 1, 1], np.int64), octets(9))
    rows = "030102" + "01" + "0" * 14 + "09" + "010304" + "00" * 8
    lengths = "0c000000", "0b000000"
    zipped_rows = lengths[0] + rows[:24] + lengths[1] + rows[24:]
    assert zipped((2, "structs", [lists, strings])) == [zipped_rows, "00101f"]
    numbers = (2, "fixed", 16, octets(5, 6, 7, 8))
    assert zipped((2, "structs", [numbers, (2, "fixed", 8, octets(1, 2))])) == ["050601070802"]


def test_rows_that_are_their_values_are_not_copied() -> None:
    options = FieldOptions.of(Hints(FileVersion.V2_2, {}))
    layers, data = (Layer.ALL_VALID_ITEM,), np.arange(1000, dtype=np.uint8)
    values = (500, "fixed", 16, data)
    page = (layers, None, None, values, None, options, 2, PageMode.ZIPPED, 0)
    result = _kernels.encode_pages([page], lambda data, _: data)[0]
    assert isinstance(result, tuple)
    assert len(result) == 3
    _, (rows,), search = result
    assert np.shares_memory(rows, data)
    assert search == ()
    alive = weakref.ref(data)
    del data, values, page
    assert alive() is not None  # because the rows are a view
    assert rows.tobytes() == np.arange(1000, dtype=np.uint8).tobytes()
    del result, rows
    assert alive() is None


@pytest.mark.parametrize(
    ("rep", "definition", "values"),
    [
        (levels(1, 0), levels(0, 0, 0), NUMBERS),
        (levels(1, 0, 1), levels(0, 0), NUMBERS),
        (levels(1, 0, 1), levels(0, 0, 4), (2, "fixed", 8, octets(1, 2))),
        (levels(1, 2, 1), levels(0, 0, 0), NUMBERS),
        (levels(0, 0, 1), levels(0, 0, 0), NUMBERS),
        (levels(1, 0, 1), levels(0, 0, 0), (2, "fixed", 8, octets(1, 2))),
        (levels(1, 0, 1), levels(0, 0, 0), (3, "fixed", 8, octets(1, 2))),
        (levels(1, 0, 1), levels(0, 0, 0), (3, "fixed", 0, octets(1, 2, 3))),
        (None, levels(0, 0, 0), NUMBERS),
    ],
)
def test_rows_that_do_not_fit(
    rep: np.ndarray | None, definition: np.ndarray, values: tuple[object, ...]
) -> None:
    with pytest.raises(ValueError, match=r"zip|pages"):
        zipped(values, LISTS, rep, definition)


@pytest.mark.parametrize(
    "values",
    [
        (2, "lists", 2, None, (3, "fixed", 8, octets(1, 2, 3))),
        (2, "lists", 0, None, (0, "fixed", 8, octets())),
        (9, "lists", 1 << 62, None, (9, "fixed", 8, octets())),
        (9, "lists", 1, octets(1), (9, "fixed", 8, octets(*range(9)))),
        (3, "structs", [NUMBERS, (2, "fixed", 8, octets(1, 2))]),
        (-1, "nulls"),
    ],
)
def test_children_that_do_not_fit(values: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="pages"):
        zipped(values)


@pytest.mark.parametrize(
    "values",
    [
        (3, "others"),
        (3, "nulls"),
        (3, "fixed", 9, octets(1, 2, 3, 4)),
        (3, "structs", []),
        (3, "structs", [(3, "structs", [NUMBERS])]),
        (3, "structs", [NUMBERS, (3, "others")]),
        (3, "structs", [(3, "fixed", 1, octets(1))]),
        (3, "lists", 1, None, (3, "fixed", 1, octets(7))),
        (3, "lists", 1, None, (3, "nulls")),
    ],
)
def test_values_that_no_page_holds(values: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        zipped(values)


@pytest.mark.parametrize("offsets", [[0, 1], [0, 1, 2, 3], [0, 1, 9], [0, 2, 1], [-1, 1, 2]])
def test_strings_that_do_not_fit(offsets: list[int]) -> None:
    for dtype in (np.int32, np.int64):
        with pytest.raises(ValueError, match="strings"):
            zipped((2, "strings", np.array(offsets, dtype), octets(1, 2)))
