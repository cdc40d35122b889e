"""The service of the examples, by a real client: 64 callers, rows once each, a graceful stop."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab

FOLDER = Path(__file__).parents[2] / "examples" / "service"
CALLERS, ROWS, SIZE = 64, 2000, 8
ITEMS = "/tables/items"
MORE = {"share": "NaN", "raw": "/w==", "made": "1970-01-01T00:00:00"}  # as JSON


def load() -> Any:
    spec = importlib.util.spec_from_file_location("service_load", FOLDER / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Running:
    """The service's process, and a client of it."""

    def __init__(
        self, kind: str, process: subprocess.Popen[bytes], client: httpx.AsyncClient
    ) -> None:
        self.kind = kind
        self.process = process
        self.client = client

    async def append(self, key: str, ids: list[int]) -> httpx.Response:
        rows = [{"id": number, "text": "new words", "vector": [1.0] * SIZE} for number in ids]
        return await self.client.post(
            f"{ITEMS}/rows", json={"rows": rows}, headers={"idempotency-key": f"{self.kind}-{key}"}
        )

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 60)


@pytest.fixture(params=["command", "example"])
async def service(lab: Lab, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    module = load()
    options = lab.lance_options()
    vectors = np.arange(ROWS * SIZE, dtype=np.float32)
    rows = {
        "id": np.arange(ROWS),
        "text": [f"number {number}" for number in range(ROWS)],
        "vector": pa.FixedSizeListArray.from_arrays(vectors, SIZE),
        "share": [math.nan] * ROWS,
        "raw": [b"\xff"] * ROWS,
        "made": pa.array([0] * ROWS, pa.timestamp("s")),
    }
    dataset = await alance.write_dataset(
        pa.table(rows), module.URI, mode="overwrite", storage_options=options
    )
    await dataset.create_scalar_index("id", "BTREE")
    process, url = module.start(options, with_fastapi=request.param == "example")
    limits = httpx.Limits(max_connections=CALLERS)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            await asyncio.to_thread(module.wait_until_ready, url)
            yield Running(request.param, process, client)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


async def test_the_service_answers_64_callers_and_stops_gracefully(
    service: Running, lab: Lab
) -> None:
    client = service.client

    async def call(number: int) -> None:
        row = (await client.get(f"{ITEMS}/rows/{number}")).json()
        assert row["row"] == {"id": number, "text": f"number {number}", **MORE}
        words = (
            await client.post(f"{ITEMS}/text", json={"query": f"{number}", "on": "text"})
        ).json()
        assert [match["id"] for match in words["rows"]] == [number]
        vector = [float(number * SIZE + place) for place in range(SIZE)]
        query = {"vector": vector, "k": 1}
        (nearest,) = (await client.post(f"{ITEMS}/nearest", json=query)).json()["rows"]
        assert (nearest["id"], nearest["_distance"]) == (number, 0.0)
        # An answer that was lost: the client sends the same rows again, at once and later.
        answers = await asyncio.gather(
            *(service.append(f"key-{number}", [ROWS + number]) for _ in range(2))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 201]
        again = await service.append(f"key-{number}", [ROWS + number])
        assert (again.status_code, again.json()["new"]) == (200, False)

    await asyncio.gather(*map(call, range(CALLERS)))
    await check_the_rest(client)
    under_way = [asyncio.create_task(service.append(f"late-{n}", [3 * ROWS + n])) for n in range(8)]
    await asyncio.sleep(0.05)
    assert await service.stop() in (0, -signal.SIGTERM)
    answers = await asyncio.gather(*under_way, return_exceptions=True)
    accepted = {
        number
        for number, answer in enumerate(answers)
        if isinstance(answer, httpx.Response) and answer.status_code == 201
    }
    dataset = await alance.dataset(load().URI, storage_options=lab.lance_options())
    ids = (await dataset.to_table(["id"]))["id"].to_pylist()
    assert len(ids) == len(set(ids))
    assert {ROWS + number for number in range(CALLERS)} <= set(ids)
    assert {3 * ROWS + number for number in accepted} <= set(ids)


async def check_the_rest(client: httpx.AsyncClient) -> None:
    """Reloads, health, errors and metrics."""
    version = (await client.post(f"{ITEMS}/reload")).json()["version"]
    assert version > 2
    assert (await client.get("/health/ready")).json() == {"versions": {"items": version}}
    new = (await client.get(f"{ITEMS}/rows/{ROWS}")).json()
    nulls = dict.fromkeys(MORE)
    assert new == {"version": version, "row": {"id": ROWS, "text": "new words", **nulls}}
    assert (await client.get("/health/live")).text == "ok"
    for path, status in ((f"{ITEMS}/rows/999999", 404), (f"{ITEMS}/rows/x", 400)):
        assert (await client.get(path)).status_code == status
    short = await client.post(f"{ITEMS}/nearest", json={"vector": [1.0]})
    assert (short.status_code, short.json()["error"]) == (400, "InvalidInputError")
    bad = await client.post(
        f"{ITEMS}/rows", json={"rows": [{"id": "no number"}]}, headers={"idempotency-key": "bad"}
    )
    assert bad.status_code == 400
    text = (await client.get("/metrics")).text
    assert "lab" in text
    (commits,) = re.findall(r'commits_total\{.*operation="Append",outcome="ok"\} (\d+)', text)
    (appends,) = re.findall(r"committed_appends_total\{.*\} (\d+)", text)
    assert 1 <= int(commits) <= int(appends) <= CALLERS
    assert "alance_cache_hits_total{}" in text


async def test_the_load_is_driven_and_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load()
    monkeypatch.setattr(module, "ROWS", 5000)
    await module.main(latency_ms=0, num_callers=4, seconds=0.1)
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(module.CALLS)
