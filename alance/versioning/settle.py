"""Outcome of a conditional PUT whose answer leaves it open.

The answer "exists" may mean our own object, if an earlier answer was lost or the client sent the
PUT twice. S3 also answers "exists" while another PUT is pending and nothing has been written. A PUT
without an answer may have taken effect, or may do so later. So after any answer but success, the
object is read back: it is ours, another committer's, or absent. If it is absent, it is put again.
That is safe because each PUT is conditional: only one PUT of a name takes effect.

For the same reason, a second PUT may be sent while one is unanswered. So a dead connection costs
`quiet_s` seconds, not the client's timeout.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import (
    AccessError,
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from alance.io.loop.futures import seen
from alance.versioning.outcome import mark_as_uncommitted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SLOW_BYTES_S: Final = 100_000.0
MOST_PUTS: Final = 3  # maximum concurrent puts of an object

# Status codes (besides 5xx) after which a put may still take effect: timeouts, conflicts, failed
# conditions, throttling.
_OPEN_STATUS: Final = frozenset({408, 409, 412, 425, 429})


_ANSWERS: Final = (AlreadyExistsError, StoreError, UnsupportedError, InvalidInputError)


class Settled(Enum):
    """Writer of the object at the path of a put: this process, or another."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits and pauses for finding out the outcome of a put.

    Attributes:
        limit_s: time after the first put at which the outcome counts as unknown.
        quiet_s: maximum wait for the answer to a put before the object is read back.
        first_pause_s: upper bound of the first pause; it doubles up to `max_pause_s`. Pauses are
            drawn uniformly between zero and the bound.
    """

    limit_s: float = 30.0
    first_pause_s: float = 0.05
    max_pause_s: float = 2.0
    quiet_s: float = 2.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, number: int) -> float:
        """Return the number of seconds to wait after `number + 1` failed attempts."""
        return self.uniform(0.0, min(self.max_pause_s, self.first_pause_s * 2.0 ** min(number, 30)))

    def for_bytes(self, num_bytes: int) -> Patience:
        """Return these limits plus the time to upload `num_bytes` over a slow connection."""
        more_s = num_bytes / SLOW_BYTES_S
        return replace(self, limit_s=self.limit_s + more_s, quiet_s=self.quiet_s + more_s)


async def put_settled(
    put: Callable[[], Awaitable[object]],
    whose: Callable[[], Awaitable[Settled]],
    what: str,
    patience: Patience,
    *,
    at_once: bool = False,
) -> Settled:
    """Put an object if it is absent, and return the owner of the object that exists.

    After a cancellation, the object may exist, not exist, or appear later; call `whose` or repeat
    the put to find out. With `at_once`, the cancelled call itself checks the object, and marks the
    error if nothing was written (see `outcome.is_uncommitted`).

    Args:
        put: sends a conditional put.
        whose: reads the object back; raises `NotFoundError` if it is absent.
        what: description of the object, for error messages.
        at_once: True if a failed put cannot take effect later (local files, memory).

    Raises:
        StoreError, UnsupportedError, InvalidInputError: the store refused the put; nothing was
            written.
        CommitStateUnknownError: the outcome is still unknown after `patience.limit_s`.
    """
    try:
        return await _settled(put, whose, what, patience, at_once=at_once)
    except asyncio.CancelledError as error:
        if at_once and not await _is_ours(whose):
            mark_as_uncommitted(error)
        raise


async def _is_ours(whose: Callable[[], Awaitable[Settled]]) -> bool:
    try:
        return await whose() is Settled.OURS
    except NotFoundError:
        return False


async def _settled(
    put: Callable[[], Awaitable[object]],
    whose: Callable[[], Awaitable[Settled]],
    what: str,
    patience: Patience,
    *,
    at_once: bool,
) -> Settled:
    """Repeat the put until it is known whose object exists; see `put_settled`.

    When this returns, no local put is running.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + patience.limit_s
    attempts = 0
    async with _Puts(put, math.inf if at_once else patience.quiet_s) as puts:
        while True:
            failure = await puts.next_failure()
            if failure is None:
                return Settled.OURS
            attempts += 1
            state = "it is not there, and a put may still be under way"
            try:
                until = max(deadline, clock() + patience.quiet_s)
                async with asyncio.timeout_at(None if until == math.inf else until):
                    return await whose()
            except NotFoundError:
                lost = isinstance(failure, AlreadyExistsError)
                is_last = not puts.under_way
                if is_last and (is_refusal(failure) or (at_once and not lost)):
                    raise failure from failure.__cause__
            except StoreError as error:
                state = f"it cannot be read back: {error}"
            except TimeoutError:
                state = "it cannot be read back: no answer"
            pause = patience.pause(attempts - 1)
            if clock() + pause > deadline:
                raise CommitStateUnknownError(
                    f"{what}: whether it was written could not be found out in "
                    f"{patience.limit_s:g} s and {attempts} attempts; {state}; the last put said: "
                    f"{failure}"
                ) from failure
            await asyncio.sleep(pause)


class _Puts:
    """Conditional puts of an object; a new put may begin while earlier puts are unanswered.

    Args:
        quiet_s: seconds without an answer after which another put may begin; infinite to send one
            put at a time.
    """

    def __init__(self, put: Callable[[], Awaitable[object]], quiet_s: float) -> None:
        self._put = put
        self._quiet_s = quiet_s
        self.under_way: set[asyncio.Future[object]] = set()

    async def __aenter__(self) -> _Puts:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel unanswered puts, but wait for a local put that has started."""
        while self.under_way:
            for put in self.under_way:
                put.cancel()
            with suppress(asyncio.CancelledError):
                ended, self.under_way = await asyncio.wait(self.under_way)
                for put in ended:
                    seen(put)

    async def next_failure(self) -> Exception | None:
        """Send another put, and return a failure that leaves open who owns the object.

        No answer within `quiet_s` is such a failure, too. Other failures are raised. Returns None
        if a put succeeded.
        """
        if self._quiet_s == math.inf:  # send one put at a time
            try:
                await self._put()
            except _ANSWERS as answer:
                return answer
            return None
        if len(self.under_way) < MOST_PUTS:
            self.under_way.add(asyncio.ensure_future(self._put()))
        ended, self.under_way = await asyncio.wait(
            self.under_way, timeout=self._quiet_s, return_when=asyncio.FIRST_COMPLETED
        )
        failure: Exception | None = None
        for put in ended:
            refusal = put.exception()
            if refusal is None:
                return None
            if not isinstance(refusal, _ANSWERS):
                raise refusal
            failure = refusal
        return failure or StoreError(f"no answer in {self._quiet_s:g} s", retryable=True)


def is_refusal(failure: Exception) -> bool:
    """True if a put that failed with this error has not written, and will not write later."""
    if isinstance(failure, (AccessError, UnsupportedError, InvalidInputError)):
        return True
    if not isinstance(failure, StoreError) or failure.retryable:
        return False
    status = failure.status
    return status is not None and 400 <= status < 500 and status not in _OPEN_STATUS
