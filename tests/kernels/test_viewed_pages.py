"""Pages whose bytes are their values: ranges of rows are views of the bytes that were read."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest

from alance import _kernels
from alance.format.codecs.base import ValuesForm
from alance.format.layouts.base import LevelsForm
from tests.kernels.page_columns import learn
from tests.reference.planned import plan_spans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alance.base.arrays import Bytes

ITEMS: Final = 128
WIDTH: Final = 4 * ITEMS
SHAPE: Final = (32, ITEMS)
ARROW: Final = pa.schema([pa.field("v", pa.list_(pa.float32(), ITEMS))])
ROWS: Final = 12


def table_of(starts: Sequence[int], control_bytes: int = 0) -> _kernels.ColumnPages:
    """Pages of six rows each, which begin at these bytes of a file."""
    kind = ValuesForm.ZIPPED, 8 * WIDTH, LevelsForm.NONE, control_bytes, control_bytes, False
    form = _kernels.PageForm(kind, None, 6, False)
    form.set_layers(3)
    size = 6 * (WIDTH + control_bytes)
    table = _kernels.ColumnPages([(((start, size),), 6, b"page") for start in starts])
    pages = _kernels.NewPages([table], [(0, number) for number in range(len(starts))], [0])
    pages.find([form])
    learn(pages)
    return table


def content(first: int = 0) -> Bytes:
    """Bytes of a file with twelve vectors behind `first` bytes."""
    vectors = np.arange(ROWS * ITEMS, dtype=np.float32)
    return np.concatenate([np.zeros(first, np.uint8), vectors.view(np.uint8)])


def rows_of(
    source: _kernels.Source, spans: Sequence[tuple[int, int]], starts: Sequence[int]
) -> pa.Array:
    plan = plan_spans([[table_of(starts)]], spans, [len(spans)])
    batch = _kernels.RowBatch([0], [0], [WIDTH], [False], shapes=[SHAPE])
    assert batch.read(plan, source)
    rows = pa.RecordBatch._import_from_c(batch.address, ARROW).column(0)
    rows.validate(full=True)
    return rows


def held(buffer: Bytes, retained_bytes: int = 0) -> _kernels.HeldSource:
    file = _kernels.HeldFile([], [])
    file.add(0, memoryview(buffer), retained_bytes)
    return _kernels.HeldSource([file])


def is_view(rows: pa.Array, buffer: Bytes) -> bool:
    address = rows.values.buffers()[1].address - buffer.ctypes.data
    return 0 <= address < len(buffer)


def values(first: int, last: int) -> list[float]:
    return np.arange(first * ITEMS, last * ITEMS, dtype=np.float32).tolist()


def test_neighbours_of_a_page_are_a_view_that_keeps_the_bytes() -> None:
    buffer = content()
    before = sys.getrefcount(buffer)
    rows = rows_of(held(buffer), [(2, 5)], [0])
    assert is_view(rows, buffer)
    gc.collect()
    assert rows.flatten().to_pylist() == values(2, 5)
    assert sys.getrefcount(buffer) > before
    arrays = [rows]
    del rows
    thread = threading.Thread(target=arrays.clear)  # any thread may release the array
    thread.start()
    thread.join()
    gc.collect()
    assert sys.getrefcount(buffer) == before


@pytest.mark.parametrize(
    ("first", "retained_bytes", "spans"),
    [
        (0, 1 << 20, [(2, 5)]),  # of a far larger response
        (1, 0, [(2, 5)]),  # not aligned
        (0, 0, [(2, 3), (4, 5)]),
        (0, 0, [(5, 7)]),  # of two pages
    ],
)
def test_other_rows_are_copied(
    first: int, retained_bytes: int, spans: list[tuple[int, int]]
) -> None:
    buffer = content(first)
    rows = rows_of(held(buffer, retained_bytes), spans, [first, first + 6 * WIDTH])
    assert not is_view(rows, buffer)
    expected = [value for span in spans for value in values(*span)]
    assert rows.flatten().to_pylist() == expected


def test_a_file_is_read_into_the_memory_of_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content(64).tobytes())
    file = os.open(path, os.O_RDONLY)
    try:
        source = _kernels.FileSource([file], 0)
        rows = rows_of(source, [(1, 4), (5, 12)], [64, 64 + 6 * WIDTH])
        assert rows.flatten().to_pylist() == values(1, 4) + values(5, 12)
        plan = plan_spans([[table_of([64, 1 << 30])]], [(0, 12)], [1])
        batch = _kernels.RowBatch([0], [0], [WIDTH], [False], shapes=[SHAPE])
        assert not batch.read(plan, source)
        assert batch.address == 0
    finally:
        os.close(file)


def test_bytes_at_hand_are_viewed_too() -> None:
    buffer = content()[: 6 * WIDTH]
    plan = plan_spans([[table_of([0])]], [(0, 6)], [1])
    batch = _kernels.RowBatch([0], [0], [WIDTH], [False], shapes=[SHAPE])
    batch.decode(plan, memoryview(buffer))
    rows = pa.RecordBatch._import_from_c(batch.address, ARROW).column(0)
    assert is_view(rows, buffer)
    batch = _kernels.RowBatch([0], [0], [WIDTH], [False], shapes=[SHAPE])
    with pytest.raises(ValueError, match="row batch"):
        batch.decode(plan, memoryview(buffer[1:]))


def test_rows_behind_control_words_are_copied() -> None:
    vectors = content().reshape(ROWS, WIDTH)[:6]
    words = np.arange(6, dtype=np.uint8)[:, None] % 2
    buffer = np.concatenate([words, vectors], axis=1).reshape(-1)
    plan = plan_spans([[table_of([0], control_bytes=1)]], [(0, 6)], [1])
    batch = _kernels.RowBatch([0], [0], [WIDTH], [False], shapes=[SHAPE])
    assert batch.read(plan, held(buffer))
    rows = pa.RecordBatch._import_from_c(batch.address, ARROW).column(0)
    assert not is_view(rows, buffer)
    assert [row is None for row in rows.to_pylist()] == [False, True] * 3
