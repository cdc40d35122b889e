"""Files that versions name, and files that exist: as in pylance, whoever wrote them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance import InvalidInputError, NotFoundError
from tests.reference.shapes import numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab


@pytest.fixture(scope="module", params=["alance", "pylance"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four versions: rows, more rows, an index, deleted rows; and a branch of its own rows."""
    path = str(tmp_path_factory.mktemp("files") / request.param)
    if request.param == "alance":
        ours = alance.sync.write_dataset(numbers(0, 100), path)
        ours = ours.insert(numbers(100, 120)).create_scalar_index("a", "BTREE")
        branch = ours.delete("a = 3").create_branch("side")
        branch.insert(numbers(0, 5))
    else:
        theirs = lance.write_dataset(numbers(0, 100), path)
        theirs = lance.write_dataset(numbers(100, 120), path, mode="append")
        theirs.create_scalar_index("a", "BTREE")
        theirs.delete("a = 3")
        lance.write_dataset(numbers(0, 5), theirs.create_branch("side"), mode="append")
    return path


async def gathered(batches: AsyncIterator[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches([batch async for batch in batches])


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def is_there(row: tuple[object, ...]) -> bool:
    return Path(str(row[1]), str(row[2])).is_file()


@pytest.mark.parametrize("branch", [None, "side"])
async def test_files_of_versions_are_those_that_pylance_tells(uri: str, branch: str | None) -> None:
    dataset, theirs = await alance.dataset(uri), lance.dataset(uri)
    if branch is not None:
        dataset = await dataset.checkout_version((branch, None))
        theirs = theirs.checkout_version((branch, None))
    table = await gathered(dataset.tracked_files())
    expected = theirs.tracked_files().read_all()
    assert table.schema == expected.schema
    others = [row for row in rows_of(table) if branch is None or row[3] != "index file"]
    assert others == rows_of(expected)  # which lacks files of indices at other places
    assert all(is_there(row) for row in rows_of(table))
    assert "index file" in table["type"].to_pylist()
    versions = list(dict.fromkeys(table["version"].to_pylist()))
    assert versions == sorted(versions, reverse=True)
    late = await gathered(dataset.tracked_files(min_version=4))
    assert rows_of(late) == [row for row in rows_of(table) if row[0] in range(4, 9)]
    assert not [batch async for batch in dataset.tracked_files(min_version=99)]


@pytest.mark.parametrize("branch", [None, "side"])
async def test_files_that_are_there_are_those_that_pylance_tells(
    uri: str, branch: str | None
) -> None:
    dataset, theirs = await alance.dataset(uri), lance.dataset(uri)
    if branch is not None:
        dataset = await dataset.checkout_version((branch, None))
        theirs = theirs.checkout_version((branch, None))
    table = await gathered(dataset.all_files())
    expected = theirs.all_files().read_all()
    assert table.schema == expected.schema
    assert rows_of(table.drop("last_modified")) == rows_of(expected.drop("last_modified"))
    own, other = (rows.sort_by("path")["last_modified"].to_pylist() for rows in (table, expected))
    pairs = zip(own, other, strict=True)
    assert max(abs(time - message) for time, message in pairs) <= timedelta(
        microseconds=1
    )  # rounded


async def test_files_at_other_places_have_their_base(tmp_path: Path) -> None:
    origin = await alance.write_dataset(numbers(0, 9), tmp_path / "origin")
    clone = await origin.shallow_clone(str(tmp_path / "clone"))
    clone = await clone.insert(numbers(9, 12))
    table = await gathered(clone.tracked_files())
    assert rows_of(table) == rows_of(lance.dataset(clone.uri).tracked_files().read_all())
    files = {row["base_uri"] for row in table.to_pylist() if row["type"] == "data file"}
    assert len(files) == 2


async def test_each_version_is_a_request_and_progress_is_told(lab: Lab) -> None:
    options, uri = lab.lance_options(), "s3://lab/test_files_of_versions.lance"
    dataset = await alance.write_dataset(numbers(0, 9), uri, storage_options=options)
    for start in range(3):
        dataset = await dataset.insert(numbers(start, start + 1))
    progress: list[alance.Progress] = []
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        with alance.trace() as recorder:
            table = await gathered(dataset.tracked_files(progress=progress.append))
        assert recorder.totals.num_requests <= 5
        present = await gathered(dataset.all_files())
    assert (progress[0].done, progress[0].total) == (0, 4)
    assert progress[-1] == alance.Progress("manifests", 4, 4, "versions")
    assert set(table["path"].to_pylist()) <= set(present["path"].to_pylist())
    assert set(table["base_uri"].to_pylist()) == {uri}


async def test_what_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(numbers(0, 9), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="min_version=-1: expected an integer"):
        await gathered(dataset.tracked_files(min_version=-1))
    await alance.drop(dataset.uri)
    with pytest.raises(NotFoundError):
        await gathered(dataset.tracked_files())


def test_the_blocking_face_has_them(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    tracked = pa.Table.from_batches(dataset.tracked_files())
    present = pa.Table.from_batches(dataset.all_files())
    own = {row["path"] for row in tracked.to_pylist()}
    assert own <= set(present["path"].to_pylist())
