"""Arguments that contradict themselves are refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, NotFoundError
from alance.format.proto import file_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3], "v": [1, 2, 3], "w": [1, 1, 1]})


def malformed(type_: pa.DataType, *children: pa.Array) -> pa.Array:
    """Three values whose offsets go back in between."""
    wide = pa.types.is_large_binary(type_)
    offsets = np.array([0, 5, 2, 8], np.int64 if wide else np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes())]
    if not children:
        buffers.append(pa.py_buffer(b"01234567"))
    return pa.Array.from_buffers(type_, 3, buffers, children=list(children))


OFFSETS = {
    "binary": (pa.field("b", pa.binary()), malformed(pa.binary())),
    "list": (
        pa.field("b", pa.list_(pa.int8())),
        malformed(pa.list_(pa.int8()), pa.array(range(8), pa.int8())),
    ),
    "blob": (
        pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        malformed(pa.large_binary()),
    ),
}


@pytest.mark.filterwarnings("ignore:file version 2.3")
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2", "2.3"])
@pytest.mark.parametrize("kind", list(OFFSETS))
@pytest.mark.parametrize("statistics", [False, True])
async def test_offsets_that_decrease_are_refused_in_every_file_version(
    tmp_path: Path, kind: str, version: str, statistics: bool
) -> None:
    field, values = OFFSETS[kind]
    rows = pa.table([values], schema=pa.schema([field]))
    with pytest.raises(InvalidInputError, match="field 'b': offsets decrease or leave the buffer"):
        await alance.write_dataset(
            rows, tmp_path / "t", data_storage_version=version, statistics=statistics
        )
    with pytest.raises(NotFoundError):
        await alance.dataset(tmp_path / "t")


async def test_offsets_that_decrease_are_refused_by_a_writer_of_blobs(tmp_path: Path) -> None:
    session = alance.FileSession.open(tmp_path)
    async with await session.open_packed_blob_writer("data.lance", 1) as writer:
        with pytest.raises(InvalidInputError, match="'payloads': offsets decrease"):
            await writer.write_blobs(malformed(pa.binary()))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x3a\x30\0\0\0\0\0\0more"])
async def test_bytes_that_are_no_roaring_bitmap_are_in_no_update(
    tmp_path: Path, stable: bool, content: bytes
) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t", stable_row_ids=stable)
    merge = dataset.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    change: Any
    change, _ = await merge.execute_uncommitted(pa.table({"id": [1], "v": [9]}))
    with pytest.raises(InvalidInputError, match="offset_bitmaps of fragment 0: roaring bitmap of"):
        await alance.commit(dataset, replace(change, updated_fragment_offset_bitmaps={0: content}))
    assert await dataset.latest_version() == 1
    assert (await alance.commit(dataset, change)).version == 2


async def written_file(path: str, rows: pa.Table) -> None:
    session = alance.FileSession.open(path)
    async with session.open_writer("f.lance", rows.schema) as writer:
        await writer.write(rows)


NULL = pa.table({"id": [1], "a\0b": [1]})
INSIDE = pa.table({"id": [1], "s": [{"list": [{"a\0b": 1}]}]})
FIELDS = [file_pb2.Field(name="a\0b", id=0, parent_id=-1, logical_type="int64", nullable=True)]
WAYS: dict[str, Callable[[alance.Dataset, str], Awaitable[object]]] = {
    "create": lambda dataset, path: alance.write_dataset(NULL, path + "-new"),
    "create inside": lambda dataset, path: alance.write_dataset(INSIDE, path + "-new"),
    "overwrite": lambda dataset, path: dataset.insert(NULL, mode="overwrite"),
    "fragments": lambda dataset, path: alance.write_fragments(NULL, path + "-new"),
    "add by an expression": lambda dataset, path: dataset.add_columns({"a\0b": "id + 1"}),
    "add nulls": lambda dataset, path: dataset.add_columns(pa.field("a\0b", pa.int8())),
    "add a struct": lambda dataset, path: dataset.add_columns(
        pa.field("s", pa.struct([("a\0b", pa.int8())]))
    ),
    "merge": lambda dataset, path: dataset.merge(NULL, "id"),
    "rename": lambda dataset, path: dataset.alter_columns({"path": "v", "name": "a\0b"}),
    "operation": lambda dataset, path: alance.commit(
        dataset, alance.operations.Overwrite(new_schema=tuple(FIELDS), fragments=())
    ),
    "file": lambda dataset, path: written_file(path + "-files", NULL),
}


@pytest.mark.parametrize("way", list(WAYS))
async def test_names_with_nulls_are_refused_wherever_names_are_given(
    tmp_path: Path, way: str
) -> None:
    path = str(tmp_path / "t")
    dataset = await alance.write_dataset(ROWS, path)
    with pytest.raises(InvalidInputError, match=r"'a\\x00b': a name has no null characters"):
        await WAYS[way](dataset, path)
    assert await dataset.latest_version() == 1


async def test_data_in_the_place_of_its_schema_is_refused_with_what_to_write(
    tmp_path: Path,
) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    merge = dataset.merge_insert("id").when_matched_update_all()
    wrong: Any = ROWS
    message = r"schema: expected a pyarrow\.Schema, not Table; write `schema=data\.schema`"
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: merge.explain_plan(wrong),
        lambda: merge.explain(wrong),
        lambda: merge.execute(ROWS, schema=wrong),
        lambda: alance.write_dataset(ROWS, tmp_path / "u", schema=wrong),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=message):
            await call()
    assert "merge on id" in await merge.explain_plan(ROWS.schema)
