"""How fast a store answers, estimated from the requests that it has answered so far."""

from __future__ import annotations

from typing import Final

SHORT_BYTES: Final = 256 << 10  # a call of so few bytes takes about as long as its first byte
LONG_BYTES: Final = 1 << 20
LATENCY_S: Final = 0.030  # of a store that nothing is known of
BANDWIDTH: Final = 256 << 20  # the same, in bytes a second
MOST_BANDWIDTH: Final = 1 << 30  # about the most that was seen of a store
LEAST_S: Final = 0.005  # the loop may be late by as much
MEMORY: Final = 16  # how many calls it takes to forget a fast one


class Speed:
    """Latency and bandwidth of a store.

    The fastest calls tell: others waited for something here.

    Attributes:
        latency: seconds to the first byte.
        bandwidth: bytes a second, of all requests together.
        landed: bytes received so far.
    """

    def __init__(self) -> None:
        self.latency = LATENCY_S
        self.bandwidth: float = BANDWIDTH
        self.landed = 0
        self._knows_latency = self._knows_bandwidth = False

    def note(self, num_bytes: int, seconds: float, landed_before: int) -> None:
        """A call has ended.

        Args:
            num_bytes: of the call.
            seconds: since it began.
            landed_before: `landed` when it began.
        """
        self.landed += num_bytes
        if num_bytes <= SHORT_BYTES:
            if not self._knows_latency or seconds < self.latency:
                self.latency, self._knows_latency = seconds, True
            else:
                self.latency += (min(seconds, 2 * self.latency) - self.latency) / MEMORY
        elif num_bytes >= LONG_BYTES:
            moved = self.landed - landed_before
            rate = min(MOST_BANDWIDTH, moved / max(LEAST_S, seconds - self.latency))
            if not self._knows_bandwidth or rate > self.bandwidth:
                self.bandwidth, self._knows_bandwidth = rate, True
            else:
                self.bandwidth += (rate - self.bandwidth) / MEMORY
