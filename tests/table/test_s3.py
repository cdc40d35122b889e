"""Requests of opening on an object store, counted by the server; branches and clones there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import lance
import pytest

from alance.errors import NotFoundError
from alance.ops.refs.refs import Branches, Tags
from alance.ops.version import opening
from alance.ops.version.opening import checkout_branch, open_snapshot
from tests.reference.shapes import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from alance.ops.version.snapshot import Snapshot
    from alance.session import Session
    from alance.testing.lab import Lab

_folders = itertools.count()


@pytest.fixture
def uri(lineitem_lab: Lab) -> str:
    """Twelve versions, a tag, a deletion, and a branch from version 3."""
    place = f"s3://lab/made/table {next(_folders)}"
    options = lineitem_lab.lance_options()
    dataset = lance.write_dataset(numbers(0, 10), place, storage_options=options)
    for number in range(10):
        rows = numbers(number, number + 1)
        dataset = lance.write_dataset(rows, dataset, mode="append")
    dataset.delete("a = 9")
    dataset.tags.create("five", 5)
    dataset.create_branch("feat/x", 3).insert(numbers(0, 2))
    return place


async def ops(lab: Lab, work: Callable[[], Coroutine[Any, Any, Any]]) -> dict[str, int]:
    """The requests that some work sent."""
    with lab.recording() as recording:
        await work()
    entries: dict[str, int] = recording.summary()["by_op"]
    return entries


async def test_opening_sends_the_documented_requests(
    lineitem_lab: Lab, uri: str, session: Session
) -> None:
    options = lineitem_lab.lance_options()
    opened: list[Snapshot] = []

    async def open_it(**more: Any) -> None:
        result = await open_snapshot(uri, storage_options=options, session=session, **more)
        opened.append(result)

    assert await ops(lineitem_lab, open_it) == {"LIST": 1, "GET": 1}
    assert await ops(lineitem_lab, lambda: open_it(version=4)) == {"GET": 1}
    assert await ops(lineitem_lab, lambda: open_it(version="five")) == {"GET": 2}
    latest, fourth, fifth = opened
    assert [item.version for item in opened] == [12, 4, 5]
    assert latest.is_remote
    assert (await latest.live_counts()).tolist() == [9] + [1] * 9
    assert await ops(lineitem_lab, lambda: opening.latest_version(fourth)) == {"LIST": 1}
    # The latest manifest is in the cache: a listing confirmed it.
    assert await ops(lineitem_lab, lambda: opening.versions(fifth)) == {"LIST": 1, "GET": 11}
    assert await ops(lineitem_lab, lambda: opening.checkout(latest, None)) == {"LIST": 1}
    assert await ops(lineitem_lab, lambda: Tags(latest).list()) == {"LIST": 1, "GET": 1}
    assert await ops(lineitem_lab, lambda: opening.read_transaction(latest)) == {}
    assert await ops(lineitem_lab, lambda: latest.prepare(latest.handles)) == {"GET": 1}


async def test_a_branch_is_read_by_the_store_of_its_parent(
    lineitem_lab: Lab, uri: str, session: Session
) -> None:
    options = lineitem_lab.lance_options()
    main = await open_snapshot(uri, storage_options=options, session=session)
    assert list(await Branches(main).list()) == ["feat/x"]
    branch = await checkout_branch(main, "feat/x")
    assert (branch.version, branch.manifest.branch) == (4, "feat/x")
    store, path = main.table.store, main.table.path
    # The parent's files are read through the very same store, with its credentials.
    where = [handle.sources[0].location for handle in branch.handles]
    assert [item.rpartition("/")[0] for item in where] == [f"{store.root}{path}/data"] * 3 + [
        f"{store.root}{path}/tree/feat/x/data"
    ]
    sizes = [await session.engine.scheduler.size(item) for item in where]
    assert sizes == [handle.sources[0].file_bytes for handle in branch.handles]


async def test_a_missing_table_of_a_store_is_not_found(lineitem_lab: Lab, session: Session) -> None:
    options = lineitem_lab.lance_options()
    with pytest.raises(NotFoundError, match="s3://lab/nowhere"):
        await open_snapshot("s3://lab/nowhere", storage_options=options, session=session)
    for place in ("s3://lab/nowhere", "s3://no-such-bucket/t"):
        with pytest.raises(NotFoundError, match=place):
            await open_snapshot(place, version=3, storage_options=options, session=session)
