"""The Python process of the connector: one in the driver's JVM, one in each executor's.

    python -m alance.spark.server SOCKET

The JVM starts it and sends requests, each over a connection of its own: a u32 length and JSON with
a `verb`. `Connection.java` has the form of answers. The driver asks `open`, `push`, `aggregate` and
`plan`; a task asks `read`, and closing its connection cancels that. The process ends with its
standard input, or when it had no connection for some minutes.

Rows are written by a thread for each connection that waits for its task, so that none waits for
another's; all that reads and decodes is in one loop and one session.
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
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.spark.planning import Planner
from alance.spark.work import Work
from alance.spark.worker import release, run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

IDLE_S: Final = 600.0  # without a connection, after which the process ends
MAX_REQUEST: Final = 1 << 30
WRITERS: Final = 4096  # threads at most: tasks of one JVM that read at once
SEND_BYTES: Final = 1 << 20  # of the socket's buffer, so that a batch takes fewer turns

_LENGTH: Final = struct.Struct(">I")


class Server:
    """Answers the requests of one JVM."""

    def __init__(self) -> None:
        self._planner = Planner()
        self._writers = ThreadPoolExecutor(WRITERS, "alance-rows")
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket, idle_s: float = IDLE_S) -> None:
        """Accept connections until there was none for some time."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
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
            with suppress(OSError):  # the JVM has gone away
                request = await _request(connection)
                if request["verb"] == "read":
                    await self._rows(connection, request)
                else:
                    await self._told(connection, request)
        finally:
            connection.close()
            if len(self._tasks) <= 1:
                await asyncio.to_thread(release)  # some ms

    async def _told(self, connection: socket.socket, request: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        try:
            part = _part(b"J", await self._planner.answer(request))
        except Exception as error:
            part = _failed(error)
        await loop.sock_sendall(connection, part)

    async def _rows(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send batches as the task takes them; it is over when the task has hung up."""
        loop = asyncio.get_running_loop()
        work = Work.loads(request["work"], request["pieces"], request["cores"])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        connection.setblocking(True)
        sending = asyncio.ensure_future(self._send(connection, work.batches()))
        # Nothing more is sent by a task: what can be read is the end.
        loop.add_reader(connection, sending.cancel)
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
        rows = _Rows(connection)
        try:
            async with aclosing(batches):
                async for batch in batches:
                    await self._in_thread(connection, rows.write, batch)
            await self._in_thread(connection, connection.sendall, b"Z")
        except Exception as error:
            if not rows.is_broken:
                await self._in_thread(connection, connection.sendall, _failed(error))

    async def _in_thread(
        self, connection: socket.socket, write: Callable[[Any], None], data: object
    ) -> None:
        """Write in a thread. Cancelled: the connection is shut down, and the thread waited for."""
        writing = asyncio.wrap_future(self._writers.submit(write, data))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            await asyncio.wait([writing])  # at once: writing to what is shut down fails
            with suppress(Exception):
                writing.result()
            raise


class _Rows:
    """Batches in Arrow's stream format, each after a `B`; the file that Arrow writes to."""

    closed = False

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writer: pa.RecordBatchStreamWriter | None = None
        self.is_broken = False

    def write(self, data: Any) -> Any:
        """Send a batch, or what Arrow makes of it."""
        if isinstance(data, pa.RecordBatch):
            self._begin(data)
            return None
        try:
            self._connection.sendall(data)
        except OSError:
            self.is_broken = True
            raise
        return len(data)

    def _begin(self, batch: pa.RecordBatch) -> None:
        self.write(b"B")
        if self._writer is None:
            self._writer = pa.ipc.new_stream(pa.PythonFile(self, "w"), batch.schema)
        self._writer.write_batch(batch)

    def flush(self) -> None:
        """Nothing is kept."""


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

    (size,) = _LENGTH.unpack(await read(_LENGTH.size))
    if size > MAX_REQUEST:
        raise ConnectionError(f"a request of {size} bytes")
    request = json.loads(await read(size))
    for name in ("work", "pieces", "state", "source"):
        if name in request:
            request[name] = base64.b64decode(request[name])
    assert isinstance(request, dict)
    return request


def _part(kind: bytes, content: object) -> bytes:
    text = json.dumps(content).encode()
    return kind + _LENGTH.pack(len(text)) + text


def _failed(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    return _part(b"E", {"message": f"{type(error).__name__}: {error}", "trace": trace})


def _is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's: the folder has let no other in."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    about = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", about)[1]
    return bool(uid == os.geteuid())


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """The program."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(128)
    print("ready", flush=True)
    os.dup2(2, 1)  # what is printed later is for the log
    threading.Thread(target=_end_with_input, daemon=True).start()
    run(Server().serve(listener))
    os._exit(0)


if __name__ == "__main__":
    main()
