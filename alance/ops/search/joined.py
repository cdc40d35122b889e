"""Concurrent searches that differ in their queries alone go together.

What a search costs beside the comparing of vectors (choosing, partitions, the take of rows) does
not grow with its queries. So those that begin in one turn of the loop are one search; and where
some are under way already, those that come meanwhile wait, and go together when one ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Hashable, Mapping, Sequence

    import pyarrow as pa

    from alance.arrays import Float64s, Int32s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.options import Search
    from alance.ops.version.snapshot import Snapshot

MAX_ROWS: Final = 16 << 10  # of all searches that go together
# Searches of one kind under way: more would only wait for a thread, or for requests that more
# queries could share.
UNDER_WAY: Final[Mapping[bool, int]] = {False: 2, True: 8}  # of a remote store: True
_OWN: Final = ("nearest", "order_by")  # options of which each caller may have others


@dataclass(frozen=True, slots=True)
class Part:
    """What one caller gets: the numbers of its queries, and their rows."""

    numbers: Int32s
    batch: pa.RecordBatch


class Answer(Protocol):
    """Gives the parts of callers, whose queries follow each other."""

    def __call__(self, queries: Float64s, counts: Sequence[int]) -> Awaitable[Sequence[Part]]:
        """Answer.

        Args:
            queries: of all callers; shape (q, dimension).
            counts: the number of queries of each caller.
        """
        ...


def joint_of(snapshot: Snapshot, search: Search, columns: object, options: ScanOptions) -> Joint:
    """What a search goes together with: those of the version that ask the same."""
    rest = tuple(
        getattr(options, field.name) for field in fields(options) if field.name not in _OWN
    )
    asked = (
        search.path, search.k, search.metric, search.lower, search.upper, search.probing,
        search.fast_search, search.width,
    )  # fmt: skip
    names = tuple(columns) if isinstance(columns, list | tuple) else columns
    joint = Joint(MAX_ROWS // (search.k * search.width), UNDER_WAY[snapshot.is_remote])
    key: Hashable = (Joint, asked, names, rest)
    # An expression's == is an expression; values of parameters are equal across types.
    is_plain = isinstance(options.filter, str | None) and options.params is None
    try:
        hash(key)
    except TypeError:
        return joint
    return snapshot.remember(key, lambda: joint) if is_plain else joint


@dataclass(slots=True, eq=False)
class _Caller:
    queries: Float64s
    answer: Answer
    part: asyncio.Future[Part]
    context: Context  # a trace is the first caller's
    together: _Together | None = None


class Joint:
    """Searches that differ in their queries.

    Args:
        max_queries: that go together; more where one caller has more.
        max_under_way: searches at once.
    """

    def __init__(self, max_queries: int, max_under_way: int) -> None:
        self._max_queries = max_queries
        self._free = max_under_way
        self._waiting: deque[_Caller] = deque()
        self._is_called = False

    async def ask(self, queries: Float64s, answer: Answer) -> Part:
        """The part of one caller.

        A cancelled caller leaves the search to the others; that of the last one ends with it.
        """
        loop = asyncio.get_running_loop()
        caller = _Caller(queries, answer, loop.create_future(), copy_context())
        self._waiting.append(caller)
        if self._free and not self._is_called:
            self._is_called = True
            loop.call_soon(self._begin)
        try:
            return await caller.part
        finally:
            if caller.together is not None:
                await caller.together.leave()

    def _begin(self) -> None:
        """Begin a search of all who wait, as far as they go together."""
        self._is_called = False
        while self._free and self._waiting:
            callers: list[_Caller] = []
            total = 0
            while self._waiting:
                caller = self._waiting[0]
                if callers and total + len(caller.queries) > self._max_queries:
                    break
                self._waiting.popleft()
                if not caller.part.done():
                    callers.append(caller)
                    total += len(caller.queries)
            if callers:
                self._free -= 1
                _Together(callers).task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._free += 1
        if not self._is_called:
            self._begin()


class _Together:
    """A search of several callers, under way."""

    def __init__(self, callers: Sequence[_Caller]) -> None:
        self._callers = callers
        self._left = len(callers)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._run(), context=callers[0].context)
        for caller in callers:
            caller.together = self

    async def leave(self) -> None:
        """A caller has what it asked for, or does not wait for it any more."""
        self._left -= 1
        if not self._left and self.task.cancel():
            await asyncio.wait([self.task])

    async def _run(self) -> None:
        try:
            await self._answer(self._callers)
        except Exception as error:
            if len(self._callers) == 1:
                _fail(self._callers[0], error)
                return
            # What is wrong may be the matter of one alone: a damaged partition, or a query.
            await all_of(self._alone(caller) for caller in self._callers if not caller.part.done())
        finally:
            for caller in self._callers:
                caller.part.cancel()  # those that have no part: the search was cancelled

    async def _alone(self, caller: _Caller) -> None:
        try:
            await self._answer([caller])
        except Exception as error:
            _fail(caller, error)

    async def _answer(self, callers: Sequence[_Caller]) -> None:
        counts = [len(caller.queries) for caller in callers]
        queries = callers[0].queries
        if len(callers) > 1:
            queries = np.concatenate([caller.queries for caller in callers])
        parts = await callers[0].answer(queries, counts)
        for caller, part in zip(callers, parts, strict=True):
            if not caller.part.done():
                caller.part.set_result(part)


def _fail(caller: _Caller, error: Exception) -> None:
    if not caller.part.done():
        caller.part.set_exception(error)
