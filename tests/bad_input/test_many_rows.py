"""Files whose metadata tell of more rows than any memory holds, in pages that need no bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

import alance
from alance.format.proto import file2_pb2, file_pb2
from tests.reference.damaged import FOOTER, PLACE

if TYPE_CHECKING:
    from pathlib import Path

    from google.protobuf.message import Message

COUNT = 100
ROWS = pa.table(
    {
        "numbers": pa.nulls(COUNT, pa.int64()),
        "texts": pa.nulls(COUNT, pa.string()),
        "flags": pa.nulls(COUNT, pa.bool_()),
        "vectors": pa.nulls(COUNT, pa.list_(pa.float32(), 4)),
    }
)


pytestmark = pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")


def store_of(path: Path, num_rows: int) -> MemoryStore:
    """A file in which the schema and each page tell of other rows."""
    content = path.read_bytes()
    body, footer = bytearray(content[: -FOOTER.size]), content[-FOOTER.size :]
    _, columns, buffers, _, num_columns, *_ = FOOTER.unpack(footer)

    def replace(entry: int, message: Message) -> None:
        body.extend(bytes(-len(body) % 64))
        PLACE.pack_into(body, entry, len(body), message.ByteSize())
        body.extend(message.SerializeToString())

    def content_of(entry: int) -> bytes:
        start, size = PLACE.unpack_from(body, entry)
        return bytes(body[start : start + size])

    for number in range(num_columns):
        entry = columns + PLACE.size * number
        metadata = file2_pb2.ColumnMetadata.FromString(content_of(entry))
        for page in metadata.pages:
            page.length = num_rows
        replace(entry, metadata)
    schema = file_pb2.FileDescriptor.FromString(content_of(buffers))
    schema.length = num_rows
    replace(buffers, schema)
    store = MemoryStore()
    store.put("file", bytes(body) + footer)
    return store


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("num_rows", [1 << 30, 1 << 45, 1 << 60])
@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
async def test_rows_of_pages_without_bytes_need_no_memory_until_they_are_read(
    tmp_path: Path, version: str, num_rows: int
) -> None:
    async with alance.FileWriter.open(tmp_path / "file", version=version) as writer:
        await writer.write(ROWS)
    store = store_of(tmp_path / "file", num_rows)
    reader = await alance.FileReader.open("file", store=store)
    assert reader.num_rows == num_rows
    assert (await reader.take([0, 5, num_rows - 1])).equals(ROWS[:3])
    assert (await reader.to_table(start=3, stop=9)).equals(ROWS[:6])
    assert (await reader.to_table(start=num_rows - 70, stop=num_rows)).equals(ROWS[:70])
