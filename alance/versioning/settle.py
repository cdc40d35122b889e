"""Conditional puts whose outcome is known.

A put-if-absent that says `exists` may be our own whose answer was lost, or one that the client
sent twice; S3 answers so, too, while another put is under way and nothing is written yet. One that
says nothing may have landed, or may land later. So whatever is not a plain success is settled by
reading the object back: ours, another's, or not there. What is not there is put again, which is
safe, since the put stays conditional: of all that were sent for this name, one takes effect.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from alance.errors import (
    AccessError,
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Answers to a put that may yet be followed by another one: those of servers in trouble, and those
# that a condition may cause.
_OPEN_STATUS: Final = frozenset({408, 409, 412, 425, 429})


class Settled(Enum):
    """Whose object has the name."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, and with which pauses, the outcome of a put is looked for.

    Attributes:
        limit_s: from the first put until the outcome is given up.
        first_pause_s: bound of the first pause; it doubles up to `max_pause_s`. Pauses are drawn
            evenly between zero and the bound.
    """

    limit_s: float = 30.0
    first_pause_s: float = 0.05
    max_pause_s: float = 2.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, number: int) -> float:
        """Seconds before the attempt that follows `number` failed ones."""
        return self.uniform(0.0, min(self.max_pause_s, self.first_pause_s * 2.0 ** min(number, 30)))


async def put_settled(
    put: Callable[[], Awaitable[object]],
    whose: Callable[[], Awaitable[Settled]],
    what: str,
    patience: Patience,
    *,
    at_once: bool = False,
) -> Settled:
    """Put an object if it is absent, and tell whose object is there.

    A call that is cancelled has put the object, has not, or the put is still under way: asking
    `whose` later, or the same put once more, tells.

    Args:
        put: one conditional put.
        whose: reads the object back; raises NotFoundError where it is absent.
        what: the object, for messages.
        at_once: a put that has failed is over (local files, memory): nothing lands later.

    Raises:
        StoreError, UnsupportedError, InvalidInputError: the store refused, nothing is there.
        CommitStateUnknownError: the outcome could not be found out within `patience.limit_s`.
    """
    deadline = asyncio.get_running_loop().time() + patience.limit_s
    attempts = 0
    while True:
        try:
            await put()
        except (AlreadyExistsError, StoreError, UnsupportedError, InvalidInputError) as error:
            failure: Exception = error
        else:
            return Settled.OURS
        attempts += 1
        try:
            return await whose()
        except NotFoundError:
            lost = isinstance(failure, AlreadyExistsError)
            if is_refusal(failure) or (at_once and not lost):
                raise failure from failure.__cause__
            state = "it is not there, and a put may still be under way"
        except StoreError as error:
            state = f"it cannot be read back: {error}"
        pause = patience.pause(attempts - 1)
        if asyncio.get_running_loop().time() + pause > deadline:
            raise CommitStateUnknownError(
                f"{what}: whether it was written could not be found out in {patience.limit_s:g} s "
                f"and {attempts} attempts; {state}; the last put said: {failure}"
            ) from failure
        await asyncio.sleep(pause)


def is_refusal(failure: Exception) -> bool:
    """Whether a put that failed so has not written and will not."""
    if isinstance(failure, (AccessError, UnsupportedError, InvalidInputError)):
        return True
    if not isinstance(failure, StoreError) or failure.retryable:
        return False
    status = failure.status
    return status is not None and 400 <= status < 500 and status not in _OPEN_STATUS
