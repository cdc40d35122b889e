"""Jobs `delete` and `merge`: rows by condition or by key, found and written on the executors."""

from __future__ import annotations

import pickle
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from alance import InvalidInputError, RetryableConflictError
from alance.distributed import (
    ROW_ADDRESS,
    ROW_ID,
    SourceGaps,
    append_schema,
    delete_rows,
    may_be_visible,
)
from alance.spark import read
from alance.spark.changes import Moves, commit_changes, merged, offsets_of, write_moved
from alance.spark.committing import Target, remove_files
from alance.spark.jobs.base import RESULT, Watch, place, result_batch
from alance.spark.types import arrow_schema
from alance.spark.versions import Version, open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyroaring import BitMap
    from pyspark.sql import DataFrame, SparkSession

    from alance import Dataset
    from alance.spark.changes import Change
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import WriteOptions

ROUNDS: Final = 5  # attempts on a newer version, where others changed the same rows


def delete(
    spark: SparkSession,
    uri: str,
    predicate: str | None = None,
    *,
    keys: DataFrame | None = None,
    on: Sequence[str] = (),
    max_rounds: int = ROUNDS,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Delete the rows that meet a condition, or whose key is in a DataFrame.

    Args:
        predicate: SQL of alance.
        keys: rows with the columns `on`; Spark broadcasts or shuffles them, as it finds better.
        on: columns that are compared; a null is equal to nothing.

    Raises:
        InvalidInputError: neither a predicate nor keys, or both.
        RetryableConflictError: others changed the same rows in every round.
    """
    if (predicate is None) == (keys is None) or (keys is not None and not on):
        raise InvalidInputError("expected a predicate, or keys with the columns `on`")
    where = place(spark, uri, storage_options)
    table = partial(_table, spark, uri, storage_options)
    with Watch(spark, "delete", on_progress) as watch:

        def attempt(base: Dataset) -> tuple[Dataset, dict[str, int]]:
            if keys is None:
                rows = table(base, [ROW_ADDRESS], filter=predicate)
            else:
                rows = table(base, [*on, ROW_ADDRESS])
                rows = rows.join(keys.select(*on).distinct(), list(on), "left_semi")
            gone = merged(_collected(rows.select(ROW_ADDRESS), _places))
            count = sum(len(rows) for rows in gone.values())
            if not count:
                return base, {"rows": 0}
            noted = predicate or f"key of {', '.join(on)}"
            return run(delete_rows(base, offsets_of(gone), noted)), {"rows": count}

        after, counts = _rounds(where, attempt, max_rounds)
        return watch.summary(uri, after.version, **counts)


def merge(
    spark: SparkSession,
    uri: str,
    source: DataFrame,
    on: Sequence[str],
    *,
    when_matched: Literal["update", "delete", "nothing"] = "update",
    when_not_matched: Literal["insert", "nothing"] = "insert",
    max_rounds: int = ROUNDS,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Put rows into a table by key: those with a known key in the place of the row that has it.

    Rows keep their `_rowid` and when they came into being, where ids are stable. A null key is
    equal to nothing.

    Cost: where the source lacks columns, they are read of the rows that it replaces, on the
    executors, and all tasks get the records of all fragments, 130 bytes each.

    Args:
        source: rows with columns of the table, the key among them. Columns, and members of
            structs, that it lacks keep the table's values in rows that are updated, and are null
            in rows that are inserted.
        on: the columns of the key.
        when_matched: `update`, `delete` the row of the table, or `nothing`.
        when_not_matched: `insert` or `nothing`.

    Raises:
        InvalidInputError: two rows of the source for one row of the table; a source without
            columns of the key, with columns that the table has not, or, where it is to insert,
            without columns that cannot be null. The table is as it was.
        RetryableConflictError: others changed the same rows in every round.
    """
    if when_matched not in ("update", "delete", "nothing"):
        raise InvalidInputError(f"when_matched={when_matched!r}: expected update, delete, nothing")
    if when_not_matched not in ("insert", "nothing"):
        raise InvalidInputError(f"when_not_matched={when_not_matched!r}: expected insert, nothing")
    where = place(spark, uri, storage_options)
    table = partial(_table, spark, uri, storage_options)
    with Watch(spark, "merge", on_progress) as watch:

        def attempt(base: Dataset) -> tuple[Dataset, dict[str, int]]:
            inserts = when_not_matched == "insert"
            given = arrow_schema(source.schema)
            gaps = SourceGaps.of(base, given, on, when_matched, inserts=inserts)
            keys_of_table = table(base, [*on, ROW_ADDRESS, ROW_ID])
            joined = source.join(keys_of_table, list(on), "left").persist()
            try:
                return _merge(where, base, joined, when_matched, when_not_matched, gaps)
            finally:
                joined.unpersist()

        after, counts = _rounds(where, attempt, max_rounds)
        return watch.summary(uri, after.version, **counts)


def _merge(
    where: WriteOptions,
    base: Dataset,
    joined: DataFrame,
    when_matched: str,
    when_not: str,
    gaps: SourceGaps | None,
) -> tuple[Dataset, dict[str, int]]:
    """One attempt: write the rows, then commit them with the rows that go."""
    target = Target(
        where,
        Version.of(base, where),
        base.version,
        base.uri,
        append_schema(base),
        overwrite=False,
    )
    matched = joined.where(f"{ROW_ADDRESS} is not null")
    moved: list[Change] = []
    new: list[Change] = []
    gone: dict[int, BitMap] = {}
    try:
        if when_matched == "update":
            moved = _collected(matched, partial(_written, target, gaps))
            gone = merged(moved)
            num_moved = _num_rows(moved)
            if num_moved != sum(len(rows) for rows in gone.values()):
                raise InvalidInputError(
                    f"merge into {where.path!r}: several rows of the source have the key of one "
                    "row of the table"
                )
        elif when_matched == "delete":
            gone = merged(_collected(matched.select(ROW_ADDRESS), _places))
        if when_not == "insert":
            others = joined.where(f"{ROW_ADDRESS} is null")
            new = _collected(others, partial(_written, target, None))
        counts = {
            "rows_updated": _num_rows(moved),
            "rows_deleted": 0 if moved else sum(len(rows) for rows in gone.values()),
            "rows_inserted": _num_rows(new),
        }
        if not any(counts.values()):
            return base, counts
        return run(commit_changes(base, moved, new, gone)), counts
    except Exception as error:
        if not may_be_visible(error):
            run(remove_files(where, [change.written for change in (*moved, *new)]))
        raise


def _num_rows(changes: Sequence[Change]) -> int:
    return sum(change.written.num_rows for change in changes if change.written is not None)


def _rounds(
    where: WriteOptions,
    attempt: Callable[[Dataset], tuple[Dataset, dict[str, int]]],
    max_rounds: int,
) -> tuple[Dataset, dict[str, int]]:
    """Run on the latest version, again where others changed the same rows meanwhile."""
    number = 1
    while True:
        try:
            after, counts = attempt(run(open_version(where)))
            return after, {**counts, "rounds": number}
        except RetryableConflictError:
            if number >= max_rounds:
                raise
            number += 1


def _table(
    spark: SparkSession,
    uri: str,
    storage_options: Mapping[str, str] | None,
    base: Dataset,
    columns: list[str],
    filter: str | None = None,
) -> DataFrame:
    """Columns of a version."""
    return read(
        spark,
        uri,
        columns=columns,
        filter=filter,
        version=base.version,
        storage_options=storage_options,
    )


def _collected(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Any]) -> list[Any]:
    """What some work gives of each partition of a frame."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield result_batch(0, pickle.dumps(work(batches)))

    return [pickle.loads(bytes(row.result)) for row in frame.mapInArrow(task, RESULT).collect()]


def _places(batches: Iterator[pa.RecordBatch]) -> Change:
    """Rows that go, by their address."""
    moves = Moves()
    for batch in batches:
        moves.note(batch)
    return moves.change()


def _written(target: Target, gaps: SourceGaps | None, batches: Iterator[pa.RecordBatch]) -> Change:
    """Rows to data files; with them, where those are that they replace, and their ids in order."""
    moves = Moves()
    rows = (moves.note(batch, keep_address=gaps is not None) for batch in batches)
    data = rows if gaps is None else _filled(target, gaps, rows)
    return run(write_moved(target, moves, data))


async def _filled(
    target: Target, gaps: SourceGaps, batches: Iterator[pa.RecordBatch]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Rows that replace others, with what they lack taken from those."""
    assert target.base is not None
    async with aclosing(gaps.filled(target.base.dataset(gaps.fragments), batches)) as rows:
        async for row in rows:
            yield row
