"""Requests to a remote store: grouped, retried, within a time limit, and reported to observers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from alance.errors import CorruptFileError
from alance.io.cloud.resilience import Retries
from alance.io.events import observing
from alance.io.loop.futures import JoinedFutures, Retried, done, failed
from alance.io.loop.limits import RequestLimit, TimeLimits, outlasted
from alance.io.stores.store import check_spans, short_read, translate, without_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.io.events.trace import Kind
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import Span

    # Begins to read ranges of an object. The answer is a list of bodies; of one range, its body.
    Start: TypeAlias = Callable[[str, Sequence[Span]], asyncio.Future[Any]]

T = TypeVar("T")


class RequestingStore:
    """Base of remote stores: how they send requests.

    Args:
        root: the store's root, unique in the process.
        profile: parameters for planning reads.
        retries: policy for retries, after those of the client; None for the usual one.
        limits: time limits of a request, with all its retries; None for the usual ones.
    """

    def __init__(
        self,
        root: str,
        profile: StoreProfile,
        retries: Retries | None = None,
        limits: TimeLimits | None = None,
    ) -> None:
        self.root = root
        self.uri = without_number(root)  # for messages
        self.profile = profile
        self.limits = TimeLimits() if limits is None else limits
        self._retries = replace(retries or Retries(), store=self.uri)

    def _enter(self) -> None:
        """Prepare for an attempt of `_run`."""

    def _read(
        self, path: str, ranges: Sequence[Span], start: Start
    ) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges, as `Store.get_ranges`; a call reads a group of small ranges."""
        loop = asyncio.get_running_loop()
        try:
            check_spans(self.uri + path, ranges)
        except CorruptFileError as error:
            return failed(error, loop)
        calls = [
            self._get_group(path, group, start, loop) for group in _groups(ranges, self.profile)
        ]
        return calls[0] if len(calls) == 1 else JoinedFutures(calls, loop)

    def _get_group(
        self, path: str, ranges: Sequence[Span], start: Start, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[Sequence[memoryview]]:
        where = self.uri + path
        requested = [span for span in ranges if span[0] != span[1]]  # HTTP has no empty range
        if not requested:
            return done([memoryview(b"")] * len(ranges), loop)

        def finish(answer: Any) -> Sequence[memoryview]:
            bodies = [answer] if len(requested) == 1 else answer
            return _buffers(where, ranges, requested, bodies)

        num_bytes = sum([stop - start for start, stop in requested])
        call = Retried(
            partial(start, path, requested),
            finish,
            partial(translate, where=where),
            self._retries,
            self.limits.whole(num_bytes),
            loop,
        )
        if observing.is_on():
            observing.RequestUnderWay("get", self.uri, path, len(requested)).watch(call, num_bytes)
        return call

    async def _run(
        self,
        kind: Kind,
        path: str,
        attempt: Callable[[], Awaitable[T]],
        limit: RequestLimit | None = None,
        received: Callable[[T], int] = lambda _: 0,
        sent: int = 0,
    ) -> T:
        """Run a request with retries within its time limit, and report it; return its result."""
        with observing.RequestUnderWay(kind, self.uri, path) as request:
            request.sent = sent
            result = await self._tried(path, attempt, limit, request)
            request.received = received(result)
            return result

    async def _tried(
        self,
        path: str,
        attempt: Callable[[], Awaitable[T]],
        limit: RequestLimit | None,
        request: observing.RequestUnderWay,
    ) -> T:
        limit = limit or RequestLimit(self.limits.whole())
        last: Exception | None = None
        request.retries = -1

        def count() -> Awaitable[T]:
            request.retries += 1
            self._enter()
            return attempt()

        def failed(error: BaseException) -> Exception:
            nonlocal last
            last = translate(error, self.uri + path)
            return last

        try:
            async with limit.clock:
                return await self._retries.run(count, failed)
        except TimeoutError:
            raise translate(outlasted(limit.seconds, last), self.uri + path) from None


def _groups(ranges: Sequence[Span], profile: StoreProfile) -> list[list[Span]]:
    groups: list[list[Span]] = []
    room = 0
    for span in ranges:
        small = span[1] - span[0] <= profile.group_range_bytes
        if not small or not room:
            groups.append([])
            room = profile.group_size if small else 1
        groups[-1].append(span)
        room -= 1
    return groups


def _buffers(
    where: str, ranges: Sequence[Span], requested: Sequence[Span], bodies: Sequence[Any]
) -> Sequence[memoryview]:
    """Return a buffer for each range; only the ranges that are not empty were requested."""
    views = [memoryview(body) for body in bodies]
    for span, view in zip(requested, views, strict=True):
        if len(view) != span[1] - span[0]:
            raise short_read(where, span, len(view))
    if len(requested) == len(ranges):
        return views
    remaining = iter(views)
    return [next(remaining) if start != stop else memoryview(b"") for start, stop in ranges]
