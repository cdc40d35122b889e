"""The weather of the lab: latency, bandwidth, faults."""

from __future__ import annotations

import math
import random
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from alance.testing.messages import Request


class Weather:
    """The weather: latency, bandwidth and faults.  All times in the config are milliseconds.

    latency_ms        first-byte latency of every request
    latency_by_op     {"LIST": 60}: another one for an operation
    jitter            sigma of a lognormal factor with median 1 (0: none)
    tail              [p, factor]: with probability p the latency is multiplied
    conn_mbps         body MB/s of one connection (0: no limit)
    total_mbps        body MB/s over all connections (0: no limit)
    apply_at          fraction of the latency after which a write takes effect
    faults            rules, first match wins; each {"method"|"op"|"key" (regex): match,
                      "p": probability, "skip": n, "times": n, "action": ...} with the actions
                      status (status, code, retry_after), reset, reset_mid (after_bytes),
                      apply_reset (the write takes effect and the answer is lost),
                      truncate (after_bytes), slow (delay_ms, mbps), stall
    seed              of the random draws
    """

    DEFAULTS: Final[dict[str, Any]] = {
        "latency_ms": 0.0,
        "latency_by_op": {},
        "jitter": 0.0,
        "tail": None,
        "conn_mbps": 0.0,
        "total_mbps": 0.0,
        "apply_at": 0.5,
        "faults": [],
        "seed": 1,
    }

    def __init__(self, **over: Any) -> None:
        self.values = dict(self.DEFAULTS)
        self.total_free = 0.0
        self.random = random.Random(1)
        self.rules: list[dict[str, Any]] = []
        self.update(over)

    def update(self, over: dict[str, Any]) -> None:
        unknown = set(over) - set(self.DEFAULTS)
        if unknown:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        self.values.update(over)
        if "seed" in over:
            self.random = random.Random(over["seed"])
        if "faults" in over:
            self.rules = [
                dict(rule, seen=0, hits=0, regex=re.compile(rule["key"]) if "key" in rule else None)
                for rule in over["faults"]
            ]

    def latency(self, op: str) -> float:
        values = self.values
        delay: float = values["latency_by_op"].get(op, values["latency_ms"]) / 1000.0
        if delay and values["jitter"]:
            delay *= math.exp(self.random.gauss(0.0, values["jitter"]))
        if delay and values["tail"] and self.random.random() < values["tail"][0]:
            delay *= values["tail"][1]
        return delay

    def fault(self, req: Request) -> dict[str, Any] | None:
        for rule in self.rules:
            if rule.get("method", req.method) != req.method or rule.get("op", req.op) != req.op:
                continue
            if rule["regex"] is not None and not rule["regex"].search(f"{req.bucket}/{req.key}"):
                continue
            rule["seen"] += 1
            if rule["seen"] <= rule.get("skip", 0) or rule["hits"] >= rule.get("times", 1 << 60):
                continue
            if self.random.random() >= rule.get("p", 1.0):
                continue
            rule["hits"] += 1
            return rule
        return None
