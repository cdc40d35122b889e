"""HTTP/1.1 connections of the lab: parses requests, and passes them on one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import html
import itertools
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

from alance.testing.objects import ERROR_CODES, XML_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.testing.objects import Content
    from alance.testing.server import Server


class Request:
    """A request, with the name of its operation and its record in the log."""

    __slots__ = ("body", "bucket", "headers", "key", "method", "op", "query", "record")

    def __init__(self, method: str, target: str, headers: dict[str, str], body: Content) -> None:
        path, _, query = target.partition("?")
        parts = path.lstrip("/").partition("/")
        self.method = method
        self.bucket = unquote(parts[0])
        self.key = unquote(parts[2])
        self.query = (
            {k: v[0] for k, v in parse_qs(query, keep_blank_values=True).items()} if query else {}
        )
        self.headers = headers
        self.body = body
        self.op = self.name()
        self.record: dict[str, Any] = {}

    @property
    def is_gcs(self) -> bool:
        """True if the client speaks the dialect of GCS."""
        return self.headers.get("authorization", "").startswith("Bearer")

    @property
    def copy_source(self) -> str | None:
        """Return the object to copy from, in the S3 or GCS dialect; None if there is none."""
        headers = self.headers
        return headers.get("x-amz-copy-source") or headers.get("x-goog-copy-source")

    def name(self) -> str:
        """Return the short name of the S3 operation."""
        method, query = self.method, self.query
        if not self.key:
            if method == "GET":
                return "LIST" if "list-type" in query or "prefix" in query else "BUCKET"
            if method == "POST" and "delete" in query:
                return "BULKDELETE"
            return "BUCKET"
        if method == "PUT":
            if "uploadId" in query:
                return "PART"
            return "COPY" if self.copy_source is not None else "PUT"
        if method == "POST":
            return (
                "MPCREATE"
                if "uploads" in query
                else "MPCOMPLETE"
                if "uploadId" in query
                else "POST"
            )
        if method == "DELETE":
            return "MPABORT" if "uploadId" in query else "DELETE"
        return method


class Answer:
    """Status, headers, and either bytes or a slice of a file."""

    __slots__ = ("body", "headers", "path", "start", "status", "stop")

    def __init__(
        self,
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        path: str | None = None,
        start: int = 0,
        stop: int = 0,
    ) -> None:
        self.status, self.headers, self.body = status, list(headers), body
        self.path, self.start, self.stop = path, start, stop

    @property
    def length(self) -> int:
        return self.stop - self.start if self.path is not None else len(self.body)


def xml(body: str) -> Answer:
    """Return an answer of status 200 with an XML document."""
    return Answer(200, [("Content-Type", "application/xml")], (XML_HEAD + body).encode())


def error(
    status: int, code: str | None = None, message: str = "", retry_after: float | None = None
) -> Answer:
    """Return an error answer.

    Args:
        code: S3's name of the error; None for the usual name of the status.
        retry_after: seconds.
    """
    name = code or ERROR_CODES.get(status, "Error")
    answer = xml(f"<Error><Code>{name}</Code><Message>{html.escape(message)}</Message></Error>")
    answer.status = status
    if retry_after is not None:
        answer.headers.append(("Retry-After", f"{retry_after:g}"))
    return answer


SENT_CHUNK_BYTES: Final = 256 * 1024
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: closing sends RST

Head: TypeAlias = tuple[str, str, dict[str, str]]  # method, target, headers in lower case


def parse_head(data: bytes) -> Head:
    """Parse the request line and headers.

    Raises:
        ValueError: the request line is malformed.
    """
    first, *lines = data.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return method, target, {name.lower(): value.strip() for name, _, value in pairs}


def unchunk(data: bytes) -> tuple[bytes, int] | None:
    """Return the payload of a chunked body, and the end of the body in `data`.

    Returns None if the body is not complete. Parses HTTP's chunked coding and aws-chunked, whose
    chunks may carry signatures.

    Raises:
        ValueError: the size of a chunk is not a number.
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
    """Connection of a client.

    Attributes:
        busy: True while a request is being answered; later requests wait in the buffer.
        open: False once the connection is closed by either side.
        lost: set when the connection is closed.
        free: monotonic time from which the bandwidth limit allows the next bytes.
        waiter: future that is done when more can be written; None if writing is possible now.
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
        transport.set_write_buffer_limits(high=2 * SENT_CHUNK_BYTES)
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
        """True if a part of a request has arrived, and no request is being answered."""
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
            unchunked = unchunk(bytes(self._buffer))
            if unchunked is None:
                return None
            body, end = unchunked
            del self._buffer[:end]
        else:
            length = int(headers.get("content-length", 0))
            if len(self._buffer) < length:
                return None
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
        signed = headers.get("x-amz-content-sha256", "").startswith("STREAMING")
        if signed or "aws-chunked" in headers.get("content-encoding", ""):
            unchunked = unchunk(body)
            if unchunked is None:
                raise ValueError("the body ends within a chunk")
            body = unchunked[0]
        return body

    def finished(self, record: dict[str, Any]) -> None:
        """Record the end of an answer, and continue with the next request."""
        self._end(record)
        self.busy = False
        if self._is_last:
            self.transport.close()
        elif self._buffer:
            self.server.loop.call_soon(self._pump)

    def close(self, record: dict[str, Any]) -> None:
        """Close the connection after all written bytes are sent."""
        self._end(record)
        self.open = False
        self.transport.close()

    def reset(self, record: dict[str, Any]) -> None:
        """Reset the connection at once."""
        self._end(record)
        self.open = False
        with contextlib.suppress(OSError):  # the client may have disconnected
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    def _end(self, record: dict[str, Any]) -> None:
        record.setdefault("t1", None)
        record["t2"] = time.monotonic()
        self.server.finish(record)
