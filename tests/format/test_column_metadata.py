"""The kernel that reads column metadata, against the parser of protobuf: equal, or left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.file_version import FileVersion
from alance.format.container import Container
from alance.format.plans import run
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.container import FileColumn


FILE_BYTES = 1 << 20
NUMBERS = st.one_of(
    st.integers(0, 300),
    st.integers(0, 127).map(lambda n: 64 * n),
    st.integers(0, (1 << 64) - 1),
)
URL = b"\n\x1f/lance.encodings.ColumnEncoding"


@st.composite
def encodings(draw: st.DrawFn) -> file2_pb2.Encoding:
    kind = draw(st.sampled_from(["direct"] * 8 + ["indirect", "none", ""]))
    message = file2_pb2.Encoding()
    if kind == "direct":
        message.direct.encoding = draw(st.sampled_from([b"", b"abc", URL, b"x" * 200]))
    elif kind == "indirect":
        message.indirect.buffer_location = draw(NUMBERS)
    elif kind:
        message.none.SetInParent()
    return message


@st.composite
def pages(draw: st.DrawFn) -> file2_pb2.ColumnMetadata.Page:
    count = draw(st.integers(0, 4))
    numbers = st.integers(0, 1 << 13).map(lambda n: 64 * n) if draw(st.booleans()) else NUMBERS
    offsets = draw(st.lists(numbers, min_size=count, max_size=count))
    sizes = draw(st.lists(numbers, min_size=count, max_size=count + draw(st.booleans())))
    page = file2_pb2.ColumnMetadata.Page(
        buffer_offsets=offsets, buffer_sizes=sizes, length=draw(NUMBERS), priority=draw(NUMBERS)
    )
    if draw(st.integers(0, 9)):
        page.encoding.CopyFrom(draw(encodings()))
    return page


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    message = file2_pb2.ColumnMetadata(
        pages=draw(st.lists(pages(), max_size=5)),
        buffer_offsets=draw(st.lists(NUMBERS, max_size=2)),
        buffer_sizes=draw(st.lists(NUMBERS, max_size=2)),
    )
    message.encoding.direct.encoding = URL
    if not draw(st.integers(0, 5)):
        message.encoding.CopyFrom(draw(encodings()))
    return message.SerializeToString()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Metadata cut short, with other bytes, with unknown fields, or two behind each other."""
    content = bytearray(draw(contents()))
    for _ in range(draw(st.integers(0, 3))):
        if content:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        del content[draw(st.integers(0, len(content))) :]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(content)))
        content[place:place] = draw(
            st.sampled_from([b"\x78\x05", b"\x7a\x03abc", b"\x7d1234", b"\x7912345678", b"\x0b"])
        )
    if not draw(st.integers(0, 5)):
        content += draw(contents())
    return bytes(content)


def file_of(contents: Sequence[bytes], version: FileVersion, first_index: int = 0) -> Container:
    """A file with the metadata of columns, one behind the other, from byte 1000 on."""
    ends = np.cumsum([0, *map(len, contents)]) + 1000
    spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1).tolist()
    alignment = 1 if version is FileVersion.V2_0 else 64
    columns = _kernels.FileColumns([1000] * 2 * first_index + spans, FILE_BYTES, alignment)
    buffers = np.empty((0, 2), np.int64)
    content = memoryview(b"".join(contents))
    return Container("f.lance", FILE_BYTES, version, columns, buffers, content, 1000)


def columns_of(file: Container, *indices: int) -> list[FileColumn]:
    columns, rounds = run(file.read_columns(indices), b"")
    assert rounds == []
    return columns


def outcome(content: bytes, version: FileVersion, *, by_kernel: bool) -> object:
    """Return the parsed metadata of a column, or the error."""
    kernel = _kernels.open_columns
    patch = pytest.MonkeyPatch()
    if not by_kernel:
        patch.setattr(_kernels, "open_columns", lambda _, columns, __: [(0, columns[0][0])])
    try:
        (column,) = columns_of(file_of([content], version, first_index=3), 3)
    except AlanceError as error:
        return type(error), str(error)
    finally:
        patch.undo()
        assert _kernels.open_columns is kernel
    return described(column)


def described(column: FileColumn) -> object:
    return (
        column.index,
        list(column.pages),
        len(column.pages),
        column.first_rows.tolist(),
        column.num_rows,
        column.buffer_bytes,
    )


@given(contents() | damaged() | st.binary(max_size=80), st.sampled_from(list(FileVersion)[1:]))
@example(b"", FileVersion.V2_0)
@example(b"\x9a\x80\x80\x80\x80\x00\x01\x05", FileVersion.V2_0)  # a tag of six bytes
def test_the_kernel_agrees_with_protobuf(content: bytes, version: FileVersion) -> None:
    assert outcome(content, version, by_kernel=True) == outcome(content, version, by_kernel=False)


@given(st.lists(st.integers(0, 100), max_size=6), st.integers(0, 4))
def test_what_writers_make_is_read_by_the_kernel(lengths: list[int], count: int) -> None:
    message = file2_pb2.ColumnMetadata()
    message.encoding.direct.encoding = URL
    for number, length in enumerate(lengths):
        page = message.pages.add(length=length, priority=7)
        page.buffer_offsets.extend(64 * index for index in range(count))
        page.buffer_sizes.extend(range(count))
        page.encoding.direct.encoding = b"even" if number % 2 else b"odd"
    content = message.SerializeToString()
    columns = columns_of(file_of([content] * 2, FileVersion.V2_2), 0, 1)
    assert [page.num_rows for page in columns[1].pages] == lengths
    assert columns[0].pages[:2] == list(columns[0].pages)[:2]
    if lengths:
        assert columns[0].pages[-1] == columns[0].pages[len(lengths) - 1]
    with pytest.raises(IndexError):
        columns[0].pages[len(lengths)]


def test_equal_descriptions_are_kept_once() -> None:
    message = file2_pb2.ColumnMetadata()
    for _ in range(1000):
        message.pages.add(length=1).encoding.direct.encoding = b"x" * 1000
    (column,) = columns_of(file_of([message.SerializeToString()], FileVersion.V2_0), 0)
    assert len(column.pages) == 1000
    assert column.kernel.num_bytes < 64_000
