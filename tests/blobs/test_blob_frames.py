"""Blobs in DataFrames of pandas: `to_pandas(blob_mode=)` of both faces, beside pylance's."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal

import alance
import alance.sync
from alance import InvalidInputError
from tests.blobs.blob_tables import SMALL, all_kinds, table_of

if TYPE_CHECKING:
    from pathlib import Path


def opened(value: Any) -> Any:
    """Replace each file in a value of a frame by the file's content."""
    if isinstance(value, lance.BlobFile | alance.sync.BlobFile):
        return "file", value.readall()
    if isinstance(value, dict):
        return {name: opened(item) for name, item in value.items()}
    return [opened(item) for item in value] if isinstance(value, np.ndarray | list) else value


def rows(frame: pd.DataFrame) -> list[Any]:
    return [{str(name): opened(value) for name, value in row.items()} for row in records(frame)]


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    return frame.to_dict("records")


SCANS: list[dict[str, Any]] = [
    {},
    {"columns": ["b"]},
    {"columns": ["id", "b", "x"], "filter": "id > 2", "with_row_address": True},
    {"columns": {"inside": "x.b", "n": "id", "whole": "b"}, "limit": 3},
    {"columns": ["id"]},
    {"types_mapper": {pa.int64(): pd.Int64Dtype()}.get, "strings_to_categorical": True},
]


@pytest.mark.parametrize("mode", ["lazy", "bytes", "descriptions", None])
def test_frames_are_those_of_pylance(tmp_path: Path, mode: Any) -> None:
    theirs = all_kinds(tmp_path, "t")
    ours = alance.sync.dataset(tmp_path / "t")
    chosen = {} if mode is None else {"blob_mode": mode}
    for scan in SCANS:
        frame, like = ours.to_pandas(**scan, **chosen), theirs.to_pandas(**scan, **chosen)
        assert rows(frame) == rows(like)
        assert frame.dtypes.to_dict() == like.dtypes.to_dict()
        assert list(frame.index) == list(like.index)
    part, like_part = ours.fragment(1), theirs.get_fragment(1)
    assert rows(part.to_pandas(["id", "b"], **chosen)) == rows(
        like_part.to_pandas(["id", "b"], **chosen)
    )
    scanner, like_scan = ours.scanner(["b"], limit=2), theirs.scanner(["b"], limit=2)
    assert rows(scanner.to_pandas(**chosen)) == rows(like_scan.to_pandas(**chosen))


async def test_blobs_of_version_1_and_rows_that_are_not_there(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = pa.array([b"one", None, b"", b"four"], pa.large_binary())
    table = pa.table([values, pa.array(range(4))], pa.schema([field, pa.field("id", pa.int64())]))
    for version in ("2.0", "2.1"):
        theirs = lance.write_dataset(table, tmp_path / version, data_storage_version=version)
        dataset = await alance.dataset(tmp_path / version)
        frame = await dataset.to_pandas()
        files = [file and await file.readall() for file in frame["b"]]
        assert files == values.to_pylist()
        assert files == [file and file.readall() for file in theirs.to_pandas()["b"]]
        empty = await dataset.to_pandas(filter="id > 9")
        assert (list(empty.columns), len(empty), empty["b"].dtype) == (["b", "id"], 0, object)


async def test_blobs_in_lists_and_maps(tmp_path: Path) -> None:
    """pylance has descriptions in lists; maps have them in both."""
    all_kinds(tmp_path, "t", lists=True)
    dataset = await alance.dataset(tmp_path / "t")
    frame, contents = await dataset.to_pandas(["l"]), await dataset.to_pandas(blob_mode="bytes")
    for files, expected in zip(frame["l"], contents["l"], strict=True):
        assert isinstance(files, np.ndarray)
        assert [file and await file.readall() for file in files] == list(expected)


async def test_searches_give_files_and_bytes(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 0, 1, 1, 2, 2], pa.float32()), 2)
    table = table_of([b"a", b"b" * 50, None]).append_column("v", vectors)
    texts = table.append_column("t", pa.array(["red", "blue", "red"]))
    dataset = await alance.write_dataset(texts, tmp_path / "t")
    dataset = await dataset.create_scalar_index("t", "INVERTED")
    near = {"nearest": {"column": "v", "q": [1.0, 1.0], "k": 2}}
    frame = await dataset.to_pandas(["id", "b"], **near)
    assert [await file.readall() for file in frame["b"]] == [b"b" * 50, b"a"]
    assert list(frame.columns) == ["id", "b", "_distance"]
    table = await dataset.to_table(["b"], **near, blob_handling="all_binary")
    assert table["b"].to_pylist() == [b"b" * 50, b"a"]
    assert table.schema.names == ["b", "_distance"]
    result = await dataset.to_pandas(["b"], full_text_query="red", blob_mode="bytes")
    assert sorted(result["b"], key=str) == [None, b"a"]


async def test_scans_that_have_bytes_and_modes_that_are_none(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table_of([b"a", None]), tmp_path / "t")
    for mode in ("lazy", "bytes", "descriptions"):
        frame = await dataset.to_pandas(["b"], blob_handling="all_binary", blob_mode=mode)  # type: ignore[arg-type]
        assert list(frame["b"]) == [b"a", None]
    with pytest.raises(InvalidInputError, match="blob_mode"):
        await dataset.to_pandas(blob_mode="handles")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="nothing"):
        await dataset.to_pandas(nothing=1)  # type: ignore[call-arg]
    frame = await dataset.to_pandas(["id"], integer_object_nulls=True, limit=1)
    assert_frame_equal(frame, pd.DataFrame({"id": [0]}))


async def test_blocking_blobs_are_files_of_python(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("words.txt", "grün\nblau\n" * 1000)
    data = table_of([packed.getvalue(), b"one\ntwo\n"], SMALL)
    await alance.write_dataset(data, tmp_path / "t")

    def read() -> None:
        first, second = alance.sync.dataset(tmp_path / "t").to_pandas()["b"]
        assert isinstance(first, io.BufferedIOBase)
        with zipfile.ZipFile(first) as archive, archive.open("words.txt") as words:
            assert io.TextIOWrapper(words, "utf-8").read() == "grün\nblau\n" * 1000
        assert list(second) == [b"one\n", b"two\n"]
        second.seek(0)
        text = io.TextIOWrapper(second)
        assert text.readlines() == ["one\n", "two\n"]
        assert not second.closed
        with first:
            assert first.read(2) == b"PK"
        assert first.closed

    await asyncio.to_thread(read)
