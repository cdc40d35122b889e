"""Blocks that wait to be used again: bounded on request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alance import _kernels

if TYPE_CHECKING:
    from alance.base.arrays import Bytes


def resident() -> int:
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


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


def test_blocks_are_used_again_for_sizes_that_fit_tightly() -> None:
    def place(block: Bytes) -> int:
        return int(block.ctypes.data)

    try:
        _kernels.release_memory(0)
        _kernels.release_memory(96 << 20)
        blocks = [_kernels.blank(size << 20) for size in (20, 12, 10)]
        places = [place(block) for block in blocks]
        del blocks
        tight = _kernels.blank(9 << 20)
        assert place(tight) == places[2]
        another = _kernels.blank(10 << 20)
        assert place(another) == places[1]
        smaller = _kernels.blank(15 << 20)  # 20 is a third larger
        assert place(smaller) not in places
        fitting = _kernels.blank(16 << 20)  # and now a fourth
        assert place(fitting) == places[0]
        del tight
        assert place(_kernels.blank(8 << 20)) == places[2]  # its size is kept along with it
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
