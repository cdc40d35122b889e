"""A service that maintains its tables: what it does and shows; that it serves whatever happens."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import alance
from alance import MaintenancePolicy
from alance.command import main
from alance.ops.maintain import background, run
from alance.serve import Service
from tests.service.test_serve import client_of, serve

if TYPE_CHECKING:
    from pathlib import Path

FEW = MaintenancePolicy(
    min_small_fragments=4, older_than=timedelta(0), min_old_versions=8, retain_versions=4
)


@pytest.fixture
async def uri(tmp_path: Path) -> str:
    """A table of twelve small fragments with an index of the first two, and a policy."""
    dataset = await alance.write_dataset({"id": list(range(10))}, tmp_path / "items")
    for number in range(1, 12):
        if number == 2:
            dataset = await dataset.create_scalar_index("id", "BTREE")
        dataset = await dataset.insert({"id": list(range(10 * number, 10 * number + 10))})
    await dataset.update_config(FEW.to_config())
    return str(tmp_path / "items")


async def health(client: httpx.AsyncClient, counter: str = "", least: int = 0) -> dict[str, Any]:
    """Return what a service answers, as soon as a counter of its maintenance is so high."""
    while True:
        values: dict[str, Any] = (await client.get("/health")).json()
        counts = values["maintenance"]
        if not counter or (counts is not None and counts[counter] >= least):
            return values
        await asyncio.sleep(0.01)


async def test_the_tables_of_a_service_are_maintained_by_their_own_policies(uri: str) -> None:
    async with Service({"items": uri}, key="id", maintain=True, reload_s=0) as service:
        client = client_of(service)
        state = await health(client, "num_runs", 1)
        steps = state["maintenance"]["last_steps"]
        outcomes = [(step["kind"], step["target"], step["outcome"]) for step in steps]
        assert outcomes == [
            ("compact", None, "done"),
            ("index", "id_idx", "done"),
            ("cleanup", None, "done"),
        ]
        assert state["health"]["last_run"]["steps"] == ["compact", "index", "cleanup"]
        assert (await client.post("/reload")).json()["version"] > state["version"]
        state = await health(client)
        assert state["health"]["num_fragments"] == 2
        assert state["health"]["indices"][0]["num_unindexed_rows"] == 0
        assert (await client.get("/rows/115")).json()["row"] == {"id": 115}
        page = service.metrics_text()
        assert f'alance_maintenance_steps_total{{where="{service["items"].uri}"}} 3' in page
        assert "alance_maintenance_small_fragments" in page
        where = f"{service['items'].uri}#id_idx"
        assert f'alance_maintenance_unindexed_rows{{where="{where}"}} ' in page


async def test_health_is_shown_by_a_service_that_maintains_nothing(uri: str) -> None:
    async with Service({"items": uri}, reload_s=0) as service:
        client = client_of(service)
        state = await health(client)
        assert (state["health"]["num_fragments"], state["maintenance"]) == (12, None)
        assert state["health"]["num_reclaimable_bytes"] is None
        assert "alance_serve_reclaimable_bytes{" not in service.metrics_text()
        counted = (await client.get("/health", params={"reclaimable": "true"})).json()["health"]
        num_bytes = counted["num_reclaimable_bytes"]
        assert num_bytes > 0
        line = f'alance_serve_reclaimable_bytes{{table="items"}} {num_bytes}'
        assert line in service.metrics_text()
        wrong = await client.get("/health", params={"reclaimable": "all"})
        assert (wrong.status_code, wrong.json()["error"]) == (400, "InvalidInputError")


async def test_services_of_a_table_do_a_step_once(uri: str) -> None:
    services = [Service({"items": uri}, maintain=True, reload_s=0) for _ in range(3)]
    async with services[0], services[1], services[2]:
        states = [await health(client_of(service), "num_runs", 1) for service in services]
        steps = [step for state in states for step in state["maintenance"]["last_steps"]]
    counts = Counter((step["kind"], step["outcome"]) for step in steps)
    assert [counts[kind, "done"] for kind in ("compact", "index", "cleanup")] == [1, 1, 1]
    assert {outcome for _, outcome in counts} <= {"done", "leased"}


async def test_a_fault_of_maintenance_does_not_stop_serving(
    uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault of a library")

    monkeypatch.setattr(background, "maintain", fails)
    async with Service({"items": uri}, key="id", ingest=True, maintain=True, reload_s=0) as service:
        client = client_of(service)
        state = await health(client, "num_failures", 1)
        assert state["maintenance"]["last_error"] == "a fault of a library"
        assert (await client.get("/rows/115")).json()["row"] == {"id": 115}
        head = {"idempotency-key": "a"}
        assert (await client.post("/rows", json={"rows": [{"id": 900}]}, headers=head)).is_success
    assert "ZeroDivisionError" in caplog.text
    assert await (await alance.dataset(uri)).count_rows("id = 900") == 1


async def test_a_step_under_way_is_dropped_as_soon_as_the_service_drains(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def stuck(self: object, step: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()

    monkeypatch.setattr(run._Run, "_do", stuck)
    before = (await alance.dataset(uri)).version
    async with Service({"items": uri}, key="id", maintain=True, reload_s=0) as service:
        await begun.wait()
        service.drain()
        await dropped.wait()
        assert (await client_of(service).get("/rows/7")).json()["row"] == {"id": 7}
    monkeypatch.undo()
    dataset = await alance.dataset(uri)
    assert dataset.version == before
    report = await dataset.maintain()  # the lease was given back
    assert (report.holder, report.steps[0].outcome) == (None, "done")


async def test_the_command_maintains_and_ends_by_a_signal(uri: str) -> None:
    process, url = await asyncio.to_thread(serve, uri, "--maintain", "--every", "1h")
    try:
        async with httpx.AsyncClient(base_url=f"{url}/tables/items", timeout=60) as client:
            await health(client, "num_steps", 3)
    finally:
        process.send_signal(signal.SIGTERM)
        _, message = await asyncio.to_thread(process.communicate, None, 60)
    assert (process.returncode, message) == (0, b"")
    assert (await (await alance.dataset(uri)).health()).num_fragments == 2


def test_a_time_without_maintenance_is_refused(uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", uri, "--port", "0", "--every", "1m"]) == 1
    assert "expected --maintain beside it" in capfd.readouterr().err
    with pytest.raises(alance.InvalidInputError, match="maintain_s=0: expected a time above 0"):
        Service({"items": uri}, maintain=True, maintain_s=0)
    with pytest.raises(alance.InvalidInputError, match="maintain='yes': expected a Maintenance"):
        Service({"items": uri}, maintain="yes")  # type: ignore[arg-type]
