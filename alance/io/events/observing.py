"""What happens while a service runs: told to observers, and to the log `alance.io`.

Observers are called when an event ends: a request, a retry, a commit. A *reading* is the state of a
queue, a cache or a lag at one moment. Readings are collected only when somebody looks, so they cost
nothing otherwise. Without observers, and if the log is not at DEBUG, an event costs a comparison.

Only requests to remote stores count, not reads of local files. What obstore retries by itself is
part of one request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakSet

from alance.errors import InvalidInputError
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from alance.errors import StoreError
    from alance.io.events.trace import Kind


_log: Final = logging.getLogger("alance.io")

WARN_EVERY_S: Final = 60.0  # of one budget at one place
WARNED_PLACES: Final = 1024
THROTTLED: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request to a remote store has ended, with all its attempts.

    Attributes:
        store: URI of the bucket, without credentials.
        path: of the object or folder inside it.
        kind: what was asked; the parts of an upload are one `put` each time some are handed over.
        num_requests: ranges that went as one call.
        received_bytes, sent_bytes: of bodies.
        seconds: from its beginning to the last byte.
        retries: attempts after the first.
        outcome: `ok`, `cancelled`, or the name of an error's class.
        ended_at: Unix time, seconds.
    """

    store: str
    path: str
    kind: Kind
    num_requests: int
    received_bytes: int
    sent_bytes: int
    seconds: float
    retries: int
    outcome: str
    ended_at: float


@dataclass(frozen=True, slots=True)
class RetryDecided:
    """An attempt has failed for the time being.

    Attributes:
        store: URI of the bucket.
        status: of the HTTP answer, where there was one; 429 and 503 are throttling.
        pause_s: seconds until the next attempt; None: there is none, since the store's budget of
            retries is spent.
    """

    store: str
    status: int | None
    pause_s: float | None

    @property
    def is_throttled(self) -> bool:
        """Whether the store asks for fewer requests."""
        return self.status in THROTTLED


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """An attempt to make a version has ended.

    Attributes:
        uri: of the table.
        operation: `Append`, `Update`, ...
        version: that was made; None: none.
        num_appends: of callers that share the version.
        seconds: with uploads that it waited for.
        retries: attempts lost to other committers.
        outcome: `ok`, `cancelled`, or the name of an error's class: `CommitConflictError`,
            `RetryableConflictError`, `CommitStateUnknownError`, ...
        ended_at: Unix time, seconds.
    """

    uri: str
    operation: str
    version: int | None
    num_appends: int
    seconds: float
    retries: int
    outcome: str
    ended_at: float


class Observer:
    """What is told of events, in the thread of the loop where they happen; override what you need.

    A method has to be quick, and may not wait. What it raises is logged, and changes nothing.
    """

    def on_request(self, event: RequestEnded) -> None:
        """Handle the end of a request to a remote store.

        Args:
            event: the request.
        """

    def on_retry(self, event: RetryDecided) -> None:
        """Handle a failed attempt, which is tried again or not.

        Args:
            event: the attempt.
        """

    def on_commit(self, event: CommitEnded) -> None:
        """Handle the end of a commit.

        Args:
            event: the commit.
        """


class Reading(NamedTuple):
    """A number that is so at this moment.

    Attributes:
        name: `requests_waiting`, ...; those that end in `_total` only grow.
        where: the store or table; "" where it is of a session.
    """

    name: str
    where: str
    value: float


class Readable(Protocol):
    """What has readings."""

    def readings(self) -> Iterable[Reading]: ...


_observers: Final[list[Observer]] = []
_readable: Final[WeakSet[Readable]] = WeakSet()
_lock: Final = threading.Lock()
_warned: Final[dict[tuple[str, str], float]] = {}


def is_on() -> bool:
    """Whether anybody wants to know."""
    return bool(_observers) or _log.isEnabledFor(logging.DEBUG)


def add(observer: Observer) -> None:
    """Call an observer for the events of all sessions of this process, until it is removed.

    Args:
        observer: an instance, not a class.

    Raises:
        InvalidInputError: something else.
    """
    if not isinstance(observer, Observer):
        raise InvalidInputError(f"observer {observer!r}: expected an instance of observe.Observer")
    if observer not in _observers:
        _observers.append(observer)


def remove(observer: Observer) -> None:
    """Stop calling an observer; without effect if it was not added.

    Args:
        observer: the instance.
    """
    if observer in _observers:
        _observers.remove(observer)


def show(readable: Readable) -> None:
    """Have something asked for its readings, as long as it lives."""
    with _lock:
        _readable.add(readable)


def readings() -> list[Reading]:
    """All readings of this process; those of one name and place are added up, lags the largest."""
    with _lock:
        shown = list(_readable)
    values: dict[tuple[str, str], float] = {}
    for readable in shown:
        for name, where, value in readable.readings():
            before = values.get((name, where), 0.0)
            values[name, where] = max(before, value) if "lag" in name else before + value
    return [Reading(name, where, value) for (name, where), value in sorted(values.items())]


class Request:
    """A request under way, of which something is told when it ends: behind a block, or a future.

    with Request("head", store, path) as request:
        ...
        request.received = 12
    """

    __slots__ = (
        "_begun", "_kind", "_num_requests", "_path", "_store", "received", "retries", "sent",
    )  # fmt: skip

    def __init__(self, kind: Kind, store: str, path: str, num_requests: int = 1) -> None:
        self._kind: Kind = kind
        self._store = store
        self._path = path
        self._num_requests = num_requests
        self._begun = time.perf_counter()
        self.received = self.sent = self.retries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended(error)

    def ended(self, error: BaseException | None) -> None:
        """Tell of it."""
        if not is_on():
            return
        event = RequestEnded(
            self._store,
            self._path,
            self._kind,
            self._num_requests,
            self.received,
            self.sent,
            time.perf_counter() - self._begun,
            self.retries,
            _outcome(error),
            time.time(),
        )
        _log.debug(
            "%s %s%s: %s, %d requests, %d bytes received, %d sent, %.1f ms, %d retries",
            event.kind,
            event.store,
            event.path,
            event.outcome,
            event.num_requests,
            event.received_bytes,
            event.sent_bytes,
            event.seconds * 1000,
            event.retries,
        )
        _tell(lambda observer: observer.on_request(event))

    def watch(self, call: asyncio.Future[Any], num_bytes: int) -> None:
        """Tell of it when a future ends, which is its outcome; of so many bytes if it succeeds."""

        def ended(done: asyncio.Future[Any]) -> None:
            self.retries = getattr(done, "retries", 0)
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            self.received = num_bytes if error is None else 0
            self.ended(error)

        call.add_done_callback(ended)


def retry_decided(store: str, failure: StoreError, pause_s: float | None) -> None:
    """A failed attempt is tried again, or not since the budget of the store's retries is spent."""
    if pause_s is None:
        warn_rarely("retries", store, "%s: too many requests fail, and are not tried again", store)
    if not is_on():
        return
    event = RetryDecided(store, failure.status, pause_s)
    if pause_s is not None:
        what = "throttled" if event.is_throttled else "failed"
        _log.debug("%s: tried again in %.2f s, %s: %s", store, pause_s, what, failure)
    _tell(lambda observer: observer.on_retry(event))


class Commit:
    """A commit under way.

    Attributes:
        version: that it made.
        retries: attempts lost to others.
    """

    __slots__ = ("retries", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self.retries = 0


@contextmanager
def commit(uri: str, operation: str, num_appends: int) -> Iterator[Commit]:
    """A version of a table is made in this block."""
    event, begun = Commit(), time.perf_counter()
    error: BaseException | None = None
    try:
        yield event
    except BaseException as raised:
        error = raised
        raise
    finally:
        if is_on():
            seconds = time.perf_counter() - begun
            told = uri, operation, event.version, num_appends, seconds, event.retries
            _commit_ended(CommitEnded(*told, _outcome(error), time.time()))


def _commit_ended(event: CommitEnded) -> None:
    _log.debug(
        "commit to %s: %s, version %s, %s of %d, %.1f ms, %d retries",
        event.uri,
        event.outcome,
        event.version,
        event.operation,
        event.num_appends,
        event.seconds * 1000,
        event.retries,
    )
    _tell(lambda observer: observer.on_commit(event))


def warn_rarely(budget: str, where: str, message: str, *arguments: object) -> None:
    """Tell the log that a budget bounds what is done: once a minute for one place."""
    now = time.monotonic()
    last = _warned.get((budget, where))
    if last is not None and now - last < WARN_EVERY_S:
        return
    if len(_warned) >= WARNED_PLACES:
        _warned.clear()
    _warned[budget, where] = now
    _log.warning(message, *arguments)


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _tell(call: Callable[[Observer], None]) -> None:
    for observer in tuple(_observers):  # which may remove themselves, and add others
        try:
            call(observer)
        except KeyboardInterrupt:
            raise
        except BaseException:  # also one that would end the loop, or seem to cancel the caller
            _log.exception("observer %s", type(observer).__qualname__)
