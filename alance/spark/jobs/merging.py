"""Job `merge`: joins rows by key on the executors, then updates, deletes and inserts there."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructField, StructType

from alance import InvalidInputError
from alance.distributed import ROW_ADDRESS, ROW_ID, SourceGaps, inserted_keys
from alance.spark.connector.changes import RowMoves, commit_changes, merged, write_moved
from alance.spark.failures import error_message
from alance.spark.jobs.base import Watch, place, quoted
from alance.spark.jobs.changing import (
    MAX_CHANGE_ROUNDS,
    collected,
    num_rows,
    places,
    removed_on_failure,
    rounds,
    table_of,
    target_in_place,
)
from alance.spark.notes import is_compared_by_bytes
from alance.spark.types import arrow_schema
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from alance import Dataset
    from alance.distributed import InsertedKeys
    from alance.spark.committing import WriteTarget
    from alance.spark.connector.changes import RowChange
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import SparkWriteOptions

SOURCE_ALIAS: Final = "source"
TARGET_ALIAS: Final = "target"
THERE: Final = "_in_source"  # True in joined rows that exist in the source
CLAUSE: Final = "_clause"  # number of the clause for a row
_WORD: Final = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_ACTIONS: Final = {
    "when_matched": ("update", "delete", "nothing"),
    "when_not_matched": ("insert", "nothing"),
    "when_not_matched_by_source": ("update", "delete", "nothing"),
}


Action: TypeAlias = Literal["update", "delete", "insert", "nothing"]


@dataclass(frozen=True, slots=True)
class When:
    """One clause of a merge: an action, and the condition of its rows.

    Attributes:
        action: `update`, `delete`, `insert` or `nothing`.
        condition: Spark SQL over `source.a` and `target.a`; None: all rows. Rows for which it is
            not true are passed to the next clause.
        set: Spark SQL by column of the table, for an update or insert; None: the source's columns,
            by name. Other columns keep their values, or are null in new rows.
    """

    action: Action
    condition: str | None = None
    set: Mapping[str, str] | None = None


Clauses: TypeAlias = "str | When | Sequence[str | When]"


def merge(
    spark: SparkSession,
    uri: str,
    source: DataFrame,
    on: Sequence[str],
    *,
    when_matched: Clauses = "update",
    when_not_matched: Clauses = "insert",
    when_not_matched_by_source: Clauses = "nothing",
    max_rounds: int = MAX_CHANGE_ROUNDS,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Upsert and delete rows by key in one version: all that SQL's MERGE INTO does.

    With stable row ids, rows keep their `_rowid` and creation version. A null key equals nothing.
    The first clause with a true condition is applied to a row.

        jobs.merge(
            spark, uri, source, ["id"],
            when_matched=[When("delete", "source.gone"), When("update", "source.at > target.at")],
            when_not_matched=When("insert", "not source.gone"),
            when_not_matched_by_source=When("update", set={"stale": "true"}),
        )

    Cost: the executors read the table's key columns, the columns that clauses name, and for updated
    rows all columns without a new value. If rows keep values, each task gets the records of all
    fragments, 130 bytes each.

    Args:
        source: a DataFrame whose columns (or struct members) are columns of the table, unless all
            clauses set columns. For columns that it lacks, an update without `set` keeps the
            values, and an insert sets nulls.
        on: key columns, in the source and the table.
        when_matched: a clause or several: `update`, `delete` or `nothing`, or `When`s of these.
        when_not_matched: `insert` or `nothing`, for rows of the source; `target` is not available.
        when_not_matched_by_source: `update` with `set`, `delete` or `nothing`, for rows of the
            table; `source` is not available.

    Raises:
        InvalidInputError: before any task runs: bad SQL, unknown columns, types that never fit, or
            inserts without required columns; during the tasks: several source rows for an updated
            row. The table is unchanged.
        RetryableConflictError: other commits changed the same rows in every round.
    """
    plan = _ClausePlan(
        tuple(on),
        _clauses("when_matched", when_matched),
        _clauses("when_not_matched", when_not_matched),
        _clauses("when_not_matched_by_source", when_not_matched_by_source),
    )
    if all(clause.action == "nothing" for clause in plan.clauses):
        raise InvalidInputError("merge: nothing to do; expected an update, delete or insert")
    where = place(spark, uri, storage_options)
    table = partial(table_of, spark, uri, storage_options)
    with Watch(spark, "merge", on_progress) as watch:

        def attempt(base: Dataset) -> tuple[Dataset, dict[str, int]]:
            plan.check_key(source.columns)
            columns = [*plan.columns_of(base.schema.names), ROW_ADDRESS, ROW_ID]
            rows = _JoinedSides(plan, source, table(base, columns))
            writes = [*plan.writes(base, rows)]
            joined = rows.numbered().persist()
            try:
                return _attempt(where, base, joined, plan, writes)
            finally:
                joined.unpersist()

        after, counts = rounds(where, attempt, max_rounds)
        return watch.summary(uri, after.version, **counts)


@dataclass(frozen=True, slots=True)
class _Write:
    """Rows that one clause of a merge writes.

    Attributes:
        number: number of the clause.
        values: columns that the clause sets, or all columns of the source.
        gaps: columns of updated rows that keep their values; None without such columns, or for
            inserted rows.
        is_new: True if the rows are inserted.
    """

    number: int
    values: tuple[Column, ...]
    gaps: SourceGaps | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class _ClausePlan:
    """The clauses of a merge, numbered in the order of these fields."""

    on: tuple[str, ...]
    matched: tuple[When, ...]
    new: tuple[When, ...]
    others: tuple[When, ...]

    @property
    def clauses(self) -> tuple[When, ...]:
        return (*self.matched, *self.new, *self.others)

    @property
    def inserts(self) -> bool:
        return any(clause.action == "insert" for clause in self.new)

    @property
    def join(self) -> str:
        """Type of the join that yields all rows to which a clause may apply."""
        others = any(clause.action != "nothing" for clause in self.others)
        if self.inserts:
            return "full" if others else "left"
        return "right" if others else "inner"

    def check_key(self, names: Sequence[str]) -> None:
        """Raise `InvalidInputError` if there is no key, or the source lacks a key column."""
        missing = [name for name in self.on if name not in names]
        if missing or not self.on:
            raise InvalidInputError(
                f"merge: key columns {list(self.on)}, the source has {', '.join(names)}"
            )

    def stored_alike(self, base: Dataset) -> tuple[str, ...]:
        """Return the key columns if values that Spark finds equal have equal bytes; else none."""
        key = {name.casefold() for name in self.on}
        fields = [field for field in base.schema if field.name.casefold() in key]
        is_other = not all(map(is_compared_by_bytes, fields)) or any(
            pa.types.is_floating(field.type) for field in fields
        )
        return () if is_other else self.on

    def columns_of(self, names: Sequence[str]) -> list[str]:
        """Return the table's columns to join: the key, and each column that a clause may name."""
        texts = [clause.condition or "" for clause in self.clauses]
        texts += [text for clause in self.clauses for text in (clause.set or {}).values()]
        words = {
            (inside.replace("``", "`") or plain).casefold()
            for text in texts
            for inside, plain in _WORD.findall(text)
        }
        key = {name.casefold() for name in self.on}
        return [name for name in names if name.casefold() in words | key]

    def writes(self, base: Dataset, rows: _JoinedSides) -> Iterator[_Write]:
        """Check all clauses and yield their writes. Runs no task.

        Raises:
            InvalidInputError: see `merge`.
        """
        for number, clause in enumerate(self.clauses):
            side = rows.side_of(number)
            if clause.condition is not None:
                kind = rows.checked(side, "condition", clause.condition)
                if not isinstance(kind.dataType, BooleanType):
                    raise InvalidInputError(
                        f"merge: condition {clause.condition!r} is {kind.dataType.simpleString()}, "
                        "expected boolean"
                    )
            if clause.action in ("nothing", "delete"):
                continue
            if clause.set is None:
                schema = rows.source.schema
                values = [f.col(f"{SOURCE_ALIAS}.{quoted(name)}") for name in schema.names]
            else:
                fields = [rows.checked(side, name, text) for name, text in clause.set.items()]
                schema = StructType(fields)
                values = [f.expr(text).alias(name) for name, text in clause.set.items()]
            source_schema, is_new = arrow_schema(schema), clause.action == "insert"
            if is_new:
                SourceGaps.check_inserted(base, source_schema)
            gaps = None if is_new else SourceGaps.of(base, source_schema)
            yield _Write(number, tuple(values), gaps, is_new)


class _JoinedSides:
    """Join of the source and the table."""

    def __init__(self, plan: _ClausePlan, source: DataFrame, table: DataFrame) -> None:
        self._plan = plan
        self.source = source
        self._source_rows = source.withColumn(THERE, f.lit(True)).alias(SOURCE_ALIAS)
        self._right = table.alias(TARGET_ALIAS)
        pairs = [
            f.col(f"{SOURCE_ALIAS}.{quoted(name)}") == f.col(f"{TARGET_ALIAS}.{quoted(name)}")
            for name in plan.on
        ]
        condition = pairs[0]
        for pair in pairs[1:]:
            condition = condition & pair
        self._joined = self._source_rows.join(self._right, condition, plan.join)

    def side_of(self, number: int) -> DataFrame:
        """Return the rows that a clause's expressions can refer to."""
        matched, new = len(self._plan.matched), len(self._plan.new)
        if number < matched:
            return self._joined
        return self._source_rows if number < matched + new else self._right

    def checked(self, side: DataFrame, name: str, text: str) -> StructField:
        """Return the type of an expression.

        Raises:
            InvalidInputError: not SQL, or unknown columns.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"merge: {name} = {text!r}, expected SQL text")
        try:
            return side.select(f.expr(text).alias(name)).schema[0]
        except PySparkException as error:
            raise InvalidInputError(f"merge: {name} = {text!r}: {error_message(error)}") from error

    def numbered(self) -> DataFrame:
        """Return the rows to which a clause with an action applies, with the clause's number."""
        plan, start = self._plan, 0
        address, source_mark = (
            f.col(f"{TARGET_ALIAS}.{ROW_ADDRESS}"),
            f.col(f"{SOURCE_ALIAS}.{THERE}"),
        )
        cases = []
        for clauses, meets in (
            (plan.matched, source_mark.isNotNull() & address.isNotNull()),
            (plan.new, address.isNull()),
            (plan.others, source_mark.isNull()),
        ):
            number = f.lit(None).cast("int")
            for place_of, clause in reversed(list(enumerate(clauses, start))):
                chosen = f.lit(None if clause.action == "nothing" else place_of).cast("int")
                holds = f.lit(True) if clause.condition is None else f.expr(clause.condition)
                number = f.when(holds, chosen).otherwise(number)
            cases.append((meets, number))
            start += len(clauses)
        number = f.lit(None).cast("int")
        for meets, case in reversed(cases):
            number = f.when(meets, case).otherwise(number)
        return self._joined.withColumn(CLAUSE, number).where(f.col(CLAUSE).isNotNull())


def _attempt(
    where: SparkWriteOptions,
    base: Dataset,
    joined: DataFrame,
    plan: _ClausePlan,
    writes: Sequence[_Write],
) -> tuple[Dataset, dict[str, int]]:
    """Write the rows, then commit them together with the removals."""
    target = target_in_place(where, base)
    meta = [f.col(f"{TARGET_ALIAS}.{name}") for name in (ROW_ADDRESS, ROW_ID)]
    moved: list[RowChange] = []
    new: list[RowChange] = []
    written: list[RowChange] = []
    with removed_on_failure(where, written):
        for write in writes:
            rows = joined.where(f.col(CLAUSE) == write.number)
            rows = rows.select(*write.values, *([] if write.is_new else meta))
            keys = inserted_keys(base, plan.stored_alike(base)) if write.is_new else None
            changes = collected(rows, partial(_written, target, write.gaps, keys))
            written += changes
            (new if write.is_new else moved).extend(changes)
        deleting = [n for n, clause in enumerate(plan.clauses) if clause.action == "delete"]
        deleted = {}
        if deleting:
            rows = joined.where(f.col(CLAUSE).isin(deleting)).select(meta[0])
            deleted = merged(collected(rows, places))
        gone = merged(moved)
        num_deleted = sum(map(len, deleted.values()))
        for number, offsets in deleted.items():
            gone[number] = gone[number] | offsets if number in gone else offsets
        if num_rows(moved) + num_deleted != sum(map(len, gone.values())):
            raise InvalidInputError(
                f"merge into {where.path!r}: several rows of the source have the key of one row "
                "of the table"
            )
        counts = {
            "rows_updated": num_rows(moved),
            "rows_deleted": num_deleted,
            "rows_inserted": num_rows(new),
        }
        if not any(counts.values()):
            return base, counts
        return run(commit_changes(base, moved, new, gone)), counts


def _written(
    target: WriteTarget,
    gaps: SourceGaps | None,
    keys: InsertedKeys | None,
    batches: Iterator[pa.RecordBatch],
) -> RowChange:
    """Write rows to data files, and record the addresses and ids of the rows that they replace.

    Args:
        keys: an empty set that collects the keys of inserted rows; None: the rows replace others.
    """
    moves = RowMoves(keys)
    if keys is not None:
        return run(write_moved(target, moves, map(moves.note_new, batches)))
    rows = (moves.note(batch, keep_address=gaps is not None) for batch in batches)
    data = rows if gaps is None else _filled(target, gaps, rows)
    return run(write_moved(target, moves, data))


async def _filled(
    target: WriteTarget, gaps: SourceGaps, batches: Iterator[pa.RecordBatch]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Fill the missing columns of rows from the rows that they replace."""
    assert target.base is not None
    async with aclosing(gaps.filled(target.base.dataset(gaps.fragments), batches)) as rows:
        async for row in rows:
            yield row


def _clauses(name: str, written: Clauses) -> tuple[When, ...]:
    """Parse the clauses of one kind.

    Raises:
        InvalidInputError: an action that is not allowed for such rows, `set` with a deletion, or an
            update without columns.
    """
    several: Sequence[Any] = [written] if isinstance(written, str | When) else written
    clauses = tuple(
        When(cast("Action", action)) if isinstance(action, str) else action for action in several
    )
    for clause in clauses:
        if not isinstance(clause, When) or clause.action not in _ACTIONS[name]:
            action = clause.action if isinstance(clause, When) else clause
            raise InvalidInputError(f"{name}={action!r}: expected {', '.join(_ACTIONS[name])}")
        if clause.set is not None and clause.action not in ("update", "insert"):
            raise InvalidInputError(f"{name}: `set` is of an update or insert alone")
        is_empty = clause.set is not None and not clause.set
        if is_empty or (
            name == "when_not_matched_by_source"
            and clause.action == "update"
            and clause.set is None
        ):
            raise InvalidInputError(f"{name}: an update of nothing; expected columns in `set`")
    return clauses
