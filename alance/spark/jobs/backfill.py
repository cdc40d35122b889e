"""Job `backfill`: new columns, one task a fragment, one commit; goes on where it was left."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from alance.format.proto import table_pb2
from alance.ops.columns.add import merge_of
from alance.ops.columns.backfill import owned_ids, source_of
from alance.ops.columns.fields import added, check_grown, next_field_id
from alance.ops.columns.fragment import add_to_fragment
from alance.ops.columns.sources import NewColumns, opened
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import commit_change
from alance.spark.jobs.base import Watch, place, spread
from alance.spark.types import arrow_schema, nullable
from alance.spark.versions import Version, open_version
from alance.spark.worker import run, session_for
from alance.udf import BatchUdf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from alance.ops.version.snapshot import FragmentHandle, Snapshot
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import WriteOptions


@dataclass(frozen=True, slots=True)
class Work:
    """The work of each task. Pickled once for all of them.

    Attributes:
        transforms: SQL text by column, or a function of record batches.
        checkpoint: folder where what is done is noted; None: nowhere.
    """

    options: WriteOptions
    transforms: Any
    read_columns: tuple[str, ...] | None
    batch_size: int | None
    checkpoint: str | None

    def note(self, fragment_id: int, source: str) -> str:
        """Where the file of a fragment is noted."""
        name = hashlib.sha256(f"{source}|{self.key()}".encode()).hexdigest()[:24]
        return f"{(self.checkpoint or '').rstrip('/')}/{fragment_id}-{name}"

    def key(self) -> str:
        """Names what is computed, as far as its text tells: SQL, or the columns of a function."""
        if isinstance(self.transforms, Mapping):
            return repr(sorted(self.transforms.items()))
        return str(self.transforms.output_schema)


def backfill(
    spark: SparkSession,
    uri: str,
    columns: Mapping[str, str] | Callable[[pa.RecordBatch], Any],
    *,
    schema: str | pa.Schema | None = None,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    checkpoint: str | None = None,
    max_rounds: int = 5,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Add columns to all fragments: each gets one more file, those that it has stay.

    Fragments that others add meanwhile are computed in another round, before the commit.

    Args:
        columns: SQL of alance by new column, or a function that is called with batches of live
            rows and gives a RecordBatch, Table or pandas frame of as many rows.
        schema: of what a function gives: a pyarrow schema, or text as `"v array<float>"`.
        read_columns: that a function gets; None: all.
        checkpoint: URI of a folder; with the same one an interrupted job computes only what is
            missing. It is not removed; the notes of other expressions in it are not used.
        max_rounds: rounds at most, each because others were first.

    Raises:
        InvalidInputError: a column that exists, bad SQL, values that do not fit.
        RetryableConflictError: others were first in every round.
        PythonException: (of Spark) around an error of a task.
    """
    where = place(spark, uri, storage_options)
    work = Work(
        where,
        _transforms(columns, schema),
        None if read_columns is None else tuple(read_columns),
        batch_size,
        checkpoint,
    )
    done: dict[int, tuple[str, bytes]] = {}
    resumed = rounds = 0
    with Watch(spark, "backfill", on_progress) as watch:
        while True:
            snapshot = run(open_version(where))
            run(_check(snapshot, work))
            resumed += run(_recall(snapshot, work, done))
            todo = [one for one in snapshot.handles if not _is_done(one, done)]
            watch.step, rounds = f"round {rounds + 1}: {len(todo)} fragments", rounds + 1
            items = [one.fragment.message.SerializeToString() for one in todo]
            version = Version.of(snapshot, where)
            for one in spread(spark, items, partial(_execute, work, version)):
                number, source, record = pickle.loads(one)
                done[number] = (source, record)
            try:
                made = run(_commit(snapshot, work, done))
                break
            except RetryableConflictError:
                if rounds >= max_rounds:
                    raise
        return watch.summary(
            uri,
            made.version,
            fragments=len(made.manifest.fragments),
            computed=len(done) - resumed,
            resumed=resumed,
            rounds=rounds,
        )


def _transforms(columns: Any, schema: str | pa.Schema | None) -> Any:
    if isinstance(columns, Mapping):
        if schema is not None:
            raise InvalidInputError("schema: only of a function; SQL tells its types")
        return dict(columns)
    if schema is None and not isinstance(columns, BatchUdf):
        raise InvalidInputError("schema: expected with a function, such as 'v array<float>'")
    if isinstance(schema, str):
        from pyspark.sql.types import StructType

        parsed = StructType.fromDDL(schema)
        if not isinstance(parsed, StructType):
            raise InvalidInputError(f"schema {schema!r}: expected columns, as 'v array<float>'")
        found = arrow_schema(parsed)
        schema = pa.schema([pa.field(one.name, nullable(one.type)) for one in found])
    return columns if schema is None else BatchUdf(columns, schema)


async def _opened(snapshot: Snapshot, work: Work) -> NewColumns:
    found = await opened(snapshot, work.transforms, work.read_columns, work.batch_size)
    assert isinstance(found, NewColumns)
    return found


async def _check(snapshot: Snapshot, work: Work) -> None:
    """Raise where the columns cannot be added, before anything is computed."""
    columns = await _opened(snapshot, work)
    arrow = await columns.schema(snapshot)
    _, new = added(snapshot.schema, arrow, next_field_id(snapshot.manifest))
    check_grown(snapshot.manifest, new, is_null=False)


def _is_done(handle: FragmentHandle, done: Mapping[int, tuple[str, bytes]]) -> bool:
    return handle.id in done and done[handle.id][0] == source_of(handle, None)


async def _recall(snapshot: Snapshot, work: Work, done: dict[int, tuple[str, bytes]]) -> int:
    """Take over what the checkpoint notes of the fragments of a version; gives how many."""
    if work.checkpoint is None:
        return 0
    registry = session_for(work.options).engine.registry
    found = 0
    for handle in snapshot.handles:
        source = source_of(handle, None)
        if _is_done(handle, done):
            continue
        store, path = registry.open(
            work.note(handle.id, source), storage_options=dict(work.options.storage) or None
        )
        try:
            done[handle.id] = (source, bytes(await store.get(path)))
        except NotFoundError:
            continue
        found += 1
    return found


def _execute(work: Work, version: Version, item: bytes) -> bytes:
    """The new file of one fragment, on an executor."""

    async def compute() -> bytes:
        snapshot = version.snapshot([item])
        (handle,) = snapshot.handles
        await snapshot.prepare([handle])
        source = source_of(handle, None)
        made, _ = await add_to_fragment(
            snapshot,
            handle,
            work.transforms,
            read_columns=work.read_columns,
            batch_size=work.batch_size,
        )
        has_new = len(made.files) > len(handle.fragment.files)
        record = made.files[-1].SerializeToString() if has_new else b""
        if work.checkpoint is not None:
            store, path = session_for(work.options).engine.registry.open(
                work.note(handle.id, source), storage_options=dict(work.options.storage) or None
            )
            try:
                await store.put(path, record, if_absent=True)
            except AlreadyExistsError:  # another attempt of this task was first: its file counts
                record = bytes(await store.get(path))
        return pickle.dumps((handle.id, source, record))

    return run(compute())


async def _commit(
    snapshot: Snapshot, work: Work, done: Mapping[int, tuple[str, bytes]]
) -> Snapshot:
    """One version with the new files of all fragments."""
    columns = await _opened(snapshot, work)
    arrow = await columns.schema(snapshot)
    schema, new = added(snapshot.schema, arrow, next_field_id(snapshot.manifest))
    fragments = []
    for handle in snapshot.handles:
        made = table_pb2.DataFragment()
        made.CopyFrom(handle.fragment.message)
        record = done[handle.id][1]
        if record:
            file = made.files.add()
            file.ParseFromString(record)
            file.fields[:] = owned_ids(new)
        fragments.append(made)
    return await commit_change(
        snapshot, merge_of(snapshot, schema, new, fragments), CommitOptions()
    )
