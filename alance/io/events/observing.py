"""Events and readings of a running service, for observers and for the log `alance.io`.

Observers are called when a request, an attempt, a commit or a step of maintenance ends. A *reading*
is the state of a queue, a cache or a lag at one moment. Readings are collected only when they are
requested, and cost nothing otherwise. Without observers and without a log at DEBUG, an event costs
one comparison.

Requests to remote stores are events, reads of local files are not. Retries inside obstore are part
of one request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakSet

from alance.base.calls import public
from alance.base.records import dataclass
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from alance.errors import StoreError
    from alance.io.events.trace import Kind


_log: Final = logging.getLogger("alance.io")

WARN_EVERY_S: Final = 60.0  # seconds between warnings for the same budget and place
WARNED_PLACES: Final = 1024  # remembered (budget, place) pairs
THROTTLED: Final = frozenset({429, 503})  # HTTP status


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """End of a request to a remote store, with all its attempts.

    Attributes:
        store: URI of the bucket, without credentials.
        path: path of the object or folder inside the bucket.
        kind: kind of the request; each call that sends parts of an upload is one `put`.
        num_requests: number of ranges in the call.
        received_bytes: received bytes of bodies.
        sent_bytes: sent bytes of bodies.
        seconds: time from the beginning to the last byte.
        retries: number of attempts after the first.
        outcome: `ok`, `cancelled`, or the name of an error's class.
        ended_at: Unix time in seconds.
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
    """An attempt has failed with a transient error.

    Attributes:
        store: URI of the bucket.
        status: HTTP status, 429 and 503 mean throttling; None if there was no answer.
        pause_s: seconds until the next attempt; None if the store's budget of retries is spent and
            there is no next attempt.
    """

    store: str
    status: int | None
    pause_s: float | None

    @property
    def is_throttled(self) -> bool:
        """True if the store asked for fewer requests."""
        return self.status in THROTTLED


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """A call that commits a version has ended.

    Attributes:
        uri: URI of the table.
        operation: `Append`, `Update`, ...
        version: number of the new version; None if there is none.
        num_appends: number of callers whose appends share the version.
        seconds: duration, with the uploads that the commit waited for.
        retries: number of attempts lost to other committers.
        outcome: `ok`, `cancelled`, or the name of an error's class: `CommitConflictError`,
            `RetryableConflictError`, `CommitStateUnknownError`, ...
        ended_at: Unix time in seconds.
    """

    uri: str
    operation: str
    version: int | None
    num_appends: int
    seconds: float
    retries: int
    outcome: str
    ended_at: float


@dataclass(frozen=True, slots=True)
class MaintenanceStepEnded:
    """A step of a table's maintenance has ended, in a run of `maintain` or in the background.

    Attributes:
        uri: URI of the table.
        kind: `remap`, `expire`, `compact`, `index` or `cleanup`; see `Dataset.maintain`.
        target: name of the index; None: the table.
        reason: measured value, and the rule that it exceeds.
        num_bytes: estimated bytes that are read and written.
        num_requests: estimated requests to a remote store.
        version: number of the version after the step; None if the step was not done.
        seconds: duration.
        outcome: `ok`, `cancelled`, or the name of an error's class: `RetryableConflictError` if
            other writers changed the same rows, ...
        ended_at: Unix time in seconds.
    """

    uri: str
    kind: str
    target: str | None
    reason: str
    num_bytes: int
    num_requests: int
    version: int | None
    seconds: float
    outcome: str
    ended_at: float


class Observer:
    """Base class of observers: override the methods of the events that you need.

    A method is called in the thread of the event's loop. It must be quick and must not wait. An
    error that it raises is logged and otherwise ignored.
    """

    def on_request(self, event: RequestEnded) -> None:
        """Handle the end of a request to a remote store.

        Args:
            event: the request.
        """

    def on_retry(self, event: RetryDecided) -> None:
        """Handle a failed attempt, whether or not another attempt follows.

        Args:
            event: the attempt.
        """

    def on_commit(self, event: CommitEnded) -> None:
        """Handle the end of a commit.

        Args:
            event: the commit.
        """

    def on_maintenance_step(self, event: MaintenanceStepEnded) -> None:
        """Handle the end of a step of maintenance, whether or not it was done.

        Args:
            event: the step.
        """


class Reading(NamedTuple):
    """A measured value of this moment.

    Attributes:
        name: `requests_waiting`, ...; values whose name ends in `_total` only grow.
        where: the store or table, or `table#index`; empty if the value is of a session.
    """

    name: str
    where: str
    value: float


class Readable(Protocol):
    """Protocol of an object that has readings."""

    def readings(self) -> Iterable[Reading]: ...


_observers: Final[list[Observer]] = []
_readable: Final[WeakSet[Readable]] = WeakSet()
_lock: Final = threading.Lock()
_warned: Final[dict[tuple[str, str], float]] = {}


def is_on() -> bool:
    """Return True if there is an observer, or the log is at DEBUG."""
    return bool(_observers) or _log.isEnabledFor(logging.DEBUG)


@public
def add(observer: Observer) -> None:
    """Call an observer for the events of all sessions of this process, until it is removed.

    Args:
        observer: an instance, not a class.

    Raises:
        InvalidInputError: `observer` is not an instance of `Observer`.
    """
    if not isinstance(observer, Observer):
        raise InvalidInputError(f"observer {observer!r}: expected an instance of observe.Observer")
    if observer not in _observers:
        _observers.append(observer)


@public
def remove(observer: Observer) -> None:
    """Stop calling an observer; without effect if it was not added.

    Args:
        observer: the instance.
    """
    if observer in _observers:
        _observers.remove(observer)


def show(readable: Readable) -> None:
    """Include the readings of an object in `readings()`, as long as the object lives."""
    with _lock:
        _readable.add(readable)


@public
def readings() -> list[Reading]:
    """Return all readings of this process, sorted by name and place.

    Readings with the same name and place are summed, except lags and states of a table: several
    objects may measure the same one, so the largest value is returned.
    """
    with _lock:
        shown = list(_readable)
    values: dict[tuple[str, str], float] = {}
    for readable in shown:
        for name, where, value in readable.readings():
            before = values.get((name, where), 0.0)
            values[name, where] = max(before, value) if _is_state(name) else before + value
    return [Reading(name, where, value) for (name, where), value in sorted(values.items())]


def _is_state(name: str) -> bool:
    is_of_table = name.startswith("maintenance_") and not name.endswith("_total")
    return is_of_table or "lag" in name or "staleness" in name


class RequestUnderWay:
    """A request under way, reported to observers at the end of its block or future.

    with RequestUnderWay("head", store, path) as request:
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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.ended(error)

    def ended(self, error: BaseException | None) -> None:
        """Report the end of the request."""
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
        """Report the request when `call` ends, with `num_bytes` received if it succeeds."""

        def ended(done: asyncio.Future[Any]) -> None:
            self.retries = getattr(done, "retries", 0)
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            self.received = num_bytes if error is None else 0
            self.ended(error)

        call.add_done_callback(ended)


def retry_decided(store: str, failure: StoreError, pause_s: float | None) -> None:
    """Report a failed attempt; `pause_s` is None if the store's retry budget is spent."""
    if pause_s is None:
        warn_rarely("retries", store, "%s: too many requests fail, and are not tried again", store)
    if not is_on():
        return
    event = RetryDecided(store, failure.status, pause_s)
    if pause_s is not None:
        what = "throttled" if event.is_throttled else "failed"
        _log.debug("%s: tried again in %.2f s, %s: %s", store, pause_s, what, failure)
    _tell(lambda observer: observer.on_retry(event))


class MaintenanceStepUnderWay:
    """A step of maintenance under way, reported to observers at the end of its block.

    Args:
        estimates: estimated bytes that are read and written, and estimated requests.

    Attributes:
        version: number of the version after the step; None until there is one.
    """

    __slots__ = ("_begun", "_facts", "version")

    def __init__(
        self, uri: str, kind: str, target: str | None, reason: str, estimates: tuple[int, int]
    ) -> None:
        self._facts = uri, kind, target, reason, *estimates
        self._begun = time.perf_counter()
        self.version: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not is_on():
            return
        seconds = time.perf_counter() - self._begun
        ended = self.version, seconds, _outcome(error), time.time()
        event = MaintenanceStepEnded(*self._facts, *ended)
        _log.debug(
            "maintenance of %s: %s, %s of %s, version %s, %.1f ms",
            event.uri,
            event.outcome,
            event.kind,
            event.target or "the table",
            event.version,
            seconds * 1000,
        )
        _tell(lambda observer: observer.on_maintenance_step(event))


class CommitUnderWay:
    """A commit under way.

    Attributes:
        version: number of the new version; None until there is one.
        retries: number of attempts lost to other committers.
    """

    __slots__ = ("retries", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self.retries = 0


@contextmanager
def commit(uri: str, operation: str, num_appends: int) -> Iterator[CommitUnderWay]:
    """Report a commit at the end of the `with` block that makes the version."""
    event, begun = CommitUnderWay(), time.perf_counter()
    error: BaseException | None = None
    try:
        yield event
    except BaseException as raised:
        error = raised
        raise
    finally:
        if is_on():
            seconds = time.perf_counter() - begun
            facts = uri, operation, event.version, num_appends, seconds, event.retries
            _commit_ended(CommitEnded(*facts, _outcome(error), time.time()))


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
    """Log a warning that a budget limits work, at most once a minute per budget and place."""
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
    for observer in tuple(_observers):  # a copy: observers may add and remove observers
        try:
            call(observer)
        except KeyboardInterrupt:
            raise
        except BaseException:  # also SystemExit and CancelledError, which would stop the caller
            _log.exception("observer %s", type(observer).__qualname__)
