"""Weather of the lab: latency, bandwidth, faults."""

from __future__ import annotations

import asyncio
import math
import random
import re
from typing import TYPE_CHECKING, Any, Final, TypedDict

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from alance.testing.connection import Request

ACTIONS: Final = frozenset(
    {
        "status",
        "reset",
        "stall",
        "slow",
        "late",
        "truncate",
        "reset_mid",
        "stall_mid",
        "trickle",
        "apply_status",
        "apply_reset",
        "apply_stall",
        "endless",
        "hollow",
    }
)
# Headers that make a write conditional, in both dialects.
CONDITIONS: Final = ("if-none-match", "if-match", "x-goog-if-generation-match")


@dataclass(slots=True)
class Rule:
    """A fault, and the requests to which it applies.

    The actions:
        status: answer with `status`, `code` and `retry_after` (seconds); do not apply the request.
        reset: reset the connection; do not apply the request.
        stall: neither apply nor answer the request, until the client disconnects.
        slow: answer `delay_ms` later, with a body at `mbps`.
        late: apply and answer the request once the faults are changed, even if the client has
            disconnected.
        truncate, reset_mid, stall_mid: after `after_bytes` of the body, close, reset or stop.
        trickle: after `after_bytes` of the body, send one byte per second.
        apply_status, apply_reset, apply_stall: apply the request, then act as without `apply_`.
        endless, hollow: (listings) claim a next page, which is the same page again, or empty.

    A rule skips the first `skip` requests that meet its conditions. Then its action is applied to
    each with probability `p`, and to at most `times` requests.
    """

    action: str
    method: str | None = None
    op: str | None = None
    key: str | None = None  # regular expression to search for in "bucket/key"
    p: float = 1.0
    skip: int = 0
    times: int | None = None
    status: int = 503
    code: str | None = None
    retry_after: float | None = None
    after_bytes: int = 0
    delay_ms: float = 0.0
    mbps: float = 0.0
    seen: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"fault {self.action!r}: expected one of {sorted(ACTIONS)}")
        re.compile(self.key or "")

    def meets(self, req: Request) -> bool:
        """Return True if a request meets the rule's conditions."""
        return (
            self.method in (None, req.method)
            and self.op in (None, req.op)
            and (self.key is None or re.search(self.key, f"{req.bucket}/{req.key}") is not None)
        )

    def strikes(self, die: random.Random) -> bool:
        """Count a request that meets the conditions; return True if the action is applied to it."""
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        if die.random() >= self.p:
            return False
        self.hits += 1
        return True


class WeatherSettings(TypedDict, total=False):
    """Settings of the server, which may change while it runs.

    latency_ms        first-byte latency of every request
    latency_by_op     latency of an operation instead, such as {"LIST": 60}
    jitter            sigma of a lognormal factor with median 1 (0: none)
    tail              [p, factor]: with probability p the latency is multiplied by factor
    conn_mbps         body MB/s of one connection (0: no limit)
    total_mbps        body MB/s over all connections (0: no limit)
    apply_at          fraction of the latency after which a write takes effect
    faults            mappings of the attributes of `Rule`; the first rule that hits wins
    ignores           lower-case names of headers that the server ignores, such as CONDITIONS
    seed              seed of the random draws
    waits_for         id of the client's process: answers wait until it does nothing but wait for
                      them, which separates rounds of requests (0: answers do not wait)
    """

    latency_ms: float
    latency_by_op: Mapping[str, float]
    jitter: float
    tail: Sequence[float] | None
    conn_mbps: float
    total_mbps: float
    apply_at: float
    faults: Sequence[Mapping[str, Any]]
    ignores: Sequence[str]
    seed: int
    waits_for: int


class Weather:
    """Settings of a server, and random draws of latency and faults for each request."""

    DEFAULTS: Final[WeatherSettings] = {
        "latency_ms": 0.0,
        "latency_by_op": {},
        "jitter": 0.0,
        "tail": None,
        "conn_mbps": 0.0,
        "total_mbps": 0.0,
        "apply_at": 0.5,
        "faults": [],
        "ignores": [],
        "seed": 1,
        "waits_for": 0,
    }

    def __init__(self, **over: Unpack[WeatherSettings]) -> None:
        self.values: dict[str, Any] = {**self.DEFAULTS}
        self.rules: list[Rule] = []
        self._die = random.Random(1)
        self._change = asyncio.Event()  # set at the next change of the faults
        self.update(over)

    def update(self, over: Mapping[str, Any]) -> None:
        """Change some settings.

        Raises:
            ValueError: a setting is unknown, or a fault is invalid; nothing has changed.
        """
        unknown = set(over) - set(self.DEFAULTS)
        if unknown:
            raise ValueError(f"unknown settings of the weather: {sorted(unknown)}")
        if "faults" in over:
            try:
                self.rules = [Rule(**fault) for fault in over["faults"]]
            except (TypeError, re.error) as error:
                raise ValueError(f"fault: {error}") from error
            self._change.set()
            self._change = asyncio.Event()
        if "seed" in over:
            self._die = random.Random(over["seed"])
        self.values.update(over)

    async def changed(self) -> None:
        """Wait until the faults are changed."""
        await self._change.wait()

    def latency(self, op: str) -> float:
        """Draw the latency of a request, in seconds."""
        values = self.values
        delay: float = values["latency_by_op"].get(op, values["latency_ms"]) / 1000.0
        if delay and values["jitter"]:
            delay *= math.exp(self._die.gauss(0.0, values["jitter"]))
        if delay and values["tail"] and self._die.random() < values["tail"][0]:
            delay *= values["tail"][1]
        return delay

    def fault(self, req: Request) -> Rule | None:
        """Return the first rule whose action is applied to a request; None if there is none."""
        for rule in self.rules:
            if rule.meets(req) and rule.strikes(self._die):
                return rule
        return None
