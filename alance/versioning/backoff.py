"""Maximum number of retries of a commit, and the pauses between its attempts."""

from __future__ import annotations

import random
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

# High, because with many committers, each of them is first only now and then.
MAX_RETRIES: Final = 100
RETRIES_WITHOUT_PAUSE: Final = 12  # number of first retries without a pause
PAUSE_GROWTH: Final = 1.3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between the attempts of a commit.

    A retry is only needed if another committer was first, so some commit always succeeds. The
    winner needs two rounds for its next version, a retry needs one. So a few immediate retries are
    fair: commits usually end in the order in which they began. If they do not suffice, there are
    many committers. Then the pause is drawn uniformly between zero and an upper bound, which starts
    at the duration of the last attempt and grows exponentially.

    Attributes:
        limit_s: time limit for all attempts together; no attempt begins after it.
        max_pause_s: longest pause.
    """

    limit_s: float = 60.0
    max_pause_s: float = 1.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, retries: int, attempt_s: float) -> float:
        """Return the number of seconds to wait before the next retry.

        Args:
            retries: number of retries so far.
            attempt_s: duration of the last attempt.
        """
        if retries < RETRIES_WITHOUT_PAUSE:
            return 0.0
        slot = min(max(attempt_s, 0.001), 1.0)
        return self.uniform(
            0.0,
            min(self.max_pause_s, slot * PAUSE_GROWTH ** min(retries - RETRIES_WITHOUT_PAUSE, 99)),
        )
