"""Server of the lab: answers requests with the weather's latency and faults, and logs them.

It listens on a loopback address only and checks no signatures. Paths below `/_lab/` control the
lab itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from alance.testing.connection import SENT_CHUNK_BYTES, Connection, Request, error
from alance.testing.objects import REASONS, ObjectStore
from alance.testing.operations import StoreService, unending
from alance.testing.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from alance.testing.connection import Answer
    from alance.testing.objects import Content
    from alance.testing.weather import Rule, Weather


def control(server: Server, method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """Answer a request for the log, weather, rescan or statistics; return status and JSON."""
    path, _, query = target.partition("?")
    try:
        match path.removeprefix("/_lab/"):
            case "log":
                since = int(parse_qs(query).get("since", ["0"])[0])
                return 200, "\n".join(json.dumps(record) for record in server.log[since:]).encode()
            case "config":
                if method in ("POST", "PUT"):
                    server.weather.update(json.loads(body))
                return 200, json.dumps(server.weather.values).encode()
            case "rescan":
                server.store.rescan()
                return 200, b"{}"
            case "stats":
                return 200, json.dumps(_stats(server)).encode()
            case _:
                return 404, b"{}"
    except (ValueError, KeyError) as error:
        return 400, json.dumps({"error": str(error)}).encode()


def _stats(server: Server) -> dict[str, float]:
    times = os.times()
    peak, server.peak = server.peak, server.in_flight
    return {
        "requests": len(server.log),
        "in_flight": server.in_flight,
        "peak": peak,
        "connections": len(server.conns),
        "accepted": server.accepted,
        "uploads": len(server.store.uploads),
        "cpu_s": times.user + times.system,
    }


CUTS: Final = frozenset({"truncate", "reset_mid", "stall_mid", "trickle"})
TRICKLE_S: Final = 1.0  # seconds between two bytes
PACED_CHUNK: Final = 64 * 1024  # bytes per step under a bandwidth limit: small, for an even flow


class Delivery:
    """Writer of answers to connections.

    Args:
        spawn: runs a coroutine in the background.
    """

    def __init__(
        self,
        store: ObjectStore,
        weather: Weather,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._store, self._weather, self._spawn = store, weather, spawn
        self._free = 0.0  # monotonic time from which the total limit allows more bytes
        self._date = (0, "")

    def pace(self, conn: Connection, num_bytes: int, mbps: float = 0.0) -> float:
        """Reserve bandwidth for some bytes; return the seconds until they may be sent."""
        values, now, wait = self._weather.values, time.monotonic(), 0.0
        limit = min((x for x in (mbps, values["conn_mbps"]) if x), default=0.0)
        if limit:
            conn.free = max(now, conn.free) + num_bytes / (limit * 1e6)
            wait = conn.free - now
        if values["total_mbps"]:
            self._free = max(now, self._free) + num_bytes / (values["total_mbps"] * 1e6)
            wait = max(wait, self._free - now)
        return wait

    def reply(
        self, conn: Connection, req: Request, answer: Answer, rule: Rule | None = None
    ) -> None:
        """Write an answer, and apply the fault of a rule."""
        record, length = req.record, answer.length
        record["st"], record["out"] = answer.status, 0 if req.method == "HEAD" else length
        if not conn.open:
            conn.reset(record)
            return
        record["t1"] = time.monotonic()
        head = self._head(record["n"], answer)
        if req.method == "HEAD" or not length:
            conn.transport.write(head)
            conn.finished(record)
            return
        values = self._weather.values
        if length > 2 * SENT_CHUNK_BYTES or rule or values["conn_mbps"] or values["total_mbps"]:
            self._spawn(self._stream(conn, req, head, answer, rule))
            return
        content = self._content(answer, 0, length)
        conn.transport.write(head + content)
        if len(content) < length:
            conn.close(record)
        else:
            conn.finished(record)

    def _head(self, number: int, answer: Answer) -> bytes:
        lines = [
            f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}",
            "Server: alance-lab",
            f"Date: {self._now()}",
            f"x-amz-request-id: {number:x}",
            *(f"{name}: {value}" for name, value in answer.headers),
        ]
        if answer.status not in (204, 304):
            lines.append(f"Content-Length: {answer.length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _now(self) -> str:
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, email.utils.formatdate(now, usegmt=True))
        return self._date[1]

    def _content(self, answer: Answer, start: int, stop: int) -> bytes:
        if answer.path is None:
            return answer.body[start:stop]
        return os.pread(self._store.fd(answer.path), stop - start, answer.start + start)

    async def _stream(
        self, conn: Connection, req: Request, head: bytes, answer: Answer, rule: Rule | None
    ) -> None:
        conn.transport.write(head)
        cut = rule is not None and rule.action in CUTS
        mbps = rule.mbps if rule is not None and rule.action == "slow" else 0.0
        first = min(rule.after_bytes, answer.length) if cut and rule else answer.length
        trickles = rule is not None and rule.action == "trickle"
        stop = answer.length if trickles else first
        step = PACED_CHUNK if mbps or self._weather.values["conn_mbps"] else SENT_CHUNK_BYTES
        # A duplicate: the answer has the old content even if the object is replaced meanwhile.
        fd = os.dup(self._store.fd(answer.path)) if answer.path is not None else None
        at = 0
        try:
            while at < stop and conn.open:
                size = min(step, (first if at < first else stop) - at)
                if trickles and at >= first:
                    size = 1
                    await asyncio.sleep(TRICKLE_S)
                if fd is None:
                    content = answer.body[at : at + size]
                else:
                    content = os.pread(fd, size, answer.start + at)
                if not content:
                    break
                wait = self.pace(conn, len(content), mbps)
                if wait > 0.0005:
                    await asyncio.sleep(wait)
                conn.transport.write(content)
                at += len(content)
                if conn.waiter is not None:
                    await conn.waiter
        finally:
            if fd is not None:
                os.close(fd)
        req.record["out"] = at
        await self._end(conn, req, rule.action if rule is not None and cut else None, at < stop)

    async def _end(self, conn: Connection, req: Request, cut: str | None, is_short: bool) -> None:
        if not conn.open:
            conn.reset(req.record)
        elif cut == "reset_mid":
            await asyncio.sleep(0.02)  # so that the client receives what was written
            conn.reset(req.record)
        elif cut == "stall_mid":
            await conn.lost.wait()
            conn.reset(req.record)
        elif cut == "truncate" or is_short:
            conn.close(req.record)
        else:
            conn.finished(req.record)


HOST = "127.0.0.1"


class Server:
    """Server of objects with the latency and faults of a weather.

    Attributes:
        log: record of each request, in the order of arrival: `n` number, `conn` connection; `t0`
            arrival, `t1` start of the answer, `t2` end (seconds on the monotonic clock); `m`
            method, `op`, `bucket`, `key`; `in` and `out` bytes of the bodies; `st` status,
            `range`, `fault`; of listings `prefix` and `listed`, their number of entries; `round`
            number of its round (see `waits_for` of the weather).
    """

    def __init__(self, store: ObjectStore, weather: Weather) -> None:
        self.store, self.weather = store, weather
        self.service = StoreService(store)
        self.delivery = Delivery(store, weather, self.spawn)
        self.log: list[dict[str, Any]] = []
        self.conns: set[Connection] = set()
        self.accepted = 0
        self.in_flight = self.peak = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.rounds = Rounds(lambda: int(weather.values["waits_for"]), self._under_way, self.spawn)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine in the background."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def finish(self, record: dict[str, Any]) -> None:
        """Count the end of a request."""
        self.in_flight -= 1

    def arrived(
        self, conn: Connection, method: str, target: str, headers: dict[str, str], body: Content
    ) -> None:
        """Begin a request, whose end calls `finished`, `close` or `reset` of the `Connection`."""
        if target.startswith("/_lab/"):
            self._control(conn, method, target, body)
            return
        for name in self.weather.values["ignores"]:
            headers.pop(name, None)
        req = Request(method, target, headers, body)
        req.record.update(
            n=len(self.log),
            conn=conn.id,
            t0=time.monotonic(),
            m=method,
            op=req.op,
            bucket=req.bucket,
            key=req.key,
            round=self.rounds.number,
        )
        req.record["in"] = len(body)
        self.log.append(req.record)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        self.rounds.enter(conn.lost, lambda: self._begin(conn, req))

    def _under_way(self) -> int:
        """Number of requests that clients wait for, partly received requests included."""
        return sum(conn.busy or conn.is_receiving for conn in self.conns)

    def _begin(self, conn: Connection, req: Request) -> None:
        rule = self.weather.fault(req)
        delay = self.weather.latency(req.op)
        if rule is not None:
            req.record["fault"] = rule.action
            self.spawn(self._fail(conn, req, rule, delay))
        elif req.op in StoreService.WRITES:
            self.spawn(self._write(conn, req, delay))
        elif delay:
            self.loop.call_later(delay, self._answer, conn, req)
        else:
            self._answer(conn, req)

    def _answer(self, conn: Connection, req: Request) -> None:
        self.delivery.reply(conn, req, self.service(req))

    async def _write(self, conn: Connection, req: Request, delay: float) -> None:
        answer = await self._apply(conn, req, delay)
        self.delivery.reply(conn, req, answer)

    async def _apply(self, conn: Connection, req: Request, delay: float) -> Answer:
        """Apply a request after a part of the latency, and wait for the rest of the latency."""
        is_write = req.op in StoreService.WRITES
        early = delay * self.weather.values["apply_at"] if is_write else delay
        await asyncio.sleep(early + self.delivery.pace(conn, len(req.body)))
        answer = self.service(req)
        await asyncio.sleep(delay - early)
        return answer

    async def _fail(self, conn: Connection, req: Request, rule: Rule, delay: float) -> None:
        if rule.action == "late":
            await self.weather.changed()
        if rule.action in ("late", "slow") or rule.action in CUTS:
            answer = await self._apply(conn, req, delay + rule.delay_ms / 1000.0)
            self.delivery.reply(conn, req, answer, rule)
            return
        if rule.action.startswith("apply_"):
            await self._apply(conn, req, delay)
        else:
            await asyncio.sleep(delay)
        match rule.action.removeprefix("apply_"):
            case "status":
                answer = error(rule.status, rule.code, "injected", rule.retry_after)
                self.delivery.reply(conn, req, answer)
            case "endless" | "hollow" as kind:
                page = unending(self.service(req), req, is_hollow=kind == "hollow")
                self.delivery.reply(conn, req, page)
            case "stall":
                await conn.lost.wait()
                conn.reset(req.record)
            case _:
                conn.reset(req.record)

    def _control(self, conn: Connection, method: str, target: str, body: Content) -> None:
        status, out = control(self, method, target, bytes(body))
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(out)}\r\n\r\n"
        )
        conn.transport.write(head.encode() + out)
        conn.busy = False

    async def run(self, port: int, ready: Callable[[int], None]) -> None:
        """Serve until a signal (SIGTERM, SIGINT) arrives or the parent process ends.

        Args:
            port: port to listen on; 0 for any free port.
            ready: called with the port once the server listens.
        """
        self.loop = asyncio.get_running_loop()
        listener = await self.loop.create_server(lambda: Connection(self), HOST, port, backlog=2048)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        ready(listener.sockets[0].getsockname()[1])
        parent = os.getppid()
        while not stop.is_set() and os.getppid() == parent:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), 2.0)
        listener.close()
        for conn in list(self.conns):
            conn.transport.abort()
        self.store.close()


def serve(folder: Path, port: int, weather: Weather) -> None:
    """Serve the subfolders of a folder as buckets; print endpoint and port as JSON."""

    def ready(port: int) -> None:
        print(json.dumps({"endpoint": f"http://{HOST}:{port}", "port": port}), flush=True)

    asyncio.run(Server(ObjectStore(folder), weather).run(port, ready))
