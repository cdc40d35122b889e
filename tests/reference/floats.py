"""Special floats and their order: all NaNs are equal and above all numbers, both zeros are equal.

A model for every path that compares floats.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Rank = tuple[int, float]

TYPES: Final = {"f2": pa.float16(), "f4": pa.float32(), "f8": pa.float64()}
# NaN, NaN with a sign, a payload, a sign and a payload, and signalling: by their bits.
NANS: Final = {
    "f2": (0x7E00, 0xFE00, 0x7E01, 0xFFFF, 0x7C01, 0xFC01),
    "f4": (0x7FC00000, 0xFFC00000, 0x7FC0BEEF, 0xFFFFFFFF, 0x7F800001, 0xFF800001),
    "f8": (
        0x7FF8000000000000,
        0xFFF8000000000000,
        0x7FF800000000BEEF,
        0xFFFFFFFFFFFFFFFF,
        0x7FF0000000000001,
        0xFFF0000000000001,
    ),
}
OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def specials(kind: str) -> npt.NDArray[Any]:
    """All special values of a type, NaNs first; shape (n,).

    Args:
        kind: "f2", "f4" or "f8".
    """
    info = np.finfo(kind)
    nans = np.array(NANS[kind], f"u{kind[1]}").view(kind)
    positive = [
        0.0,
        info.smallest_subnormal,
        info.smallest_normal - info.smallest_subnormal,
        info.smallest_normal,
        1.0,
        1.0 + info.eps,
        info.max,
        np.inf,
    ]
    numbers = np.array([*positive, *(-number for number in positive)], kind)
    numbers[len(positive)] = -0.0
    return np.concatenate([nans, numbers])


def array_of(kind: str) -> pa.Array:
    """Return all special values, followed by a null."""
    return pa.concat_arrays([pa.array(specials(kind)), pa.nulls(1, TYPES[kind])])


def rank(value: float) -> Rank:
    """Return the sort key of a value."""
    return (1, 0.0) if np.isnan(value) else (0, float(value))


def ranks(values: pa.Array) -> list[Rank | None]:
    """Return the ranks of values; None for nulls."""
    return [None if value is None else rank(value) for value in values.to_pylist()]


def where(test: Callable[[Rank], bool], values: Sequence[Rank | None]) -> list[int]:
    """Return the positions of values that pass a test; nulls never do."""
    return [place for place, value in enumerate(values) if value is not None and test(value)]
