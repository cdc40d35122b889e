"""Digests of many values are those of Python's hashlib; sizes are checked."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

METHODS = ("md5", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")


def check(values: list[bytes]) -> None:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    content = np.frombuffer(b"".join(values), np.uint8)
    for method, name in enumerate(METHODS):
        expected = b"".join(hashlib.new(name, value).digest() for value in values)
        for baseline in (False, True):
            digests = _kernels.digests(offsets, content, method, baseline)
            assert digests.tobytes() == expected, (name, baseline)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_digests_are_those_of_hashlib(values: list[bytes]) -> None:
    check(values)


def test_every_length_about_the_ends_of_blocks() -> None:
    check([bytes(range(256))[:length] * 1 for length in range(257)])
    check([b"x" * length for length in (*range(500, 520), 100_000)])


def test_no_value_and_empty_ones() -> None:
    check([])
    check([b"", b""])


def test_wrong_methods_and_offsets_are_refused() -> None:
    content = np.zeros(4, np.uint8)
    for method in (-1, 8):
        with pytest.raises(ValueError, match="digests of method"):
            _kernels.digests(np.array([0, 4]), content, method)
    for offsets in ([0, 5], [3, 2], [-1, 2]):
        with pytest.raises(ValueError, match="value"):
            _kernels.digests(np.array(offsets), content, 0)
    with pytest.raises(ValueError, match="no offsets"):
        _kernels.digests(np.zeros(0, np.int64), content, 0)
