"""Small files that a kernel writes at once, as others read them; and without a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from alance.file.budgets import PAGE_BYTES
from alance.file.write.page_writer import PageWriter
from alance.file.write.writer import BufferUpload
from alance.file_version import FileVersion
from alance.format.encode.small_file import small_files
from alance.format.schema import Schema
from alance.io.reading.pool import DecodePool
from tests.kernels.test_small_file import TEXTS, TYPES, VERSIONS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", VERSIONS)
def test_pylance_reads_what_the_kernel_writes(version: FileVersion, tmp_path: Path) -> None:
    rows = {str(arrow): pa.array([None, *three_of(arrow)], arrow) for arrow in TYPES} | {
        "same": pa.array(["x"] * 4),
        "runs": pa.array([1, 1, 1, 1]),
    }
    batch = pa.record_batch(rows)
    schema = Schema.from_arrow(batch.schema)
    files = small_files(schema, version)
    assert files is not None
    content = files.encode(batch, PAGE_BYTES, statistics=True)
    assert content is not None
    place = tmp_path / "small.lance"
    place.write_bytes(content)
    assert LanceFileReader(str(place)).read_all().to_table().equals(pa.table(rows))


def three_of(arrow: pa.DataType) -> list[Any]:
    """Values of a type."""
    if arrow in TEXTS:
        return ["a", "bc", ""] if "string" in str(arrow) else [b"a", b"\xff\xff", b""]
    if pa.types.is_fixed_size_binary(arrow):
        return [b"a" * 16, b"b" * 16, b"c" * 16]
    width = arrow.bit_width if pa.types.is_temporal(arrow) else 32
    numbers = pa.array([1, 0, 3], f"int{width}").cast(arrow)
    return numbers.to_pylist()  # type: ignore[no-any-return]


async def test_small_files_of_plain_columns_are_encoded_without_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[object] = []
    monkeypatch.setattr(DecodePool, "_begin", started.append)
    schema = Schema.from_arrow(pa.schema([("a", pa.int32())]))
    batch = pa.record_batch([pa.array([1, 2], pa.int32())], ["a"])
    upload = BufferUpload()
    writer = PageWriter(upload, schema, FileVersion.V2_2, DecodePool(1))
    await writer.write(batch)
    await writer.write(batch)
    written = await writer.seal()
    assert (written.num_rows, written.num_bytes, written.columns) == (
        4,
        len(upload.content()),
        {0: 0},
    )
    assert started == []
