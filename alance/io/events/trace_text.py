"""Traces as text: a table, bars for a terminal, JSON for browser tools."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from alance.io.events.trace import HopEvent, RequestEvent, Totals


def span_of(events: Iterable[RequestEvent]) -> float:
    """Seconds from the first start to the last end; 0 without events."""
    times = [(event.begun, event.ended) for event in events]
    return max(end for _, end in times) - min(begin for begin, _ in times) if times else 0.0


def waves(events: Iterable[RequestEvent]) -> list[tuple[float, float]]:
    """Return the start and end of each wave, in which at least one request is under way."""
    spans: list[tuple[float, float]] = []
    for event in sorted(events, key=lambda event: event.begun):
        if not spans or event.begun >= spans[-1][1]:
            spans.append((event.begun, event.ended))
        else:
            spans[-1] = (spans[-1][0], max(spans[-1][1], event.ended))
    return spans


def table(events: Sequence[RequestEvent], totals: Totals) -> str:
    """Format requests, bytes and time by kind and reason, then rounds, waste and hit rates."""
    rows: dict[tuple[str, str], list[RequestEvent]] = defaultdict(list)
    for event in events:
        rows[event.kind, " + ".join(event.reasons) or "-"].append(event)
    lines = [f"{'kind':<6}{'for':<36}{'requests':>9}{'bytes':>13}{'ms':>9}"]
    for (kind, reason), group in rows.items():
        lines.append(
            f"{kind:<6}{reason[:35]:<36}{len(group):>9}"
            f"{sum(event.num_bytes for event in group):>13,}{span_of(group) * 1e3:>9.1f}"
        )
    lines.append(
        f"{'all':<6}{f'in {totals.rounds} rounds':<36}{totals.num_requests:>9}"
        f"{totals.num_bytes:>13,}{totals.seconds * 1e3:>9.1f}"
    )
    more = [f"{totals.num_wasted:,} bytes nobody asked for"] if totals.num_wasted else []
    more += [f"{totals.num_failed} failed"] if totals.num_failed else []
    more += [f"{totals.num_retries} retries"] if totals.num_retries else []
    more += [
        f"{cache}: {hits} of {looks} found" for cache, (hits, looks) in totals.hit_rates.items()
    ]
    if totals.num_hops:
        more.append(f"{totals.num_hops} pieces decoded in {totals.hop_seconds * 1e3:.1f} ms")
    return "\n".join([*lines, *(["; ".join(more)] if more else [])])


def waterfall(events: Sequence[RequestEvent], width: int) -> str:
    """Draw a bar for each request over time, for a terminal of `width` columns."""
    if not events:
        return "no requests"
    first = min(event.begun for event in events)
    total = max(span_of(events), 1e-6)
    room = max(10, width - 49)
    lines = []
    for event in sorted(events, key=lambda event: (event.begun, event.location, event.start)):
        indent = int((event.begun - first) / total * (room - 1))
        length = max(1, round((event.ended - event.begun) / total * room))
        bar = " " * indent + "█" * min(length, room - indent)
        name = event.location.rsplit("/", 1)[-1][-14:]
        label = f"{event.kind:<5}{' + '.join(event.reasons)[:15]:<16}{name:<15}"
        lines.append(f"{label}{event.num_bytes:>10,} |{bar:<{room}}|")
    lines.append(f"{'':<46} |{'0 ms':<{room - 12}}{total * 1e3:>9.1f} ms|")
    return "\n".join(lines)


def chrome(events: Sequence[RequestEvent], hops: Sequence[HopEvent], path: str | Path) -> None:
    """Write JSON for `chrome://tracing` and Perfetto: requests in lanes, hops by thread."""
    import json
    from pathlib import Path

    first = min([event.begun for event in events] + [hop.begun for hop in hops], default=0.0)
    records = [*_request_records(events, first), *_hop_records(hops, first)]
    Path(path).write_text(json.dumps({"traceEvents": records}))


def _request_records(events: Sequence[RequestEvent], first: float) -> list[dict[str, object]]:
    lanes: list[float] = []  # end of the last request of each lane
    records: list[dict[str, object]] = []
    for event in sorted(events, key=lambda event: event.begun):
        lane = next((n for n, free in enumerate(lanes) if free <= event.begun), len(lanes))
        lanes[lane : lane + 1] = [event.ended]
        records.append(
            {
                "name": " + ".join(event.reasons) or event.kind,
                "cat": event.kind,
                "ph": "X",
                "ts": (event.begun - first) * 1e6,
                "dur": (event.ended - event.begun) * 1e6,
                "pid": 1,
                "tid": lane,
                "args": {
                    "location": event.location,
                    "bytes": [event.start, event.stop],
                    "received": event.num_bytes,
                    "used": event.num_used,
                    "callers": list(event.callers),
                    "retries": event.retries,
                    "ok": event.ok,
                },
            }
        )
    return records


def _hop_records(hops: Sequence[HopEvent], first: float) -> list[dict[str, object]]:
    threads = {name: n for n, name in enumerate(sorted({hop.thread for hop in hops}))}
    return [
        {
            "name": hop.what,
            "cat": "cpu",
            "ph": "X",
            "ts": (hop.begun - first) * 1e6,
            "dur": (hop.ended - hop.begun) * 1e6,
            "pid": 2,
            "tid": threads[hop.thread],
            "args": {"waited_ms": (hop.begun - hop.queued) * 1e3, "ok": hop.ok},
        }
        for hop in hops
    ]
