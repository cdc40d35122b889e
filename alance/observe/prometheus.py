"""Counters of a process, as the text that Prometheus scrapes (exposition format 0.0.4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from alance.base.calls import public
from alance.io.events.observing import Observer, readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.io.events.observing import (
        CommitEnded,
        MaintenanceStepEnded,
        RequestEnded,
        RetryDecided,
    )

# Upper bounds in seconds, for cached answers, near and far stores, and throttling stores.
BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Metric(NamedTuple):
    """Text and labels of a metric that counts events."""

    text: str
    labels: tuple[str, ...]


_METRICS: Final = {
    "requests_total": _Metric(
        "Requests to remote stores that ended.", ("store", "kind", "outcome")
    ),
    "request_seconds": _Metric("How long they took, with all attempts.", ("store", "kind")),
    "received_bytes_total": _Metric("Bytes received from stores.", ("store",)),
    "sent_bytes_total": _Metric("Bytes sent to stores.", ("store",)),
    "retries_total": _Metric(
        "Attempts that were made again, or not (refused), by why they failed.",
        ("store", "cause", "refused"),
    ),
    "commits_total": _Metric(
        "Attempts to make a version that ended.", ("table", "operation", "outcome")
    ),
    "commit_seconds": _Metric(
        "How long they took, with the uploads that they waited for.", ("table",)
    ),
    "commit_retries_total": _Metric("Attempts lost to other committers.", ("table",)),
    "committed_appends_total": _Metric("Appends of callers that versions are made of.", ("table",)),
    "maintenance_step_seconds": _Metric(
        "How long steps of maintenance took.", ("table", "step", "outcome")
    ),
}


class _Histogram:
    """Histogram of seconds over `BUCKETS`."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


@public
class Metrics(Observer):
    """Observer that counts events, and formats them with the current readings for Prometheus.

    Labels are the store (a bucket), the URI of the table, kinds, causes and outcomes, never the
    path of an object, a key or a credential. So there are few time series.
    """

    content_type = CONTENT_TYPE

    def __init__(self) -> None:
        self._lock = threading.Lock()  # loops in several threads may report events
        # By name of the metric and values of its labels.
        self._counts: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        self._times: defaultdict[tuple[str, tuple[str, ...]], _Histogram] = defaultdict(_Histogram)

    def on_request(self, event: RequestEnded) -> None:
        """Count a request.

        Args:
            event: the request.
        """
        store, kind = (event.store,), (event.store, event.kind)
        outcome = event.store, event.kind, event.outcome
        with self._lock:
            self._counts["requests_total", outcome] += event.num_requests
            self._counts["received_bytes_total", store] += event.received_bytes
            self._counts["sent_bytes_total", store] += event.sent_bytes
            self._times["request_seconds", kind].add(event.seconds)

    def on_retry(self, event: RetryDecided) -> None:
        """Count a failed attempt, separately for retried and refused ones.

        Args:
            event: the attempt.
        """
        cause = "throttled" if event.is_throttled else "failed"
        is_refused = "true" if event.pause_s is None else "false"
        with self._lock:
            self._counts["retries_total", (event.store, cause, is_refused)] += 1

    def on_commit(self, event: CommitEnded) -> None:
        """Count a commit.

        Args:
            event: the commit.
        """
        table, outcome = (event.uri,), (event.uri, event.operation, event.outcome)
        with self._lock:
            self._counts["commits_total", outcome] += 1
            self._counts["commit_retries_total", table] += event.retries
            self._times["commit_seconds", table].add(event.seconds)
            if event.version is not None and event.operation == "Append":
                self._counts["committed_appends_total", table] += event.num_appends

    def on_maintenance_step(self, event: MaintenanceStepEnded) -> None:
        """Count a step of maintenance.

        Args:
            event: the step.
        """
        step = event.uri, event.kind, event.outcome
        with self._lock:
            self._times["maintenance_step_seconds", step].add(event.seconds)

    def text(self) -> str:
        """Return all metrics as text, to be served with the media type `content_type`."""
        with self._lock:
            return "\n".join([*self._counters(), *self._histograms(), *_moment(), ""])

    def _counters(self) -> Iterator[str]:
        last = ""
        for (name, values), value in sorted(self._counts.items()):
            if name != last:
                yield from _head(name, "counter")
            last = name
            yield f"alance_{name}{{{_labels(_METRICS[name].labels, values)}}} {_number(value)}"

    def _histograms(self) -> Iterator[str]:
        last = ""
        for (name, values), times in sorted(self._times.items(), key=lambda item: item[0]):
            labels = _labels(_METRICS[name].labels, values)
            if name != last:
                yield from _head(name, "histogram")
            last, total = name, 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), times.counts, strict=True):
                total += count
                yield f'alance_{name}_bucket{{{labels},le="{bound}"}} {total}'
            yield f"alance_{name}_sum{{{labels}}} {times.sum:.6f}"
            yield f"alance_{name}_count{{{labels}}} {total}"


def _moment() -> Iterator[str]:
    last = ""
    for name, where, value in readings():
        if name != last:
            yield from _head(name, "counter" if name.endswith("_total") else "gauge")
        last = name
        labels = _labels(("where",), (where,)) if where else ""
        yield f"alance_{name}{{{labels}}} {_number(value)}"


def _head(name: str, kind: str) -> Iterator[str]:
    if name in _METRICS:
        yield f"# HELP alance_{name} {_METRICS[name].text}"
    yield f"# TYPE alance_{name} {kind}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    labels = zip(names, values, strict=True)
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"
