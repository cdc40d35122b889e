"""The search-cache buffer: where it is, what it is checked by, who ignores it."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import lance.file
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.format.container import (
    FOOTER,
    SEARCH_BUFFER_MAGIC,
    TAIL_BYTES,
    TRAILER,
    Container,
    open_container,
)
from alance.format.layouts import page_form
from alance.format.plans import run
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from alance.format.container import FileColumn

ROWS = 30_000


def table() -> pa.Table:
    dice = np.random.default_rng(3)
    return pa.table(
        {
            "n": pa.array(dice.integers(0, 1 << 40, ROWS)),
            "word": pa.array(np.array(["a", "bee", "sea"])[dice.integers(0, 3, ROWS)]),
            "list": pa.array([[n] * (n % 4) for n in range(ROWS)]),
            "text": pa.array([f"{n:05}" * 60 for n in range(ROWS)]),
        }
    )


def opened(content: bytes) -> tuple[Container, list[FileColumn]]:
    container, _ = run(open_container("f", len(content)), content)
    columns, _ = run(container.read_columns(range(container.num_columns)), content)
    return container, columns


def needed_first(container: Container, column: FileColumn) -> list[tuple[int, int]]:
    """(start, stop) of what each page asks for before rows of it can be taken."""
    result: list[tuple[int, int]] = []
    for number in range(column.num_pages):
        pages = _kernels.NewPages([column.kernel], [(0, number)], [0])
        pages.find([*map(page_form, pages.descriptions)])
        _, _, starts, stops, _ = pages.spans()
        result += zip(starts.tolist(), stops.tolist(), strict=True)
    return result


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_all_that_is_needed_first_lies_in_the_tail(version: str) -> None:
    content = file_bytes(table(), version, page_bytes=16 << 20)
    assert len(content) > 10 * TAIL_BYTES
    container, columns = opened(content)
    assert container.search is not None
    first, last = container.buffers[-1]
    for column in columns[:3]:
        for start, stop in needed_first(container, column):
            assert first <= start
            assert stop <= last
            assert container.search.entries[start][0] == stop - start
    # The index of rows of long text is too large, and stays with its page.
    assert all(start < first for start, _ in needed_first(container, columns[3]))


def test_the_limit_of_a_file() -> None:
    container, _ = opened(file_bytes(table(), "2.2", page_bytes=20_000, search_bytes=500))
    assert container.search is not None
    assert 0 < sum(size for size, _ in container.search.entries.values()) <= 500
    none, _ = opened(file_bytes(table(), "2.2", search_bytes=0))
    assert none.search is None
    assert len(none.buffers) == 1


def test_other_bytes_than_were_written() -> None:
    content = bytearray(file_bytes(table(), "2.2"))
    container, columns = opened(bytes(content))
    start, stop = needed_first(container, columns[0])[0]
    content[stop - 1] ^= 1
    container, columns = opened(bytes(content))
    with pytest.raises(CorruptFileError, match=f"at {start} .*checksum"):
        container.check(start, stop)


def trailer_at(content: bytes) -> int:
    *_, gbo, num_buffers, _, _, _, _ = FOOTER.unpack(content[-FOOTER.size :])
    start, size = struct.unpack_from("<QQ", content, gbo + 16 * (num_buffers - 1))
    return int(start + size - TRAILER.size)


def test_a_later_version_is_ignored() -> None:
    content = bytearray(file_bytes(table(), "2.2"))
    at = trailer_at(bytes(content))
    count, version, _, magic = TRAILER.unpack_from(content, at)
    assert magic == SEARCH_BUFFER_MAGIC
    TRAILER.pack_into(content, at, count, version + 1, 0, SEARCH_BUFFER_MAGIC)
    container, _ = opened(bytes(content))
    assert container.search is None


def test_a_table_larger_than_its_buffer() -> None:
    content = bytearray(file_bytes(table(), "2.2"))
    TRAILER.pack_into(content, trailer_at(bytes(content)), 1 << 31, 1, 0, SEARCH_BUFFER_MAGIC)
    with pytest.raises(CorruptFileError, match="search-cache buffer"):
        opened(bytes(content))


@cache
def small_file() -> bytes:
    return file_bytes(table().slice(0, 500), "2.2")


@settings(max_examples=60)
@given(st.data())
def test_damage_is_an_error_of_ours_or_none(data: st.DataObject) -> None:
    content = bytearray(small_file())
    at = trailer_at(bytes(content))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(at - 64, at + TRAILER.size - 1))
        content[place] = data.draw(st.integers(0, 255))
    with suppress(AlanceError):
        opened(bytes(content))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_readers_that_do_not_know_it(tmp_path: Path, version: str) -> None:
    path = tmp_path / "file.lance"
    rows = table()
    path.write_bytes(file_bytes(rows, version, page_bytes=100_000))
    reader = lance.file.LanceFileReader(str(path))
    assert reader.read_all().to_table().equals(rows)
    assert reader.take_rows([0, 77, 29_999]).to_table().equals(rows.take([0, 77, 29_999]))
