"""Latency and bandwidth of a store, estimated from its answers so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from alance.io.stores.store import Store

SHORT_BYTES: Final = 256 << 10  # calls up to this size measure latency: the first byte dominates
LONG_BYTES: Final = 1 << 20  # calls of this size and more measure bandwidth
LATENCY_S: Final = 0.030  # seconds, assumed for an unknown store
BANDWIDTH: Final = 256 << 20  # bytes per second, assumed for an unknown store
MAX_BANDWIDTH: Final = 1 << 30  # bytes per second, about the maximum ever measured for a store
MIN_TRANSFER_S: Final = 0.005  # seconds; the loop may notice an answer this much later
FORGET_CALLS: Final = 16  # calls after which a fast call is forgotten
BURST_BYTES: Final = 4 << 20  # smaller bursts end too soon to measure bandwidth
LARGE_REQUEST_BYTES: Final = 64 << 10  # in larger requests, transfer takes most of the time
# Cost of one more request: 0.1 ms of processor time, its share of the latency of concurrent
# requests, and a bill. A lower value would send more requests to fast stores.
REQUEST_S: Final = 0.0004
MIN_GAP_BYTES: Final = 16 << 10  # lower bound of a gap; narrower gaps are many and save few bytes


class Speed:
    """Best latency and bandwidth of a store, from its fastest calls.

    Slower calls had to wait for something in this process.

    Attributes:
        latency: seconds to the first byte.
        bandwidth: bytes per second of all requests together.
        landed: bytes received so far.
    """

    def __init__(self) -> None:
        self.latency = LATENCY_S
        self.bandwidth: float = BANDWIDTH
        self.landed = 0
        self._knows_latency = self._knows_bandwidth = False

    def note(self, num_bytes: int, seconds: float, landed_before: int) -> None:
        """Update the estimates after a call.

        Args:
            num_bytes: bytes received by the call.
            seconds: duration of the call.
            landed_before: `landed` when the call began.
        """
        self.landed += num_bytes
        if num_bytes <= SHORT_BYTES:
            if not self._knows_latency or seconds < self.latency:
                self.latency, self._knows_latency = seconds, True
            else:
                self.latency += (min(seconds, 2 * self.latency) - self.latency) / FORGET_CALLS
        elif num_bytes >= LONG_BYTES:
            moved = self.landed - landed_before
            rate = min(MAX_BANDWIDTH, moved / max(MIN_TRANSFER_S, seconds - self.latency))
            if not self._knows_bandwidth or rate > self.bandwidth:
                self.bandwidth, self._knows_bandwidth = rate, True
            else:
                self.bandwidth += (rate - self.bandwidth) / FORGET_CALLS


class Burst:
    """Requests to a store, from the first request until none is waiting or under way.

    A burst measures bandwidth if takes sent all its requests before the first answer: then the
    store alone determined the time. The requests of a scan wait for its consumer.

    Attributes:
        begun: time of the first request.
        ended: time of the last answer; equal to `begun` until the first answer.
        num_requests: number of answered requests.
        num_bytes: received bytes.
        tells: True if the burst measures bandwidth.
    """

    __slots__ = ("begun", "ended", "num_bytes", "num_requests", "tells")

    def __init__(self, begun: float) -> None:
        self.begun = self.ended = begun
        self.num_requests = self.num_bytes = 0
        self.tells = True

    def ask(self, *, is_take: bool) -> None:
        """Add a request that has no answer yet."""
        if not is_take or self.num_requests:
            self.tells = False

    def land(self, num_requests: int, num_bytes: int, now: float, *, retries: int = 0) -> None:
        """Add the answers to some requests, which took `retries` failed attempts as well."""
        self.tells = self.tells and not retries
        self.num_requests += num_requests
        self.num_bytes += num_bytes
        self.ended = now


class Rate:
    """Sustained bandwidth of a store, measured in bursts; it sets the gaps that reads include.

    `Speed` has the best values of recent calls; this class has what the store sustains.

    Attributes:
        bandwidth: bytes per second; 0 if unknown.
    """

    def __init__(self) -> None:
        self.bandwidth = 0.0

    def note(self, burst: Burst, latency_s: float) -> None:
        """Update the bandwidth after a burst.

        The store is at least as fast as the burst. If the requests were small, it may be faster,
        because latency may have taken most of the time; then the estimate can only grow.

        Args:
            latency_s: approximate latency of the store.
        """
        if not burst.tells or burst.num_bytes < BURST_BYTES:
            return
        seen = burst.num_bytes / max(MIN_TRANSFER_S, burst.ended - burst.begun - latency_s)
        if seen > self.bandwidth > 0:
            self.bandwidth = seen
        elif burst.num_bytes >= LARGE_REQUEST_BYTES * burst.num_requests:
            self.bandwidth = (seen + (self.bandwidth or seen)) / 2

    def gap(self, most: int) -> int:
        """Return the unneeded bytes that cost as much time as a request, at most `most`."""
        if not self.bandwidth:
            return most
        return min(most, max(MIN_GAP_BYTES, int(REQUEST_S * self.bandwidth)))


_RATES: Final[WeakKeyDictionary[Store, Rate]] = WeakKeyDictionary()


def rate_of(store: Store) -> Rate:
    """Return the rate of a store, which all sessions that use the store share."""
    return _RATES.setdefault(store, Rate())
