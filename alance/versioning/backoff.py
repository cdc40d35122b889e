"""Number of attempts of a commit, and the pauses between them."""

from __future__ import annotations

import random
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RETRIES: Final = 100  # high: with many committers, each is first only now and then
RETRIES_WITHOUT_PAUSE: Final = 12  # retries without a pause
GROWTH: Final = 1.3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between the attempts of one commit.

    A retry is needed only because another committer was first, so there is always progress. A
    winner needs two rounds for its next version, but a retry needs one. So a few immediate retries
    are fair: commits mostly end in the order in which they began. After those retries there must be
    many committers: the upper bound of the pause grows from the duration of the last attempt, and
    the pause is drawn uniformly between zero and that bound.

    Attributes:
        limit_s: time limit of all attempts together; no attempt begins after it.
        max_pause_s: longest pause.
    """

    limit_s: float = 60.0
    max_pause_s: float = 1.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, retries: int, attempt_s: float) -> float:
        """Seconds to wait before the next retry.

        Args:
            retries: number of retries so far.
            attempt_s: duration of the last attempt.
        """
        if retries < RETRIES_WITHOUT_PAUSE:
            return 0.0
        slot = min(max(attempt_s, 0.001), 1.0)
        return self.uniform(
            0.0, min(self.max_pause_s, slot * GROWTH ** min(retries - RETRIES_WITHOUT_PAUSE, 99))
        )
