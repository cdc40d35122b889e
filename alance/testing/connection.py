"""One HTTP/1.1 connection of the lab."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from alance.testing.objects import unchunk

if TYPE_CHECKING:
    from alance.testing.server import Server

CHUNK: Final = 256 * 1024


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: requests are answered one after the other."""

    ids: Final = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = next(self.ids)
        self.buf = bytearray()
        self.head: tuple[str, str, dict[str, str]] | None = None
        self.busy = False
        self.open = True
        self.lost = asyncio.Event()
        self.free = 0.0
        self.waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=2 * CHUNK)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.conns.add(self)
        self.server.accepted += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self.lost.set()
        self.server.conns.discard(self)
        self.resume_writing()

    def pause_writing(self) -> None:
        self.waiter = self.server.loop.create_future()

    def resume_writing(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        self.waiter = None

    def data_received(self, data: bytes) -> None:
        self.buf += data
        self.pump()

    def pump(self) -> None:
        if self.busy or not self.open:
            return
        body: bytes | bytearray
        if self.head is None:
            end = self.buf.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = bytes(self.buf[:end]).decode("latin-1").split("\r\n")
            del self.buf[: end + 4]
            method, target, _ = lines[0].split(" ", 2)
            found: dict[str, str] = {}
            for line in lines[1:]:
                name, _, value = line.partition(":")
                found[name.lower()] = value.strip()
            self.head = (method, target, found)
            if found.get("expect", "").lower() == "100-continue":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        method, target, headers = self.head
        if headers.get("transfer-encoding", "").lower() == "chunked":
            end = self.buf.find(b"0\r\n\r\n")
            if end < 0:
                return
            body = unchunk(bytes(self.buf[: end + 5]))
            del self.buf[: end + 5]
        else:
            length = int(headers.get("content-length", 0))
            if len(self.buf) < length:
                return
            if length == len(self.buf):
                body, self.buf = self.buf, bytearray()
            else:
                body = bytes(self.buf[:length])
                del self.buf[:length]
        if headers.get("x-amz-content-sha256", "").startswith(
            "STREAMING"
        ) or "aws-chunked" in headers.get("content-encoding", ""):
            body = unchunk(bytes(body))
        self.head = None
        self.busy = True
        self.server.arrived(self, method, target, headers, body)

    def finished(self, record: dict[str, Any]) -> None:
        record["t2"] = time.monotonic()
        self.server.finish(record)
        self.busy = False
        if self.buf:
            self.server.loop.call_soon(self.pump)

    def abort(self, record: dict[str, Any]) -> None:
        record.setdefault("t1", None)
        record["t2"] = time.monotonic()
        self.server.finish(record)
        self.open = False
        self.transport.abort()
