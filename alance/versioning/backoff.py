"""How often a commit is tried again, and the pauses between its attempts."""

from __future__ import annotations

import random
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RETRIES: Final = 100  # where many commit, each is first now and then
FEW: Final = 12  # retries without a pause
GROWTH: Final = 1.3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between the attempts of one commit.

    Each retry is one because another committer was first, so that somebody always gets on; and
    who has just made a version needs two rounds for the next one, but a retry only one. A few
    retries at once are therefore fair, and what was begun first ends first, mostly. After them
    there are many committers: the bound of a pause grows from the time that the last attempt took,
    and the pause is drawn evenly between zero and the bound.

    Attributes:
        limit_s: of all attempts together; none is begun later.
        max_pause_s: no pause is longer.
    """

    limit_s: float = 60.0
    max_pause_s: float = 1.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, retries: int, attempt_s: float) -> float:
        """Seconds to wait before the retry after `retries` ones."""
        if retries < FEW:
            return 0.0
        slot = min(max(attempt_s, 0.001), 1.0)
        return self.uniform(0.0, min(self.max_pause_s, slot * GROWTH ** min(retries - FEW, 99)))
