"""The container of 2.x files, on the whole file of the format's first test vector."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.container import Container, open_container
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
