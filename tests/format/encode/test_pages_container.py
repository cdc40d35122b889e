"""The container: what is in it is found again, where it was put."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alance import _kernels
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import VariableWidth
from alance.format.container import open_container
from alance.format.encode.container import FileBuilder
from alance.format.encode.page_inputs import EncodedPage
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.schema import Schema
from tests.reference.driven import run

SCHEMA = Schema.from_arrow(
    pa.schema(
        [("a", pa.int32()), ("v", pa.list_(pa.struct([("x", pa.int8())]), 3))],
        metadata={"key": "value"},
    )
)


def page(num_rows: int, *sizes: int) -> EncodedPage:
    layout = pb.PageLayout(constant_layout=pb.ConstantLayout(layers=["REPDEF_NULLABLE_ITEM"]))
    buffers = tuple(np.full(size, number + 1, np.uint8) for number, size in enumerate(sizes))
    return EncodedPage.of(layout, buffers, num_rows)


def test_everything_is_found() -> None:
    builder = FileBuilder(SCHEMA, FileVersion.V2_2)
    chunks = builder.add_page(0, page(2, 5, 0, 64))
    chunks += builder.add_page(1, page(9, 1))
    number, more = builder.add_buffer(np.full(100, 9, np.uint8))
    assert number == 1
    chunks += more
    chunks += builder.add_page(0, page(1))
    assert builder.num_bytes == sum(map(len, chunks))
    chunks += builder.finish()
    content = b"".join(chunk.tobytes() for chunk in chunks)
    assert builder.num_bytes == len(content)
    assert builder.num_rows == 3
    container = run(open_container("x", len(content)), content)
    assert container.version is FileVersion.V2_2
    first, second = run(container.read_columns([0, 1]), content)
    assert [item.num_rows for item in first.pages] == [2, 1]
    assert second.num_rows == 9
    values = [content[start : start + size] for start, size in first.pages[0].buffers]
    assert values == [b"\1" * 5, b"", b"\3" * 64]
    assert bytes(run(container.read_buffer(1), content)) == b"\x09" * 100
    descriptor = run(container.read_descriptor(), content)
    assert descriptor.length == 3
    assert descriptor.schema.metadata == {"key": b"value"}
    fields = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    assert fields.to_arrow() == SCHEMA.to_arrow()


def test_blobs_stand_at_multiples_of_64() -> None:
    builder = FileBuilder(SCHEMA, FileVersion.V2_1)
    before = builder.add_page(0, page(1, 3))
    values = VariableWidth(np.array([0, 3, 3, 70]), np.arange(70, dtype=np.uint8))
    positions, chunks = builder.add_blobs(values)
    assert positions.tolist() == [64, 0, 128]
    content = np.concatenate(before + chunks)
    assert content[64:67].tolist() == [0, 1, 2]
    assert content[128:195].tolist() == list(range(3, 70))
    assert len(content) == builder.num_bytes == 256
    assert builder.add_blobs(VariableWidth(np.zeros(3, np.int64), np.empty(0, np.uint8)))[1] == []


def test_columns_of_different_length() -> None:
    builder = FileBuilder(SCHEMA, FileVersion.V2_2)
    builder.add_page(0, page(2))
    builder.add_page(1, page(3))
    with pytest.raises(InvalidInputError, match="column 1 has 3 rows, expected 6"):
        builder.finish()


def test_an_unknown_version() -> None:
    with pytest.raises(UnsupportedError, match=r"0\.1"):
        FileBuilder(SCHEMA, FileVersion.V0_1)


def test_a_column_and_buffers_that_are_not_there() -> None:
    container = _kernels.Container([b""], 2, 2, 100)
    for column, search, message in ((1, (), "no column 1"), (0, (2,), "no buffer 2")):
        with pytest.raises(ValueError, match=message):
            container.add_page(column, "x", b"", [np.zeros(1, np.uint8)], search, 1, 0)


def test_what_readers_need_first_is_kept_back_as_long_as_it_fits() -> None:
    container = _kernels.Container([b"", b""], 2, 2, 100)
    buffers = [np.zeros(60, np.uint8), np.empty(0, np.uint8), np.zeros(70, np.uint8)]
    assert container.add_page(1, "x", b"", buffers, (0, 1), 1, 0) == [-1, 0, 0]
    assert container.add_page(0, "x", b"", buffers, (0, 1), 1, 0) == [128, 192, 192]
    assert container.num_bytes == 320
