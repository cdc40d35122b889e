"""Floats with one zero and one NaN, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from alance import _kernels
from tests.reference.floats import NANS, specials


@pytest.mark.parametrize("kind", NANS)
def test_zeros_and_nans_become_equal_bits(kind: str) -> None:
    values = np.tile(specials(kind), 999)
    expected = np.where(np.isnan(values), np.float64("nan").astype(kind), values) + np.dtype(
        kind
    ).type(0)
    content = _kernels.canonical_floats(values.view(np.uint8), 8 * values.itemsize)
    assert content is not None
    whole = f"u{values.itemsize}"
    assert content.view(whole).tolist() == expected.view(whole).tolist()
    assert _kernels.canonical_floats(content, 8 * values.itemsize) is None


@pytest.mark.parametrize("kind", NANS)
def test_a_last_value_alone_is_found(kind: str) -> None:
    for value in (np.array(NANS[kind][1], f"u{kind[1]}").view(kind), -np.float64(0).astype(kind)):
        values = np.ones(9001, kind)
        values[-1] = value
        content = _kernels.canonical_floats(values.view(np.uint8), 8 * values.itemsize)
        assert content is not None
        assert content.view(kind)[:-1].tolist() == values[:-1].tolist()
    assert _kernels.canonical_floats(np.empty(0, np.uint8), 64) is None


@pytest.mark.parametrize(("size", "bits"), [(7, 64), (3, 16), (8, 8), (16, 128), (4, 0)])
def test_bytes_that_are_no_floats_are_refused(size: int, bits: int) -> None:
    with pytest.raises(ValueError, match="floats: "):
        _kernels.canonical_floats(np.zeros(size, np.uint8), bits)
