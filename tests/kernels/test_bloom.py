"""Bloom filters of zones of rows, and the hashes of values."""

from __future__ import annotations

import numpy as np
import pytest

from alance import _kernels


def test_bloom_filters_have_what_was_added_to_them() -> None:
    texts = [b"", b"a", b"four", b"eight by", b"x" * 31, b"y" * 32, b"z" * 77]
    offsets = np.cumsum([0, *map(len, texts)])
    hashes = _kernels.bloom_hashes(offsets, np.frombuffer(b"".join(texts), np.uint8))
    # Seed 0, as the reference implementation gives them.
    assert [f"{value:x}" for value in hashes[:2].tolist()] == [
        "ef46db3751d8e999",
        "d24ec4f1a98c6e5b",
    ]
    filters = np.zeros(2 * 1024, np.uint8)
    _kernels.bloom_add(hashes, filters[:1024])
    ends = np.array([0, 1024, 2048])
    for value in hashes:
        assert _kernels.bloom_hits(ends, filters, np.array([value])).tolist() == [1, 0]
    assert _kernels.bloom_hits(ends, filters, hashes[:0]).tolist() == [0, 0]
    for bad in ([0, 33], [0, 4096], [32, 0], [-32, 0], [0, 0]):
        with pytest.raises(ValueError, match="bloom filter"):
            _kernels.bloom_hits(np.array(bad), filters, hashes)
    with pytest.raises(ValueError, match="value"):
        _kernels.bloom_hashes(np.array([0, 9]), filters[:8])
    with pytest.raises(ValueError, match="no offsets"):
        _kernels.bloom_hashes(np.array([], np.int64), filters)
    with pytest.raises(ValueError, match="bloom filter"):
        _kernels.bloom_add(hashes, filters[:31])
