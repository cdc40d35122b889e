"""Retries: which failures are tried again, when, and how many at most.

Pauses are drawn evenly between zero and an exponential bound (full jitter), so that many clients
that failed together do not return together. Retries are paid from a budget that successes fill:
one failing request is tried again, a failing store is not flooded.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from alance.errors import StoreError
from alance.io.events import observing, trace
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@dataclass(slots=True)
class RetryBudget:
    """A bucket of tokens; a retry takes one.

    Several threads may use it at once: a token lost to a race between them does no harm.
    """

    capacity: float = 20.0  # a burst of resets (a server restarts) is survived
    per_success: float = 0.1  # in the long run a tenth of the requests may be retries
    per_second: float = 0.5  # a process that was idle after an outage may try again
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _filled: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = self.capacity
        self._filled = self.clock()

    @property
    def tokens(self) -> float:
        """Tokens at this moment."""
        now = self.clock()
        grown = self._tokens + (now - self._filled) * self.per_second
        self._tokens, self._filled = min(self.capacity, grown), now
        return self._tokens

    def succeeded(self) -> None:
        """Count a success."""
        if self._tokens < self.capacity:
            self._tokens = min(self.capacity, self._tokens + self.per_success)

    def spend(self) -> bool:
        """Take a token; False where there is none."""
        if self.tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class Retries:
    """The rule of one store.

    obstore retries each request by itself first and resumes broken bodies; these come on top,
    for what outlives it.
    """

    max_retries: int = 3
    first_pause_s: float = 0.1
    max_pause_s: float = 5.0
    budget: RetryBudget = field(default_factory=RetryBudget)
    uniform: Callable[[float, float], float] = random.uniform
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    store: str = ""  # its URI, for messages

    def pause(self, failure: BaseException, retries: int) -> float | None:
        """Seconds to wait before the next attempt, paid for; None: give up.

        Args:
            failure: why the attempt failed, translated.
            retries: attempts made after the first one.
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
        """Count a success."""
        self.budget.succeeded()

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        translate: Callable[[BaseException], Exception],
    ) -> T:
        """Await `attempt()` until it succeeds or fails for good.

        Raises:
            Exception: the last failure, as `translate` gives it.
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
