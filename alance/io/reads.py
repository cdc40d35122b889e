"""What a caller of the scheduler awaits: the buffers of its ranges."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from alance.io import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.io.flights import Flight

R = TypeVar("R")
Part: TypeAlias = "tuple[Flight, int, int]"  # a flight, and bytes of the object inside it


class Read(asyncio.Future["Sequence[memoryview]"]):
    """The buffers of some ranges, in the order asked for."""

    def __init__(
        self,
        num_ranges: int,
        reason: str,
        recorder: trace.Recorder | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop=loop)
        self.reason = reason
        self.recorder = recorder
        self.caller = trace.caller() if recorder is not None else ""
        self.buffers: list[memoryview | None] = [None] * num_ranges
        self._joins: list[tuple[int, int, int]] = []  # a range, and the slots of its pieces
        self.unplanned = 0  # ranges that no flight is expected to bring yet
        self._others: dict[asyncio.Future[Any], int] = {}  # what brings pieces, and which
        self._parts: list[tuple[int, Sequence[Part]]] = []
        self._missing: set[Flight] = set()

    def cancel(self, msg: object = None) -> bool:
        """Withdraw from the flights that are still under way."""
        if self.done():
            return False
        self._withdraw()
        return super().cancel(msg)

    def add_pieces(self, number: int, count: int) -> int:
        """Make range `number` of so many pieces; gives the number of the first of their slots."""
        first = len(self.buffers)
        self.buffers += [None] * count
        self._joins.append((number, first, first + count))
        return first

    def expect(self, number: int, parts: Sequence[Part]) -> None:
        """Range or piece `number` is the bytes of these parts, one after the other."""
        self.unplanned -= 1
        self._parts.append((number, parts))
        for flight, start, stop in parts:
            if self.recorder is not None:
                flight.is_traced = True
            if flight.is_traced or trace.active:
                flight.asked.append((start, stop))
            if flight.buffer is None:
                self._missing.add(flight)
                flight.readers.add(self)

    def wait_for(
        self, number: int, other: asyncio.Future[R], finish: Callable[[R], memoryview]
    ) -> None:
        """Range `number` is what another future brings; cancelled with this one."""
        self._others[other] = number

        def ended(done: asyncio.Future[R]) -> None:
            if self._others.pop(done, None) is None:
                if not done.cancelled():
                    done.exception()  # nobody waits for it any more
                return
            if done.cancelled():
                self.cancel()
            elif (error := done.exception()) is not None:
                self.failed(error)
            else:
                self.buffers[number] = finish(done.result())
                self.finish_if_complete()

        other.add_done_callback(ended)

    def landed(self, flight: Flight) -> None:
        """One of the flights is there."""
        self._missing.discard(flight)
        self.finish_if_complete()

    def failed(self, error: BaseException) -> None:
        """One of the flights failed: so does the read."""
        if not self.done():
            self._withdraw()
            self.set_exception(error)

    def finish_if_complete(self) -> None:
        """Give the buffers if nothing is missing."""
        if self._missing or self.unplanned or self._others or self.done():
            return
        for number, parts in self._parts:
            pieces = [flight.slice(start, stop) for flight, start, stop in parts]
            self.buffers[number] = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        self._parts.clear()
        buffers: list[Any] = self.buffers  # none is missing
        if self._joins:
            for number, start, stop in self._joins:
                pieces = buffers[start:stop]
                buffers[number] = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
            del buffers[self._joins[0][1] :]
        self.set_result(buffers)

    def _withdraw(self) -> None:
        missing, self._missing = self._missing, set()
        others, self._others = self._others, {}
        self._parts.clear()
        for other in others:
            other.cancel()
        for flight in missing:
            flight.readers.discard(self)
            if not flight.readers:
                flight.lane.drop(flight)
