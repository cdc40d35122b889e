"""The latest version of a table, for handles that follow it, as `alance.dataset(uri, follow=5.0)`.

All handles of a session with the same table and interval share a `Follower`. It polls for a newer
version once per interval, as long as its handles are used. No call waits for a poll.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import math
import weakref
from contextlib import suppress
from numbers import Real
from typing import TYPE_CHECKING, Final

from alance.errors import AlanceError, InvalidInputError, TableNotFoundError
from alance.io.events import observing
from alance.io.events.observing import Reading
from alance.ops.version.opening import checkout, open_snapshot
from alance.ops.version.summary import ChangeSummary
from alance.session import followers_of, table_at

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Unpack

    from alance.ops.version.snapshot import Snapshot
    from alance.session import TableArguments
    from alance.versioning.table import Table

RESTS_AFTER: Final = 12  # consecutive polls without a use of a handle, after which polling stops
CLOCK_S: Final = 0.001  # seconds; timers of the event loop may fire early


class Follower:
    """Knows the latest version of a table by polling. For one event loop at a time.

    Between polls its task has only a weak reference to the follower, so that the follower ends with
    its last handle.

    Args:
        interval: seconds between polls.
        rests: True to stop polling while no handle is used.
        begun: event loop time before the request that found the version of `snapshot`.

    Attributes:
        latest: the latest known version.
    """

    __slots__ = (
        "__weakref__",
        "_error",
        "_interval",
        "_is_used",
        "_known_at",
        "_last_s",
        "_loop",
        "_num_announced",
        "_num_begun",
        "_num_ended",
        "_num_unused",
        "_rests",
        "_task",
        "_tried_at",
        "_turn",
        "latest",
    )

    def __init__(self, snapshot: Snapshot, interval: float, rests: bool, begun: float) -> None:
        self.latest = snapshot
        self._interval = interval
        self._rests = rests
        self._loop = asyncio.get_running_loop()
        # Start of the last successful poll, and of the last poll.
        self._known_at = self._tried_at = begun
        self._last_s = self._loop.time() - begun  # duration of the last successful poll
        self._num_begun = self._num_ended = 0  # numbers of polls
        self._error: AlanceError | None = None  # error of the last poll
        self._num_announced = 0
        self._is_used = False
        self._num_unused = 0
        self._turn = asyncio.Lock()  # held by the current poll
        self._task: asyncio.Task[None] | None = None
        observing.show(self)

    @property
    def staleness(self) -> float:
        """Seconds since `latest` was certainly the latest version."""
        return max(0.0, self._loop.time() - self._known_at)

    def readings(self) -> Iterator[Reading]:
        """Yield the staleness, as long as the polling task runs."""
        if self._task is not None and not self._task.done():
            yield Reading("dataset_staleness_seconds", self.latest.uri, self.staleness)

    def serves(self, table: Table, interval: float, rests: bool) -> bool:
        """True if handles with this table, `interval` and `rests` share this follower."""
        is_alike = (interval, rests) == (self._interval, self._rests)
        return is_alike and self.latest.table.queue_key == table.queue_key

    def current(self) -> Snapshot:
        """Return the latest known version, and make sure that polling continues.

        Never waits. Nothing is polled without a running event loop or after the end of the session.
        """
        self._is_used = True
        if self._task is None or self._task.done():
            self._begin()
        return self.latest

    def tell(self, snapshot: Snapshot) -> None:
        """Report a version that a handle has committed or opened."""
        is_attached = not snapshot.version >> 63
        is_newer = is_attached and snapshot.version > self.latest.version
        if is_newer and snapshot.table.root == self.latest.table.root:
            self.latest = copy.copy(snapshot)
            self.latest.summary = ChangeSummary()  # a summary belongs to a call, not to the version
            self._num_announced += 1

    async def refresh(self) -> Snapshot:
        """Poll for the latest version, by a poll that begins after this call.

        All callers that wait at the same time share a poll.

        Raises:
            TableNotFoundError: the table has been removed.
            StoreError, CorruptFileError, UnsupportedError: the poll failed; `latest` is unchanged.
        """
        least = self._num_begun + 1
        async with self._turn:
            if self._num_ended < least:
                await self._look()
            elif self._error is not None:
                raise copy.copy(self._error)
        return self.latest

    async def look_if_due(self) -> None:
        """Poll, unless a caller has done so meanwhile. A failure is logged."""
        if self.due_in() > CLOCK_S:
            return
        self._num_unused = 0 if self._is_used else self._num_unused + 1
        self._is_used = False
        try:
            await self.refresh()
        except AlanceError as error:
            observing.warn_rarely(
                "follow",
                self.latest.uri,
                "%s: version %d is read on, %.1f s after it was the latest one for certain: %s",
                self.latest.uri,
                self.latest.version,
                self.staleness,
                error,
            )

    def due_in(self) -> float:
        """Return the seconds until the next poll, which has to end within the interval."""
        margin = min(2 * self._last_s, self._interval / 2)
        return max(0.0, self._tried_at + self._interval - margin - self._loop.time())

    @property
    def is_resting(self) -> bool:
        """True if the handles have not been used for long."""
        return self._rests and self._num_unused >= RESTS_AFTER

    async def end(self) -> None:
        """End the task at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)  # this may run in any thread

    def _begin(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        followers = followers_of(self.latest.session)
        if followers is None:
            return
        if loop is not self._loop:
            self._loop, self._turn = loop, asyncio.Lock()
        self._num_unused = 0
        followers.add(self)
        # A separate context, because the requests do not belong to the caller's span.
        self._task = loop.create_task(
            _keep_looking(weakref.ref(self)), context=contextvars.Context()
        )

    async def _look(self) -> None:
        await asyncio.sleep(0)  # callers of the same turn of the loop share the poll
        self._num_begun += 1
        number, num_announced = self._num_begun, self._num_announced
        clock = self._loop.time
        begun = self._tried_at = clock()
        self._error = None
        try:
            newest = await checkout(self.latest, None)
        except AlanceError as error:
            self._error, self._num_ended = copy.copy(error), number
            raise
        # A lower number means that the table was created again, unless a handle has reported its
        # commit meanwhile.
        if num_announced == self._num_announced or newest.version > self.latest.version:
            self.latest = newest
        self._known_at, self._last_s, self._num_ended = begun, clock() - begun, number


async def open_follower(
    uri: str | os.PathLike[str],
    interval: float,
    *,
    rests: bool,
    **place: Unpack[TableArguments],
) -> Follower:
    """Open the latest version of a table, and return the session's follower of the table.

    Cost: one LIST and one GET; then those of the polls.

    Raises:
        InvalidInputError: `interval` is not a finite positive number; or as for `open_snapshot`.
        TableNotFoundError, UnsupportedError: as for `open_snapshot`.
    """
    is_number = isinstance(interval, Real) and not isinstance(interval, bool)
    if not (is_number and 0 < interval < math.inf):
        raise InvalidInputError(
            f"follow={interval!r}: expected the seconds that the dataset may be behind, above 0"
        )
    session, table = table_at(uri, **place)

    async def shared() -> Follower | None:
        for follower in followers_of(session) or ():
            if follower.serves(table, interval, rests):
                await follower.refresh()
                return follower
        return None

    with suppress(TableNotFoundError):  # `open_snapshot` raises it with its reason
        if (follower := await shared()) is not None:
            return follower
    begun = asyncio.get_running_loop().time()
    snapshot = await open_snapshot(uri, **place)
    if (follower := await shared()) is not None:  # of a call at the same time
        return follower
    follower = Follower(snapshot, float(interval), rests, begun)
    follower.current()
    return follower


async def _keep_looking(reference: weakref.ref[Follower]) -> None:
    while (follower := reference()) is not None and not follower.is_resting:
        pause = follower.due_in()
        del follower
        await asyncio.sleep(pause)
        if (follower := reference()) is not None:
            await follower.look_if_due()
