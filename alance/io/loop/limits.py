"""How long a request may take, and how slow a store may be.

A request ends within `timeout_s`, plus a second for each `MIN_RATE` bytes that it carries in
either direction. This includes all attempts, pauses and connecting. So two numbers bound small and
large requests, and a server that sends single bytes is treated like a silent one. The client gets
shorter limits for one attempt, which leave time for another.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = (
    60.0  # an outage of a minute is told; a store that throttles has answered by then
)
CONNECT_S: Final = 5.0  # two lost packets of the beginning are sent again within it
# Bytes a second of one request. A line of 2 MB/s gives 32 scans' requests at once as much each.
MIN_RATE: Final = 64 << 10
SILENCE_S: Final = 5.0  # a store that has not sent a byte for so long is asked again
ATTEMPT_S: Final = 30.0  # a body that took so long goes on in another request
PUT_S: Final = 10.0  # of a PUT, besides its bytes, before it is sent again

_UNIT_SECONDS: Final[Mapping[str, float]] = {
    "ms": 0.001,
    "milli": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_CLIENT_DURATION: Final = re.compile(r"(\d+)\s*(ms|milli|s|m|h)[a-z]*")


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits of the requests to a store.

    Attributes:
        timeout_s: of a request without bytes, with all its attempts.
        connect_s: of making one connection.
    """

    timeout_s: float = TIMEOUT_S
    connect_s: float = CONNECT_S

    def whole(self, num_bytes: int = 0) -> float:
        """Seconds of a request with all its attempts."""
        return self.timeout_s + num_bytes / MIN_RATE

    def put(self, num_bytes: int) -> float:
        """Seconds of one attempt to write so many bytes."""
        return self._share(PUT_S) + num_bytes / MIN_RATE

    def reading(self) -> dict[str, str]:
        """Client options for reads."""
        return self._options(read=self._share(SILENCE_S), attempt=self._share(ATTEMPT_S))

    def writing(self, part_bytes: int) -> dict[str, str]:
        """Client options for writes of up to so many bytes.

        The client's limit of reads counts the sending of a body as silence.
        """
        attempt = self._share(ATTEMPT_S) + part_bytes / MIN_RATE
        return self._options(read=attempt, attempt=attempt)

    def _share(self, usual_s: float) -> float:
        """A part of the whole time; small limits leave no time for a second attempt."""
        return max(usual_s * self.timeout_s / TIMEOUT_S, min(usual_s, self.timeout_s))

    def _options(self, *, read: float, attempt: float) -> dict[str, str]:
        seconds = {"connect_timeout": self.connect_s, "read_timeout": read, "timeout": attempt}
        return {name: f"{max(1, round(value * 1000))}ms" for name, value in seconds.items()}


class Limit:
    """The time of one request, from now on; its work is the block `async with limit.clock`.

    Attributes:
        seconds: that it may take.
        clock: raises TimeoutError when they are over.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = asyncio.get_running_loop().time()
        self.clock = asyncio.timeout_at(self._begun + seconds)

    def become(self, seconds: float) -> None:
        """Change the time, counted from the beginning."""
        self.seconds = seconds
        self.clock.reschedule(self._begun + seconds)


def outlasted(limit_s: float, last: BaseException | None) -> TimeoutError:
    """What a request ends with whose time is over.

    Args:
        last: why the attempt before the last one failed, if one did.
    """
    told = "" if last is None else f"; the last attempt that ended said: {last}"
    return TimeoutError(f"no complete answer within {limit_s:.3g} s{told}")


def seconds_of(value: object) -> float | None:
    """The seconds of a duration as client options have it: `500ms`, `1m 30s`; None: it is none."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    amounts = _CLIENT_DURATION.findall(str(value))
    return sum(int(number) * _UNIT_SECONDS[unit] for number, unit in amounts) if amounts else None
