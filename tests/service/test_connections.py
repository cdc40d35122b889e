"""Connections to `alance serve`: framing of requests, draining, and unknown outcomes."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import alance
from alance.serve import Bounds, Service
from alance.serve.errors import UNKNOWN_OUTCOME
from alance.serve.gate import Gate
from alance.serve.served import ServedTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GET = b"GET /tables/items/rows/1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /tables/items/count HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


@pytest.fixture
async def uri(tmp_path: Path) -> str:
    await alance.write_dataset({"id": [1, 2]}, tmp_path / "items")
    return str(tmp_path / "items")


@contextmanager
def serving(uri: str, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that serves a table, and its port; it ends by itself after a signal."""
    command = [sys.executable, "-m", "alance", "serve", uri, "--key", "id", "--port", "0"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield process, int(process.stderr.readline().split()[0].rpartition(b":")[2])
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.stderr.read() == b""
    assert process.returncode == 0


class Caller:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def ask(self, request: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Send a request; return status, headers and body of its answer. Fails if it is closed."""
        self._socket.sendall(request)
        status = int(self._file.readline().split()[1])
        headers: dict[str, str] = {}
        while (line := self._file.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = json.loads(self._file.read(int(headers["content-length"])))
        return status, headers, body

    def ends(self) -> bool:
        """True if the service has closed the connection and sent nothing more."""
        return self._file.read() == b""

    def close(self) -> None:
        self._file.close()
        self._socket.close()


TWO_LENGTHS, OLD = "expected one of them", "HTTP/1.0: expected Content-Length"
UNCLEAR = (
    (POST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS, TWO_LENGTHS),
    (POST + b"transfer-encoding: chunked\r\ncontent-length: 12\r\n\r\n" + CHUNKS, TWO_LENGTHS),
    (POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS, OLD),
    (GET[:-2] + b"content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", TWO_LENGTHS),
    (
        GET[:-2].replace(b"/tables/items/rows/1", b"/health/live")
        + b"content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        TWO_LENGTHS,
    ),
)


async def test_a_request_with_ambiguous_framing_is_refused_and_its_connection_closed(
    uri: str,
) -> None:
    def ask() -> None:
        with serving(uri) as (_, port):
            for request, detail in UNCLEAR:
                caller = Caller(port)
                status, headers, body = caller.ask(request)
                assert (status, headers["connection"]) == (400, "close")
                assert body["error"] == "BadFraming"
                assert detail in body["detail"]
                assert caller.ends()
                caller.close()
            caller = Caller(port)
            for _ in range(2):
                whole = POST + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS
                status, headers, body = caller.ask(whole)
                assert (status, body["rows"], "connection" in headers) == (200, 2, False)
            caller.close()

    await asyncio.to_thread(ask)


async def test_callers_that_keep_their_connections_are_told_to_close_first(uri: str) -> None:
    def ask() -> None:
        with serving(uri, "--drain", "600") as (process, port):
            callers = [Caller(port) for _ in range(4)]
            for caller in callers:
                status, headers, _ = caller.ask(GET)
                assert (status, "connection" in headers) == (200, False)
            process.send_signal(signal.SIGTERM)
            while True:  # until the service accepts no more
                try:
                    Caller(port).close()
                except ConnectionRefusedError:
                    break
            ready = GET.replace(b"/tables/items/rows/1", b"/health/ready")
            prober = callers.pop()
            status, headers, body = prober.ask(ready)
            prober.close()
            assert (status, headers["connection"], body["error"]) == (503, "close", "Stopping")
            for caller in callers:
                status, headers, body = caller.ask(GET)
                assert (status, headers["connection"]) == (200, "close")
                assert body["row"] == {"id": 1}
                assert caller.ends()
                caller.close()

    await asyncio.to_thread(ask)


class Unending:
    """An application that never answers."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("verb", "status", "outcome"), [("rows", 500, UNKNOWN_OUTCOME), ("query", 504, {})]
)
async def test_a_change_that_times_out_has_an_unknown_outcome(
    verb: str, status: int, outcome: dict[str, str]
) -> None:
    gate = Gate(Unending(), Bounds(seconds=1e-6), None)
    transport = httpx.ASGITransport(gate)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(f"/tables/items/{verb}", json={})
    expected = {"error": "Timeout", "detail": "not answered after 1e-06 s", **outcome}
    assert (answer.status_code, answer.json()) == (status, expected)
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("was_added", [True, False])
async def test_rows_with_an_unknown_outcome_are_sent_again_with_their_key(
    uri: str, was_added: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ServedTable.append

    async def lost(table: ServedTable, rows: Any, token: str) -> tuple[int, bool]:
        if was_added:
            await append(table, rows, token)
        raise alance.CommitStateUnknownError("version 2: no answer")

    async with Service({"items": uri}, key="id", ingest=True, reload_s=0) as service:
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            request: Any = {"json": {"rows": [{"id": 3}]}, "headers": {"idempotency-key": "a"}}
            monkeypatch.setattr(ServedTable, "append", lost)
            answer = await client.post("/tables/items/rows", **request)
            error = {"error": "CommitStateUnknownError", "detail": "version 2: no answer"}
            assert (answer.status_code, answer.json()) == (500, error | UNKNOWN_OUTCOME)
            monkeypatch.setattr(ServedTable, "append", append)
            answer = await client.post("/tables/items/rows", **request)
            assert answer.json() == {"version": 2, "new": not was_added}
    assert await (await alance.dataset(uri)).count_rows() == 3
