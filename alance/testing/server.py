"""The server of the lab: takes requests, lets the weather have its way, and keeps the log.

It listens on a loopback address only and checks no signature. `/_lab/` is about the lab itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from alance.testing.connection import Connection
from alance.testing.control import control
from alance.testing.delivery import CUTS, Delivery
from alance.testing.listing import unending
from alance.testing.messages import Request, error
from alance.testing.objects import REASONS, ObjectStore
from alance.testing.operations import Service
from alance.testing.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from alance.testing.messages import Answer
    from alance.testing.objects import Content
    from alance.testing.weather import Rule, Weather

HOST = "127.0.0.1"


class Server:
    """Answers requests as the weather allows.

    Attributes:
        log: a record of each request, in the order of their arrival: `n` its number, `conn`, `t0`
            arrived, `t1` answer begun, `t2` ended (seconds on the monotonic clock), `m` method,
            `op`, `bucket`, `key`, `in` and `out` bytes of the bodies, `st` status, `range`,
            `fault`, `round` the number of its round, where they are told apart (`waits_for`).
    """

    def __init__(self, store: ObjectStore, weather: Weather) -> None:
        self.store, self.weather = store, weather
        self.service = Service(store)
        self.delivery = Delivery(store, weather, self.spawn)
        self.log: list[dict[str, Any]] = []
        self.conns: set[Connection] = set()
        self.accepted = 0
        self.in_flight = self.peak = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.rounds = Rounds(lambda: int(weather.values["waits_for"]), self._under_way, self.spawn)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def finish(self, record: dict[str, Any]) -> None:
        """A request has ended, one way or the other."""
        self.in_flight -= 1

    def arrived(
        self, conn: Connection, method: str, target: str, headers: dict[str, str], body: Content
    ) -> None:
        """Take a request; the connection is told when it has ended."""
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
        self.rounds.enter(lambda: self._begin(conn, req))

    def _under_way(self) -> int:
        """Requests without an answer, those that have come in part among them."""
        return self.in_flight + sum(conn.is_receiving for conn in self.conns)

    def _begin(self, conn: Connection, req: Request) -> None:
        rule = self.weather.fault(req)
        delay = self.weather.latency(req.op)
        if rule is not None:
            req.record["fault"] = rule.action
            self.spawn(self._fail(conn, req, rule, delay))
        elif req.op in Service.WRITES:
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
        """Do what is asked after a part of the latency, and wait for the rest of it."""
        is_write = req.op in Service.WRITES
        early = delay * self.weather.values["apply_at"] if is_write else delay
        await asyncio.sleep(early + self.delivery.pace(conn, len(req.body)))
        answer = self.service(req)
        await asyncio.sleep(delay - early)
        return answer

    async def _fail(self, conn: Connection, req: Request, rule: Rule, delay: float) -> None:
        if rule.action == "slow" or rule.action in CUTS:
            answer = await self._apply(conn, req, delay + rule.delay_ms / 1000.0)
            self.delivery.reply(conn, req, answer, rule)
            return
        if rule.action.startswith("apply_"):
            await self._apply(conn, req, delay)
        else:
            await asyncio.sleep(delay)
        match rule.action.removeprefix("apply_"):
            case "status":
                told = error(rule.status, rule.code, "injected", rule.retry_after)
                self.delivery.reply(conn, req, told)
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
        """Serve until asked to stop by a signal, or until the parent process has ended.

        Args:
            port: 0: any free one.
            ready: told the port.
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
    """Serve the folders of a folder as buckets; endpoint and port go to the output as JSON."""

    def ready(port: int) -> None:
        print(json.dumps({"endpoint": f"http://{HOST}:{port}", "port": port}), flush=True)

    asyncio.run(Server(ObjectStore(folder), weather).run(port, ready))
