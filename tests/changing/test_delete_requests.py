"""Deletes and updates on a server: how much they ask of it, and what a cancelled one leaves."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from tests.changing.both_ways import Twins, files_of, latest, read
from tests.reference.waiting import landed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from alance.testing.lab import Lab

_numbers = itertools.count()


class Remote:
    """Tables on the server, as they are on its disk."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.master = Twins.make(folder, enable_stable_row_ids=True).ours
        self.session = alance.Session()

    def fresh(self) -> tuple[str, Path]:
        """A new copy: its URI, and its folder."""
        name = f"deleted-{next(_numbers)}.lance"
        path = Path(self.lab.root) / "lab" / name
        shutil.copytree(self.master, path)
        self.lab.rescan()
        return f"s3://lab/{name}", path

    async def open(self, uri: str, session: alance.Session | None = None) -> alance.Dataset:
        return await alance.dataset(
            uri, storage_options=self.lab.lance_options(), session=session or self.session
        )


@pytest.fixture
async def remote(lab: Lab, tmp_path: Path) -> AsyncIterator[Remote]:
    result = Remote(lab, tmp_path)
    uri, _ = result.fresh()
    await (await result.open(uri)).delete("id = 0")  # the store is probed
    yield result
    await result.session.aclose()


CHANGES: dict[str, Callable[[alance.Dataset], Awaitable[alance.Dataset]]] = {
    "delete": lambda dataset: dataset.delete("id in (1, 7, 8)"),
    "update": lambda dataset: dataset.update({"v": "v + 1"}, "id in (1, 7, 8)"),
}


def by_kind(records: list[dict[str, Any]]) -> dict[str, int]:
    """Requests by operation and folder."""
    entries: dict[str, int] = {}
    for record in records:
        folder = record["key"].split("/")[1] if "/" in record["key"] else ""
        name = f"{record['op']} {folder}".strip()
        entries[name] = entries.get(name, 0) + 1
    return entries


async def test_what_a_delete_asks_for(lab: Lab, remote: Remote) -> None:
    uri, _ = remote.fresh()
    dataset = await remote.open(uri)
    with lab.recording() as seen:
        dataset = await dataset.delete("id in (1, 7, 8)")
    result = by_kind(seen.records)
    reads = result.pop("GET data")
    assert reads <= 3 * 4  # of each fragment: its end, its page table, a column
    assert result == {
        "PUT _deletions": 2,
        "PUT _transactions": 1,
        "LIST": 1,
        "PUT _versions": 1,
    }
    with lab.recording() as seen:
        dataset = await dataset.delete("true")
    assert by_kind(seen.records) == {"PUT _transactions": 1, "LIST": 1, "PUT _versions": 1}
    assert dataset.summary == {"num_deleted_rows": 17}


async def test_the_writes_of_an_update_are_two_rounds(lab: Lab, remote: Remote) -> None:
    uri, _ = remote.fresh()
    dataset = await remote.open(uri)
    await dataset.to_table()
    lab.config(waits_for=os.getpid())
    with lab.recording() as seen:
        await dataset.update({"v": "v + 1"}, "id in (1, 7, 8)")
    writes = [record for record in seen.records if record["op"] in ("PUT", "LIST")]
    assert by_kind(writes) == {
        "PUT data": 1,
        "PUT _deletions": 2,
        "PUT _transactions": 1,
        "LIST": 1,
        "PUT _versions": 1,
    }
    first = [write for write in writes if "_versions/" not in write["key"]]
    last = [write for write in writes if "_versions/" in write["key"] and write["op"] == "PUT"]
    assert {item["round"] for item in first} == {last[0]["round"] - 1}


async def test_fewer_requests_than_pylance(lab: Lab, remote: Remote) -> None:
    for name, change in CHANGES.items():
        uri, _ = remote.fresh()
        async with alance.Session() as session:
            with lab.recording() as ours:
                await change(await remote.open(uri, session))
        uri, _ = remote.fresh()
        with lab.recording() as theirs:
            dataset = lance.dataset(uri, storage_options=lab.lance_options())
            if name == "delete":
                dataset.delete("id in (1, 7, 8)")
            else:
                dataset.update({"v": "v + 1"}, "id in (1, 7, 8)")
        assert len(ours.records) <= len(theirs.records), name


@pytest.mark.parametrize("name", list(CHANGES))
async def test_cancelled_after_any_number_of_turns(lab: Lab, remote: Remote, name: str) -> None:
    """The old version or the new one, whole; and where it is the old one, no file more."""
    lab.config(latency_ms=2)
    finished, turns, outcomes = False, 0, set()
    while not finished:
        uri, path = remote.fresh()
        before = files_of(path)
        others = asyncio.all_tasks()
        async with alance.Session() as session:
            dataset = await remote.open(uri, session)
            task = asyncio.ensure_future(CHANGES[name](dataset))
            for _ in range(turns % 4):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0015 * (turns // 4))
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for _ in range(20):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == others, asyncio.all_tasks() - others
            await landed(lab)
            version = latest(path).version
            outcomes.add(version)
            content = read(path)
            if name == "delete":
                assert content.num_rows == (20 if version == 1 else 17)
            else:
                assert content.num_rows == 20
                changed = [r["id"] for r in content.to_pylist() if r["v"] != r["id"] * 1.5]
                assert changed == ([] if version == 1 else [1, 7, 8])
            values = {file.partition("/")[0] for file in files_of(path) - before}
            if version == 1 and "_transactions" not in values:
                assert not values, "nothing was near its end"
            again = await (await remote.open(uri, session)).delete("id = 19")
            assert again.version == version + 1
        turns += 1 if turns < 8 else 5
    assert outcomes == {1, 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()


@pytest.mark.parametrize("name", list(CHANGES))
@pytest.mark.parametrize("where", [r"/data/", r"/_deletions/", r"\.txn$", r"\.manifest$"])
async def test_a_write_that_is_refused(lab: Lab, remote: Remote, name: str, where: str) -> None:
    if name == "delete" and where == "/data/":
        where = "/_deletions/"
    uri, path = remote.fresh()
    before = files_of(path)
    dataset = await remote.open(uri)
    lab.config(
        faults=[{"op": "PUT", "key": where, "action": "status", "status": 403, "times": 100}]
    )
    with pytest.raises(alance.errors.AccessError):
        await CHANGES[name](dataset)
    lab.calm()
    files = {file for file in files_of(path) if not file.startswith("_transactions/")}
    assert files == {item for item in before if not item.startswith("_transactions/")}
    changed = await CHANGES[name](dataset)
    assert changed.version == 2
    read(path)
