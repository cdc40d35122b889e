"""Changes of columns on a server: what they ask of it, what a refusal or a cancellation leaves."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError
from alance.versioning.outcome import may_be_visible
from tests.changing.both_ways import Twins, files_of, latest, read
from tests.reference.waiting import landed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alance.testing.lab import Lab

_numbers = itertools.count()
CHANGES: dict[str, Callable[[alance.Dataset], Awaitable[alance.Dataset]]] = {
    "add": lambda dataset: dataset.add_columns({"x": "id * 2"}),
    "function": lambda dataset: dataset.add_columns(
        lambda batch: pa.record_batch({"x": batch["id"]}), read_columns=["id"]
    ),
    "merge": lambda dataset: dataset.merge(pa.table({"id": range(9), "x": range(9)}), "id"),
    "cast": lambda dataset: dataset.alter_columns({"path": "id", "data_type": pa.int16()}),
    "replace": lambda dataset: dataset.replace_columns({"v": "id"}),
}


@pytest.fixture
async def opened(lab: Lab, tmp_path: Path) -> AsyncIterator[tuple[alance.Dataset, Path]]:
    """A table of 4 fragments on the server, and its folder."""
    name = f"columns-{next(_numbers)}.lance"
    path = Path(lab.root) / "lab" / name
    shutil.copytree(Twins.make(tmp_path).ours, path)
    lab.rescan()
    options = {**lab.lance_options(), "client_max_retries": "1"}
    async with alance.Session() as session:
        dataset = await alance.dataset(f"s3://lab/{name}", storage_options=options, session=session)
        yield await dataset.delete("id = 0"), path  # the store is probed


def data_of(path: Path) -> set[str]:
    return {file for file in files_of(path) if file.startswith("data/")}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_sends_few_requests_per_fragment(
    lab: Lab, opened: tuple[alance.Dataset, Path], name: str
) -> None:
    """Each fragment costs its footer, a page table, a column and one new object."""
    dataset, path = opened
    with lab.recording() as seen:
        result = await CHANGES[name](dataset)
    assert result.version == 3
    entries: dict[str, int] = {}
    for record in seen.records:
        folder = record["key"].split("/")[1] if "/" in record["key"] else ""
        kind = f"{record['op']} {folder}".strip()
        entries[kind] = entries.get(kind, 0) + 1
    assert entries.pop("GET data", 0) <= (3 if name != "function" else 4) * 4
    assert entries.pop("GET _deletions", 0) <= 1
    assert entries == {"PUT data": 4, "PUT _transactions": 1, "LIST": 1, "PUT _versions": 1}
    assert read(path).num_rows == 19


@pytest.mark.parametrize("name", CHANGES)
async def test_a_store_that_refuses(
    lab: Lab, opened: tuple[alance.Dataset, Path], name: str
) -> None:
    dataset, path = opened
    before, content = data_of(path), read(path)
    rule: dict[str, Any] = {"action": "status", "method": "PUT", "key": "/data/", "status": 403}
    lab.config(faults=[rule])
    with pytest.raises(AlanceError):
        await CHANGES[name](dataset)
    lab.calm()
    assert data_of(path) == before
    assert read(path).equals(content)
    await CHANGES[name](dataset)
    assert latest(path).version == 3


@pytest.mark.parametrize("name", CHANGES)
async def test_a_cancelled_change_is_made_whole_or_not_at_all(
    lab: Lab, opened: tuple[alance.Dataset, Path], name: str
) -> None:
    """At any time: the version is there with all its files, or nothing is.

    Where the manifest was on its way the files stay, for it may arrive.
    """
    dataset, path = opened
    before = data_of(path)
    errors: list[BaseException] = []

    async def change() -> None:
        try:
            await CHANGES[name](dataset)
        except BaseException as error:
            errors.append(error)
            raise

    for delay in range(0, 60, 6):
        task = asyncio.ensure_future(change())
        for _ in range(delay):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await landed(lab)
        manifest = latest(path)
        named = {f"data/{file.path}" for fragment in manifest.fragments for file in fragment.files}
        assert named <= data_of(path)
        if manifest.version > 2 or any(map(may_be_visible, errors)):
            break
        assert data_of(path) == before
    assert read(path).num_rows == 19
