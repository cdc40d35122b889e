"""Pages of the kernel that takes rows refuse what would let it read beyond their bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from alance import _kernels
from alance.format.layouts.row_pages import ValuesForm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_CHUNKS = np.empty(0, np.int64)
FIXED = np.zeros(16, np.uint8)


def page_of(values: ValuesForm, bits: int) -> _kernels.RowPage:
    """A page of four rows; its chunk is made of its header and its values."""
    if values is ValuesForm.ZIPPED:
        return _kernels.RowPage(
            NO_CHUNKS, NO_CHUNKS, 0, 4 * bits // 8, 4, values, bits, 0, 0, 0, False
        )
    rows, size = np.array([0, 4]), np.array([0, 8 + 4 * bits // 8])
    return _kernels.RowPage(rows, size, 0, int(size[-1]), 4, values, bits, 0, 0, 0, False)


@pytest.mark.parametrize(
    "give_items",
    [
        lambda page: page.set_items(FIXED, 8),
        lambda page: page.set_strings_32(np.array([0, 4, 8], np.int32), FIXED),
        lambda page: page.set_strings_64(np.array([0, 4, 8], np.int64), FIXED),
    ],
    ids=["fixed", "strings of 32 bits", "strings of 64 bits"],
)
@pytest.mark.parametrize(
    ("values", "bits"),
    [
        (ValuesForm.FLAT, 24),  # a word of eight bytes would be read for three
        (ValuesForm.FLAT, 128),
        (ValuesForm.FLAT, 1),  # an item would be read from the one byte of a bit
        (ValuesForm.STRINGS, 32),
        (ValuesForm.ZIPPED, 16),
    ],
)
def test_only_words_are_indices(
    values: ValuesForm, bits: int, give_items: Callable[[_kernels.RowPage], None]
) -> None:
    with pytest.raises(ValueError, match="no indices"):
        give_items(page_of(values, bits))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_are_indices(bits: int) -> None:
    page = page_of(ValuesForm.FLAT, bits)
    page.set_items(np.arange(8, dtype=np.uint8), 2)
    indices = np.array([3, 0, 1, 2], f"<u{bits // 8}").tobytes()
    header = len(indices).to_bytes(2, "little")
    chunk = np.frombuffer(b"\0\0" + header + bytes(4) + indices, np.uint8)
    plan = plan_of(page, [0, 3])
    sink = _kernels.RowSink(2, False, 2)
    sink.add(plan, 0, 1, chunk)
    assert bytes(sink.finish()[0]) == bytes([6, 7, 4, 5])


def plan_of(page: _kernels.RowPage, rows: list[int]) -> _kernels.RowPlan:
    """Rows of a page of four."""
    table = _kernels.RowTable(np.array([0, 4], np.int64))
    table.set(0, page, page, 0, True)
    return _kernels.plan_rows([[table]], np.array(rows, np.int64), [len(rows)])


def test_a_sink_knows_its_bounds() -> None:
    plan, content = plan_of(page_of(ValuesForm.ZIPPED, 16), [1, 3]), np.arange(4, dtype=np.uint8)
    sink = _kernels.RowSink(2, False, 2)
    sink.add(plan, 0, 1, content)
    assert sink.page == 0
    assert bytes(sink.finish()[0]) == bytes(content)
    with pytest.raises(ValueError, match="row sink"):
        sink.add(plan, 0, 1, content[:3])
    for first, last in ((0, 2), (1, 0)):
        with pytest.raises(ValueError, match="no such groups"):
            sink.add(plan, first, last, content)
    with pytest.raises(ValueError, match="different width"):
        _kernels.RowSink(4, False, 2).add(plan, 0, 1, content)
    with pytest.raises(ValueError, match="negative"):
        _kernels.RowSink(-1, False, 2)


def test_a_source_brings_what_memory_would(tmp_path: Path) -> None:
    content = np.arange(8, dtype=np.uint8)
    path = tmp_path / "file"
    path.write_bytes(bytes(content))
    plan = plan_of(page_of(ValuesForm.ZIPPED, 16), [1, 3])
    fd = os.open(path, os.O_RDONLY)
    try:
        sink, source = _kernels.RowSink(2, False, 2), _kernels.FileSource([fd], 4096)
        assert sink.add_from(plan, 0, 1, source)
        assert bytes(sink.finish()[0]) == bytes([2, 3, 6, 7])
        path.write_bytes(b"123")
        assert not sink.add_from(plan, 0, 1, source)
        assert (source.status, source.file) == (-2, 0)
        with pytest.raises(ValueError, match="no such file"):
            sink.add_from(plan, 0, 1, _kernels.FileSource([], 4096))
    finally:
        os.close(fd)
    assert not sink.add_from(plan, 0, 1, source)
    assert source.status > 0, "the number of the system's error"
