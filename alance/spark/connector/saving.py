"""Writes of the connector: begun and committed on the driver, written on the executors.

The driver sends `save`, whose answer is passed to each task; later `commit` with the tasks'
answers, or `abort`. A task sends rows of one kind by `write`: `new` rows; `moved` rows with the
address and id of the row that they replace; or, for rows that are `gone`, only their addresses.
"""

from __future__ import annotations

import base64
import json
import pickle
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql.types import StructType

from alance import (
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from alance.distributed import ROW_ADDRESS, append_schema, inserted_keys
from alance.spark.committing import (
    WriteTarget,
    commit_rows,
    may_be_committed,
    noted_commit,
    producer_of,
    remove_files,
)
from alance.spark.connector.changes import RowChange, RowMoves, commit_changes, merged, write_moved
from alance.spark.connector.keeping import UnchangedColumns, inserted
from alance.spark.connector.planning import joined
from alance.spark.options import SparkWriteOptions
from alance.spark.versions import Version
from alance.spark.writer import check_sink, job_of, target_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import pyarrow as pa

    from alance import Dataset
    from alance.distributed import InsertedKeys
    from alance.spark.connector.planning import Planner
    from alance.spark.source import AlanceSource

NEW_CHANGE: Final = "new"
MOVED_CHANGE: Final = "moved"
GONE_CHANGE: Final = "gone"


@dataclass(frozen=True, slots=True)
class Save:
    """One write, on the driver and in its tasks.

    Attributes:
        target: the table; None if it exists and `if_exists` is `ignore`, so that nothing is
            written.
        job: name of the commit.
        base: state of the version whose rows are moved or removed; None if rows are only added, or
            replace all rows.
        filter: condition of further rows of that version to delete; None for no further rows.
        carried: values that moved rows keep; None if Spark holds all of their values.
        query: id of the streaming query of the batch; None for a batch write.
        keys: an empty set, to collect the keys of rows that a merge inserts; None without such a
            merge.
    """

    target: WriteTarget | None
    job: str
    base: bytes | None = None
    filter: str | None = None
    carried: UnchangedColumns | None = None
    query: str | None = None
    keys: InsertedKeys | None = None

    def of_batch(self, batch: int | None) -> tuple[str, tuple[str, int] | None]:
        """Return the name of a batch's commit, and the producer and number that identify it.

        Both together are None if neither a streaming query nor the options name a producer.
        """
        if self.query is not None and batch is not None:
            return job_of(self.query, batch), (self.query, batch)
        return self.job, None if self.target is None else producer_of(self.target.options)


class Saves:
    """Handler of requests of queries that write: `save`, `commit` and `abort`."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def answer(self, request: Mapping[str, Any]) -> object:
        """Answer a request of the driver; the result is converted to JSON."""
        if request["verb"] == "save":
            begun = await self._begun(request)
            return {"save": base64.b64encode(pickle.dumps(begun)).decode()}
        save: Save = pickle.loads(request["save"])
        job, producer = save.of_batch(request.get("batch"))
        changes = [
            (kind, pickle.loads(base64.b64decode(part)))
            for message in request["messages"]
            for kind, part in json.loads(message).items()
        ]
        if request["verb"] == "commit":
            await self._commit(save, changes, job, producer)
        elif save.target is not None and not may_be_committed(job):
            await remove_files(save.target.options, [change.written for _, change in changes])
        return {}

    async def _begun(self, request: Mapping[str, Any]) -> Save:
        kind: type[AlanceSource] = cloudpickle.loads(request["source"])
        mode, job = request["mode"], uuid.uuid4().hex
        options = SparkWriteOptions.parse(request["options"], kind.defaults)
        query = request.get("query")
        if query is not None:
            check_sink(options)
            query = options.txn_app or query
        schema = StructType.fromJson(json.loads(request["schema"]))
        if mode == "change":
            dataset = await self._planner.whole_table(request["state"])
            if producer_of(options) is not None:
                raise UnsupportedError("txn_app: only rows that are added, or replace all others")
            ((of_rows, _),) = await self._planner.tables(request["state"])
            carried = UnchangedColumns.of(dataset, schema, of_rows)
            replaced = joined(request.get("filters", ()))
            on = request.get("on")
            keys = None if on is None else inserted_keys(dataset, on)
            in_place = _in_place(options, dataset)
            return Save(in_place, job, request["state"], replaced, carried, keys=keys)
        if mode == "create":
            options = replace(options, if_exists="error")
        if mode == "replace":
            options = replace(options, keep_schema=False)
        config = dict(request.get("config", {}))
        target = await target_of(
            schema,
            options,
            overwrite=mode in ("overwrite", "replace"),
            keeps_required=mode in ("create", "replace"),
        )
        if mode == "replace" and request["must_exist"] and target and not target.base_version:
            raise NotFoundError(f"dataset {options.path!r}: there is no table to be replaced")
        return Save(target and replace(target, config=config), job, query=query)

    async def _commit(
        self,
        save: Save,
        changes: Sequence[tuple[str, RowChange]],
        job: str,
        producer: tuple[str, int] | None,
    ) -> None:
        target = save.target
        if target is None:
            return
        # An earlier process ended before it answered; a stream's batch is identified by its
        # producer.
        if save.query is None and may_be_committed(job):
            raise CommitStateUnknownError(
                f"dataset {target.options.path!r}: a commit was begun by a process that has ended; "
                "look whether the latest version has it before you repeat it"
            )
        with noted_commit(job):
            if save.base is None:
                parts = [change.written for _, change in changes if change.written is not None]
                await commit_rows(target, parts, producer, appends=target.base is not None)
                return
            base = await self._planner.whole_table(save.base)
            by_kind: dict[str, list[RowChange]] = {
                NEW_CHANGE: [],
                MOVED_CHANGE: [],
                GONE_CHANGE: [],
            }
            for kind, change in changes:
                by_kind[kind].append(change)
            if save.filter is not None:
                by_kind[GONE_CHANGE].append(await _matching(base, save.filter))
            gone = merged([*by_kind[MOVED_CHANGE], *by_kind[GONE_CHANGE]])
            num_moved = sum(
                change.written.num_rows for change in by_kind[MOVED_CHANGE] if change.written
            )
            if sum(map(len, gone.values())) < num_moved:
                raise InvalidInputError("one row was given several new values")
            if changes or gone:
                await commit_changes(base, by_kind[MOVED_CHANGE], by_kind[NEW_CHANGE], gone)

    @staticmethod
    async def rows(
        request: Mapping[str, Any], batches: AsyncGenerator[pa.RecordBatch, None]
    ) -> object:
        """Write a task's rows of one kind.

        Return a mapping with `change`: the pickled `RowChange` as text; None if there is no table
        to write to.
        """
        save: Save = pickle.loads(request["save"])
        moves, target = RowMoves(save.keys), save.target
        if target is None:
            async for _ in batches:
                pass
            return {"change": None}
        if request["kind"] == GONE_CHANGE:
            async for batch in batches:
                moves.note(batch)
            change = moves.change()
        elif request["kind"] == MOVED_CHANGE:
            change = await write_moved(target, moves, _moved(save, moves, batches))
        else:
            change = await write_moved(target, moves, _inserted(target, moves, batches))
        return {"change": base64.b64encode(pickle.dumps(change)).decode()}


def _in_place(options: SparkWriteOptions, dataset: Dataset) -> WriteTarget:
    version = Version.of(dataset, options)
    schema = append_schema(dataset)
    return WriteTarget(options, version, dataset.version, dataset.uri, schema, overwrite=False)


async def _matching(base: Dataset, condition: str) -> RowChange:
    """Return the change that removes the rows that meet a condition."""
    moves = RowMoves()
    async for batch in base.to_batches([ROW_ADDRESS], filter=condition):
        moves.note(batch)
    return moves.change()


def _moved(
    save: Save, moves: RowMoves, batches: AsyncGenerator[pa.RecordBatch, None]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield rows that replace others, and record the replaced rows."""
    carried, base = save.carried, save.target.base if save.target else None
    rows = (moves.note(batch, keep_address=carried is not None) async for batch in batches)
    if carried is not None and base is not None:
        return carried.moved(base.dataset, rows)
    return rows


async def _inserted(
    target: WriteTarget, moves: RowMoves, batches: AsyncGenerator[pa.RecordBatch, None]
) -> AsyncGenerator[pa.RecordBatch, None]:
    async for batch in batches:
        yield moves.note_new(inserted(batch, target.schema))
