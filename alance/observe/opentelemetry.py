"""Events and readings for OpenTelemetry (the extra `otel`).

Only the API is needed here; the service brings its own SDK and exporters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.calls import public
from alance.base.extras import missing
from alance.io.events.observing import Observer, readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

    from alance.io.events.observing import (
        CommitEnded,
        MaintenanceStepEnded,
        RequestEnded,
        RetryDecided,
    )

INSTRUMENTATION_NAME: Final = "alance"
EXPECTED: Final = ("ok", "cancelled", "AlreadyExistsError", "NotFoundError")  # no faults of a store
# Unit of each reading; other readings are not exported.
_READINGS: Final = {
    "appends_waiting": "{append}",
    "auto_compactions_failed_total": "{compaction}",
    "auto_compactions_total": "{compaction}",
    "block_cache_bytes": "By",
    "block_cache_hits_total": "{look}",
    "block_cache_misses_total": "{look}",
    "bytes_under_way": "By",
    "cache_bytes": "By",
    "cache_evictions_total": "{entry}",
    "cache_hits_total": "{look}",
    "cache_misses_total": "{look}",
    "cleanups_under_way": "{call}",
    "dataset_staleness_seconds": "s",
    "decodes_waiting": "{job}",
    "ingest_buffered_bytes": "By",
    "ingest_lag_seconds": "s",
    "ingest_rows_total": "{row}",
    "maintenance_age_seconds": "s",
    "maintenance_bytes_total": "By",
    "maintenance_deleted_share": "1",
    "maintenance_failed_total": "{step}",
    "maintenance_requests_total": "{request}",
    "maintenance_small_fragments": "{fragment}",
    "maintenance_steps_total": "{step}",
    "maintenance_unindexed_rows": "{row}",
    "maintenance_versions": "{version}",
    "requests_under_way": "{request}",
    "requests_waiting": "{request}",
    "take_bytes": "By",
}


@public
class OpenTelemetry(Observer):
    """Observer that creates spans for requests, commits and steps of maintenance, and metrics.

        observe.add(observe.OpenTelemetry())

    A span is a child of the caller's span; if a request serves several callers, of the first
    caller's span.

    Args:
        meter_provider, tracer_provider: providers; None: the global ones.
        spans: False to create no spans, each of which costs some ten microseconds.

    Raises:
        MissingPackageError: the API of OpenTelemetry is not installed.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        *,
        spans: bool = True,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise missing("OpenTelemetry needs its API", "otel") from error

        meter = metrics.get_meter(INSTRUMENTATION_NAME, meter_provider=meter_provider)
        self._tracer = (
            trace.get_tracer(INSTRUMENTATION_NAME, tracer_provider=tracer_provider)
            if spans
            else None
        )
        self._requests = meter.create_counter("alance.requests", "{request}")
        self._received = meter.create_counter("alance.received", "By")
        self._sent = meter.create_counter("alance.sent", "By")
        self._seconds = meter.create_histogram("alance.request.duration", "s")
        self._retries = meter.create_counter("alance.retries", "{attempt}")
        self._commits = meter.create_counter("alance.commits", "{commit}")
        self._commit_seconds = meter.create_histogram("alance.commit.duration", "s")
        self._commit_retries = meter.create_counter("alance.commit.retries", "{attempt}")
        self._step_seconds = meter.create_histogram("alance.maintenance.step.duration", "s")
        for name, unit in _READINGS.items():
            make = meter.create_observable_gauge
            plain = name.removesuffix("_total")
            if plain != name:
                make = meter.create_observable_counter  # type: ignore[assignment]  # the same call
            make(f"alance.{plain}", callbacks=[_reader(name)], unit=unit)

    def on_request(self, event: RequestEnded) -> None:
        """Count a request, and create its span.

        Args:
            event: the request.
        """
        store = {"store": event.store}
        kind = {**store, "kind": event.kind}
        self._requests.add(event.num_requests, {**kind, "outcome": event.outcome})
        self._received.add(event.received_bytes, store)
        self._sent.add(event.sent_bytes, store)
        self._seconds.record(event.seconds, kind)
        attributes: dict[str, str | int] = {
            **kind,
            "path": event.path,
            "received": event.received_bytes,
            "sent": event.sent_bytes,
            "retries": event.retries,
        }
        self._span(f"alance {event.kind}", event, attributes)

    def on_retry(self, event: RetryDecided) -> None:
        """Count a failed attempt.

        Args:
            event: the attempt.
        """
        cause = "throttled" if event.is_throttled else "failed"
        refused = event.pause_s is None
        self._retries.add(1, {"store": event.store, "cause": cause, "refused": refused})

    def on_commit(self, event: CommitEnded) -> None:
        """Count a commit, and create its span.

        Args:
            event: the commit.
        """
        table = {"table": event.uri}
        named = {**table, "operation": event.operation}
        self._commits.add(1, {**named, "outcome": event.outcome})
        self._commit_seconds.record(event.seconds, table)
        self._commit_retries.add(event.retries, table)
        attributes: dict[str, str | int] = {**named, "appends": event.num_appends}
        attributes["retries"] = event.retries
        if event.version is not None:
            attributes["version"] = event.version
        self._span("alance commit", event, attributes)

    def on_maintenance_step(self, event: MaintenanceStepEnded) -> None:
        """Count a step of maintenance, and create its span.

        Args:
            event: the step.
        """
        attributes: dict[str, str | int] = {"table": event.uri, "step": event.kind}
        self._step_seconds.record(event.seconds, {**attributes, "outcome": event.outcome})
        attributes |= {"reason": event.reason, "bytes": event.num_bytes}
        if event.target is not None:
            attributes["index"] = event.target
        if event.version is not None:
            attributes["version"] = event.version
        self._span("alance maintenance", event, attributes)

    def _span(
        self,
        name: str,
        event: RequestEnded | CommitEnded | MaintenanceStepEnded,
        attributes: dict[str, str | int],
    ) -> None:
        if self._tracer is None:
            return
        from opentelemetry.trace import SpanKind, StatusCode

        ended = round(event.ended_at * 1e9)
        span = self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes={f"alance.{key}": value for key, value in attributes.items()},
            start_time=ended - round(event.seconds * 1e9),
        )
        if event.outcome not in EXPECTED:
            span.set_status(StatusCode.ERROR, event.outcome)
        span.end(ended)


def _reader(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for reading in readings():
            if reading.name == name:
                yield Observation(reading.value, {"where": reading.where} if reading.where else {})

    return observe
