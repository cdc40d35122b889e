"""How answers of the lab travel: heads, bodies within the limits of bandwidth, and broken ones."""

from __future__ import annotations

import asyncio
import email.utils
import os
import time
from typing import TYPE_CHECKING, Final

from alance.testing.connection import CHUNK
from alance.testing.objects import REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from alance.testing.connection import Connection
    from alance.testing.messages import Answer, Request
    from alance.testing.objects import ObjectStore
    from alance.testing.weather import Rule, Weather

CUTS: Final = frozenset({"truncate", "reset_mid", "stall_mid", "trickle"})
TRICKLE_S: Final = 1.0  # between two bytes
PACED_CHUNK: Final = 64 * 1024  # under a limit: small steps make an even flow


class Delivery:
    """Writes answers to connections.

    Args:
        spawn: runs what takes a while.
    """

    def __init__(
        self,
        store: ObjectStore,
        weather: Weather,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._store, self._weather, self._spawn = store, weather, spawn
        self._free = 0.0  # on the monotonic clock, when the total limit lets more bytes pass
        self._date = (0, "")

    def pace(self, conn: Connection, num_bytes: int, mbps: float = 0.0) -> float:
        """Seconds until these bytes may have passed, under the limits."""
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
        """Write an answer, as the fault has it."""
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
        if length > 2 * CHUNK or rule or values["conn_mbps"] or values["total_mbps"]:
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
        step = PACED_CHUNK if mbps or self._weather.values["conn_mbps"] else CHUNK
        # Of its own: the store may forget the object, which goes on as it was when asked for.
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
            await asyncio.sleep(0.02)  # so that the client has what was written
            conn.reset(req.record)
        elif cut == "stall_mid":
            await conn.lost.wait()
            conn.reset(req.record)
        elif cut == "truncate" or is_short:
            conn.close(req.record)
        else:
            conn.finished(req.record)
