"""`alance.serve` by a client of its application: what it answers, refuses, bounds and drops."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.command import main
from alance.serve import Bounds, Service
from alance.serve.gate import ARROW_MEDIA_TYPE, Gate
from tests.reference.waiting import until
from tests.service.clients import client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SIZE = 4
ROWS = pa.table(
    {
        "id": pa.array(range(500)),
        "day": pa.array([n * 86_400 for n in range(500)], pa.timestamp("s")),
        "raw": [bytes([n % 256]) for n in range(500)],
        "share": [float("nan") if n % 2 else n / 8 for n in range(500)],
        "text": [f"word{n % 50} other" for n in range(500)],
        "vector": pa.FixedSizeListArray.from_arrays(np.arange(500 * SIZE, dtype=np.float32), SIZE),
    }
)
TO = {"accept": ARROW_MEDIA_TYPE}
TYPE = {"content-type": "application/json"}


@pytest.fixture
async def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "items", max_rows_per_file=200)
    dataset = lance.dataset(tmp_path / "items")
    dataset.create_scalar_index("text", "INVERTED")
    return str(tmp_path / "items")


@pytest.fixture
async def client(uri: str) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        Service({"items": uri}, key="id", ingest=True, sql=True, reload_s=0) as service,
        client_of(service) as client,
    ):
        yield client


def table_of(answer: httpx.Response) -> pa.Table:
    assert answer.headers["content-type"] == ARROW_MEDIA_TYPE, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


async def test_rows_by_key_are_found_by_values_of_any_type(client: httpx.AsyncClient) -> None:
    expected = {"id": 7, "day": "1970-01-08T00:00:00", "raw": "Bw==", "share": "NaN"}
    assert (await client.get("/rows/7")).json() == {
        "version": 2,
        "row": {**expected, "text": "word7 other"},
    }
    answer = await client.get("/rows/1970-01-08", params={"column": "day", "columns": "id,vector"})
    assert answer.json()["row"] == {"id": 7, "vector": [28.0, 29.0, 30.0, 31.0]}
    answer = await client.get("/rows/7,word7 other", params={"column": "id,text", "columns": "id"})
    assert answer.json()["row"] == {"id": 7}
    result = {"keys": [3, 1, 3], "columns": ["id"]}
    assert (await client.post("/get", json=result)).json()["rows"] == [{"id": n} for n in (3, 1, 3)]
    rows = table_of(await client.post("/get", json={"keys": [8, 2]}, headers=TO))
    assert rows.equals(ROWS.drop_columns(["vector"]).take([8, 2]))
    answer = await client.post("/get", json={"keys": [1, 5000]})
    assert (answer.status_code, answer.json()["error"]) == (404, "RowNotFoundError")


async def test_nan_and_infinities_are_text_in_json(tmp_path: Path) -> None:
    rows = {"id": [1], "x": [float("nan")], "l": [[float("inf"), 0.5]], "t": ['ü\n"']}
    await alance.write_dataset(rows, tmp_path / "t")
    async with (
        Service({"items": str(tmp_path / "t")}, key="id") as service,
        client_of(service) as to,
    ):
        row = {"id": 1, "x": "NaN", "l": ["Infinity", 0.5], "t": 'ü\n"'}
        assert (await to.get("/rows/1")).json() == {"version": 1, "row": row}
        assert (await to.post("/query", json={})).json() == {"version": 1, "rows": [row]}
        half = await to.post("/query", content=b'{"columns": ["\\ud800"]}', headers=TYPE)
        assert (half.status_code, half.json()["error"]) == (400, "ColumnNotFoundError")


async def test_times_that_python_has_not_are_texts(tmp_path: Path) -> None:
    times = pa.array([5, 2**62], pa.int64()).view(pa.timestamp("us"))
    nested = pa.array([[times[1]], []], pa.list_(times.type))
    await alance.write_dataset(pa.table({"id": [0, 1], "t": times, "l": nested}), tmp_path / "t")
    async with (
        Service({"items": str(tmp_path / "t")}, key="id") as service,
        client_of(service) as to,
    ):
        rows = (await to.post("/query", json={})).json()["rows"]
        text = "+148108-07-06T14:00:27.387904"
        assert rows == [
            {"id": 0, "t": "1970-01-01T00:00:00.000005", "l": [text]},
            {"id": 1, "t": text, "l": []},
        ]
        assert (await to.post("/get", json={"keys": [1]})).json()["rows"] == rows[1:]
        assert (await to.get("/rows/1")).json()["row"] == rows[1]
        far = await to.get(f"/rows/{text}", params={"column": "t"})
        assert far.json()["row"] == rows[1]
        none = await to.get("/rows/26826-01-29", params={"column": "t"})
        assert none.status_code == 404, none.text


async def test_queries_answer_as_pylance(client: httpx.AsyncClient, uri: str) -> None:
    query = {"filter": "id > ? and id % 2 = 0", "params": [100], "limit": 20, "offset": 3}
    columns = ["id", "vector", "day"]
    rows = table_of(await client.post("/query", json={**query, "columns": columns}, headers=TO))
    theirs = lance.dataset(uri).to_table(columns, "id > 100 and id % 2 = 0", 20, 3)
    assert rows.equals(theirs)
    listed = (await client.post("/query", json={**query, "columns": ["id"]})).json()["rows"]
    assert listed == theirs.select(["id"]).to_pylist()
    everything = (await client.post("/query", json={"columns": ["id"]})).json()
    assert everything == {"version": 2, "rows": [{"id": n} for n in range(500)]}
    assert (await client.post("/query", json={"filter": "id < 0"})).json()["rows"] == []
    last = {"order_by": ["-id"], "limit": 2, "columns": ["id"]}
    assert (await client.post("/query", json=last)).json()["rows"] == [
        {"id": 499},
        {"id": 498},
    ]
    assert (await client.post("/count", json={"filter": "id < 5"})).json() == {
        "version": 2,
        "rows": 5,
    }
    twice = {"filter": "id < 2", "columns": {"twice": "id * 2"}}
    rows = (await client.post("/query", json=twice)).json()["rows"]
    assert rows == [{"twice": 0}, {"twice": 2}]
    taken = await client.post("/take", json={"rows": [499, 0], "columns": ["id"]})
    assert taken.json()["rows"] == [{"id": 499}, {"id": 0}]


async def test_searches_by_vector_words_and_both(client: httpx.AsyncClient) -> None:
    vector = [28.0, 29.0, 30.0, 31.0]
    requests = {"vector": vector, "k": 2, "columns": ["id"], "filter": "id < 8"}
    rows = (await client.post("/nearest", json=requests)).json()["rows"]
    assert rows == [{"id": 7, "_distance": 0.0}, {"id": 6, "_distance": 64.0}]
    rows = (await client.post("/text", json={"query": "word7", "k": 100})).json()["rows"]
    assert [row["id"] for row in rows] == list(range(7, 500, 50))
    pair = {"text": "word7", "vector": vector, "k": 1, "columns": ["id"]}
    (row,) = (await client.post("/search", json=pair)).json()["rows"]
    assert row["id"] == 7


async def test_sql_reaches_the_tables_and_nothing_else(client: httpx.AsyncClient) -> None:
    query = {"query": "select count(*) as n from items where id >= ?", "params": [490]}
    assert (await client.post("/sql", json=query)).json()["rows"] == [{"n": 10}]
    for text in (
        "select * from read_csv('/etc/passwd')",
        "copy (select 1) to '/tmp/alance-serve'",
        "set enable_external_access = true",
        "attach '/tmp/alance-serve.db'",
    ):
        answer = await client.post("/sql", json={"query": text})
        assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInputError"), text


async def test_rows_are_added_once_as_json_or_arrow(client: httpx.AsyncClient, uri: str) -> None:
    new = ROWS.slice(0, 2).set_column(0, "id", pa.array([900, 901]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, new.schema) as writer:
        writer.write(new)
    headers = {"idempotency-key": "a", "content-type": ARROW_MEDIA_TYPE}
    for status in (201, 200):
        answer = await client.post("/rows", content=sink.getvalue().to_pybytes(), headers=headers)
        assert answer.status_code == status, answer.text
    row = {"id": 902, "text": "new"}
    answer = await client.post("/rows", json={"rows": [row]}, headers={"idempotency-key": "b"})
    assert answer.json() == {"version": 4, "new": True}
    assert lance.dataset(uri).count_rows() == 503
    assert (await client.get("/rows/902")).status_code == 404  # the version in hand
    assert (await client.post("/reload")).json() == {"version": 4}
    assert (await client.get("/rows/902")).json()["row"]["text"] == "new"


@pytest.mark.parametrize(
    ("verb", "body", "message"),
    [
        ("query", {"filter": "idd > 1"}, "idd"),
        ("query", {"limit": "5"}, "limit is '5', expected int"),
        ("query", {"limit": True}, "limit is True"),
        ("query", {"limit": -1}, "limit"),
        ("query", {"colums": ["id"]}, "unknown 'colums'; expected columns, "),
        ("query", {"columns": [1]}, "columns has 1 in it"),
        ("query", {"order_by": ["id"], "limit": 10_001}, "limit: 10001, expected 10000 at most"),
        ("query", [], "expected a JSON object, not a list"),
        ("get", {}, "keys is missing"),
        ("get", {"keys": ["x"]}, "expected a value of type int64"),
        ("get", {"keys": [1], "column": "none"}, "key column 'none': expected one of id, "),
        ("get", {"keys": [{}]}, "key"),
        ("take", {"rows": [1.5]}, "expected positions"),
        ("take", {"rows": [500]}, "500"),
        ("nearest", {"vector": [1.0], "k": 2}, "vector"),
        ("nearest", {"vector": [1.0, "a", 2, 3]}, "vector has 'a' in it"),
        ("nearest", {"vector": [1, 2, 3, 4], "k": 100_000}, "k: 100000, expected 10000 at most"),
        ("nearest", {"vector": [[1], [1, 2]]}, "vector"),
        ("text", {"query": "a", "on": "id"}, "id"),
        ("search", {"text": "a", "vector": [1, 2, 3, 4], "combine": {"text": "x"}}, "combine"),
        ("rows", {"rows": [1]}, "expected objects"),
        ("rows", {"rows": []}, "there are none"),
        ("rows", {"rows": [{"id": "text"}]}, "id"),
        ("rows", {"rows": [{"nothing": 1}]}, "nothing"),
    ],
)
async def test_what_a_caller_gets_wrong_is_400_and_says_so(
    client: httpx.AsyncClient, verb: str, body: Any, message: str
) -> None:
    answer = await client.post(f"/{verb}", json=body, headers={"idempotency-key": "x"})
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["detail"]


async def test_other_refusals_have_statuses_of_their_own(client: httpx.AsyncClient) -> None:
    post, root = client.post, "http://localhost"
    assert (
        await post("/query", content="{}", headers={"content-type": "text/plain"})
    ).status_code == 415
    big = await post("/query", json={"filter": "x" * (1 << 20)})
    assert (big.status_code, big.json()["error"]) == (413, "TooLarge")
    assert (await post("/query", json={}, headers={"accept": "text/html"})).status_code == 406
    assert (await post("/nothing", json={})).status_code == 404
    assert (await client.get("/query")).status_code == 405
    assert (await client.get(f"{root}/none")).status_code == 404
    assert (await post(f"{root}/tables/none/query", json={})).json()[
        "error"
    ] == "TableNotFoundError"
    assert (await post("/rows", json={"rows": [{"id": 1}]})).status_code == 400
    listed = (await client.get(f"{root}/tables")).json()["tables"]
    assert [(table["name"], table["version"]) for table in listed] == [("items", 2)]
    message = (await client.get(f"{root}/tables/items")).json()
    assert (message["rows"], message["columns"][0]) == (500, {"name": "id", "type": "int64"})
    assert (
        'requests_total{verb="query",status="415"} 1' in (await client.get(f"{root}/metrics")).text
    )


async def test_what_was_not_allowed_is_403_and_a_token_is_asked_for(uri: str) -> None:
    async with (
        Service({"items": uri}, token="se cret", hosts=["localhost"]) as service,
        client_of(service) as client,
    ):
        with_token = {"authorization": "Bearer se cret"}
        for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "se cret"}):
            answer = await client.post("/count", headers=headers)
            assert answer.status_code == 401
            assert (await client.get("http://localhost/metrics")).status_code == 401
        assert (await client.post("/count", headers=with_token)).json()["rows"] == 500
        assert (await client.get("http://localhost/health/ready")).status_code == 200
        away = {**with_token, "host": "rebound.example:8000"}
        assert (await client.post("/count", headers=away)).status_code == 421
        for verb, body in (("sql", {"query": "select 1"}), ("rows", {"rows": [{"id": 1}]})):
            answer = await client.post(f"/{verb}", json=body, headers=with_token)
            assert answer.status_code == 403


async def request(gate: Gate, *, gone: asyncio.Event | None = None, body: bytes = b"") -> list[Any]:
    """Return the messages that a gate sends to a caller, who may disconnect."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", ARROW_MEDIA_TYPE.encode())]
    scope = {"type": "http", "method": "POST", "path": "/tables/t/query", "headers": headers}
    await gate(scope, receive, send)
    return sent


class Slow:
    """An application whose answers wait."""

    def __init__(self) -> None:
        self.under_way = self.most = self.cancelled = 0
        self.open = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.open.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1


async def test_so_many_are_worked_on_so_many_wait_and_the_rest_is_told_to_come_again() -> None:
    slow = Slow()
    gate = Gate(slow, Bounds(requests=2, waiting=3), None)
    tasks = [asyncio.create_task(request(gate)) for _ in range(5)]
    await until(lambda: gate._waiting == 3 and slow.under_way == 2)
    refused = await request(gate)
    assert refused[0]["status"] == 503
    assert (b"retry-after", b"1") in refused[0]["headers"]
    slow.open.set()
    answers = await asyncio.gather(*tasks)
    assert [answer[0]["status"] for answer in answers] == [200] * 5
    assert slow.most == 2
    assert 'status="503"} 1' in "\n".join(gate.lines())


async def test_a_caller_that_leaves_frees_its_place_and_time_ends_the_others() -> None:
    slow, gone = Slow(), asyncio.Event()
    gate = Gate(slow, Bounds(requests=1), None)
    task = asyncio.create_task(request(gate, gone=gone))
    await until(lambda: slow.under_way == 1)
    gone.set()
    assert await task == []
    assert (slow.cancelled, slow.under_way) == (1, 0)
    late = Gate(slow, Bounds(requests=1, seconds=1e-6), None)
    (start, body) = await request(late)
    assert (start["status"], json.loads(body["body"])["error"]) == (504, "Timeout")
    assert slow.under_way == 0
    big = await request(Gate(slow, Bounds(body_bytes=10), None), body=b"x" * 11)
    assert big[0]["status"] == 413


async def query(service: Service, see: Callable[[bytes], None]) -> None:
    """Ask for all rows of the table `items`; each part of the answer's body is seen as it comes."""
    requests = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Any:
        return requests.pop() if requests else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            see(message["body"])

    headers = [(b"content-type", b"application/json")]
    path = "/tables/items/query"
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    scope |= {"query_string": b"", "root_path": "", "scheme": "http", "server": ("a", 1)}
    await service.app(scope, receive, send)


async def test_a_long_answer_is_written_in_parts_without_holding_the_loop(tmp_path: Path) -> None:
    many = pa.table({"id": range(20_000), "text": ["x" * 100] * 20_000})
    lance.write_dataset(many, tmp_path / "items")
    async with Service({"items": str(tmp_path / "items")}) as service:
        parts: list[bytes] = []
        await query(service, parts.append)
        assert json.loads(b"".join(parts))["rows"] == many.to_pylist()
        assert max(map(len, parts)) < 200_000


async def test_what_is_read_ahead_of_a_caller_is_its_share_of_the_budget(tmp_path: Path) -> None:
    rng, num_bytes = np.random.default_rng(7), 1024
    many = pa.table({"text": [rng.bytes(num_bytes // 2).hex() for _ in range(60_000)]})
    await alance.write_dataset(many, tmp_path / "items")
    session = alance.Session(io_buffer_bytes=64 << 20)
    bounds = Bounds(requests=32)  # 2 MiB each
    async with Service({"items": str(tmp_path / "items")}, bounds=bounds, session=session) as own:
        ahead: list[int] = []
        num_sent = 0

        def see(part: bytes) -> None:
            nonlocal num_sent
            num_sent += part.count(b"{")
            ahead.append(recorder.totals.num_bytes - num_bytes * num_sent)

        with alance.trace() as recorder:
            await query(own, see)
    await session.aclose()
    assert num_sent == len(many) + 1  # the answer is an object itself
    assert max(ahead) < 8 << 20


def serve(*arguments: str, **variables: str) -> tuple[subprocess.Popen[bytes], str]:
    """A process that serves on a free port, and its address."""
    command = [sys.executable, "-m", "alance", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.PIPE)
    assert process.stderr is not None
    return process, process.stderr.readline().decode().split()[0]


async def test_the_command_serves_several_tables_with_a_token_until_it_is_told(
    uri: str, tmp_path: Path
) -> None:
    lance.write_dataset(ROWS.select(["id"]), tmp_path / "other.lance")
    (tmp_path / "token").write_text("abc\n")
    tables = (uri, f"more={tmp_path / 'other.lance'}")
    process, url = await asyncio.to_thread(
        serve, *tables, "--token-file", str(tmp_path / "token"), "--key", "id"
    )
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert (await client.get("/tables")).status_code == 401
            client.headers["authorization"] = "Bearer abc"
            listed = (await client.get("/tables")).json()["tables"]
            assert [table["name"] for table in listed] == ["items", "more"]
            row = (await client.get("/tables/more/rows/4")).json()["row"]
            assert row == {"id": 4}
            raw = (await client.get("/tables/items/rows/4")).json()["row"]["raw"]
            assert base64.b64decode(raw) == b"\x04"
            # A newer version, by another process, is followed without being asked for.
            await (await alance.dataset(uri)).delete("id = 4")
            for _ in range(600):
                status = (await client.get("/tables/items/rows/4")).status_code
                if status == 404:
                    break
                await asyncio.sleep(0.2)
            assert status == 404
    finally:
        process.send_signal(signal.SIGTERM)
        _, message = await asyncio.to_thread(process.communicate, None, 60)
    assert (process.returncode, message) == (0, b"")


async def test_the_head_of_a_request_is_bounded_whatever_else_is_installed(
    uri: str, tmp_path: Path
) -> None:
    """uvicorn prefers httptools, which keeps headers until the memory is full."""
    (tmp_path / "httptools.py").write_text("raise RuntimeError('this parser is used')\n")
    process, url = await asyncio.to_thread(serve, uri, PYTHONPATH=str(tmp_path))
    try:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /tables HTTP/1.1\r\nhost: localhost\r\n")
        with suppress(ConnectionError):  # closed with bytes that were not read
            for number in range(256):
                writer.write(b"x-%d: %s\r\n" % (number, b"a" * 1000))
                await writer.drain()
            await reader.read()
        writer.close()
    finally:
        process.send_signal(signal.SIGTERM)
        _, message = await asyncio.to_thread(process.communicate, None, 60)
    assert (process.returncode, message.split()[0]) == (0, b"WARNING:")


def num_sockets(pid: int) -> int:
    links = (os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return sum(link.startswith("socket:") for link in links)


async def test_a_connection_that_is_not_read_is_ended(tmp_path: Path) -> None:
    await alance.write_dataset(pa.table({"text": ["x" * 1000] * 40_000}), tmp_path / "items")
    process, url = await asyncio.to_thread(serve, str(tmp_path / "items"), "--max-seconds", "1")
    try:
        before = num_sockets(process.pid)
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as unread:
            unread.sendall(
                b"POST /tables/items/query HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
            )
            await until(lambda: num_sockets(process.pid) > before)
            await until(lambda: num_sockets(process.pid) == before)
    finally:
        process.send_signal(signal.SIGTERM)
        _, message = await asyncio.to_thread(process.communicate, None, 60)
    assert (process.returncode, b"left after 1.0 s" in message) == (0, True)


@pytest.mark.parametrize("num_versions", [1, 2, 3])
async def test_a_table_that_was_made_anew_is_followed(tmp_path: Path, num_versions: int) -> None:
    uri = tmp_path / "items"
    dataset = await alance.write_dataset({"id": [1]}, uri)
    await dataset.insert({"id": [2]})
    async with Service({"items": str(uri)}, key="id", reload_s=0) as service:
        client = client_of(service)
        assert (await client.get("/rows/2")).status_code == 200
        shutil.rmtree(uri)
        dataset = await alance.write_dataset({"id": [3]}, uri)
        for number in range(1, num_versions):
            dataset = await dataset.insert({"id": [3 + number]})
        assert (await client.post("/reload")).json() == {"version": num_versions}
        assert (await client.get("/rows/2")).status_code == 404
        assert (await client.get("/rows/3")).status_code == 200


async def test_a_service_follows_its_tables_by_itself(uri: str) -> None:
    dataset = await alance.dataset(uri)
    async with Service({"items": uri}, key="id", reload_s=0.01) as service:
        client = client_of(service)
        dataset = await dataset.delete("id = 4")
        await until(lambda: service["items"].now.version == dataset.version)
        assert (await client.get("/rows/4")).status_code == 404
        assert "alance_dataset_staleness_seconds{" in service.metrics_text()
    with pytest.raises(alance.InvalidInputError, match="reload_s=-1: expected a time"):
        Service({"items": uri}, reload_s=-1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/none"], "none"),
        (["{}", "{}"], "another table has the name 'items'; use NAME=URI"),
        (["{}", "--host", "0.0.0.0"], "others reach it; expected --token-file"),
        (["{}", "--token-file", "{}/none"], "No such file"),
        (["{}", "--key", "none"], "key column 'none'"),
        (["{}", "--key", "b=id"], "no table 'b'"),
        (["{}", "--max-requests", "0"], "requests=0: expected a number above 0"),
        (["{}", "--host", "192.0.2.1", "--without-token"], "cannot listen there"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    uri: str, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["serve", *(text.format(uri) for text in arguments), "--port", "0"]) == 1
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error
