"""Commits through every row of the table of faults, alone and beside others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.reference.served import rule_name
from tests.reference.waiting import landed
from tests.versioning.conftest import Committer, remote_uri
from tests.versioning.fault_table import MATRIX, READ_FAULTS, Fault, patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from alance.testing.lab import Lab

MANIFESTS = r"\.manifest$"


@pytest.fixture(params=["s3", "gcs"])
async def opened(request: pytest.FixtureRequest, lab: Lab) -> AsyncIterator[Any]:
    """Makes committers of one new table, each as another process would have it."""
    params = request.node.callspec.params
    waits = patience(params["fault"].rule if "fault" in params else params["rule"])
    uri, options = remote_uri(lab, request.param, read_timeout=waits, timeout=waits)
    committers: list[Committer] = []

    def another() -> Committer:
        committers.append(Committer.of(uri, storage_options=options))
        return committers[-1]

    yield another
    for committer in committers:
        await committer.aclose()


@pytest.mark.parametrize("fault", MATRIX, ids=str)
async def test_the_table_is_true(lab: Lab, opened: Callable[[], Committer], fault: Fault) -> None:
    store = opened().table.store
    path = f"truth/{store.profile.kind}-{fault}"
    lab.config(faults=[{"op": "PUT", "times": 1, **fault.rule}])
    with pytest.raises(fault.answer):
        await store.put(path, b"ours", if_absent=True)
    file = lab.root / "lab" / path
    assert file.exists() == (fault.truth == "ours")
    lab.calm()
    await landed(lab)
    assert file.exists() == (fault.truth != "absent")
    if fault.truth == "late":
        assert await store.get(path) == b"ours"


@pytest.mark.parametrize("fault", MATRIX, ids=str)
async def test_a_commit_alone_survives_each_fault(
    lab: Lab, opened: Callable[[], Committer], fault: Fault
) -> None:
    committer = opened()
    first = await committer.create()
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, "times": 1, **fault.rule}])
    assert (await committer.commit(first, "a")).version == 2
    lab.calm()
    await landed(lab)
    assert (await committer.latest()).version == 2
    assert await committer.paths() == ["a"]


@pytest.mark.parametrize("fault", MATRIX, ids=str)
async def test_another_commits_before_it_is_settled(
    lab: Lab, opened: Callable[[], Committer], fault: Fault
) -> None:
    """Whoever was first has version 2, the other one version 3; nobody is told wrong."""
    committer, rival = opened(), opened()
    first = await committer.create()
    await rival.store().check()
    put = committer.table.store.put
    others: list[int] = []

    async def slowly(path: str, body: bytes, *, if_absent: bool = False) -> None:
        try:
            await put(path, body, if_absent=if_absent)
        finally:
            if if_absent and path.endswith(".manifest") and not others:
                others.append((await rival.commit(first, "rival")).version)

    committer.table.store.put = slowly  # type: ignore[method-assign]
    lab.config(faults=[{"op": "PUT", "key": MANIFESTS, "times": 1, **fault.rule}])
    committed = await committer.commit(first, "ours")
    assert (committed.version, *others) == ((2, 3) if fault.truth == "ours" else (3, 2))
    lab.calm()
    await landed(lab)
    assert (await committer.latest()).version == 3
    assert sorted(await committer.paths()) == ["ours", "rival"]


@pytest.mark.parametrize("op", ["LIST", "GET"])
@pytest.mark.parametrize("rule", READ_FAULTS, ids=rule_name)
async def test_what_others_did_is_read_through_faults(
    lab: Lab, opened: Callable[[], Committer], rule: dict[str, Any], op: str
) -> None:
    committer, rival = opened(), opened()
    first = await committer.create()
    await rival.commit(await rival.commit(first, "x"), "y")
    lab.config(faults=[{"op": op, "times": 1, **rule}])
    with lab.recording() as seen:
        assert (await committer.commit(first, "a")).version == 4
    assert sum("fault" in record for record in seen.records) == 1
    lab.calm()
    assert sorted(await committer.paths()) == ["a", "x", "y"]
