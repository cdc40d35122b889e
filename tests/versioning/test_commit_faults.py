"""Commits to servers that fail: every answer that is lost is found out, nothing lands twice."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import AccessError, CommitStateUnknownError, StoreError
from alance.versioning import manifest_store
from alance.versioning.manifest_store import ConditionalManifests
from alance.versioning.settle import Patience
from tests.reference.served import rule_name
from tests.simulation.append_rules import append
from tests.versioning.conftest import Committer, remote_uri
from tests.versioning.fault_table import patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab

LOST: list[dict[str, Any]] = [
    {"action": "apply_status", "status": 500},
    {"action": "apply_status", "status": 503},
    {"action": "apply_status", "status": 409},
    {"action": "apply_status", "status": 412},
    {"action": "apply_reset"},
    {"action": "apply_stall"},
]
NOT_DONE: list[dict[str, Any]] = [
    {"action": "status", "status": 500},
    {"action": "status", "status": 503},
    {"action": "status", "status": 409, "code": "ConditionalRequestConflict"},
    {"action": "status", "status": 412},
    {"action": "status", "status": 429},
    {"action": "reset"},
    {"action": "stall"},
]
SAMPLED_FAULTS = [LOST[0], LOST[4], NOT_DONE[2]]
MANIFESTS = r"\.manifest$"


@pytest.fixture(params=["s3-0", "gcs-0", "s3-3"])
async def remote(request: pytest.FixtureRequest, lab: Lab) -> AsyncIterator[Committer]:
    """A committer of a table in the lab; without and with the retries of obstore itself."""
    kind, _, retries = request.param.partition("-")
    waits = patience(request.node.callspec.params.get("rule", {}))
    uri, options = remote_uri(
        lab, kind, client_max_retries=int(retries), read_timeout=waits, timeout=waits
    )
    built = Committer.of(uri, storage_options=options)
    yield built
    await built.aclose()


@pytest.mark.parametrize("rule", [*LOST, *NOT_DONE], ids=rule_name)
async def test_one_failure_is_survived(lab: Lab, remote: Committer, rule: dict[str, Any]) -> None:
    first = await remote.create()
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, "times": 1, **rule}])
    committed = await remote.commit(first, "a")
    assert committed.version == 2
    lab.config(faults=[{"op": "PUT", "times": 2, **rule}])
    assert (await remote.commit(committed, "b")).version == 3
    lab.calm()
    assert await remote.paths() == ["a", "b"]


@pytest.mark.parametrize("rule", SAMPLED_FAULTS, ids=rule_name)
async def test_failing_committers_commit_once(
    lab: Lab, remote: Committer, rule: dict[str, Any]
) -> None:
    first = await remote.create()
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, "times": 3, "skip": 1, "p": 0.7, **rule}])
    names = [f"n{number}" for number in range(8)]
    results = await asyncio.gather(*(remote.commit(first, name) for name in names))
    lab.calm()
    assert sorted(item.version for item in results) == list(range(2, 10))
    assert sorted(await remote.paths()) == names


@pytest.mark.parametrize("rule", SAMPLED_FAULTS, ids=rule_name)
async def test_reading_back_may_fail_too(lab: Lab, remote: Committer, rule: dict[str, Any]) -> None:
    first = await remote.create()
    reading = {"op": "GET", "key": MANIFESTS, "times": 2, "action": "status", "status": 503}
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, "times": 1, **rule}, reading])
    assert (await remote.commit(first, "a")).version == 2
    lab.calm()
    assert await remote.paths() == ["a"]


@pytest.mark.parametrize("action", ["status", "apply_status"])
async def test_what_cannot_be_found_out_is_told(lab: Lab, remote: Committer, action: str) -> None:
    first = await remote.create()
    remote = replace(remote, patience=Patience(limit_s=0.02, first_pause_s=0.01))
    transaction = append(1, ["a"])
    lab.config(
        faults=[
            {"op": "PUT", "key": MANIFESTS, "action": action, "status": 503},
            {"op": "GET", "key": MANIFESTS, "action": "status", "status": 503, "times": 40},
        ]
    )
    with pytest.raises(CommitStateUnknownError, match="could not be found out"):
        await remote.run(first, transaction)
    lab.calm()
    again = await remote.run(first, transaction)
    assert again.version == 2
    assert await remote.paths() == ["a"]


async def test_a_refusal_is_told_at_once(lab: Lab, remote: Committer) -> None:
    first = await remote.create()
    refusal = {"action": "status", "status": 403, "code": "AccessDenied"}
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, **refusal}])
    with lab.recording() as seen, pytest.raises(AccessError):
        await remote.commit(first, "a")
    puts = [
        record for record in seen.records if record["op"] == "PUT" and "_versions" in record["key"]
    ]
    assert len(puts) == 1
    lab.calm()
    assert (await remote.latest()).version == 1


async def test_without_its_file_a_transaction_is_not_committed(lab: Lab, remote: Committer) -> None:
    first = await remote.create()
    lab.config(faults=[{"op": "PUT", "key": r"\.txn$", "action": "status", "status": 503}])
    with pytest.raises(StoreError):
        await remote.commit(first, "a")
    lab.calm()
    assert (await remote.latest()).version == 1


@pytest.mark.parametrize("kind", ["s3", "gcs"])
async def test_an_append_by_handle_is_two_rounds_of_writes(lab: Lab, kind: str) -> None:
    uri, options = remote_uri(lab, kind)
    committer = Committer.of(uri, storage_options=options)
    committed = await committer.commit(await committer.create(), "a")
    store, path = committer.engine.registry.resolve(committer.table.folder("data/b.lance"))
    lab.config(waits_for=os.getpid())
    with lab.recording() as seen:
        await committer.commit(committed, "b", data=store.put(path, b"data"))
    await committer.aclose()
    assert sorted(record["op"] for record in seen.records) == ["LIST", "PUT", "PUT", "PUT"]
    assert seen.rounds == 2
    assert "_versions" in seen.records[-1]["key"]


async def test_a_cancelled_commit_leaves_one_version_or_the_other(
    lab: Lab, remote: Committer
) -> None:
    base = await remote.create()
    lab.config(latency_ms=8)
    for number in range(12):
        transaction = append(base.version, [f"n{number}"])
        task = asyncio.create_task(remote.run(base, transaction))
        await asyncio.sleep(0.003 * number)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        latest = await remote.latest()
        assert latest.version in (base.version, base.version + 1)
        base = await remote.run(base, transaction)
        assert base.version == number + 2
    lab.calm()
    assert await remote.paths() == [f"n{number}" for number in range(12)]


async def test_a_store_that_overwrites_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = remote_uri(lab, "s3")
    committer = Committer.of(uri, storage_options=options)

    store, _ = committer.engine.registry.resolve(committer.table.root)

    class Overwriting:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def put(self, path: str, body: bytes, *, if_absent: bool = False) -> None:
            await store.put(path, body)

    manifests = ConditionalManifests(committer.engine, committer.table)
    monkeypatch.setattr(manifest_store, "_obedient_names", set())
    monkeypatch.setitem(committer.engine.registry._open.lasting, store.root, Overwriting())
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="overwrites where it was asked to create"):
            await manifests.check()
    with pytest.raises(NotImplementedError, match="overwrites"):
        await committer.create()
    metas = [meta async for meta in committer.engine.scheduler.list(committer.table.root)]
    assert not any("probe" in meta.path or "manifest" in meta.path for meta in metas)
    await committer.aclose()


async def test_a_store_is_probed_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_store, "_obedient_names", set())
    uri, options = remote_uri(lab, "s3")
    committer = Committer.of(uri, storage_options={**options, "connect_timeout": "17s"})
    with lab.recording() as seen:
        base = await committer.create()
        base = await committer.commit(base, "a")
        await committer.commit(base, "b")
    assert [record["op"] for record in seen.records if record["st"] == 412] == ["PUT"]
    await committer.aclose()
