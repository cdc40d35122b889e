"""Pauses between the attempts of one commit."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between the attempts of one commit.

    The bound of a pause doubles from the time that the last attempt took; the pause is drawn
    evenly between zero and the bound, so that committers that collided once do not so again.

    Attributes:
        limit_s: of all attempts together; none is begun later.
        max_pause_s: no pause is longer.
    """

    limit_s: float = 60.0
    max_pause_s: float = 5.0
    uniform: Callable[[float, float], float] = field(default=random.uniform, compare=False)

    def pause(self, retries: int, attempt_s: float) -> float:
        """Seconds to wait before the retry after `retries` ones."""
        slot = min(max(attempt_s, 0.001), 1.0)
        return self.uniform(0.0, min(self.max_pause_s, slot * 2.0 ** min(retries, 30)))
