"""New columns of many small fragments, which are read, encoded and put some together."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import StoreError
from alance.io.disk.local import LocalStore
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"twice": "id * 2", "loud": "upper(text)", "both": "struct(id, text)"}


def rows(count: int) -> pa.Table:
    ids = range(count)
    texts = [None if i % 5 == 3 else f"text {i % 7}" for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "text": pa.array(texts, pa.string())})


def write(path: Path, count: int, per_file: int, version: str) -> None:
    lance.write_dataset(rows(count), path, max_rows_per_file=per_file, data_storage_version=version)


def expected(path: Path) -> pa.Table:
    table = lance.dataset(path).to_table()
    upper = [None if text is None else text.upper() for text in table["text"].to_pylist()]
    twice = [2 * value for value in table["id"].to_pylist()]
    return table.append_column("twice", pa.array(twice)).append_column("loud", pa.array(upper))


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of files in each call of `put_many`."""
    numbers: list[int] = []
    put = LocalStore.put_many

    async def noted(self: LocalStore, files: Any) -> None:
        numbers.append(len(files))
        await put(self, files)

    monkeypatch.setattr(LocalStore, "put_many", noted)
    return numbers


@pytest.mark.parametrize(
    ("version", "count", "per_file"), thinned(["2.0", "2.1", "2.2"], [(300, 2), (90, 30), (64, 64)])
)
async def test_new_columns_of_small_fragments_have_the_values_of_pylance(
    tmp_path: Path, version: str, count: int, per_file: int, puts: list[int]
) -> None:
    path = tmp_path / "t.lance"
    write(path, count, per_file, version)
    lance.dataset(path).delete("id % 7 = 2 or (id >= 30 and id < 33) or id = 0")
    target = expected(path)
    dataset = await alance.dataset(path)
    num_fragments = len(dataset.fragments)
    columns = {name: COLUMNS[name] for name in ("twice", "loud")}
    changed = await dataset.add_columns(columns)
    assert lance.dataset(path).to_table().equals(target)
    assert (await changed.to_table()).equals(target)
    lance.dataset(path).validate()
    await changed.validate()
    files = [len(fragment.data_files()) for fragment in lance.dataset(path).get_fragments()]
    assert files == [2] * num_fragments
    assert sum(puts) == (0 if num_fragments == 1 else num_fragments)
    again = await changed.optimize.compact_files()
    assert (await again.to_table()).equals(target)


async def test_large_fragments_among_small_ones(tmp_path: Path, puts: list[int]) -> None:
    path = tmp_path / "t.lance"
    for count in (5, 100_000, 7, 9):
        lance.write_dataset(rows(count), path, mode="append")
    target = expected(path)
    changed = await (await alance.dataset(path)).add_columns(
        {name: COLUMNS[name] for name in ("twice", "loud")}
    )
    assert puts == [3]
    assert (await changed.to_table()).equals(target)
    assert lance.dataset(path).to_table().equals(target)


@pytest.mark.parametrize("broken", ["put", "values"])
async def test_nothing_stays_of_what_failed(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    write(path, 40, 4, "2.1")
    before = sorted(os.listdir(path / "data"))
    dataset = await alance.dataset(path)
    if broken == "values":
        with pytest.raises(alance.errors.AlanceError):
            await dataset.add_columns({"n": "cast(text as int)"})
    else:
        replace, count = os.replace, 0

        def fail(source: str, target: str) -> None:
            nonlocal count
            count += "data" in target
            if count == 6:
                raise OSError(errno.EIO, "broken")
            replace(source, target)

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(StoreError):
            await dataset.add_columns({"twice": "id * 2"})
    assert sorted(os.listdir(path / "data")) == before
    assert (await alance.dataset(path)).version == 1


@pytest.mark.parametrize("how", ["stream", "join"])
@pytest.mark.parametrize(("arrow", "num_puts"), [(pa.int64(), 20), (pa.string(), 0)])
async def test_values_that_may_be_large_are_written_fragment_by_fragment(
    tmp_path: Path, how: str, arrow: pa.DataType, num_puts: int, puts: list[int]
) -> None:
    path = tmp_path / "t.lance"
    write(path, 100, 5, "2.2")
    dataset = await alance.dataset(path)
    new = pa.array(range(100), pa.int64()).cast(arrow)
    puts.clear()
    if how == "stream":
        changed = await dataset.add_columns(pa.table({"new": new}))
    else:
        changed = await dataset.merge(pa.table({"id": range(100), "new": new}), "id")
    assert sum(puts) == num_puts
    table = await changed.to_table(["id", "new"])
    assert table["new"].combine_chunks() == table["id"].cast(arrow).combine_chunks()
    assert lance.dataset(path).to_table(["id", "new"]) == table
