"""`alance.trace()`, and a trace as a page: style, script and records in one HTML file.

The records are JSON inside the page. Paths are users' data, so `<` is escaped in the JSON, the
script sets texts and never markup, and the page's security policy forbids it to load anything.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alance.base.calls import public
from alance.io.events import trace as traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alance.io.events.trace import HopEvent, RequestEvent

# Group of a request by its reason; the script has a colour for each group.
GROUP_BY_REASON: Final = {
    "versions": "listing",
    "manifest": "manifest",
    "open file": "footers",
    "open files": "footers",
    "open columns": "footers",
    "page tables": "page tables",
    "take": "rows",
    "scan": "scan",
    "late columns": "late columns",
    "deletions": "deletions",
    "row ids": "row ids",
    "blob": "blobs",
    "blobs": "blobs",
}
MAX_COLUMNS: Final = 24  # maximum number of columns that the details of a request name


def page(recorder: Recorder, title: str = "") -> str:
    """Return the text of an HTML page that shows a trace."""
    content = json.dumps(records(recorder, title), separators=(",", ":"), ensure_ascii=True)
    parts = {
        "/*style*/": _part("page.css"),
        "/*script*/": _part("page.js"),
        # The JSON is inserted last, so that no placeholder is searched in it. No text in it can end
        # the element.
        "/*records*/": content.replace("<", "\\u003c").replace("&", "\\u0026"),
    }
    text = _part("page.html")
    for mark, part in parts.items():
        before, mark, after = text.partition(mark)
        text = before + part + after
    return text


def records(recorder: Recorder, title: str = "") -> dict[str, Any]:
    """Return the data of the page, with times in milliseconds since the first request."""
    events, hops = recorder.events, recorder.hops
    begins = [_queued(event) for event in events] + [hop.queued for hop in hops]
    first = min(begins, default=0.0)

    def ms(seconds: float) -> float:
        return round((seconds - first) * 1e3, 3)

    totals = recorder.totals
    return {
        "title": title or "alance trace",
        "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "totals": {
            "requests": totals.num_requests,
            "failed": totals.num_failed,
            "retries": totals.num_retries,
            "bytes": totals.num_bytes,
            "wasted": totals.num_wasted,
            "rounds": totals.rounds,
            "objects": totals.num_objects,
            "ms": round(totals.seconds * 1e3, 3),
            "hops": totals.num_hops,
            "hop_ms": round(totals.hop_seconds * 1e3, 3),
            "looks": [[name, *counts] for name, counts in totals.hit_rates.items()],
        },
        "waves": [[ms(begin), ms(end)] for begin, end in recorder.waves],
        "bars": [
            _bar(event, recorder, ms)
            for event in sorted(events, key=lambda shown: (_queued(shown), shown.start))
        ],
        "hops": [_hop(hop, ms) for hop in sorted(hops, key=lambda shown: shown.queued)],
    }


def group_of(event: RequestEvent) -> str:
    """Return the group of a request's purpose; `mixed` if it has several."""
    if event.kind in ("put", "copy", "delete"):
        return "writes"
    groups = {GROUP_BY_REASON.get(reason, "other") for reason in event.reasons} or {"other"}
    if len(groups) == 1:
        return groups.pop()
    return "mixed"


def _bar(event: RequestEvent, recorder: Recorder, ms: Any) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "group": "footers" if recorder.is_footer(event) else group_of(event),
        "for": " + ".join(event.reasons),
        "object": event.location,
        "span": [event.start, event.stop],
        "bytes": event.num_bytes,
        "wasted": event.num_wasted,
        "queued": ms(_queued(event)),
        "sent": ms(event.begun),
        "head": None if event.first_byte is None else ms(event.first_byte),
        "ended": ms(event.ended),
        "ok": event.ok,
        "retries": event.retries,
        "columns": _few(recorder.columns_of(event)),
        "callers": _few(event.callers),
        "shared": len(event.callers),
    }


def _hop(hop: HopEvent, ms: Any) -> dict[str, Any]:
    return {
        "for": hop.what,
        "queued": ms(hop.queued),
        "sent": ms(hop.begun),
        "ended": ms(hop.ended),
        "object": hop.thread or "on the event loop",
        "ok": hop.ok,
    }


def _queued(event: RequestEvent) -> float:
    return event.begun if event.queued is None else min(event.queued, event.begun)


def _few(names: Iterable[str]) -> list[str]:
    listed = list(names)
    if len(listed) <= MAX_COLUMNS:
        return listed
    return [*listed[:MAX_COLUMNS], f"and {len(listed) - MAX_COLUMNS} more"]


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


@public
class Recorder(traces.RequestRecorder):
    """Reads of a `with alance.trace()` block, in the order in which they ended."""

    __slots__ = ()

    def to_html(self, path: str | Path, *, title: str = "") -> None:
        """Write a page with a waterfall of the requests: a single file that needs no network.

        Args:
            path: path of the file.
            title: heading of the page.
        """
        Path(path).write_text(page(self, title), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the totals, for notebooks."""
        return f"<pre>{escape(self.summary())}</pre>"


@contextmanager
@public
def trace() -> Iterator[Recorder]:
    """Record the reads of a `with` block: requests for bytes, sizes and listings, and their times.

    Writes are not recorded; `observe.Observer.on_request` gets them, too.

    Cost: some microseconds per request in the block, and nothing otherwise.
    """
    with traces.recording(Recorder()) as recorder:
        yield recorder
