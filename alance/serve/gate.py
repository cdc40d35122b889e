"""Gate of a service: checks tokens and hosts, and limits concurrency, sizes and time of requests.

For each request, the gate checks the token and the host, waits for the request's turn, reads the
body, and calls the application. The application is cancelled if the time is over or the caller
disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from alance.serve.asked import MEMBERS
from alance.serve.bounds import JSON_BYTES
from alance.serve.errors import UNKNOWN_OUTCOME
from alance.serve.json_text import as_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
    from typing import TypeAlias

    from alance.serve.bounds import Bounds

    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

ARROW_MEDIA_TYPE = "application/vnd.apache.arrow.stream"
JSON_MEDIA_TYPE = "application/json"
CLOSE = (b"connection", b"close")
FREE = ("/health/live", "/health/ready")  # probes of orchestrators need no token and no turn
log = logging.getLogger("alance.serve")


class Refused(Exception):
    """Raised to refuse a request with an error answer.

    Args:
        status: the HTTP status.
        name: `error` in the answer.
        detail: `detail` in the answer.
        more: further members of the answer.
        closes: True to close the connection after the answer.
    """

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        *,
        more: Mapping[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.more = more or {}
        self.closes = closes


class Gate:
    """ASGI middleware; see the module docstring.

    Args:
        app: the application behind the gate.
        bounds: limits of requests.
        token: token that requests must have; None: all requests are allowed.
        hosts: host names with which requests may call the service; empty: any name. The
            check stops web pages whose own domain resolves to this machine (DNS rebinding).

    Attributes:
        is_draining: True to add `Connection: close` to every answer.
    """

    def __init__(
        self, app: App, bounds: Bounds, token: str | None, hosts: Collection[str] = ()
    ) -> None:
        self._app = app
        self._bounds = bounds
        self._token = None if token is None else f"Bearer {token}".encode()
        self._hosts = frozenset(hosts)
        self.is_draining = False
        self._turns = asyncio.Semaphore(bounds.requests)
        self._waiting = 0
        self._under_way = 0
        self._counts: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        begun, answer = time.perf_counter(), _HttpAnswer(send, self)
        try:
            _check_framing(scope)
            if path in FREE:
                await self._app(scope, receive, answer.send)
                return
            self._check(dict(scope["headers"]))
            await self._in_turn(scope, receive, answer)
        except Refused as error:
            await answer.refuse(error)
        finally:
            verb = path.rsplit("/", 1)[-1] if scope["method"] == "POST" else "read"
            is_known = verb in MEMBERS or verb == "read"  # a path may be anything
            verb = verb if is_known and answer.status not in (404, 405) else "unknown"
            self._counts[verb, answer.status] += 1
            self._seconds[verb] += time.perf_counter() - begun

    def _check(self, headers: dict[bytes, bytes]) -> None:
        authorization = headers.get(b"authorization", b"")
        if self._token is not None and not hmac.compare_digest(authorization, self._token):
            raise Refused(401, "Unauthorized", "expected the header `Authorization: Bearer TOKEN`")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = re.sub(r":\d*$", "", host)
        if self._hosts and name not in self._hosts:
            raise Refused(421, "WrongHost", f"host {name!r}: expected {sorted(self._hosts)}")

    async def _in_turn(self, scope: Message, receive: Receive, answer: _HttpAnswer) -> None:
        if self._turns.locked() and self._waiting >= self._bounds.waiting:
            detail = f"{self._waiting} requests wait already"
            raise Refused(503, "Busy", detail)
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        self._under_way += 1
        changes = False
        try:
            async with asyncio.timeout(self._bounds.seconds):
                body = await self._body(dict(scope["headers"]), scope["method"], receive)
                if body is not None:
                    changes = scope["method"] == "POST" and scope["path"].endswith("/rows")
                    await self._run(scope, body, receive, answer.send)
        except TimeoutError:
            if answer.status:
                log.warning("%r: left after %s s", scope["path"], self._bounds.seconds)
                return  # the server closes the connection of an unfinished answer
            detail = f"not answered after {self._bounds.seconds} s"
            if changes:  # proxies and clients retry a 504 by themselves
                raise Refused(500, "Timeout", detail, more=UNKNOWN_OUTCOME) from None
            raise Refused(504, "Timeout", detail) from None
        finally:
            self._under_way -= 1
            self._turns.release()

    async def _body(
        self, headers: dict[bytes, bytes], method: str, receive: Receive
    ) -> bytes | None:
        """Read a whole body; None if the caller has disconnected.

        Raises:
            Refused: the body is too large, or of an unknown type.
        """
        kind = type_of(headers.get(b"content-type", b"").decode("latin-1"))
        is_arrow = kind == ARROW_MEDIA_TYPE
        parts: list[bytes] = []
        most = self._bounds.body_bytes if is_arrow else min(JSON_BYTES, self._bounds.body_bytes)
        num_bytes = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            num_bytes += len(parts[-1])
            if num_bytes > most:
                hint = (
                    ""
                    if is_arrow
                    else f"; rows as {ARROW_MEDIA_TYPE} may have {self._bounds.body_bytes}"
                )
                detail = f"a body of more than {most} bytes{hint}"
                raise Refused(413, "TooLarge", detail, closes=True)  # the rest is not read
            if not message.get("more_body", False):
                break
        # HTML forms, which any web page may send, have neither of these types.
        if method == "POST" and num_bytes and kind not in (JSON_MEDIA_TYPE, ARROW_MEDIA_TYPE):
            raise Refused(
                415,
                "UnknownType",
                f"content-type {kind!r}: expected {JSON_MEDIA_TYPE} or {ARROW_MEDIA_TYPE}",
            )
        return b"".join(parts)

    async def _run(self, scope: Message, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application until the request is answered or its caller disconnects."""
        gone = asyncio.create_task(_until_gone(receive))
        unread = [body]

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.wait({gone})
            return {"type": "http.disconnect"}

        work = asyncio.ensure_future(self._app(scope, replay, send))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    def lines(self) -> Iterator[str]:
        """Yield counts and durations of requests as lines for Prometheus."""
        yield "# HELP alance_serve_requests_total Requests answered (status 0: callers left)."
        yield "# TYPE alance_serve_requests_total counter"
        for (verb, status), count in sorted(self._counts.items()):
            labels = f'verb="{verb}",status="{status}"'
            yield f"alance_serve_requests_total{{{labels}}} {count}"
        yield "# HELP alance_serve_seconds_total How long they took, with waiting."
        yield "# TYPE alance_serve_seconds_total counter"
        for verb, seconds in sorted(self._seconds.items()):
            yield f'alance_serve_seconds_total{{verb="{verb}"}} {seconds}'
        for name, value in (("under_way", self._under_way), ("waiting", self._waiting)):
            yield f"# HELP alance_serve_requests_{name} Requests now."
            yield f"# TYPE alance_serve_requests_{name} gauge"
            yield f"alance_serve_requests_{name} {value}"


def type_of(content_type: str) -> str:
    """Return the media type of a header without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _check_framing(scope: Message) -> None:
    """Refuse a request with ambiguous framing.

    A proxy might disagree about the end of such a request, which allows request smuggling.
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        detail = "Transfer-Encoding and Content-Length: expected one of them"
        raise Refused(400, "BadFraming", detail, closes=True)
    if scope.get("http_version") == "1.0":
        detail = "Transfer-Encoding in HTTP/1.0: expected Content-Length"
        raise Refused(400, "BadFraming", detail, closes=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _HttpAnswer:
    """Sender of an answer that records its status; 0 before the answer begins."""

    def __init__(self, send: Send, gate: Gate) -> None:
        self._send = send
        self._gate = gate
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            if self._gate.is_draining and CLOSE not in headers:
                message = {**message, "headers": [*headers, CLOSE]}
        await self._send(message)

    async def refuse(self, error: Refused) -> None:
        """Send an error as a JSON object."""
        body = as_json({"error": error.name, "detail": str(error), **error.more})
        headers = [
            (b"content-type", JSON_MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if error.status == 503:
            headers.append((b"retry-after", b"1"))
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if error.closes:
            headers.append(CLOSE)
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
