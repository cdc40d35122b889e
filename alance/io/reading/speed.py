"""How fast a store answers, estimated from the requests that it has answered so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from alance.io.stores.store import Store

SHORT_BYTES: Final = 256 << 10  # a call of so few bytes takes about as long as its first byte
LONG_BYTES: Final = 1 << 20
LATENCY_S: Final = 0.030  # of a store that nothing is known of
BANDWIDTH: Final = 256 << 20  # the same, in bytes a second
MAX_BANDWIDTH: Final = 1 << 30  # about the most that was seen of a store
MIN_TRANSFER_S: Final = 0.005  # the loop may be late by as much
FORGET_CALLS: Final = 16  # how many calls it takes to forget a fast one
BURST_BYTES: Final = 4 << 20  # fewer are there too soon to tell
LARGE_REQUEST_BYTES: Final = 64 << 10  # of a request: then it is the bytes that take the time
# What one more request of many costs: 0.1 ms of processor time, its share of the latency of those
# that are under way at once, and a bill. With less, fast stores would get more requests.
REQUEST_S: Final = 0.0004
MIN_GAP_BYTES: Final = (
    16 << 10
)  # narrower ones would be many: they cost requests and save few bytes


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
                self.latency += (min(seconds, 2 * self.latency) - self.latency) / FORGET_CALLS
        elif num_bytes >= LONG_BYTES:
            moved = self.landed - landed_before
            rate = min(MAX_BANDWIDTH, moved / max(MIN_TRANSFER_S, seconds - self.latency))
            if not self._knows_bandwidth or rate > self.bandwidth:
                self.bandwidth, self._knows_bandwidth = rate, True
            else:
                self.bandwidth += (rate - self.bandwidth) / FORGET_CALLS


class Burst:
    """Requests to a store, from the first one until none is waiting or under way.

    It tells of the bandwidth if takes asked for all of them before the first answer came: then
    nothing but the store was waited for. A scan asks when its consumer has room.

    Attributes:
        begun: when the first was asked for.
        ended: when the last answer came; before the first one as `begun`.
        num_requests: that were answered.
        num_bytes: received.
        tells: of the bandwidth.
    """

    __slots__ = ("begun", "ended", "num_bytes", "num_requests", "tells")

    def __init__(self, begun: float) -> None:
        self.begun = self.ended = begun
        self.num_requests = self.num_bytes = 0
        self.tells = True

    def ask(self, *, is_take: bool) -> None:
        """For more."""
        if not is_take or self.num_requests:
            self.tells = False

    def land(self, num_requests: int, num_bytes: int, now: float, *, retries: int = 0) -> None:
        """An answer is there, after so many that failed."""
        self.tells = self.tells and not retries
        self.num_requests += num_requests
        self.num_bytes += num_bytes
        self.ended = now


class Rate:
    """What a request to a store is worth, as bursts have shown.

    `Speed` has the best that was seen, for what is guessed. This is what is to be had.

    Attributes:
        bandwidth: bytes a second; 0: not known.
    """

    def __init__(self) -> None:
        self.bandwidth = 0.0

    def note(self, burst: Burst, latency_s: float) -> None:
        """A burst has ended.

        The store is at least as fast as it seems. It may be faster where requests were small: then
        they, and not their bytes, may have taken the time.

        Args:
            latency_s: of the store, about.
        """
        if not burst.tells or burst.num_bytes < BURST_BYTES:
            return
        seen = burst.num_bytes / max(MIN_TRANSFER_S, burst.ended - burst.begun - latency_s)
        if seen > self.bandwidth > 0:
            self.bandwidth = seen
        elif burst.num_bytes >= LARGE_REQUEST_BYTES * burst.num_requests:
            self.bandwidth = (seen + (self.bandwidth or seen)) / 2

    def gap(self, most: int) -> int:
        """Bytes that may be read in vain to save a request: what comes in the time it costs."""
        if not self.bandwidth:
            return most
        return min(most, max(MIN_GAP_BYTES, int(REQUEST_S * self.bandwidth)))


_RATES: Final[WeakKeyDictionary[Store, Rate]] = WeakKeyDictionary()


def rate_of(store: Store) -> Rate:
    """The rate of a store, for all sessions that share it."""
    return _RATES.setdefault(store, Rate())
