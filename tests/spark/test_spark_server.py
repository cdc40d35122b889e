"""The Python process of the connector, asked over its socket: without a session of Spark."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import alance.sync
from alance import InvalidInputError
from alance.spark import connector
from alance.spark.connector.procedures import create_index
from alance.spark.connector.server import ConnectorServer
from alance.spark.source import AlanceSource
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

STORY_S = 120  # seconds, on a busy machine
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}


class Client:
    """A JVM's side of the socket."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def send(self, request: dict[str, Any]) -> tuple[asyncio.StreamReader, Any]:
        reader, writer = await asyncio.open_unix_connection(self._path)
        text = json.dumps(request).encode()
        writer.write(struct.pack(">I", len(text)) + text)
        return reader, writer

    async def ask(self, request: dict[str, Any]) -> tuple[bytes, Any]:
        reader, writer = await self.send(request)
        answer = await reader.read()
        writer.close()
        return answer[:1], json.loads(answer[5:])

    async def work(self, uri: str) -> dict[str, Any]:
        """A request for the rows of the first task of a table."""
        source = base64.b64encode(cloudpickle.dumps(AlanceSource)).decode()
        options = {"path": uri, "batch_size": "1000"}
        request = {"verb": "open", "source": source, "options": options, "parallelism": 1}
        kind, opened = await self.ask(request)
        assert kind == b"J", opened
        request = {"verb": "plan", "state": opened["state"], "schema": json.dumps(SCHEMA)}
        _, plan = await self.ask(request)
        pieces = plan["partitions"][0]["pieces"]
        return {"verb": "read", "work": plan["work"], "pieces": pieces, "cores": 1}


def served(
    folder: Path, story: Callable[[ConnectorServer, Client], Coroutine[Any, Any, None]]
) -> None:
    """A server and its client, in the loop that reads."""

    async def serve_and_play() -> None:
        server, path = ConnectorServer(), str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            serving = asyncio.ensure_future(server.serve(listener))
            try:
                await asyncio.wait_for(story(server, Client(path)), STORY_S)
            finally:
                serving.cancel()
                await asyncio.wait([serving])

    run(serve_and_play())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    alance.sync.write_dataset(pa.table({"id": range(500_000)}), path)
    return path


def test_rows_come_as_batches_after_a_byte_each(tmp_path, uri):
    async def story(_, client):
        reader, writer = await client.send(await client.work(uri))
        answer = await reader.read()
        writer.close()
        assert (answer[:1], answer[-1:]) == (b"B", b"Z")
        assert len(answer) >= 500_000 * 8

    served(tmp_path, story)


async def begun_read(
    server: ConnectorServer, client: Client, uri: str
) -> tuple[asyncio.StreamReader, Any, asyncio.Task[None]]:
    """A connection on which rows have begun to come, and the server's task that sends them."""
    work = await client.work(uri)
    earlier = set(server._tasks)  # they have answered, and may still release memory
    reader, writer = await client.send(work)
    assert await reader.readexactly(1) == b"B"
    (reading,) = server._tasks - earlier
    return reader, writer, reading


def test_a_server_that_ends_wakes_threads_that_send(tmp_path, uri, monkeypatch):
    def write(rows: Any, _: pa.RecordBatch) -> None:
        rows._connection.sendall(b"B" * (64 << 20))  # more than the socket holds

    monkeypatch.setattr(connector.server._RowStream, "write", write)
    servers = []

    async def story(server, client):
        servers.append(server)
        _, writer, _ = await begun_read(server, client, uri)
        servers.append(writer)  # nobody reads, and nobody hangs up

    served(tmp_path, story)
    server, writer = servers
    server._writers.shutdown(wait=False)
    for thread in server._writers._threads:
        thread.join(10)
        assert not thread.is_alive()
    writer.transport.abort()


def test_a_connection_is_closed_after_its_thread_has_ended(tmp_path, uri, monkeypatch):
    """The number of a closed connection may be that of another one, which would get the rows."""
    may_end = threading.Event()

    def write(rows: Any, _: pa.RecordBatch) -> None:
        rows._connection.sendall(b"B")
        may_end.wait(STORY_S)

    monkeypatch.setattr(connector.server._RowStream, "write", write)

    async def story(server, client):
        _, writer, reading = await begun_read(server, client, uri)
        writer.transport.abort()
        await asyncio.sleep(0.1)
        assert not reading.done()
        may_end.set()
        await asyncio.wait([reading])

    served(tmp_path, story)


def test_a_stream_of_rows_is_freed_with_its_task():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        rows = connector.server._RowStream(ours)
        rows.write(pa.record_batch({"id": [1, 2]}))
        assert theirs.recv(1) == b"B"
        freed = weakref.ref(rows)
        del rows
        assert freed() is None


def test_a_task_that_hangs_up_ends_its_read(tmp_path, uri):
    async def story(server, client):
        reader, writer, reading = await begun_read(server, client, uri)
        assert not reading.done()  # it waits until somebody takes the rows
        writer.transport.abort()
        await asyncio.wait([reading])
        reader, writer = await client.send(await client.work(uri))  # others are served
        assert (await reader.read())[-1:] == b"Z"
        writer.close()

    served(tmp_path, story)


def test_errors_are_answers(tmp_path, uri):
    async def story(_, client):
        kind, error = await client.ask({"verb": "open", "source": "", "options": {}})
        assert (kind, "EOFError" in error["message"]) == (b"E", True)
        work = await client.work(uri)
        (file,) = (tmp_path / "table" / "data").iterdir()
        file.write_bytes(b"")
        kind, error = await client.ask(work)
        assert kind == b"E"
        assert error["message"].startswith("CorruptFileError")
        assert "Traceback" in error["trace"]

    served(tmp_path, story)


def test_it_ends_when_nobody_asks(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        run(ConnectorServer().serve(listener, idle_s=0.01))


def test_the_process_ends_with_its_standard_input(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "alance.spark.connector.server", str(tmp_path / "socket")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.communicate()
    assert process.returncode == 0


def ask_to_save(uri: str, schema: dict[str, Any], **more: object) -> dict[str, Any]:
    source = base64.b64encode(cloudpickle.dumps(AlanceSource)).decode()
    request = {"verb": "save", "source": source, "options": {"path": uri}, "mode": "append"}
    return {**request, "schema": json.dumps(schema), **more}


def sent(batches: list[pa.RecordBatch], end: bytes = b"Z") -> bytes:
    """Rows of a task as the JVM sends them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        starts = [0]
        for batch in batches:
            stream.write_batch(batch)
            starts.append(sink.tell())
        data = sink.tell()
    content = sink.getvalue().to_pybytes()[:data]
    parts = [content[start:stop] for start, stop in itertools.pairwise(starts)]
    return b"".join(b"B" + part for part in parts) + end


async def write(client: Client, save: str, kind: str, content: bytes) -> bytes:
    """The whole answer to a task that sends rows."""
    reader, writer = await client.send({"verb": "write", "save": save, "kind": kind})
    writer.write(content)
    if content[-1:] != b"Z":
        await reader.readexactly(1)  # it is heard
        writer.close()
        return b""
    answer = await reader.read()
    writer.close()
    return answer


async def part_of(client: Client, save: str, kind: str, content: bytes) -> str:
    answer = await write(client, save, kind, content)
    (size,) = struct.unpack(">I", answer[1:5])
    assert answer[5 + size : 6 + size] == b"J", answer
    change = json.loads(answer[10 + size :])["change"]
    return json.dumps({kind: change})


def test_rows_of_tasks_are_one_version(tmp_path):
    uri, batch = str(tmp_path / "new"), pa.record_batch({"id": pa.array(range(10))})

    async def story(_, client):
        _, begun = await client.ask(ask_to_save(uri, SCHEMA))
        parts = [await part_of(client, begun["save"], "new", sent([batch, batch])) for _ in "ab"]
        assert not (tmp_path / "new" / "_versions").exists()
        end = {"verb": "commit", "save": begun["save"], "messages": parts}
        assert await client.ask(end) == (b"J", {})
        kind, error = await client.ask(end)  # as the JVM does that has got no answer
        assert (kind, error["message"][:23]) == (b"E", "CommitStateUnknownError")
        assert await client.ask({**end, "verb": "abort"}) == (b"J", {})

    served(tmp_path, story)
    dataset = alance.sync.dataset(uri)
    dataset.validate()
    assert (dataset.version, dataset.count_rows()) == (1, 40)


def test_rows_without_an_end_are_not_written(tmp_path, uri):
    batch = pa.record_batch({"id": pa.array(range(100_000))})

    async def story(server, client):
        _, begun = await client.ask(ask_to_save(uri, SCHEMA))
        await write(client, begun["save"], "new", sent([batch] * 3, end=b""))
        await asyncio.wait(server._tasks)
        part = await part_of(client, begun["save"], "new", sent([batch]))
        end = {"verb": "abort", "save": begun["save"], "messages": [part]}
        assert await client.ask(end) == (b"J", {})

    served(tmp_path, story)
    assert len(list((tmp_path / "table" / "data").iterdir())) == 1
    assert alance.sync.dataset(uri).version == 1


def test_rows_that_do_not_fit_are_told_why(tmp_path):
    uri = str(tmp_path / "vectors")
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    alance.sync.write_dataset(pa.table({"v": vectors}), uri)
    array = {"type": "array", "elementType": "float", "containsNull": True}
    schema = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "name": "v", "type": array}]}
    batch = pa.record_batch({"v": pa.array([[1.0]], pa.list_(pa.float32()))})

    async def story(_, client):
        _, begun = await client.ask(ask_to_save(uri, schema))
        answer = await write(client, begun["save"], "new", sent([batch]))
        assert b"InvalidInputError" in answer

    served(tmp_path, story)


def test_vectors_that_are_all_null_are_taken(tmp_path):
    """Arrow sends them without memory for values."""
    uri = str(tmp_path / "vectors")
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    alance.sync.write_dataset(pa.table({"v": vectors, "s": [{"v": [1.0]}]}), uri)
    array = {"type": "array", "elementType": "float", "containsNull": True}
    schema = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "name": "v", "type": array}]}
    batch = pa.record_batch({"v": pa.array([None], pa.list_(pa.float32()))})

    async def story(_, client):
        _, begun = await client.ask(ask_to_save(uri, schema))
        part = await part_of(client, begun["save"], "new", sent([batch]))
        end = {"verb": "commit", "save": begun["save"], "messages": [part]}
        assert await client.ask(end) == (b"J", {})

    served(tmp_path, story)
    assert alance.sync.dataset(uri).to_table()["v"].to_pylist() == [[1.0, 2.0], None]


async def test_procedures_make_indices_of_all_types(tmp_path):
    dataset = await alance.write_dataset({"id": range(9), "text": ["abc"] * 9}, tmp_path / "t")
    for column, kind in (("id", "zonemap"), ("text", "NGRAM"), ("text", "fts")):
        await create_index(dataset, column=column, index_type=kind, name=kind)
        dataset = await dataset.checkout_latest()
    kinds = {index["name"]: index["type"] for index in dataset.list_indices()}
    assert kinds == {"zonemap": "ZoneMap", "NGRAM": "NGram", "fts": "Inverted"}
    for options in ("[1]", "{"):
        with pytest.raises(InvalidInputError, match="expected a JSON object"):
            await create_index(dataset, column="id", index_type="BTREE", options=options)
