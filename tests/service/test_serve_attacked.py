"""`alance.serve` asked by somebody who means it harm: each is refused, and told so."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.serve import Bounds, Service
from alance.serve.gate import ARROW_MEDIA_TYPE
from tests.service.clients import client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

HUGE = 10**400
ROWS = pa.table(
    {
        "id": pa.array([1, 2]),
        "text": ["some", "words"],
        "vector": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "items")
    return str(tmp_path / "items")


@pytest.fixture
async def client(uri: str) -> AsyncIterator[httpx.AsyncClient]:
    bounds = Bounds(rows=100)
    async with (
        Service({"items": uri}, key="id", ingest=True, reload_s=0, bounds=bounds) as service,
        client_of(service) as client,
    ):
        yield client


def stream_of(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "ends", [(0, 200, 250), (0, 20, -5), (-50, 20, 33), (0, 33, 20), (40_000, 40_200, 40_210)]
)
async def test_rows_whose_texts_would_lie_outside_of_the_body_are_refused(
    client: httpx.AsyncClient, ends: tuple[int, ...]
) -> None:
    """Else they would be other callers' bytes, written into the table."""
    stream = stream_of(pa.record_batch({"id": [7, 8], "text": ["a" * 20, "b" * 13]}))
    whole = struct.pack("<3i", 0, 20, 33)
    assert stream.count(whole) == 1
    damaged = stream.replace(whole, struct.pack("<3i", *ends))
    headers = {"content-type": ARROW_MEDIA_TYPE, "idempotency-key": "x"}
    answer = await client.post("/rows", content=damaged, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInputError")
    assert (await client.post("/count")).json() == {"version": 1, "rows": 2}


async def test_names_that_are_no_text_are_refused(client: httpx.AsyncClient) -> None:
    stream = stream_of(pa.record_batch({"id": [7], "other": ["x"]})).replace(b"other", b"oth\xffr")
    headers = {"content-type": ARROW_MEDIA_TYPE, "idempotency-key": "x"}
    answer = await client.post("/rows", content=stream, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInputError")


BOMBS = {
    "compressed Arrow": stream_of(pa.record_batch({"id": [7] * 100_000}), "zstd"),
    "compressed": stream_of(
        pa.record_batch({"text": pa.array(["x" * 999]).dictionary_encode()}), "lz4"
    ),
    "rows of": stream_of(pa.record_batch({"id": pa.nulls(10_000_000)})),
}


@pytest.mark.parametrize("message", BOMBS)
async def test_few_bytes_that_stand_for_many_are_refused(
    client: httpx.AsyncClient, message: str
) -> None:
    headers = {"content-type": ARROW_MEDIA_TYPE, "idempotency-key": "x"}
    answer = await client.post("/rows", content=BOMBS[message], headers=headers)
    assert answer.status_code == 400
    assert message in answer.json()["detail"]
    rows = pa.record_batch({"id": [7, 8], "text": pa.array(["x", "y"]).dictionary_encode()})
    whole = {**headers, "idempotency-key": "y"}
    answer = await client.post("/rows", content=stream_of(rows), headers=whole)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("nearest", {"vector": [HUGE, 1]}),
        ("nearest", {"vector": [[1, 2]] * 11}),
        ("nearest", {"vector": [1, 2], "k": 50, "refine_factor": 3}),
        ("search", {"text": "some", "vector": [1, HUGE]}),
        ("rows", {"rows": [{"id": HUGE}]}),
        ("rows", {"rows": [{"id": 1 << 63}]}),
        ("take", {"rows": [HUGE]}),
    ],
)
async def test_numbers_beyond_all_bounds_are_a_callers_mistake(
    client: httpx.AsyncClient, verb: str, body: Any
) -> None:
    answer = await client.post(f"/{verb}", json=body, headers={"idempotency-key": "x"})
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInputError"), answer.text


@pytest.mark.parametrize(
    "kind", [ARROW_MEDIA_TYPE, f"{ARROW_MEDIA_TYPE}; x=1", ARROW_MEDIA_TYPE.upper()]
)
async def test_json_is_not_read_of_a_body_that_says_it_is_arrow(
    client: httpx.AsyncClient, kind: str
) -> None:
    """As one of those may have more bytes than JSON is parsed of."""
    headers = {"content-type": kind, "idempotency-key": "x"}
    body = b'{"filter": "id = 1"' + b" " * (2 << 20) + b"}"
    assert (await client.post("/query", content=body, headers=headers)).status_code == 415
    answer = await client.post("/rows", content=body, headers=headers)
    assert "no stream of Arrow" in answer.json()["detail"]


async def test_paths_of_callers_are_no_names_of_metrics(uri: str) -> None:
    """Otherwise any caller could add metrics without end, and lines of their own."""
    async with Service({"items": uri}, token="secret") as service, client_of(service) as client:
        for number in range(20):
            answer = await client.post(f'/a"{number}%0Aalance_rows 1')
            assert answer.status_code == 401
        assert (await client.post("/count")).status_code == 401
        lines = [line for line in service.metrics_text().splitlines() if 'status="401"' in line]
    assert sorted(line.split("{")[1] for line in lines) == [
        'verb="count",status="401"} 1',
        'verb="unknown",status="401"} 20',
    ]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("[::1].rebound.example", 421),
        ("[::1]rebound.example:8000", 421),
        ("localhost:8000:rebound.example", 421),
        ("localhost.rebound.example", 421),
        ("", 421),
    ],
)
async def test_hosts_that_begin_as_one_that_is_let_in_are_not(
    uri: str, host: str, status: int
) -> None:
    async with (
        Service({"items": uri}, hosts=["localhost", "[::1]"]) as service,
        client_of(service) as client,
    ):
        assert (await client.post("/count", headers={"host": host})).status_code == status
