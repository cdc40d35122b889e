"""One HTTP/1.1 connection of the lab: bytes in, requests out, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from alance.testing.objects import Content
    from alance.testing.server import Server

CHUNK: Final = 256 * 1024
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER of no time: closing sends RST

Head: TypeAlias = tuple[str, str, dict[str, str]]  # method, target, headers in lower case


def parse_head(data: bytes) -> Head:
    """The request line and headers.

    Raises:
        ValueError: it is none.
    """
    first, *lines = data.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return method, target, {name.lower(): value.strip() for name, _, value in pairs}


def unchunk(data: bytes) -> tuple[bytes, int] | None:
    """The payload of a chunked body and where the body ends; None where more is to come.

    Serves HTTP's chunked coding and aws-chunked, whose chunks may carry signatures.

    Raises:
        ValueError: a chunk's size is no number.
    """
    payload: list[bytes] = []
    at = 0
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end].split(b";")[0], 16)
        start = line_end + 2
        if size == 0:
            if data.startswith(b"\r\n", start):
                return b"".join(payload), start + 2
            trailers_end = data.find(b"\r\n\r\n", start)
            return None if trailers_end < 0 else (b"".join(payload), trailers_end + 4)
        if len(data) < start + size + 2:
            return None
        payload.append(data[start : start + size])
        at = start + size + 2
    return None


class Connection(asyncio.Protocol):
    """One client's connection.

    Attributes:
        busy: a request is being answered; those behind it wait in the buffer.
        lost: set when the connection is gone.
        free: on the monotonic clock, when the bandwidth limit lets the next bytes pass.
        waiter: done when the client has taken enough to write on; None: now.
    """

    ids: Final = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = next(self.ids)
        self.busy = False
        self.open = True
        self.lost = asyncio.Event()
        self.free = 0.0
        self.waiter: asyncio.Future[None] | None = None
        self._buffer = bytearray()
        self._head: Head | None = None
        self._is_last = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=2 * CHUNK)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        self._buffer += data
        self._pump()

    @property
    def is_receiving(self) -> bool:
        """Whether a part of a request is there."""
        return not self.busy and (self._head is not None or bool(self._buffer))

    def _pump(self) -> None:
        if self.busy or not self.open:
            return
        try:
            head = self._head = self._head or self._take_head()
            body = None if head is None else self._take_body(head[2])
        except ValueError:
            self.transport.abort()
            return
        if head is None or body is None:
            return
        self._head = None
        self.busy = True
        self._is_last = head[2].get("connection", "").lower() == "close"
        self.server.arrived(self, *head, body)

    def _take_head(self) -> Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        if head[2].get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return head

    def _take_body(self, headers: dict[str, str]) -> Content | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            found = unchunk(bytes(self._buffer))
            if found is None:
                return None
            body, end = found
            del self._buffer[:end]
        else:
            length = int(headers.get("content-length", 0))
            if len(self._buffer) < length:
                return None
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
        signed = headers.get("x-amz-content-sha256", "").startswith("STREAMING")
        if signed or "aws-chunked" in headers.get("content-encoding", ""):
            found = unchunk(body)
            if found is None:
                raise ValueError("the body ends within a chunk")
            body = found[0]
        return body

    def finished(self, record: dict[str, Any]) -> None:
        """The answer is written: note the time and go on with the next request."""
        self._end(record)
        self.busy = False
        if self._is_last:
            self.transport.close()
        elif self._buffer:
            self.server.loop.call_soon(self._pump)

    def close(self, record: dict[str, Any]) -> None:
        """End the connection in good order, after what is written."""
        self._end(record)
        self.open = False
        self.transport.close()

    def reset(self, record: dict[str, Any]) -> None:
        """End the connection at once; the client sees a reset."""
        self._end(record)
        self.open = False
        with contextlib.suppress(OSError):  # the client may have left
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    def _end(self, record: dict[str, Any]) -> None:
        record.setdefault("t1", None)
        record["t2"] = time.monotonic()
        self.server.finish(record)
