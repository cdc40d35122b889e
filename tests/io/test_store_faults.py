"""Stores against a server that fails, in both dialects: what is survived, and what is told."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import AccessError, AlreadyExistsError, StoreError
from alance.io.opening.registry import StoreRegistry
from tests.io.conftest import Place
from tests.reference.served import rule_name

if TYPE_CHECKING:
    from alance.testing.lab import Lab, Record

CONTENT = bytes(range(256)) * 1024
# Ways to fail that are over once the request is made again.
PASSING: list[dict[str, Any]] = [
    {"action": "status", "status": 500},
    {"action": "status", "status": 503},
    {"action": "status", "status": 429},
    {"action": "reset"},
    {"action": "stall"},
    {"action": "truncate", "after_bytes": 1000},
    {"action": "reset_mid", "after_bytes": 1000},
    {"action": "stall_mid", "after_bytes": 1000},
]
# Ways to lose the answer to a write that took effect.
LOST: list[dict[str, Any]] = [
    {"action": "apply_status", "status": 503},
    {"action": "apply_reset"},
    {"action": "apply_stall"},
]
_numbers = itertools.count(1)


@pytest.fixture(params=["s3", "gcs"])
def remote(request: pytest.FixtureRequest, lab: Lab) -> Place:
    """A folder in the lab's bucket, by a store without obstore's own retries."""
    options = {"client_max_retries": 0, "read_timeout": "500ms"}
    if request.param == "s3":
        uri, options = f"s3://lab/faults-{next(_numbers)}", lab.lance_options() | options
    else:
        uri, options = f"gs://lab/faults-{next(_numbers)}", lab.gcs_options() | options
    return Place(*StoreRegistry().open(uri, storage_options=options))


def hits(records: list[Record]) -> int:
    return sum("fault" in record for record in records)


@pytest.mark.parametrize("rule", PASSING, ids=rule_name)
async def test_reads_survive_a_fault_that_passes(
    lab: Lab, remote: Place, rule: dict[str, Any]
) -> None:
    store, path = remote.store, remote.path("a")
    await store.put(path, CONTENT)
    lab.config(faults=[{"method": "GET", "times": 1, **rule}])
    with lab.recording() as seen:
        (result,) = await store.get_ranges(path, [(10, 200_000)])
        assert result == CONTENT[10:200_000]
    assert hits(seen.records) == 1
    lab.config(faults=[{"method": "GET", "times": 1, **rule}])
    with lab.recording() as seen:
        assert await store.get(path) == CONTENT
    assert hits(seen.records) == 1
    lab.config(faults=[{"method": "GET", "times": 1, **rule}])
    with lab.recording() as seen:
        assert await store.get_tail(path, 5000) == (CONTENT[-5000:], len(CONTENT))
    assert hits(seen.records) == 1


@pytest.mark.parametrize("rule", PASSING, ids=rule_name)
async def test_listings_survive_a_fault_that_passes(
    lab: Lab, remote: Place, rule: dict[str, Any]
) -> None:
    names = [remote.path(f"{number:02}") for number in range(30)]
    await asyncio.gather(*(remote.store.put(path, b"") for path in names))
    lab.config(faults=[{"op": "LIST", "times": 1, **rule}])
    with lab.recording() as seen:
        assert [meta.path async for meta in remote.store.list(remote.folder)] == names
    assert hits(seen.records) == 1


@pytest.mark.parametrize("rule", [*PASSING[:5], *LOST], ids=rule_name)
async def test_plain_writes_survive(lab: Lab, remote: Place, rule: dict[str, Any]) -> None:
    store, path = remote.store, remote.path("a")
    lab.config(faults=[{"op": "PUT", "times": 1, **rule}])
    with lab.recording() as seen:
        await store.put(path, CONTENT)
    assert hits(seen.records) == 1
    lab.config(faults=[{"op": "COPY", "times": 1, **rule}])
    with lab.recording() as seen:
        await store.copy(path, remote.path("b"))
    assert hits(seen.records) == 1
    assert await store.get(remote.path("b")) == CONTENT
    lab.config(faults=[{"method": method, "times": 1, **rule} for method in ("POST", "DELETE")])
    with lab.recording() as seen:
        await store.delete([path, remote.path("b"), remote.path("missing")])
    assert hits(seen.records) == 1
    assert [meta async for meta in store.list(remote.folder)] == []


@pytest.mark.parametrize("rule", [*PASSING[:5], *LOST], ids=rule_name)
async def test_a_creation_is_not_tried_again(lab: Lab, remote: Place, rule: dict[str, Any]) -> None:
    lab.config(faults=[{"op": "PUT", "times": 1, **rule}])
    path = remote.path("once")
    with lab.recording() as seen, pytest.raises(StoreError) as caught:
        await remote.store.put(path, CONTENT, if_absent=True)
    assert caught.value.retryable
    assert [record["op"] for record in seen.records] == ["PUT"]
    paths = [meta.path async for meta in remote.store.list(remote.folder)]
    assert paths == ([path] if rule in LOST else [])
    if rule in LOST:
        with pytest.raises(AlreadyExistsError):
            await remote.store.put(path, b"another", if_absent=True)
        assert await remote.store.get(path) == CONTENT


async def test_a_failure_that_lasts_is_told(lab: Lab, remote: Place) -> None:
    lab.config(faults=[{"action": "status", "status": 503}])
    with lab.recording() as seen, pytest.raises(StoreError) as caught:
        await remote.store.get(remote.path("a"))
    assert (caught.value.retryable, caught.value.status) == (True, 503)
    assert len(seen.records) == 4


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_is_not_tried_again(lab: Lab, remote: Place, status: int) -> None:
    lab.config(faults=[{"action": "status", "status": status, "code": "AccessDenied"}])
    for call in (
        remote.store.get(remote.path("a")),
        remote.store.put(remote.path("a"), b""),
        remote.store.delete([remote.path("a")]),
        remote.store.list_level(remote.folder),
    ):
        with lab.recording() as seen, pytest.raises(AccessError):
            await call
        assert len(seen.records) == 1
