"""Bounds of the values of zones, against plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

NOTHING = np.empty(0, np.uint8)
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")


@given(st.sampled_from(KINDS), st.integers(0, 70), st.booleans(), st.integers(0, 1 << 30))
def test_the_bounds_of_zones(kind: str, count: int, has_nulls: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 100, count).astype(kind)
    if kind[0] == "f":
        values[rng.random(count) < 0.2] = np.nan
    valid = (rng.random(count) < 0.7).view(np.uint8) if has_nulls else NOTHING
    cuts = [0, int(rng.integers(0, count + 1)), count]
    low, high, present, nans = _kernels.zone_bounds(
        values.view(np.uint8), kind, valid, np.array(cuts)
    )
    lows, highs = low.view(kind), high.view(kind)
    for zone, (start, stop) in enumerate(pairwise(cuts)):
        there = values[start:stop]
        if has_nulls:
            there = there[valid[start:stop] == 1]
        numbers = there[~np.isnan(there)]
        assert (present[zone], nans[zone]) == (len(there), len(there) - len(numbers))
        if len(numbers):
            assert (lows[zone], highs[zone]) == (numbers.min(), numbers.max())


def zones(
    values: list[bytes | None], cuts: list[int], offset_type: str
) -> tuple[list[int], list[int], list[int]]:
    offsets = np.cumsum([0, *(len(value or b"") for value in values)]).astype(offset_type)
    data = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
    valid = np.array([value is not None for value in values], np.uint8)
    least, most, present = _kernels.zone_strings(offsets, data, valid, np.array(cuts, np.int64))
    return least.tolist(), most.tolist(), present.tolist()


@given(
    st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=20),
    st.sampled_from(["i4", "i8"]),
    st.data(),
)
def test_the_least_and_greatest_strings_of_zones(
    values: list[bytes | None], offset_type: str, data: st.DataObject
) -> None:
    middle = data.draw(st.integers(0, len(values)))
    cuts = [0, middle, len(values)]
    for zone, (least, most, present) in enumerate(
        zip(*zones(values, cuts, offset_type), strict=True)
    ):
        there = [value for value in values[cuts[zone] : cuts[zone + 1]] if value is not None]
        assert present == len(there)
        ends = [None if place < 0 else values[place] for place in (least, most)]
        assert ends == ([min(there), max(there)] if there else [None, None])


def test_zones_that_are_not_those_of_the_strings_are_refused() -> None:
    for cuts in ([0, 3], [-1, 2], [0, 2, 1]):
        with pytest.raises(ValueError, match="zones: cuts"):
            zones([b"a", b"b"], cuts, "i4")
        with pytest.raises(ValueError, match="zones: cuts"):
            _kernels.zone_bounds(np.zeros(2, np.uint8), "u1", NOTHING, np.array(cuts))
    for offsets in ([0, 2, 1], [0, 1, 3], [-1, 1, 2]):
        with pytest.raises(ValueError, match="offsets decrease or leave"):
            _kernels.zone_strings(
                np.array(offsets), np.zeros(2, np.uint8), np.ones(2, np.uint8), np.array([0, 2])
            )
    with pytest.raises(ValueError, match="kind x4"):
        _kernels.zone_bounds(NOTHING, "x4", NOTHING, np.array([0, 0]))
    with pytest.raises(ValueError, match="validity"):
        _kernels.zone_bounds(np.zeros(2, np.uint8), "u1", np.ones(1, np.uint8), np.array([0, 2]))
