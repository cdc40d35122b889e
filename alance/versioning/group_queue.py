"""Queue of commits in a process: those that wait while a version is being made become the next one.

If a version takes longer than `STUCK_S`, the next one is started concurrently, as if in another
process; the conditional PUT decides which is first.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from alance.io.loop.background import CANCEL_GRACE_S, ended_in_time
from alance.versioning.outcome import mark_as_open, may_be_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alance.versioning.tokens import Notes

T = TypeVar("T")

MAX_WAITING: Final = 1024  # maximum commits in the queue; others wait to enter it
MAX_GROUP: Final = 256  # maximum commits per version
MAX_LINGER_S: Final = 0.02  # maximum wait for the next commits of the previous version's callers
STUCK_S: Final = 2.0  # age of a pending version at which the next one is started
MAX_GROUPS: Final = 8  # maximum concurrent versions; all but the last one are stuck


class WaitingCommit(Generic[T]):
    """Commit in a queue, with its waiting caller.

    Args:
        moved: called when `version` is done or cancelled.

    Attributes:
        notes: tokens and producers' batch numbers.
        properties: other properties of the transaction; only commits with the same ones are merged.
        version: future of the commit's version; cancelled if the caller stops waiting.
        making: task that makes the commit's version; None while the commit can still leave the
            group.
        may_be_visible: True if the version was made, or may have been made.
    """

    __slots__ = ("making", "may_be_visible", "notes", "properties", "version")

    def __init__(
        self, notes: Notes, properties: Mapping[str, str], moved: Callable[[object], object]
    ) -> None:
        self.notes = notes
        self.properties = properties
        self.version: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.version.add_done_callback(moved)
        self.making: asyncio.Task[None] | None = None
        self.may_be_visible = False

    @property
    def can_go(self) -> bool:
        """True if the commit can join the next group; False while it may delay that group."""
        return True

    def follows(self, other: WaitingCommit[T]) -> bool:
        """True if an earlier commit has to be made first: both share a token or producer."""
        ours, theirs = self.notes, other.notes
        return bool(ours.tokens & theirs.tokens or ours.producers.keys() & theirs.producers.keys())

    def goes_with(self, other: WaitingCommit[T]) -> bool:
        """True if this commit can be merged with an earlier one."""
        if self.properties != other.properties or other.notes.tokens & self.notes.tokens:
            return False
        return all(
            self.notes.producers[name][0] == last
            for name, (_, last) in other.notes.producers.items()
            if name in self.notes.producers
        )

    def succeed(self, version: T) -> None:
        if not self.version.done():
            self.version.set_result(version)

    def fail(self, error: Exception) -> None:
        if not self.version.done():
            self.version.set_exception(error)


WaitingT = TypeVar("WaitingT", bound=WaitingCommit[Any])


def keep(group: Sequence[WaitingCommit[Any]], making: asyncio.Task[None]) -> None:
    """Assign commits to the task that makes their version; they can no longer leave the group."""
    for waiter in group:
        waiter.making = making


class GroupQueue(ABC, Generic[WaitingT]):
    """Queue of commits to one table or branch, in one event loop.

    Args:
        grace_s: seconds that a cancelled commit waits for a version that contains it.
    """

    def __init__(
        self,
        *,
        max_waiting: int = MAX_WAITING,
        max_group: int = MAX_GROUP,
        grace_s: float = CANCEL_GRACE_S,
    ) -> None:
        self._room = asyncio.Semaphore(max_waiting)
        self._max_group = max_group
        self._grace_s = grace_s
        self._waiting: deque[WaitingT] = deque()
        # Groups by the task that makes their version.
        self._groups: dict[asyncio.Task[None], list[WaitingT]] = {}
        # Set at each change of the queue, and then replaced by a new event.
        self._moved = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._last_group = 1
        self._last_s = 0.0
        self._under_way = 0

    @property
    def num_waiting(self) -> int:
        """Number of commits whose version has not been started."""
        return len(self._waiting)

    @property
    def num_under_way(self) -> int:
        """Number of commits whose callers still wait."""
        return self._under_way

    @property
    def is_idle(self) -> bool:
        """True if no commit waits and no version is being made."""
        return self._worker is None

    async def aclose(self) -> None:
        """Wait until each commit in the queue has been made or has failed."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    async def drop(self) -> None:
        """Stop at once: cancel waiting commits. Those under way may still make their versions."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])

    async def _version_of(self, waiter: WaitingT) -> Any:
        """Put a commit into the queue; wait for its version, and return it."""
        self._under_way += 1
        try:
            async with self._room:
                self._waiting.append(waiter)
                self._tell()
                if self._worker is None:
                    self._worker = asyncio.create_task(self._work())
                return await waiter.version
        except asyncio.CancelledError as error:
            making = waiter.making
            if making is not None:
                await ended_in_time(making, self._grace_s)
                if waiter.may_be_visible or not making.done():
                    mark_as_open(error)
            raise
        finally:
            self._under_way -= 1

    @abstractmethod
    async def _make(self, group: list[WaitingT], task: asyncio.Task[None]) -> None:
        """Make a version of a group, and set `version` of each of its commits.

        Args:
            group: list of commits; commits that leave the group are removed from it.
            task: the task that makes the version; `keep` notes it as `making` in each commit.
        """

    def _tell(self, _: object = None) -> None:
        """Wake all tasks that wait in `_change`."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def _change(self, timeout_s: float | None = None) -> None:
        """Wait until the queue changes or the timeout passes; a timeout raises no error."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._moved.wait()

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._waiting or self._groups:
                if len(self._waiting) < self._last_group:
                    await asyncio.sleep(min(MAX_LINGER_S, self._last_s / 10))
                group = [] if len(self._groups) == MAX_GROUPS else self._next_group()
                if not group:
                    await self._change_of_any()
                    continue
                begun = clock()
                task = asyncio.create_task(self._commit_group(group))
                self._groups[task] = group
                task.add_done_callback(self._ended)
                while task in self._groups and (remaining_s := begun + STUCK_S - clock()) > 0:
                    await asyncio.wait([task], timeout=remaining_s)
                self._last_group, self._last_s = len(group), clock() - begun
        finally:
            self._worker = None
            tasks = [*self._groups]  # not empty only if this worker was cancelled
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            for waiter in self._waiting:
                waiter.version.cancel()
            self._waiting.clear()

    async def _change_of_any(self) -> None:
        """Wait until the queue changes, if a commit waits or a version is being made."""
        self._waiting = deque(waiter for waiter in self._waiting if not waiter.version.done())
        if self._waiting or self._groups:
            await self._change()

    def _ended(self, task: asyncio.Task[None]) -> None:
        for waiter in self._groups.pop(task):
            waiter.version.cancel()  # only has an effect if the task was cancelled
        self._tell()

    def _next_group(self) -> list[WaitingT]:
        """Remove the commits for the next transaction from the queue, in order of arrival."""
        group: list[WaitingT] = []
        remaining: list[WaitingT] = []
        others = [waiter for group in self._groups.values() for waiter in group]
        for waiter in self._waiting:
            if waiter.version.done():
                continue
            fits = len(group) < self._max_group and waiter.can_go
            fits = fits and all(map(waiter.goes_with, group))
            fits = fits and not any(map(waiter.follows, (*remaining, *others)))
            (group if fits else remaining).append(waiter)
        self._waiting = deque(remaining)
        return group

    async def _commit_group(self, group: list[WaitingT]) -> None:
        """Make a version of a group, and pass an error on to its waiting callers.

        Args:
            group: list of commits, from which commits that leave the group are removed.
        """
        task = asyncio.current_task()
        assert task is not None

        def stop_if_alone(_: object) -> None:
            if all(waiter.version.cancelled() for waiter in group):
                task.cancel()

        for waiter in group:
            waiter.version.add_done_callback(stop_if_alone)
        try:
            await self._make(group, task)
        except BaseException as error:
            for waiter in group:
                waiter.may_be_visible = may_be_visible(error)
                if isinstance(error, Exception):
                    waiter.fail(error if len(group) == 1 else copy.copy(error))
            if not isinstance(error, Exception):
                raise

    def _return(self, waiters: Sequence[WaitingT], group: list[WaitingT]) -> None:
        """Move commits from a group back to the front of the queue."""
        group[:] = [waiter for waiter in group if waiter not in waiters]
        self._waiting.extendleft(reversed(waiters))
        self._tell()
