"""Distribution of work over executors, and progress and summaries of jobs."""

from __future__ import annotations

import asyncio
import pickle
import queue
import threading
import time
import uuid
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from alance import AlanceError, Progress
from alance.spark.failures import translated
from alance.spark.options import SparkWriteOptions
from alance.spark.session import storage_of
from alance.spark.worker import begin, release, run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from pyspark.sql import SparkSession

    from alance import Dataset
    from alance.spark.versions import Version
    from alance.types import DataFragment

    OnProgress: TypeAlias = "Callable[[Progress], object]"

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

POLL_S: Final = 0.5
RESULT: Final = "number long, result binary"


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a job.

    Attributes:
        version: version of the table after the job; None for jobs that create none, such as
            `export`.
        counts: numbers by name, such as `rows` or `fragments`.
        lines: description of the work for people; empty if the counts are enough.
    """

    job: str
    uri: str
    version: int | None
    seconds: float
    counts: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {value}" for name, value in self.counts.items())
        version = "" if self.version is None else f", version {self.version}"
        first = f"{self.job} {self.uri}: {self.seconds:.1f} s{version}; {counts}"
        return "\n".join([first, *self.lines])


class Watch:
    """Context manager that times a job, and reports the number of finished Spark tasks.

    It reports while the job runs and at its end, as events in which `stage` is the job's step. An
    error of alance that Spark has wrapped is raised unwrapped at the end of the block. The
    counted tasks are those of the thread that enters `with Watch(...) as watch`. With Spark
    Connect, they are those of the session, which reports them every two seconds
    (`spark.connect.progress.reportInterval`).
    """

    def __init__(self, spark: SparkSession, job: str, on_progress: OnProgress | None) -> None:
        self._spark, self._job, self._tell = spark, job, on_progress
        self._group = f"alance-{job}-{uuid.uuid4().hex[:8]}"
        self._ended = threading.Event()
        self._has_failed = False
        self._thread: threading.Thread | None = None
        self._of_operations: dict[str | None, tuple[int, int]] = {}
        self._last_progress: Progress | None = None
        self._start = time.monotonic()
        self.step = "begin"

    def __enter__(self) -> Watch:
        context = getattr(self._spark, "_sc", None)
        if self._tell is not None and context is None:
            self._spark.registerProgressHandler(self._heard)  # type: ignore[arg-type]  # a function
        elif self._tell is not None and context is not None:
            context.setJobGroup(self._group, f"alance {self._job}")
            self._thread = threading.Thread(target=self._poll, args=(context,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self._has_failed = error is not None
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        elif self._tell is not None:
            self._spark.removeProgressHandler(self._heard)  # type: ignore[arg-type]
            if not self._has_failed:
                self._say(self._of_operations.values())
        ours = None if error is None else translated(error)
        if ours is not None:
            raise ours from error

    def summary(self, uri: str, version: int | None, **counts: object) -> Summary:
        """Return a summary of the job with its duration."""
        return Summary(self._job, uri, version, time.monotonic() - self._start, counts)

    def _poll(self, context: Any) -> None:
        tracker, is_last = context.statusTracker(), False
        while not is_last:
            is_last = self._ended.wait(POLL_S)  # short jobs report only once, at their end
            if is_last and self._has_failed:
                return
            counts = []
            for job in tracker.getJobIdsForGroup(self._group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    tasks = tracker.getStageInfo(stage)
                    if tasks is not None:
                        counts.append((tasks.numCompletedTasks, tasks.numTasks))
            self._say(counts)

    def _heard(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Handle a progress report of a Connect operation; Spark passes the arguments by name."""
        stages = list(stages or ())
        total = sum(stage.num_tasks for stage in stages)
        completed = total if done else sum(stage.num_completed_tasks for stage in stages)
        self._of_operations[operation_id] = (completed, total)
        self._say(self._of_operations.values())

    def _say(self, counts: Iterable[tuple[int, int]]) -> None:
        """Report the numbers of finished tasks and of all tasks if they have changed."""
        done, total = (sum(column) for column in zip((0, 0), *counts, strict=True))
        now = Progress(self.step, done, total, "tasks")
        if now != self._last_progress and self._tell is not None:
            self._tell(now)
            self._last_progress = now


class Task(Protocol[R_co]):
    """Work on some fragments of a version."""

    @property
    def fragments(self) -> Sequence[DataFragment]:
        """Records of the fragments."""

    async def execute(self, dataset: Dataset) -> R_co:
        """Run the task on a version that has these fragments."""


def place(
    spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None
) -> SparkWriteOptions:
    """Return options for a job's table, for this process and the executors."""
    return SparkWriteOptions(path=uri, storage=storage_of(spark, storage_options))


def spread(spark: SparkSession, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Run `work` on each item in a Spark task of its own; return the results in the items' order.

    Each executor gets all items once, because they are small records of fragments. A task unpickles
    only its own item.

    Args:
        work: called on an executor; if a task is retried, only one result is used.
    """
    if not items:
        return []
    table = [pickle.dumps(item) for item in items]

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = work(pickle.loads(table[number]))
                release()
                yield result_batch(number, pickle.dumps(result))

    frame = spark.range(0, len(table), 1, len(table)).mapInArrow(each, RESULT)
    results = {row.number: pickle.loads(bytes(row.result)) for row in frame.collect()}
    return [results[number] for number in range(len(table))]


class Executors:
    """Runner of tasks on the executors, for a coroutine of this process.

    All calls of Spark come from the thread that calls `run`, whose tasks a `Watch` counts. Calls of
    `run_tasks` that wait at the same time share a Spark job.

    Args:
        work: called on an executor with each task.
    """

    def __init__(self, spark: SparkSession, work: Callable[[Any], Any]) -> None:
        self._spark, self._work = spark, work
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.num_tasks = 0

    async def run_tasks(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """Return the results of tasks, in order.

        Raises:
            AlanceError: a task failed with it.
            PySparkException: Spark failed.
        """
        call = _Call(tasks)
        self._calls.put(call)
        return await asyncio.wrap_future(call.results)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the worker's loop; an interrupt cancels it there."""
        done = begin(coroutine)
        done.add_done_callback(lambda _: self._calls.put(None))
        try:
            while (call := self._calls.get()) is not None:
                calls = [call]
                with suppress(queue.Empty):
                    while (call := self._calls.get_nowait()) is not None:
                        calls.append(call)
                self._spread(
                    [call for call in calls if call.results.set_running_or_notify_cancel()]
                )
            return done.result()
        except BaseException:
            done.cancel()
            raise

    def _spread(self, calls: Sequence[_Call]) -> None:
        try:
            tasks = [task for call in calls for task in call.tasks]
            self.num_tasks += len(tasks)
            outcomes = iter(spread(self._spark, tasks, partial(_caught, self._work)))
        except Exception as error:
            for call in calls:
                call.results.set_exception(translated(error) or error)
            return
        for call in calls:
            results = [next(outcomes) for _ in call.tasks]
            errors = [result for result in results if isinstance(result, AlanceError)]
            if errors:
                call.results.set_exception(errors[0])
            else:
                call.results.set_result(results)


@dataclass(frozen=True, slots=True)
class _Call:
    """Tasks of a coroutine that waits for their results."""

    tasks: Sequence[Any]
    results: Future[Sequence[Any]] = field(default_factory=Future)


def _caught(work: Callable[[T], R], task: T) -> R | AlanceError:
    """Run a task; return an `AlanceError` as its result, so that it fails only the task's call."""
    try:
        return work(task)
    except AlanceError as error:
        return error


def executed(version: Version, task: Task[R]) -> R:
    """Run a planned task on an executor, without reading a manifest."""

    async def execute() -> R:
        records = [fragment.SerializeToString() for fragment in task.fragments]
        return await task.execute(version.dataset(records))

    return run(execute())


def quoted(name: str) -> str:
    """Quote a column's name for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def result_batch(number: int, result: bytes) -> pa.RecordBatch:
    """Build a batch with one row of `RESULT`."""
    return pa.record_batch(
        {"number": pa.array([number], pa.int64()), "result": pa.array([result], pa.binary())}
    )
