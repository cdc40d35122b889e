"""Time limits of requests, and the slowest rate at which a store may send or take bytes.

A request ends within `timeout_s`, plus a second for each `MIN_RATE` bytes that it carries in either
direction. This includes all attempts, pauses and connecting. So two numbers limit small and large
requests, and a server that sends single bytes is treated like a silent one. Each attempt of the
client has a shorter limit, which leaves time for a second attempt.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

# An outage of a minute becomes an error; a store that throttles answers within that time.
TIMEOUT_S: Final = 60.0
CONNECT_S: Final = 5.0  # within it, TCP repeats two lost packets of a handshake
# Bytes per second of one request. A line of 2 MB/s gives this to each of a scan's 32 requests.
MIN_RATE: Final = 64 << 10
SILENCE_S: Final = 5.0  # seconds without a byte from the store after which a request is sent again
ATTEMPT_S: Final = 30.0  # seconds of reading a body after which another request reads the rest
PUT_S: Final = 10.0  # seconds of a PUT, without those for its bytes, until it is sent again

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
        timeout_s: seconds for all attempts of a request without bytes.
        connect_s: seconds for making one connection.
    """

    timeout_s: float = TIMEOUT_S
    connect_s: float = CONNECT_S

    def whole(self, num_bytes: int = 0) -> float:
        """Seconds for all attempts of a request that carries `num_bytes`."""
        return self.timeout_s + num_bytes / MIN_RATE

    def put(self, num_bytes: int) -> float:
        """Seconds for one attempt to write `num_bytes`."""
        return self._share(PUT_S) + num_bytes / MIN_RATE

    def reading(self) -> dict[str, str]:
        """Client options for reads."""
        return self._options(read=self._share(SILENCE_S), attempt=self._share(ATTEMPT_S))

    def writing(self, part_bytes: int) -> dict[str, str]:
        """Client options for writes of up to `part_bytes`.

        The client's read timeout also runs while a body is sent, so both limits are equal.
        """
        attempt = self._share(ATTEMPT_S) + part_bytes / MIN_RATE
        return self._options(read=attempt, attempt=attempt)

    def _share(self, usual_s: float) -> float:
        """Return `usual_s`, or `timeout_s` if that is shorter.

        A `timeout_s` above the default raises the result in proportion. If `timeout_s` is at most
        `usual_s`, no time is left for a second attempt.
        """
        return max(usual_s * self.timeout_s / TIMEOUT_S, min(usual_s, self.timeout_s))

    def _options(self, *, read: float, attempt: float) -> dict[str, str]:
        seconds = {"connect_timeout": self.connect_s, "read_timeout": read, "timeout": attempt}
        return {name: f"{max(1, round(value * 1000))}ms" for name, value in seconds.items()}


class RequestLimit:
    """Time limit of one request, from now on; the request runs in `async with limit.clock`.

    Attributes:
        seconds: the limit.
        clock: context manager that raises TimeoutError when the limit is reached.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = asyncio.get_running_loop().time()
        self.clock = asyncio.timeout_at(self._begun + seconds)

    def become(self, seconds: float) -> None:
        """Change the limit; it counts from the creation of this object."""
        self.seconds = seconds
        self.clock.reschedule(self._begun + seconds)


def outlasted(limit_s: float, last: BaseException | None) -> TimeoutError:
    """Return the error of a request that reached its time limit.

    Args:
        last: failure of the last attempt that ended; None if no attempt has ended.
    """
    cause = "" if last is None else f"; the last attempt that ended said: {last}"
    return TimeoutError(f"no complete answer within {limit_s:.3g} s{cause}")


def seconds_of(value: object) -> float | None:
    """Parse a duration of client options, such as `500ms` or `1m 30s`, to seconds.

    Returns None if the value is not a duration.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    amounts = _CLIENT_DURATION.findall(str(value))
    return sum(int(number) * _UNIT_SECONDS[unit] for number, unit in amounts) if amounts else None
