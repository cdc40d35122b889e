"""The container of 2.x files, on the whole file of the format's first test vector."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.container import (
    Container,
    FileEnd,
    open_container,
    open_containers,
    read_columns,
)
from alance.format.plans import run

# int32 [1, 2, 3] in column `x`, version 2.1, as pylance 14.0.2 writes it: 340 bytes.
WHOLE_FILE = (
    bytes.fromhex("2000")
    + b"\x48" * 62
    + bytes.fromhex("00000c00fefefefe010000000200000003000000fefefefe")
    + b"\x48" * 40
    + bytes.fromhex(
        "0a1b0a1912017820ffffffffffffffffff012a05696e743332300138011003"
        "0a2912270a250a1f2f6c616e63652e656e636f64696e67732e436f6c756d6e456e636f64696e6712020a00"
        "12400a0200401202021818032234"
        "12320a300a1d2f6c616e63652e656e636f64696e677332312e506167654c61796f7574120f"
        "0a0d1a040a0208203201013801"
        "4803"
        "9f000000000000006d00000000000000"
        "80000000000000001f00000000000000"
        "9f000000000000000c010000000000001c01000000000000"
        "0100000001000000020001004c414e43"
    )
)


def opened(content: bytes) -> Container:
    container, rounds = run(open_container("file", len(content)), content)
    assert len(rounds) == 1
    return container


def test_a_file_opens_in_one_round() -> None:
    container = opened(WHOLE_FILE)
    assert len(WHOLE_FILE) == 340
    assert container.version is FileVersion.V2_1
    assert container.num_columns == 1
    assert container.buffers.tolist() == [[0x80, 0x9F]]


def test_columns_come_out_of_the_tail() -> None:
    (column,), rounds = run(opened(WHOLE_FILE).read_columns([0]), WHOLE_FILE)
    assert rounds == []
    assert column.num_rows == 3
    assert column.pages[0].buffers == ((0, 2), (64, 24))


def test_the_schema_is_global_buffer_0() -> None:
    descriptor, _ = run(opened(WHOLE_FILE).read_descriptor(), WHOLE_FILE)
    assert descriptor.length == 3
    assert [field.name for field in descriptor.schema.fields] == ["x"]


def test_tables_beyond_the_tail_cost_one_more_round() -> None:
    tail = memoryview(WHOLE_FILE)[-60:]
    container, rounds = run(open_container("file", 340, tail), WHOLE_FILE)
    assert len(rounds) == 1
    (column,), _ = run(container.read_columns([0]), WHOLE_FILE)
    assert column.num_rows == 3


def test_many_files_are_opened_by_one_call_and_one_round() -> None:
    tails = [memoryview(WHOLE_FILE)[-size:] for size in (60, 340, 156, 100)]
    files = [FileEnd(f"file {number}", 340, tail) for number, tail in enumerate(tails)]
    together, rounds = run(open_containers(files), WHOLE_FILE)
    assert [extent.path for extent in rounds[0]] == ["file 0"]
    assert len(rounds) == 1
    for file, container in zip(files, together, strict=True):
        alone, _ = run(open_container(*file), WHOLE_FILE)
        assert (container.path, container.version) == (alone.path, alone.version)
        assert container.columns.span(0) == alone.columns.span(0)
        assert (container.buffers == alone.buffers).all()
    _, rounds = run(read_columns([(container, [0]) for container in together]), WHOLE_FILE)
    assert [extent.path for extent in rounds[0]] == ["file 2", "file 3"]  # the others have them
    assert [container.columns.column(0).num_rows for container in together] == [3] * 4


def test_of_many_files_the_broken_one_is_named() -> None:
    broken = WHOLE_FILE[:-1] + b"X"
    files = [FileEnd("good", 340, memoryview(WHOLE_FILE)), FileEnd("bad", 340, memoryview(broken))]
    with pytest.raises(CorruptFileError, match="bad: ends in"):
        run(open_containers(files), WHOLE_FILE)
    good, _ = run(open_container("good", 340), WHOLE_FILE)
    with pytest.raises(CorruptFileError, match="column 1 in good: the file has 1"):
        run(good.read_columns([0, 1]), WHOLE_FILE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (WHOLE_FILE[:-1], "ends in"),
        (WHOLE_FILE[-40:], "column metadata"),
        (WHOLE_FILE[:-16] + struct.pack("<IIHH4s", 1, 1, 2, 1, b"LANX")[4:], "ends in"),
    ],
)
def test_a_broken_footer_is_told(content: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        run(open_container("file", len(content)), content)


def test_a_later_version_is_refused() -> None:
    content = WHOLE_FILE[:-8] + struct.pack("<HH4s", 3, 0, b"LANC")
    with pytest.raises(UnsupportedError, match=r"3\.0"):
        run(open_container("file", len(content)), content)


@given(st.integers(0, 339), st.integers(1, 255))
def test_a_flipped_byte_is_read_or_told(position: int, change: int) -> None:
    content = bytearray(WHOLE_FILE)
    content[position] ^= change
    broken = bytes(content)
    try:
        container, _ = run(open_container("file", len(broken)), broken)
        run(container.read_columns(range(container.num_columns)), broken)
        run(container.read_descriptor(), broken)
    except AlanceError:
        pass
