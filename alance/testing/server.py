"""The server of the lab: an S3-compatible HTTP server over a folder, on a loopback address.

    python -m alance.testing.server --root FOLDER --port 9000 --latency-ms 30

It checks no signature, logs every request, and changes its weather while it runs (`/_lab/`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import email.utils
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alance.testing.connection import CHUNK, Connection
from alance.testing.control import control
from alance.testing.messages import Answer, Request
from alance.testing.objects import ERROR_CODES, REASONS, XML_HEAD, ObjectStore
from alance.testing.operations import Service
from alance.testing.weather import Weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.testing.objects import Content


class Server:
    """Answers requests as the weather allows, and keeps the log."""

    def __init__(self, store: ObjectStore, weather: Weather) -> None:
        self.store, self.weather = store, weather
        self.service = Service(store)
        self.log: list[dict[str, Any]] = []
        self.conns: set[Connection] = set()
        self.accepted = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.in_flight = self.peak = 0
        self.dates = (0, "")

    def finish(self, record: dict[str, Any]) -> None:
        self.in_flight -= 1

    def arrived(
        self,
        conn: Connection,
        method: str,
        target: str,
        headers: dict[str, str],
        body: Content,
    ) -> None:
        now = time.monotonic()
        if target.startswith("/_lab/"):
            self.control(conn, method, target, body)
            return
        req = Request(method, target, headers, body)
        record = req.record = {
            "n": len(self.log),
            "conn": conn.id,
            "t0": now,
            "m": method,
            "op": req.op,
            "bucket": req.bucket,
            "key": req.key,
            "in": len(body),
        }
        self.log.append(record)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        rule = self.weather.fault(req) if self.weather.rules else None
        delay = self.weather.latency(req.op)
        if rule is None and req.op not in Service.WRITES:
            if delay:
                self.loop.call_later(delay, self.answer, conn, req)
            else:
                self.answer(conn, req)
            return
        task = self.loop.create_task(self.slow_path(conn, req, rule, delay))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def slow_path(
        self, conn: Connection, req: Request, rule: dict[str, Any] | None, delay: float
    ) -> None:
        rule = rule or {}
        action = rule.get("action")
        if action:
            req.record["fault"] = action
        if action == "reset":
            await asyncio.sleep(delay)
            conn.abort(req.record)
            return
        if action == "stall":
            await conn.lost.wait()
            conn.abort(req.record)
            return
        if action == "status":
            await asyncio.sleep(delay)
            status = rule.get("status", 503)
            code = rule.get("code") or ERROR_CODES.get(status, "Error")
            extra = [("Retry-After", str(rule["retry_after"]))] if "retry_after" in rule else []
            body = (
                f"{XML_HEAD}<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
            )
            self.reply(
                conn, req, Answer(status, [("Content-Type", "application/xml"), *extra], body)
            )
            return
        if action == "slow":
            delay += rule.get("delay_ms", 0) / 1000.0
        if req.op in Service.WRITES:
            pace = self.pace(conn, len(req.body))
            early = delay * self.weather.values["apply_at"]
            await asyncio.sleep(early + pace)
            answer = self.service(req)
            if action == "apply_reset":
                conn.abort(req.record)
                return
            await asyncio.sleep(delay - early)
        else:
            await asyncio.sleep(delay)
            answer = self.service(req)
            if action in ("reset_mid", "truncate"):
                self.reply(conn, req, answer, cut=rule.get("after_bytes", 0))
                return
        self.reply(conn, req, answer, mbps=rule.get("mbps", 0) if action == "slow" else 0)

    def answer(self, conn: Connection, req: Request) -> None:
        self.reply(conn, req, self.service(req))

    def pace(self, conn: Connection, nbytes: int, mbps: float = 0) -> float:
        """Seconds until these bytes may have passed, under the limits."""
        values, now, wait = self.weather.values, time.monotonic(), 0.0
        limit = min((x for x in (mbps, values["conn_mbps"]) if x), default=0)
        if limit:
            conn.free = max(now, conn.free) + nbytes / (limit * 1e6)
            wait = conn.free - now
        if values["total_mbps"]:
            self.weather.total_free = max(now, self.weather.total_free) + nbytes / (
                values["total_mbps"] * 1e6
            )
            wait = max(wait, self.weather.total_free - now)
        return wait

    def date(self) -> str:
        now = int(time.time())
        if self.dates[0] != now:
            self.dates = (now, email.utils.formatdate(now, usegmt=True))
        return self.dates[1]

    def reply(
        self,
        conn: Connection,
        req: Request,
        answer: Answer,
        cut: int | None = None,
        mbps: float = 0,
    ) -> None:
        record = req.record
        record["st"], record["out"] = answer.status, 0 if req.method == "HEAD" else answer.length
        if not conn.open:
            conn.abort(record)
            return
        lines = [
            f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}",
            "Server: s3lab",
            f"Date: {self.date()}",
            f"x-amz-request-id: {record['n']:x}",
        ]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if answer.status not in (204, 304):
            lines.append(f"Content-Length: {answer.length}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        record["t1"] = time.monotonic()
        length = answer.length
        if req.method == "HEAD" or not length:
            conn.transport.write(head)
            conn.finished(record)
            return
        limited = (
            mbps
            or cut is not None
            or self.weather.values["conn_mbps"]
            or self.weather.values["total_mbps"]
        )
        if length <= 2 * CHUNK and not limited:
            if answer.path is not None:
                data = os.pread(self.store.fd(answer.path), length, answer.start)
                conn.transport.write(head + data)
            else:
                conn.transport.write(head + bytes(answer.body))
            conn.finished(record)
            return
        task = self.loop.create_task(self.stream(conn, record, head, answer, cut, mbps))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def stream(
        self,
        conn: Connection,
        record: dict[str, Any],
        head: bytes,
        answer: Answer,
        cut: int | None,
        mbps: float,
    ) -> None:
        transport = conn.transport
        transport.write(head)
        length = answer.length
        stop = length if cut is None else min(cut, length)
        fd = os.dup(self.store.fd(answer.path)) if answer.path is not None else -1
        step = CHUNK if not (mbps or self.weather.values["conn_mbps"]) else 64 * 1024
        try:
            at = 0
            while at < stop and conn.open:
                size = min(step, stop - at)
                data = (
                    os.pread(fd, size, answer.start + at)
                    if fd >= 0
                    else bytes(answer.body[at : at + size])
                )
                wait = self.pace(conn, size, mbps)
                if wait > 0.0005:
                    await asyncio.sleep(wait)
                transport.write(data)
                at += size
                if conn.waiter is not None:
                    await conn.waiter
        finally:
            if fd >= 0:
                os.close(fd)
        if cut is not None or not conn.open:
            await asyncio.sleep(0.02)
            conn.abort(record)
            return
        conn.finished(record)

    def control(self, conn: Connection, method: str, target: str, body: Content) -> None:
        """Answer what the lab itself is asked."""
        status, out = control(self, method, target, bytes(body))
        conn.transport.write(
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(out)}\r\n\r\n".encode()
            + out
        )
        conn.busy = False

    async def run(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        self.loop = asyncio.get_running_loop()
        server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=2048)
        ready(server.sockets[0].getsockname()[1])
        stop = asyncio.Event()
        for sig in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(sig, stop.set)
        parent = os.getppid()
        while not stop.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), 2.0)
            if os.getppid() != parent:
                break
        server.close()
        for conn in list(self.conns):
            conn.transport.abort()
        self.store.close()


def serve(arguments: argparse.Namespace) -> None:
    """Serve until the parent process ends or asks to stop; print port and endpoint first."""
    server = Server(ObjectStore(Path(arguments.root)), Weather(latency_ms=arguments.latency_ms))

    def ready(port: int) -> None:
        endpoint = f"http://127.0.0.1:{port}"
        print(json.dumps({"endpoint": endpoint, "port": port, "pid": os.getpid()}), flush=True)

    asyncio.run(server.run("127.0.0.1", arguments.port, ready))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="An S3-compatible server over a local folder.")
    parser.add_argument("--root", required=True, help="its folders are the buckets")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="to the first byte")
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
