"""The connector's Python process: one for the driver's JVM, one for each executor's.

  python -m alance.spark.connector.server SOCKET

The JVM starts it and sends requests, each over its own connection: a u32 length and JSON with a
`verb`. `Connection.java` documents the form of answers. Verbs of the driver: `open`, `push`,
`order`, `aggregate`, `plan` and `delete` (`planning.py`); `save`, `commit` and `abort`
(`saving.py`); `catalog.*` (`catalog.py`) and `stream.*` (`streams.py`). A task sends `read` or
`write`. A `write` is acknowledged at once; then the task sends its rows, in the same form as an
answer's rows, and the answer describes the written rows. Closing a connection cancels its request.
The process exits when its standard input ends, or after ten minutes without a connection.

Each connection has a thread that sends or receives rows, so that no task waits for another. All
reading, decoding and encoding runs in one loop and one session.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from alance.spark.connector.catalog import SparkCatalog
from alance.spark.connector.planning import Planner
from alance.spark.connector.saving import Saves
from alance.spark.connector.streams import Streams
from alance.spark.connector.work import PartitionWork
from alance.spark.worker import release, run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

IDLE_S: Final = 600.0  # seconds without a connection after which the process exits
MAX_REQUEST: Final = 1 << 30
WRITERS: Final = 4096  # maximum number of threads: concurrent reading or writing tasks of one JVM
SAVES: Final = ("save", "commit", "abort")
SEND_BYTES: Final = 1 << 20  # socket buffer; large, so that a batch takes few turns

T = TypeVar("T")
_MESSAGE_LENGTH: Final = struct.Struct(">I")


class ConnectorServer:
    """Handler of the requests of one JVM."""

    def __init__(self) -> None:
        self._planner = Planner()
        self._saves = Saves(self._planner)
        self._catalog = SparkCatalog(self._planner)
        self._streams = Streams()
        self._writers = ThreadPoolExecutor(WRITERS, "alance-rows")
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket, idle_s: float = IDLE_S) -> None:
        """Accept connections until there has been none for `idle_s`, and no request is open.

        If it is cancelled, it cancels the open requests and waits for their threads.
        """
        listener.setblocking(False)
        try:
            await self._accept(listener, idle_s)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket, idle_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await asyncio.wait_for(loop.sock_accept(listener), idle_s)
            except TimeoutError:
                if self._tasks:
                    continue
                return
            if not _is_ours(connection):
                connection.close()
                continue
            task = loop.create_task(self._answer(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):  # the JVM has ended
                request = await _request(connection)
                if request["verb"] == "read":
                    await self._rows(connection, request)
                elif request["verb"] == "write":
                    await self._take_rows(connection, request)
                else:
                    await self._send_answer(connection, request)
        finally:
            connection.close()
            if len(self._tasks) <= 1:
                await asyncio.to_thread(release)  # takes some ms

    async def _send_answer(self, connection: socket.socket, request: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        try:
            part = _part(b"J", await self._answerer(request["verb"]).answer(request))
        except Exception as error:
            part = _failed(error)
        await loop.sock_sendall(connection, part)

    def _answerer(self, verb: str) -> Planner | Saves | SparkCatalog | Streams:
        if verb in SAVES:
            return self._saves
        if verb.startswith("stream."):
            return self._streams
        return self._catalog if verb.startswith("catalog.") else self._planner

    async def _take_rows(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Write the rows that a task sends; nothing if it closes the connection early."""
        connection.setblocking(True)
        try:
            await self._in_thread(connection, connection.sendall, _part(b"J", {}))
            rows = self._incoming(connection)
            async with aclosing(rows):
                part = _part(b"J", await self._saves.rows(request, rows))
        except Exception as error:
            part = _failed(error)
        await self._in_thread(connection, connection.sendall, part)

    async def _incoming(self, connection: socket.socket) -> AsyncGenerator[pa.RecordBatch, None]:
        # shuts down only reading: the answer is still sent
        end = socket.SHUT_RD
        with closing(_Incoming(connection)) as incoming:
            while True:
                batch = await self._in_thread(connection, incoming.next, None, end)
                if batch is None:
                    return
                yield batch

    async def _rows(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send batches as fast as the task receives them, until the task closes the connection."""
        loop = asyncio.get_running_loop()
        work = PartitionWork.loads(request["work"], request["pieces"], request["cores"])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        connection.setblocking(True)
        sending = asyncio.ensure_future(self._send(connection, work.batches()))

        def hung_up() -> None:  # once: a further cancellation would cut the cleanup short
            loop.remove_reader(connection)
            sending.cancel()

        # A task sends nothing more, so the connection becomes readable only at its end.
        loop.add_reader(connection, hung_up)
        try:
            await sending
        except asyncio.CancelledError:
            if not sending.cancelled():
                raise
        finally:
            loop.remove_reader(connection)

    async def _send(
        self, connection: socket.socket, batches: AsyncGenerator[pa.RecordBatch, None]
    ) -> None:
        rows = _RowStream(connection)
        try:
            async with aclosing(batches):
                async for batch in batches:
                    await self._in_thread(connection, rows.write, batch)
            await self._in_thread(connection, connection.sendall, b"Z")
        except Exception as error:
            if not rows.is_broken:
                await self._in_thread(connection, connection.sendall, _failed(error))

    async def _in_thread(
        self,
        connection: socket.socket,
        work: Callable[[Any], T],
        data: object,
        end: int = socket.SHUT_RDWR,
    ) -> T:
        """Send or receive in a thread. Cancellation shuts the connection, which ends `work`.

        Returns, or raises, only after `work` has ended: a thread must not send to a closed
        connection, because another connection may have its file descriptor.
        """
        writing = asyncio.wrap_future(self._writers.submit(work, data))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            with suppress(OSError):
                connection.shutdown(end)
            while not writing.done():  # ends soon: the connection is shut
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([writing])
            writing.exception()  # else asyncio logs that nobody asked for it
            raise


class _RowStream:
    """Batches that are sent in Arrow's stream format, with a `B` before each.

    Arrow's writer writes to memory. A file object that sends would be in a reference cycle with the
    writer that the garbage collector cannot see, and would never be freed.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._messages = _Messages()
        self._writer: pa.RecordBatchStreamWriter | None = None
        self.is_broken = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Send a batch; the first one after the schema."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._messages, "w"), batch.schema)
        self._writer.write_batch(batch)
        try:
            for part in (b"B", *self._messages.take()):
                self._connection.sendall(part)
        except OSError:
            self.is_broken = True
            raise


class _Messages:
    """File object that collects what Arrow writes; the buffers of batches are not copied."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes | pa.Buffer] = []

    def write(self, part: bytes | pa.Buffer) -> int:
        """Add a part of a message."""
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Do nothing: all is in memory."""

    def take(self) -> list[bytes | pa.Buffer]:
        """Return the parts since the last call."""
        parts, self._parts = self._parts, []
        return parts


class _Incoming:
    """Batches received in the form that `_RowStream` sends."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self._reader: pa.RecordBatchStreamReader | None = None

    def next(self, _: object = None) -> pa.RecordBatch | None:
        """Return the next batch; None after the last one.

        Raises:
            ConnectionError: the task has closed the connection.
        """
        kind = self._file.read(1)
        if kind == b"Z":
            return None
        if kind != b"B":
            raise ConnectionError("the task has hung up")
        if self._reader is None:
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._file, "r"))
        return self._reader.read_next_batch()

    def close(self) -> None:
        """Close the file, which would hold the connection open."""
        self._file.close()


async def _request(connection: socket.socket) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)

    async def read(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await loop.sock_recv(connection, min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("closed")
            data += part
        return bytes(data)

    (size,) = _MESSAGE_LENGTH.unpack(await read(_MESSAGE_LENGTH.size))
    if size > MAX_REQUEST:
        raise ConnectionError(f"a request of {size} bytes")
    request = json.loads(await read(size))
    for name in ("work", "pieces", "state", "source", "save"):
        if name in request:
            request[name] = base64.b64decode(request[name])
    assert isinstance(request, dict)
    return request


def _part(kind: bytes, content: object) -> bytes:
    text = json.dumps(content).encode()
    return kind + _MESSAGE_LENGTH.pack(len(text)) + text


def _failed(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    return _part(b"E", {"message": f"{type(error).__name__}: {error}", "trace": trace})


def _is_ours(connection: socket.socket) -> bool:
    """True if the peer is a process of this user, or if the system cannot tell the peer's user.

    The access rights of the socket's folder already exclude other users.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    about = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", about)[1]
    return bool(uid == os.geteuid())


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Listen at the socket in `sys.argv[1]` until idle."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(128)
    print("ready", flush=True)
    os.dup2(2, 1)  # from now on stdout is the log
    threading.Thread(target=_end_with_input, daemon=True).start()
    run(ConnectorServer().serve(listener))
    os._exit(0)


if __name__ == "__main__":
    main()
