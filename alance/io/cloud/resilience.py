"""Retry policy: the failures that are retried, the pauses, and the budget of retries.

Pauses are drawn uniformly between zero and an exponential bound (full jitter), so that many clients
that failed at the same time do not retry at the same time. A retry takes a token from a bucket that
successes refill: a single failing request is retried, but a failing store is not flooded.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from alance.base.records import dataclass
from alance.errors import StoreError
from alance.io.events import observing, trace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@dataclass(slots=True)
class RetryBudget:
    """A token bucket: each retry takes a token.

    Used from several threads without a lock: a token lost in a race does no harm.
    """

    capacity: float = 20.0  # enough for a burst of resets, as when a server restarts
    per_success: float = 0.1  # in the long run, a tenth of the requests may be retries
    per_second: float = 0.5  # so that a process that was idle after an outage can retry
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _filled: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = self.capacity
        self._filled = self.clock()

    @property
    def tokens(self) -> float:
        """Number of tokens now, including those gained since the last call."""
        now = self.clock()
        grown = self._tokens + (now - self._filled) * self.per_second
        self._tokens, self._filled = min(self.capacity, grown), now
        return self._tokens

    def succeeded(self) -> None:
        """Add `per_success` tokens for a successful request."""
        if self._tokens < self.capacity:
            self._tokens = min(self.capacity, self._tokens + self.per_success)

    def spend(self) -> bool:
        """Take a token; return False if there is none."""
        if self.tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class Retries:
    """The retry policy of one store.

    obstore first retries each request and resumes broken bodies. These retries follow when obstore
    gives up.
    """

    max_retries: int = 3
    first_pause_s: float = 0.1
    max_pause_s: float = 5.0
    budget: RetryBudget = field(default_factory=RetryBudget)
    uniform: Callable[[float, float], float] = random.uniform
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    store: str = ""  # its URI, for messages

    def pause(self, failure: BaseException, retries: int) -> float | None:
        """Take a token for a retry, and return the seconds to wait before the retry.

        Returns None if there is no retry: the failure is not transient, `max_retries` is reached,
        or the budget is empty.

        Args:
            failure: the translated failure of the last attempt.
            retries: number of attempts after the first.
        """
        if not isinstance(failure, StoreError) or not failure.retryable:
            return None
        if retries >= self.max_retries:
            return None
        pause = None
        if self.budget.spend():
            pause = self.uniform(0.0, min(self.max_pause_s, self.first_pause_s * 2.0**retries))
        observing.retry_decided(self.store, failure, pause)
        return pause

    def succeeded(self) -> None:
        """Report a successful request to the retry budget."""
        self.budget.succeeded()

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        translate: Callable[[BaseException], Exception],
    ) -> T:
        """Await `attempt()`, again after each transient failure while retries are left.

        Raises:
            Exception: the last failure, translated.
        """
        retries = 0
        while True:
            try:
                result = await attempt()
            except Exception as error:
                failure = translate(error)
            else:
                self.succeeded()
                return result
            pause = self.pause(failure, retries)
            if pause is None:
                raise failure from failure.__cause__
            retries += 1
            trace.note_retry()
            await self.sleep(pause)
