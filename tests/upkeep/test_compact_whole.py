"""Compaction of many small files as one: the same as file by file, wrong bytes too."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError
from alance.file.rows.whole import WholeFragments, WholeRows
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    texts = [None if i % 5 == 3 else f"text {i * 7919 % 101}" for i in ids]
    pairs = [{"a": i, "b": None if i % 9 == 1 else f"b{i % 4}"} for i in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array(texts, pa.string()),
            "word": pa.array([["red", "green", "blue"][i % 3] for i in ids]),
            "words": pa.array([["a", "bc", str(i)][: i % 4] for i in ids], pa.list_(pa.string())),
            "same": pa.array([7] * len(ids)),
            "none": pa.nulls(len(ids), pa.int32()),
            "pair": pa.array(pairs, pa.struct({"a": pa.int64(), "b": pa.string()})),
            "vector": pa.array([[i, i + 0.5] for i in ids], pa.list_(pa.float64(), 2)),
            "vectors": pa.array([[i] * 300 for i in ids], pa.list_(pa.float32(), 300)),
        }
    )


def write(path: Path, counts: list[int], version: str) -> None:
    start = 0
    for count in counts:
        more = rows(start, start + count)
        lance.write_dataset(more, path, mode="append", data_storage_version=version)
        start += count


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each group of fragments if one kernel call can read it."""
    bools: list[bool] = []
    whole = WholeFragments._rows

    def noted(*args: Any) -> Any:
        result = whole(*args)
        bools.append(result.tables is not None)
        return result

    monkeypatch.setattr(WholeFragments, "_rows", noted)
    return bools


@pytest.mark.parametrize(
    ("version", "counts"),
    thinned(["2.0", "2.1", "2.2"], [[1] * 30, [300] * 5, [3, 1000, 1, 70, 2]]),
)
async def test_files_compacted_whole_have_the_same_rows(
    tmp_path: Path, version: str, counts: list[int], called: list[bool]
) -> None:
    path = tmp_path / "t.lance"
    write(path, counts, version)
    lance.dataset(path).add_columns({"twice": "id * 2"})
    more = rows(sum(counts), sum(counts) + 50)
    more = more.append_column("twice", pa.array([0] * 50, pa.int64()))
    lance.write_dataset(more, path, mode="append")
    lance.dataset(path).delete("id % 7 = 2")
    before = lance.dataset(path).to_table()
    dataset = await (await alance.dataset(path)).optimize.compact_files()
    assert len(dataset.fragments) == 1
    await dataset.validate()
    lance.dataset(path).validate()
    assert lance.dataset(path).to_table().equals(before)
    assert called
    assert version == "2.0" or all(called)


async def outcome(path: Path) -> str:
    """Compact a copy; return `compacted`, or the name of the error's class."""
    copy = path.with_name("copy.lance")
    shutil.copytree(path, copy)
    try:
        dataset = await (await alance.dataset(copy)).optimize.compact_files()
    except AlanceError as error:
        assert (await alance.dataset(copy)).version == 3
        return type(error).__name__
    finally:
        shutil.rmtree(copy)
    assert len(dataset.fragments) == 1
    return "compacted"


def damaged(path: Path, count: int) -> Iterator[None]:
    """A table, one of its files changed in another way each time."""
    (file,) = lance.dataset(path).get_fragment(1).data_files()
    place = Path(path, "data", file.path)
    right = place.read_bytes()
    seed = random.Random(7)
    for _ in range(count):
        content = bytearray(right)
        content[seed.randrange(len(content) // 2, len(content))] ^= 1 << seed.randrange(8)
        place.write_bytes(content)
        yield


async def test_wrong_bytes_have_the_same_outcome_as_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    write(path, [40, 20, 60], "2.1")
    errors = 0
    for _ in damaged(path, 40):
        together = await outcome(path)
        with monkeypatch.context() as patched:
            patched.setattr(WholeRows, "_placed", lambda _: None)
            assert await outcome(path) == together
        errors += together != "compacted"
    assert errors
