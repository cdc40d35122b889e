"""Kernels of the write side refuse what does not fit together."""

from __future__ import annotations

import numpy as np
import pytest

from alance import _kernels

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


def test_rows_are_zipped_with_their_levels() -> None:
    rows, starts = _kernels.zip_fixed(
        levels(1, 0, 1), levels(0, 1, 2), 3, 1, 2, 1, 1, octets(5, 6, 7, 8), 2
    )
    assert rows.tobytes().hex() == "04050601070806"
    assert starts.tolist() == [0, 6, 7]
    offsets = np.array([0, 1, 2], np.int64)
    rows, starts = _kernels.zip_variable(
        levels(1, 0, 1), levels(0, 1, 2), 3, 1, 2, 1, 1, offsets, octets(5, 6), 4
    )
    assert rows.tobytes().hex() == "0401000000050106"
    assert starts.tolist() == [0, 7, 8]


@pytest.mark.parametrize(
    ("rep", "definition", "form", "values", "width"),
    [
        (levels(1, 0), levels(0, 0, 0), (3, 1, 2, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0), (3, 1, 2, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0, 4), (3, 1, 2, 1, 1), octets(1, 2), 1),
        (levels(1, 2, 1), levels(0, 0, 0), (3, 1, 2, 1, 1), octets(1, 2, 3), 1),
        (levels(0, 0, 1), levels(0, 0, 0), (3, 1, 2, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0, 0), (3, 3, 2, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0, 0), (3, 0, 0, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0, 0), (3, 1, 9, 1, 1), octets(1, 2, 3), 1),
        (levels(1, 0, 1), levels(0, 0, 0), (3, 1, 2, 1, 1), octets(1, 2), 1),
        (levels(1, 0, 1), levels(0, 0, 0), (3, 1, 2, 1, 1), octets(1, 2, 3), 0),
        (levels(), levels(), (-1, 1, 2, 0, 1), octets(), 1),
    ],
)
def test_rows_that_do_not_fit(
    rep: np.ndarray,
    definition: np.ndarray,
    form: tuple[int, int, int, int, int],
    values: np.ndarray,
    width: int,
) -> None:
    with pytest.raises(ValueError, match="zip"):
        _kernels.zip_fixed(rep, definition, *form, values, width)


@pytest.mark.parametrize(
    ("offsets", "length_bytes"),
    [
        ([0, 1], 4),
        ([0, 1, 2, 3], 4),
        ([0, 1, 9], 4),
        ([0, 2, 1], 4),
        ([-1, 1, 2], 4),
        ([0, 1, 2], 2),
    ],
)
def test_strings_that_do_not_fit(offsets: list[int], length_bytes: int) -> None:
    for dtype in (np.int32, np.int64):
        ends = np.array(offsets, dtype)
        with pytest.raises(ValueError, match="zip"):
            _kernels.zip_variable(
                levels(), levels(), 2, 0, 0, 0, 0, ends, octets(1, 2), length_bytes
            )
