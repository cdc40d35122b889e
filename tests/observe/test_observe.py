"""Events of requests, commits and maintenance: for observers, metrics, spans and the log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import alance
from alance import observe
from alance.io.caches.cache import SearchCache
from alance.io.events import observing
from alance.io.reading import flights
from alance.ops.upkeep import compact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from alance.testing.lab import Lab

_numbers = itertools.count(1)


class Notes(observe.Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.requests: list[observe.RequestEnded] = []
        self.retries: list[observe.RetryDecided] = []
        self.commits: list[observe.CommitEnded] = []
        self.steps: list[observe.MaintenanceStepEnded] = []

    def on_request(self, event: observe.RequestEnded) -> None:
        self.requests.append(event)

    def on_retry(self, event: observe.RetryDecided) -> None:
        self.retries.append(event)

    def on_commit(self, event: observe.CommitEnded) -> None:
        self.commits.append(event)

    def on_maintenance_step(self, event: observe.MaintenanceStepEnded) -> None:
        self.steps.append(event)


@pytest.fixture
def notes() -> Iterator[Notes]:
    observer = Notes()
    observe.add(observer)
    yield observer
    observe.remove(observer)


@pytest.fixture
def uri(lab: Lab) -> str:
    return f"s3://lab/observed-{next(_numbers)}"


async def test_requests_and_bytes_are_those_that_the_server_saw(
    lab: Lab, uri: str, notes: Notes
) -> None:
    async with alance.Session() as session:
        options = lab.lance_options()
        with lab.recording() as seen:
            table = {"id": list(range(50_000))}
            dataset = await alance.write_dataset(
                table, uri, session=session, storage_options=options
            )
            await dataset.take([7, 40_000])
        summary = seen.summary()
    assert sum(event.num_requests for event in notes.requests) == summary["requests"]
    reads = [event for event in notes.requests if event.kind in ("get", "tail")]
    assert sum(event.received_bytes for event in reads) == summary["get_bytes"]
    puts = sum(record["in"] for record in seen.records if record["op"] == "PUT")
    assert sum(event.sent_bytes for event in notes.requests) == puts
    assert {event.store for event in notes.requests} == {"s3://lab/"}
    # The first commit of a process asks the store whether it overwrites.
    assert {event.outcome for event in notes.requests} <= {"ok", "AlreadyExistsError"}
    (commit,) = notes.commits
    assert (commit.outcome, commit.version, commit.retries) == ("ok", 1, 0)
    assert commit.uri == uri


async def test_a_conflict_is_told_by_its_name(tmp_path: Any, notes: Notes) -> None:
    base = await alance.write_dataset({"id": [1, 2, 3]}, tmp_path / "t")
    await base.update({"id": "id + 10"})
    with pytest.raises(alance.RetryableConflictError):
        await base.update({"id": "id + 20"}, max_retries=0)
    outcomes = [(commit.outcome, commit.version) for commit in notes.commits]
    assert outcomes == [("ok", 1), ("ok", 2), ("RetryableConflictError", None)]


async def test_throttling_is_a_retry_with_its_status(
    lab: Lab, uri: str, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    options = lab.lance_options() | {"client_max_retries": "0"}
    dataset = await alance.write_dataset({"id": [1]}, uri, storage_options=options)
    caplog.set_level(logging.DEBUG, "alance.io")
    lab.config(faults=[{"action": "status", "status": 503, "times": 3}])
    async with alance.Session() as session:
        for _ in range(3):
            opened = await alance.dataset(uri, session=session, storage_options=options)
            assert opened.version == dataset.version
    lab.calm()
    assert notes.retries
    assert all(retry.is_throttled and retry.status == 503 for retry in notes.retries)
    assert sum(event.retries for event in notes.requests) == len(notes.retries)
    assert any("throttled" in record.getMessage() for record in caplog.records)


async def test_a_spent_budget_of_retries_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    from alance.io.cloud.resilience import Retries, RetryBudget

    notes = Notes()
    observe.add(notes)
    observing._warned.clear()
    rule = Retries(budget=RetryBudget(capacity=0.0, per_second=0.0), store="s3://busy/")
    failure = alance.StoreError("s3://busy/x: 503", retryable=True, status=503)
    assert rule.pause(failure, 0) is None
    assert rule.pause(failure, 0) is None
    observe.remove(notes)
    assert [retry.pause_s for retry in notes.retries] == [None, None]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.name == "alance.io"
    assert "s3://busy/" in warning.getMessage()


def test_an_entry_too_large_for_the_search_cache_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observing._warned.clear()
    SearchCache(0).put("key", "value", 10)
    assert not caplog.records
    SearchCache(100).put("key", "value", 26)
    assert "cache_bytes" in caplog.text


async def test_the_log_has_requests_without_an_observer_and_no_secret(
    lab: Lab, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "alance.io")
    options = {**lab.lance_options(), "secret_access_key": "very-secret-key"}
    await alance.write_dataset({"id": [1]}, uri, storage_options=options)
    texts = [record.getMessage() for record in caplog.records if record.name == "alance.io"]
    assert any(text.startswith(f"put {uri}/data/") for text in texts)
    assert any(text.startswith(f"commit to {uri}") for text in texts)
    assert "very-secret-key" not in caplog.text


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, asyncio.CancelledError])
async def test_an_observer_that_fails_changes_nothing(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    """Nor one that would end the loop, or seem to cancel who waits for the commit."""

    class Failing(observe.Observer):
        def on_commit(self, event: observe.CommitEnded) -> None:
            raise kind("observer is broken")

    failing = Failing()
    observe.add(failing)
    try:
        dataset = await alance.write_dataset({"id": [1]}, tmp_path / "t")
    finally:
        observe.remove(failing)
    assert dataset.version == 1
    assert "observer is broken" in caplog.text


async def test_observers_may_come_and_go_while_they_are_told(tmp_path: Any) -> None:
    message = []

    class Once(observe.Observer):
        def on_commit(self, event: observe.CommitEnded) -> None:
            message.append(event.version)
            observe.remove(self)
            if len(message) < 100:
                observe.add(Once())

    observers = [Once(), Once()]
    for observer in observers:
        observe.add(observer)
    try:
        dataset = await alance.write_dataset({"id": [1]}, tmp_path / "t")
        await dataset.insert({"id": [2]})
    finally:
        for observer in tuple(observing._observers):
            observe.remove(observer)
    assert message == [1, 1, 2, 2]


def test_what_is_no_observer_is_refused() -> None:
    for wrong in (observe.Metrics, print, None):
        with pytest.raises(alance.InvalidInputError, match="expected an instance of"):
            observe.add(wrong)  # type: ignore[arg-type]


async def test_prometheus_can_read_the_text(lab: Lab, uri: str) -> None:
    metrics = observe.Metrics()
    observe.add(metrics)
    try:
        options = lab.lance_options()
        dataset = await alance.write_dataset({"id": [1, 2]}, uri, storage_options=options)
        await dataset.take([1])
        async with alance.ingest(uri, storage_options=options) as sink:
            await sink.write({"id": [3]})
            text = metrics.text()
        await alance.dataset(f"{uri}-missing", storage_options=options)
    except alance.TableNotFoundError:
        pass
    finally:
        observe.remove(metrics)
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) alance_\w+ .+|alance_\w+\{[^{}]*\} [0-9.e+-]+", line)
    assert f'alance_commits_total{{table="{uri}",operation="Overwrite",outcome="ok"}} 1' in text
    assert f'alance_ingest_lag_seconds{{where="{uri}"}}' in text
    assert 'alance_requests_waiting{where="s3://lab/"} 0' in text
    buckets = re.findall(r'request_seconds_bucket\{store="s3://lab/",kind="put".*\} (\d+)', text)
    assert [int(count) for count in buckets] == sorted(map(int, buckets))
    names = re.findall(r"# TYPE (\w+)", text)
    assert len(names) == len(set(names))


async def test_spans_of_requests_are_children_of_the_callers(lab: Lab, uri: str) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    observer = observe.OpenTelemetry(meters, tracers)
    observe.add(observer)
    try:
        async with alance.Session() as session:
            with tracers.get_tracer("tests").start_as_current_span("request of a user"):
                dataset = await alance.write_dataset(
                    {"id": [1, 2]}, uri, session=session, storage_options=lab.lance_options()
                )
                await dataset.take([1])
            exported = reader.get_metrics_data()
    finally:
        observe.remove(observer)
    ended = {span.name: span for span in spans.get_finished_spans()}
    top = ended.pop("request of a user")
    assert {"alance put", "alance commit", "alance get"} <= set(ended)
    for span in ended.values():
        assert span.parent is not None
        assert span.context.trace_id == top.context.trace_id
        assert top.start_time <= span.start_time + 2_000_000 <= span.end_time + 2_000_000
    assert exported is not None
    names = {
        metric.name
        for resource in exported.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"alance.requests", "alance.commits", "alance.cache_hits"} <= names


async def test_the_lag_of_a_sink_grows_until_its_rows_are_committed(tmp_path: Any) -> None:
    def lag() -> float:
        uri = (tmp_path / "t").as_posix()
        (value,) = [
            reading.value
            for reading in observe.readings()
            if reading.name == "ingest_lag_seconds" and reading.where.endswith(uri)
        ]
        return value

    await alance.write_dataset({"id": [1]}, tmp_path / "t")
    async with alance.ingest(tmp_path / "t", commit_interval=None) as sink:
        await sink.write({"id": [2]})
        await asyncio.sleep(0.01)
        assert lag() >= 0.01
        await sink.flush()
        assert lag() == 0.0


async def test_two_that_follow_a_table_are_as_stale_as_the_staler_one() -> None:
    class Follower:
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        def readings(self) -> list[observe.Reading]:
            return [observe.Reading("dataset_staleness_seconds", "memory://t", self.seconds)]

    followers = [Follower(2.0), Follower(3.0)]
    for follower in followers:
        observing.show(follower)
    values = [reading.value for reading in observe.readings() if reading.where == "memory://t"]
    assert values == [3.0]


async def test_without_an_observer_nothing_is_made_of_a_request(
    lab: Lab, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*values: object) -> None:
        raise AssertionError(values)

    for name in ("RequestEnded", "RetryDecided", "CommitEnded", "MaintenanceStepEnded"):
        monkeypatch.setattr(observing, name, refuse)
    options = lab.lance_options()
    dataset = await alance.write_dataset({"id": [1, 2]}, uri, storage_options=options)
    assert (await dataset.take([1])).num_rows == 1
    await dataset.insert({"id": [3, 4]})
    report = await dataset.maintain(alance.MaintenancePolicy(min_small_fragments=2))
    assert [step.outcome for step in report.steps] == ["done"]


async def indexed_fragments(uri: str) -> alance.Dataset:
    """A table of four fragments, whose indices lack all but the first."""
    dataset = await alance.write_dataset({"id": range(10), "text": ["word"] * 10}, uri)
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.create_scalar_index("text", "INVERTED")
    for _ in range(3):
        dataset = await dataset.insert({"id": range(10), "text": ["word"] * 10})
    return dataset


async def test_steps_of_maintenance_are_events_with_their_outcome(
    tmp_path: Path, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "alance.io")
    dataset = await indexed_fragments(str(tmp_path / "t"))
    (segment,) = (index for index in dataset.list_indices() if index["name"] == "text_idx")
    for file in (tmp_path / "t" / "_indices" / segment["uuid"]).iterdir():
        file.write_bytes(b"damaged")
    policy = alance.MaintenancePolicy(min_small_fragments=3, older_than=None)
    assert notes.steps == []
    await dataset.maintain(policy, dry_run=True)
    assert notes.steps == []  # only planned
    report = await dataset.maintain(policy)
    compact, by_id, by_text = notes.steps
    assert (compact.kind, compact.target, compact.outcome) == ("compact", None, "ok")
    assert (by_id.kind, by_id.target, by_id.outcome) == ("index", "id_idx", "ok")
    assert (by_text.target, by_text.outcome, by_text.version) == (
        "text_idx", "CorruptFileError", None,
    )  # fmt: skip
    assert by_id.uri == dataset.uri
    for event, step in zip(notes.steps, report.steps, strict=True):
        assert (event.reason, event.version) == (step.reason, step.version)
        assert (event.num_bytes, event.num_requests) == (step.num_bytes, step.num_requests)
        assert 0 < event.seconds < event.ended_at
    texts = [record.getMessage() for record in caplog.records if record.name == "alance.io"]
    assert any(f"maintenance of {dataset.uri}: ok, index of id_idx" in text for text in texts)


async def test_a_step_of_maintenance_that_is_cancelled_is_an_event(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await indexed_fragments(str(tmp_path / "t"))

    async def wait(*arguments: Any) -> None:
        task.cancel()
        await asyncio.sleep(60)

    monkeypatch.setattr(compact, "carry_out", wait)
    policy = alance.MaintenancePolicy(min_small_fragments=3, older_than=None)
    task = asyncio.ensure_future(dataset.maintain(policy))
    with pytest.raises(asyncio.CancelledError):
        await task
    (step,) = notes.steps
    assert (step.kind, step.outcome, step.version) == ("compact", "cancelled", None)


async def test_steps_of_maintenance_have_metrics_and_spans(tmp_path: Path) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    observers = observe.Metrics(), observe.OpenTelemetry(meters, tracers)
    dataset = await indexed_fragments(str(tmp_path / "t"))
    for observer in observers:
        observe.add(observer)
    try:
        await dataset.maintain(alance.MaintenancePolicy(min_small_fragments=3, older_than=None))
    finally:
        for observer in observers:
            observe.remove(observer)
    text, labels = observers[0].text(), f'table="{dataset.uri}",step="index",outcome="ok"'
    assert f"alance_maintenance_step_seconds_count{{{labels}}} 2" in text
    steps = [span for span in spans.get_finished_spans() if span.name == "alance maintenance"]
    attributes = [dict(span.attributes or {}) for span in steps]
    names = [(values["alance.step"], values.get("alance.index")) for values in attributes]
    assert names == [("compact", None), ("index", "id_idx"), ("index", "text_idx")]
    assert all(span.status.is_ok or span.status.is_unset for span in steps)
    exported = reader.get_metrics_data()
    assert exported is not None
    assert "alance.maintenance.step.duration" in exported.to_json()


async def test_a_long_wait_for_a_turn_is_a_warning(
    lab: Lab, uri: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "LONG_WAIT_S", 0.0)
    observing._warned.clear()
    options = lab.lance_options()
    ids = list(range(10_000))
    await alance.write_dataset({"id": ids}, uri, max_rows_per_file=1000, storage_options=options)
    async with alance.Session(max_requests=1) as session:
        dataset = await alance.dataset(uri, session=session, storage_options=options)
        await dataset.take(ids[::1000])
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "max_requests" in warning.getMessage()
