"""What a log of requests tells: how many, of which kinds, how many one after the other."""

from __future__ import annotations

from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]


def phases(records: list[Record]) -> int:
    """The most requests no two of which overlap in time: the longest chain that may depend."""
    spans = sorted((r["t2"], r["t0"]) for r in records if r.get("t2"))
    count, last = 0, -1.0
    for end, start in spans:
        if start >= last:
            count, last = count + 1, end
    return count


def summarize(records: list[Record]) -> dict[str, Any]:
    """Numbers of requests, bytes and waves."""
    by_op: dict[str, int] = {}
    statuses: dict[str, int] = {}
    for r in records:
        by_op[r["op"]] = by_op.get(r["op"], 0) + 1
        if r.get("st", 0) >= 300:
            statuses[str(r["st"])] = statuses.get(str(r["st"]), 0) + 1
    gets = [r for r in records if r["op"] == "GET"]
    spans = [(r["t0"], 1) for r in records] + [(r["t2"], -1) for r in records if r.get("t2")]
    depth = peak = 0
    for _, step in sorted(spans):
        depth += step
        peak = max(peak, depth)
    return {
        "requests": len(records),
        "by_op": dict(sorted(by_op.items())),
        "errors": statuses,
        "bytes_out": sum(r.get("out", 0) for r in records),
        "bytes_in": sum(r.get("in", 0) for r in records),
        "get_bytes": sum(r.get("out", 0) for r in gets),
        "phases": phases(records),
        "peak_in_flight": peak,
        "connections": len({r["conn"] for r in records}),
        "span_ms": round(_span(records) * 1000, 2),
    }


def _span(records: list[Record]) -> float:
    ends = [r["t2"] for r in records if r.get("t2")]
    return max(ends) - min(r["t0"] for r in records) if ends else 0.0


class Recording:
    """The requests that the server got inside of a `with lab.recording()` block."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    @property
    def rounds(self) -> int:
        """How many requests were one after the other, each made for the answers of those before.

        Told by a lab that waits for its client (`waits_for` of the weather) only.
        """
        return len({record["round"] for record in self.records})

    def summary(self) -> dict[str, Any]:
        """Numbers of requests, bytes and waves."""
        return summarize(self.records)
