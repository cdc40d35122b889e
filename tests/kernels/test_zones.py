"""Bounds of the values of zones, as readers of the statistics have them, against plain Python."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.statistics import head_bytes, parse_head, parse_zones

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from alance.format.statistics import ColumnBounds

    Array = npt.NDArray[Any]

NOTHING = np.empty(0, np.uint8)
NUMBERS = {
    **{f"i{size}": pa.type_for_alias(f"int{8 * size}") for size in (1, 2, 4, 8)},
    **{f"u{size}": pa.type_for_alias(f"uint{8 * size}") for size in (1, 2, 4, 8)},
    "f2": pa.float16(),
    "f4": pa.float32(),
    "f8": pa.float64(),
}
CUTS = st.lists(st.integers(0, 1000), max_size=4)


def numbers_of(values: Array) -> tuple[object, ...]:
    """The kernel's form of numbers."""
    return len(values), "fixed", 8 * values.itemsize, values.view(np.uint8)


def pieces(count: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of rows that are added one after the other."""
    return list(pairwise(sorted({0, count, *(cut % (count + 1) for cut in cuts)})))


def read(zones: _kernels.Zones, arrow: pa.DataType) -> tuple[int, int, ColumnBounds]:
    """The rows of a zone, the nulls of the file, and the bounds of each zone."""
    content = memoryview(_kernels.statistics_buffer([zones], zlib.compress))
    size = head_bytes("x", content)
    assert size is not None
    head = parse_head("x", content[:size], len(content))
    start, num_bytes = head.block(3)
    bounds = parse_zones("x", head, 3, content[start : start + num_bytes], arrow)
    return head.zone_rows, int(head.entries["nulls"][0]), bounds


@given(
    st.sampled_from(list(NUMBERS)),
    st.integers(1, 170),
    st.booleans(),
    st.integers(0, 1 << 30),
    CUTS,
)
def test_the_bounds_of_zones(
    kind: str, count: int, has_nulls: bool, seed: int, cuts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 100, count).astype(kind)
    if kind[0] == "f":
        values = (values / np.asarray(7, kind) - np.asarray(5, kind)).astype(kind)
        if kind == "f2":  # also those below 2^-14, and infinity
            values = (values * rng.choice([1, 2.0**-16], count)).astype(kind)
            values[rng.random(count) < 0.1] = np.inf
        values[rng.random(count) < 0.2] = np.nan
    valid = (rng.random(count) < 0.7).view(np.uint8) if has_nulls else NOTHING
    zones = _kernels.Zones(3, kind, 17, 8)
    for start, stop in pieces(count, cuts):
        zones.add(numbers_of(values[start:stop]), valid[start:stop] if has_nulls else None)
    zone_rows, nulls, bounds = read(zones, NUMBERS[kind])
    assert zone_rows == (17 if count <= 8 * 17 else 34)
    assert nulls == (count - valid.sum() if has_nulls else 0)
    assert len(bounds.has_nulls) == -(-count // zone_rows)
    for zone, start in enumerate(range(0, count, zone_rows)):
        mask = valid[start : start + zone_rows] == 1 if has_nulls else slice(None)
        present = values[start : start + zone_rows][mask]
        numbers = present[~np.isnan(present)]
        rows = min(zone_rows, count - start)
        assert bounds.has_nulls[zone] == (len(present) < rows)
        assert bounds.has_nans[zone] == (len(numbers) < len(present))
        assert bounds.has_values[zone] == (len(numbers) > 0)
        ends = bounds.low[zone].as_py(), bounds.high[zone].as_py()
        assert ends == ((numbers.min(), numbers.max()) if len(numbers) else (None, None))


@given(
    st.lists(st.none() | st.binary(max_size=12) | st.just(b"a" * 40), min_size=1, max_size=40),
    st.sampled_from(["i4", "i8"]),
    CUTS,
)
def test_the_least_and_greatest_strings_of_zones(
    values: list[bytes | None], offset_type: str, cuts: list[int]
) -> None:
    zones = _kernels.Zones(3, "s", 8, 4)
    for start, stop in pieces(len(values), cuts):
        add_texts(zones, values[start:stop], offset_type)
    zone_rows, nulls, bounds = read(zones, pa.binary())
    assert zone_rows == (8 if len(values) <= 32 else 16)
    assert nulls == values.count(None)
    for zone, start in enumerate(range(0, len(values), zone_rows)):
        present = [value for value in values[start : start + zone_rows] if value is not None]
        low, high = bounds.low[zone].as_py(), bounds.high[zone].as_py()
        if not present:
            assert (low, high) == (None, None)
            continue
        assert min(present).startswith(low)
        assert len(low) in (len(min(present)), 16, 32)
        if high != max(present):
            assert len(high) < len(max(present))
            assert high[:-1] + bytes([high[-1] - 1]) == max(present)[: len(high)]


@given(
    st.integers(1, 1200),
    st.sampled_from([0.0, 0.002, 0.5, 0.998, 1.0]),
    st.sampled_from([None, 0.0, 0.01, 0.7]),
    st.integers(0, 1 << 30),
    CUTS,
)
def test_the_bounds_of_booleans(
    count: int, share_true: float, share_valid: float | None, seed: int, cuts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random(count) < share_true
    valid = np.ones(count, np.bool_) if share_valid is None else rng.random(count) < share_valid
    zones = _kernels.Zones(3, "b", 150, 8)
    for start, stop in pieces(count, cuts):
        mask = None if share_valid is None else valid[start:stop].view(np.uint8)
        bits = np.packbits(values[start:stop], bitorder="little")
        zones.add((stop - start, "fixed", 1, bits), mask)
    zone_rows, nulls, bounds = read(zones, pa.bool_())
    assert nulls == count - valid.sum()
    assert len(bounds.has_nulls) == -(-count // zone_rows)
    for zone, start in enumerate(range(0, count, zone_rows)):
        present = values[start : start + zone_rows][valid[start : start + zone_rows]]
        assert bounds.has_nulls[zone] == (len(present) < min(zone_rows, count - start))
        ends = bounds.low[zone].as_py(), bounds.high[zone].as_py()
        assert ends == ((present.min(), present.max()) if len(present) else (None, None))


def add_texts(zones: _kernels.Zones, values: Sequence[bytes | None], offset_type: str) -> None:
    offsets = np.cumsum([0, *(len(value or b"") for value in values)]).astype(offset_type)
    data = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
    valid = np.array([value is not None for value in values], np.uint8)
    zones.add((len(values), "strings", offsets, data), valid)


def test_texts_above_all_others_have_no_greatest_one() -> None:
    zones = _kernels.Zones(3, "s", 8, 4)
    add_texts(zones, [b"\xff" * 33, b"a"], "i4")
    _, _, bounds = read(zones, pa.binary())
    assert (bounds.low[0].as_py(), bounds.high[0].as_py()) == (b"a", None)


def test_columns_get_zones_of_one_width_and_empty_ones_are_left_out() -> None:
    wide, narrow, empty = (
        _kernels.Zones(column, "u1", rows, 1000) for column, rows in ((0, 16), (9, 4), (5, 64))
    )
    for zones in (wide, narrow):
        zones.add(numbers_of(np.arange(20, dtype=np.uint8)))
    content = memoryview(_kernels.statistics_buffer([wide, empty, narrow], zlib.compress))
    head = parse_head("x", content[: head_bytes("x", content)], len(content))
    assert (head.zone_rows, head.num_rows, list(head.rows)) == (16, 20, [0, 9])
    start, num_bytes = head.block(9)
    bounds = parse_zones("x", head, 9, content[start : start + num_bytes], pa.uint8())
    assert (bounds.low.to_pylist(), bounds.high.to_pylist()) == ([0, 16], [15, 19])
    assert _kernels.statistics_buffer([empty], zlib.compress) == b""


def test_values_that_are_not_those_of_the_zones_are_refused() -> None:
    texts, numbers = _kernels.Zones(3, "s", 8, 8), _kernels.Zones(3, "u4", 8, 8)
    for offsets in ([0, 2, 1], [0, 1, 3], [-1, 1, 2]):
        with pytest.raises(ValueError, match="offsets decrease or leave"):
            texts.add((2, "strings", np.array(offsets), np.zeros(2, np.uint8)))
    with pytest.raises(ValueError, match="offsets of other strings"):
        texts.add((0, "strings", np.empty(0, np.int64), NOTHING))
    no_texts, ones = (0, "strings", np.zeros(1, np.int64), NOTHING), np.ones(1, np.uint8)
    bits = _kernels.Zones(3, "b", 8, 8)
    for zones, values, message in (
        (numbers, no_texts, "numbers of 32 bits"),
        (bits, no_texts, "numbers of 1 bits"),
        (texts, numbers_of(ones), "texts"),
        (numbers, numbers_of(ones), "numbers of 32 bits"),
        (numbers, (1, "nulls"), "numbers of 32 bits"),
        (bits, numbers_of(ones), "numbers of 1 bits"),
        (numbers, (8, "fixed", 1, ones), "numbers of 32 bits"),
    ):
        with pytest.raises(ValueError, match=f"zones: other values than {message}"):
            zones.add(values)
    for zones, values in (
        (bits, (2, "fixed", 1, ones)),
        (numbers, numbers_of(np.zeros(2, np.uint32))),
    ):
        with pytest.raises(ValueError, match="validity of 1 of 2 values"):
            zones.add(values, ones)
    for count, size in ((9, 1), (1, 0), (-1, 1)):
        with pytest.raises(ValueError, match="pages: "):
            bits.add((count, "fixed", 1, np.zeros(size, np.uint8)))
    with pytest.raises(ValueError, match="kind x4"):
        _kernels.Zones(3, "x4", 8, 8)
    with pytest.raises(ValueError, match="no rows"):
        _kernels.Zones(3, "u4", 0, 8)
