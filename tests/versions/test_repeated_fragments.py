"""A version with two fragments of one id, as releases up to 0.16 made them: the others go on."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError, InvalidInputError
from tests.table.conftest import edit_manifest
from tests.versions.conftest import rows_by_pylance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.format.proto import table_pb2


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64())})


@pytest.fixture(params=[False, True], ids=["many", "few"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Version 3 of 4 has fragment 1 twice; `many`: version 4 as well, else it is an overwrite."""
    text = str(tmp_path / "t")
    lance.write_dataset(rows(1, 2), text)
    lance.write_dataset(rows(3, 4), text, mode="append")
    lance.write_dataset(rows(5, 6), text, mode="append")

    def repeat(message: table_pb2.Manifest) -> None:
        message.fragments[2].id = 1

    edit_manifest(text, repeat)
    if not request.param:

        def again(message: table_pb2.Manifest) -> None:
            message.version = 4

        folder = tmp_path / "t" / "_versions"
        names = [f"{(1 << 64) - 1 - version:020}.manifest" for version in (3, 4)]
        shutil.copy(folder / names[0], folder / names[1])
        edit_manifest(text, again)
    else:
        lance.write_dataset(rows(7), text, mode="overwrite")
    return text


async def test_the_other_versions_are_listed_and_read(path: str) -> None:
    dataset = await alance.dataset(path, version=2)
    versions = await dataset.versions()
    theirs = lance.dataset(path, version=2).versions()
    assert [version.version for version in versions] == [their["version"] for their in theirs]
    assert [version.metadata["total_rows"] for version in versions[:3]] == ["2", "4", "6"]
    assert (await dataset.to_table())["a"].to_pylist() == [1, 2, 3, 4]
    good = "version 2 is the last one before it"
    with pytest.raises(CorruptFileError, match=f"two fragments of version 3 have id 1; {good}"):
        await dataset.checkout_version(3)
    with pytest.raises(CorruptFileError, match=good):
        await alance.dataset(path, version=3)


async def test_a_version_before_it_is_restored(path: str) -> None:
    dataset = await (await alance.dataset(path, version=2)).restore()
    assert dataset.version == 5
    assert (await (await alance.dataset(path)).to_table())["a"].to_pylist() == [1, 2, 3, 4]
    await dataset.insert(rows(8))
    assert rows_by_pylance(path) == [1, 2, 3, 4, 8]
    stats = await dataset.cleanup_old_versions(older_than=timedelta(0))
    assert stats.old_versions == 5
    assert rows_by_pylance(path) == [1, 2, 3, 4, 8]


async def test_it_is_overwritten(path: str) -> None:
    await alance.write_dataset(rows(9), path, mode="overwrite")
    assert rows_by_pylance(path) == [9]
    assert (await (await alance.dataset(path)).to_table())["a"].to_pylist() == [9]


async def test_what_would_keep_it_is_refused(tmp_path: Path, path: str) -> None:
    """As pylance refuses it; nothing is left of what was written."""
    repeated = lance.dataset(path, version=4)
    if repeated.count_rows() == 1:
        await (await alance.dataset(path)).insert(rows(8))
        return
    files = sorted((tmp_path / "t" / "data").iterdir())
    with pytest.raises(InvalidInputError, match="restore an older one or overwrite it"):
        await alance.write_dataset(rows(9), path, mode="append")
    with pytest.raises(OSError, match="two fragments with id 1"):
        lance.write_dataset(rows(9), path, mode="append")
    dataset = await alance.dataset(path, version=2)
    with pytest.raises(InvalidInputError, match="restore an older one or overwrite it"):
        await dataset.delete("a = 1")
    assert len(lance.dataset(path).versions()) == 4
    assert set(files) <= set((tmp_path / "t" / "data").iterdir())
