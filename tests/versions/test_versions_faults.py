"""Tags, branches, clones and restores on a server: answers that are lost, numbers of requests."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import AlreadyExistsError, StoreError
from tests.reference.served import rule_name
from tests.versions.conftest import numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab

_numbers = itertools.count(1)
LOST: list[dict[str, Any]] = [
    {"action": "apply_status", "status": 500},
    {"action": "apply_status", "status": 412},
    {"action": "apply_status", "status": 409},
    {"action": "apply_reset"},
]
NOT_DONE: list[dict[str, Any]] = [
    {"action": "status", "status": 503},
    {"action": "status", "status": 409, "code": "ConditionalRequestConflict"},
    {"action": "reset"},
]


@pytest.fixture
async def remote(lab: Lab) -> AsyncIterator[alance.Dataset]:
    """A table of two versions on the server, in a session of the test's own."""
    uri, options = f"s3://lab/refs-{next(_numbers)}", lab.lance_options()
    lance.write_dataset(numbers(0, 5), uri, storage_options=options)
    lance.write_dataset(numbers(5, 8), uri, mode="append", storage_options=options)
    quick = {**options, "client_max_retries": "0"}
    async with alance.Session() as session:
        yield await alance.dataset(uri, storage_options=quick, session=session)


@pytest.mark.parametrize("rule", [*LOST, *NOT_DONE], ids=rule_name)
async def test_one_failure_is_survived(
    lab: Lab, remote: alance.Dataset, rule: dict[str, Any]
) -> None:
    lab.config(faults=[{"op": "PUT", "key": "_refs", "times": 1, **rule}])
    await remote.tags.create("one", 1)
    with pytest.raises(AlreadyExistsError):
        await remote.tags.create("one", 2)
    lab.config(faults=[{"op": "PUT", "key": "_refs", "times": 1, **rule}])
    dev = await remote.create_branch("dev", "one")
    lab.config(faults=[{"op": "PUT", "key": r"\.manifest$", "times": 1, **rule}])
    other = await remote.create_branch("other", 2)
    lab.config(faults=[{"op": "PUT", "key": r"\.manifest$", "times": 1, **rule}])
    clone = await remote.shallow_clone(f"{remote.uri}-clone")
    lab.config(faults=[{"op": "PUT", "key": r"\.manifest$", "times": 1, **rule}])
    restored = await remote.restore(1)
    lab.config(faults=[{"op": "PUT", "key": r"\.manifest$", "times": 1, **rule}])
    changed = await restored.update_config({"k": "v"})
    lab.calm()
    lab.config(faults=[{"op": "PUT", "key": "_refs", "times": 1, **rule}])
    if rule in LOST or rule.get("status") == 503:
        await remote.tags.update("one", 2)
    lab.calm()
    await remote.tags.update("one", 1)
    assert await remote.tags.get_version("one") == 1
    assert sorted(await remote.branches.list()) == ["dev", "other"]
    assert (dev.version, other.version, clone.version) == (1, 2, 2)
    assert (restored.version, changed.version) == (3, 4)
    theirs = lance.dataset(remote.uri, storage_options=lab.lance_options())
    assert (theirs.count_rows(), theirs.config()) == (5, {"k": "v"})
    assert theirs.checkout_version(("other", None)).count_rows() == 8


async def test_a_branch_that_cannot_be_made_leaves_nothing(
    lab: Lab, remote: alance.Dataset
) -> None:
    lab.config(faults=[{"op": "PUT", "key": r"tree/dev/", "action": "status", "status": 403}])
    with pytest.raises(StoreError):
        await remote.create_branch("dev", 1)
    lab.calm()
    assert await remote.branches.list() == {}
    dev = await remote.create_branch("dev", 2)
    assert (dev.version, await dev.count_rows()) == (2, 8)


async def test_numbers_of_requests(lab: Lab, remote: alance.Dataset) -> None:
    await remote.tags.create("warm", 1)

    async def requests_of(call: Any) -> list[str]:
        with lab.recording() as recording:
            await call
        return [str(record["op"]) for record in recording.records if "op" in record]

    tags, branches = remote.tags, remote.branches
    assert await requests_of(tags.create("t")) == ["GET", "PUT"]
    assert await requests_of(tags.create("u", "t")) == ["GET", "HEAD", "PUT"]
    assert await requests_of(tags.update("u", 1)) == ["GET", "HEAD", "PUT"]
    assert await requests_of(tags.delete("u")) == ["GET", "BULKDELETE"]
    assert await requests_of(tags.replace_metadata("t", {"k": "v"})) == ["GET", "PUT"]
    await remote.update_config({"k": "v"})  # the first commit to a store tries it out
    result = await requests_of(remote.create_branch("dev"))
    assert sorted(result) == ["GET", "LIST", "PUT", "PUT", "PUT"]
    result = await requests_of(remote.shallow_clone(f"{remote.uri}-clone"))
    assert sorted(result) == ["GET", "GET", "LIST", "PUT", "PUT", "PUT"]
    result = await requests_of(remote.restore(1))
    assert sorted(result) == ["GET", "GET", "LIST", "LIST", "PUT", "PUT"]
    result = await requests_of((await remote.checkout_latest()).update_config({"k": "w"}))
    assert sorted(result) == ["LIST", "PUT", "PUT"]
    assert len(await requests_of(branches.delete("dev"))) <= 9
