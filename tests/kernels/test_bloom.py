"""Bloom filters: hashes as published, no value that was added is missed, sizes are checked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

BLOCK = 32


def hashes_of(values: list[bytes]) -> npt.NDArray[np.uint64]:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return _kernels.bloom_hashes(offsets, np.frombuffer(b"".join(values), np.uint8))


def test_hashes_are_those_of_xxh64() -> None:
    assert hashes_of([b"", b"a", b"abc"]).tolist() == [
        0xEF46DB3751D8E999,
        0xD24EC4F1A98C6E5B,
        0x44BC2CF5AD770999,
    ]


@given(st.lists(st.binary(max_size=80), max_size=30), st.integers(1, 5), st.binary(max_size=80))
def test_what_was_added_is_found(values: list[bytes], num_blocks: int, other: bytes) -> None:
    filters = np.zeros((2, num_blocks * BLOCK), np.uint8)
    hashes = hashes_of(values)
    _kernels.bloom_add(hashes, filters[0])
    ends = np.arange(3) * filters.shape[1]
    for number in range(len(values)):
        request = hashes[number : number + 1]
        assert _kernels.bloom_hits(ends, filters.reshape(-1), request).tolist() == [1, 0]
    hits = _kernels.bloom_hits(ends, filters.reshape(-1), hashes_of([other]))
    assert hits[1] == 0
    assert hits[0] or other not in values


def test_filters_of_no_whole_blocks_are_refused() -> None:
    hashes = hashes_of([b"a"])
    for size in (0, BLOCK - 1, BLOCK + 8):
        with pytest.raises(ValueError, match="bloom filter of"):
            _kernels.bloom_add(hashes, np.zeros(size, np.uint8))
        with pytest.raises(ValueError, match="bloom filter of"):
            _kernels.bloom_hits(np.array([0, size]), np.zeros(size, np.uint8), hashes)
    block = np.zeros(BLOCK, np.uint8)
    for ends in ([0, BLOCK + 1], [BLOCK, 0], [-BLOCK, 0], []):
        with pytest.raises(ValueError, match=r"bloom filter|no offsets"):
            _kernels.bloom_hits(np.array(ends, np.int64), block, hashes)
    with pytest.raises(ValueError, match="value"):
        _kernels.bloom_hashes(np.array([0, 2]), block[:1])


def test_offsets_at_both_ends_of_their_type_are_refused() -> None:
    """Their difference is beyond it."""
    ends = np.array([[2**63 - 1, -(2**63)], [-(2**63), 2**63 - 1]])
    block = np.zeros(BLOCK, np.uint8)
    for offsets in ends:
        with pytest.raises(ValueError, match="value: bytes"):
            _kernels.bloom_hashes(offsets, block)
        with pytest.raises(ValueError, match="bloom filter: bytes"):
            _kernels.bloom_hits(offsets, block, hashes_of([b"a"]))
        with pytest.raises(ValueError, match="JSON"):
            _kernels.json_lengths(offsets, block)
