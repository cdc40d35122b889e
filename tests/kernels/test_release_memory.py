"""Blocks that wait to be used again: bounded on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from alance import _kernels


def resident() -> int:
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(one.split()[1]) << 10 for one in lines if one.startswith("VmRSS"))


def test_kept_blocks_are_given_back() -> None:
    try:
        _kernels.release_memory(0)  # what other tests have left
        _kernels.release_memory(96 << 20)
        before = resident()
        for _ in range(2):
            blocks = [_kernels.blank(4 << 20) for _ in range(20)]
            for block in blocks:
                block[::4096] = 1
            del blocks, block
        assert resident() - before > 60 << 20
        _kernels.release_memory(0)
        assert resident() - before < 20 << 20
    finally:
        _kernels.release_memory(96 << 20)


def test_a_bound_is_no_negative_number() -> None:
    with pytest.raises(ValueError, match="negative"):
        _kernels.release_memory(-1)


def test_kept_blocks_are_trimmed_and_kept_again() -> None:
    def used() -> None:
        blocks = [_kernels.blank(4 << 20) for _ in range(12)]
        for block in blocks:
            block[::4096] = 1

    try:
        _kernels.release_memory(0)
        _kernels.release_memory(96 << 20)
        before = resident()
        for _ in range(2):
            used()
            assert resident() - before > 36 << 20
            _kernels.trim_memory(8 << 20)
            assert resident() - before < 20 << 20
    finally:
        _kernels.release_memory(96 << 20)
    with pytest.raises(ValueError, match="negative"):
        _kernels.trim_memory(-1)
