"""`ingest`: a stream of batches, or of changes by key, into a table, with periodic commits."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from alance.base.calls import public
from alance.base.deferred import Deferred
from alance.base.hints import Hinted
from alance.datasets import Dataset
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops.blobs.files import BlobOptions
from alance.ops.version.options import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from alance.ops.write.ingest_options import (
    COMMIT_INTERVAL,
    HISTORY,
    INGEST_BUFFER_BYTES,
    IngestMetrics,
    IngestOptions,
)
from alance.ops.write.options import Limits
from alance.session import Session, table_at

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from alance.ops.maintain import background as maintenance
    from alance.ops.maintain import policy as rules
    from alance.ops.maintain.background import Maintainer, MaintenanceMetrics
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.merge import feed, stream
    from alance.ops.merge.changed_keys import ChangedKeys
    from alance.ops.merge.feed import Feed
    from alance.ops.upkeep import auto_compact as upkeep
    from alance.ops.upkeep import compact_plan
    from alance.ops.upkeep.auto_compact import AutoCompactionMetrics, Compactor
    from alance.ops.upkeep.background import UpkeepTask
    from alance.ops.write import ingest_open, sources
    from alance.ops.write.ingest import Ingest
    from alance.ops.write.sources import Data
    from alance.session import StoreArguments
    from alance.versioning.table import Table
else:
    maintenance = Deferred("alance.ops.maintain.background")
    rules = Deferred("alance.ops.maintain.policy")
    feed = Deferred("alance.ops.merge.feed")
    stream = Deferred("alance.ops.merge.stream")
    upkeep = Deferred("alance.ops.upkeep.auto_compact")
    compact_plan = Deferred("alance.ops.upkeep.compact_plan")
    ingest_open = Deferred("alance.ops.write.ingest_open")
    sources = Deferred("alance.ops.write.sources")


@public
def ingest(
    uri: str | os.PathLike[str],
    schema: pa.Schema | None = None,
    *,
    on: str | Sequence[str] | None = None,
    kind: str | None = None,
    envelope: Literal["debezium"] | None = None,
    max_buffer_bytes: int = INGEST_BUFFER_BYTES,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    max_file_age: float | None = None,
    commit_interval: float | None = COMMIT_INTERVAL,
    commit_rows: int | None = None,
    commit_bytes: int | None = None,
    producer: str | None = None,
    history: int = HISTORY,
    data_storage_version: str | FileVersion | None = None,
    stable_row_ids: bool = False,
    properties: Mapping[str, str] | None = None,
    blobs: BlobOptions | None = None,
    auto_compact: int | None = None,
    maintain: MaintenancePolicy | bool = False,
    **place: Unpack[StoreArguments],
) -> Sink:
    """Return a sink that appends batches to a table, and commits them by time or size.

        async with alance.ingest("s3://bucket/events", schema) as sink:
            async for batch in source:
                await sink.write(batch)

    Sends no request before its block begins. The sinks and inserts of one session on one table
    share versions; any number of tasks may write to one sink.

    With `on`, the sink takes changes by key instead: rows to upsert, of all or some columns, and
    keys to delete. A commit combines the changes of each key, and merges them into the latest
    version. Sinks of one session with the same key columns share merges.

    Args:
        uri: path or URI of the table; see `dataset`.
        schema: schema of a new table; None: the schema of the first batch.
        on: key columns; see `Sink.upsert` and `Sink.delete`. None: rows are appended.
        kind: name of the column with the kind of change for `write`, which is not a column of the
            table: `insert`, `update` and `upsert` mean the same, `delete` needs only the key
            columns. None: all rows are upserted.
        envelope: `debezium` if `write` gets change events with `op` (c, r, u, d), and the rows in
            the structs `before` and `after`; other columns are ignored. None: plain rows.
        max_buffer_bytes: maximum bytes of rows in memory that are not yet encoded; `write` waits
            for room. With `on`, changes in memory are committed when they reach half of it.
        max_rows_per_file: number of rows after which a new file begins.
        max_bytes_per_file: a file ends after the batch that reaches this size.
        max_file_age: seconds from a file's first row to its end; None: a file ends at the commit.
            Not allowed with `on`.
        commit_interval: seconds from the first row to the commit; None: only by size, by `flush`
            and at the end.
        commit_rows, commit_bytes: number of rows, or of bytes of files, that cause a commit.
        producer: name of the writer. Its batches are numbered from 1 on, and each version records
            the number of the last batch. After a crash, a new sink with the same name has this
            number as `last_sequence`. Only one sink at a time should use a name: if two write the
            same numbers, one of them fails.
        history: number of versions that are searched for tokens and for the producer's last batch.
        data_storage_version, stable_row_ids: settings of a new table.
        properties: recorded in each transaction.
        blobs: options of blobs of version 2; see `BlobOptions`.
        auto_compact: number of small fragments at which these are joined in the background, as by
            `Optimize.auto_compact` with the table's compaction options; `close` checks a last time
            and waits for the compaction. None: never.
        maintain: policy for maintaining the table in the background, after some commits and at the
            end, as by `Dataset.maintain`; True: the policy in the table's configuration; False:
            never. Not allowed with `auto_compact`.
        place: `store`, `storage_options` and `session`, as for `dataset`.

    Raises:
        InvalidInputError: a bad URI or option.
    """
    options = IngestOptions(
        max_buffer_bytes=max_buffer_bytes,
        limits=Limits(max_rows_per_file, max_bytes_per_file, blobs=blobs or BlobOptions()),
        max_file_age=max_file_age,
        commit_interval=commit_interval,
        commit_rows=commit_rows,
        commit_bytes=commit_bytes,
        producer=producer,
        history=history,
        data_storage_version=FileVersion.of(data_storage_version),
        stable_row_ids=stable_row_ids,
        properties=dict(properties or {}),
        auto_compact=auto_compact,
        on=None if on is None else (on,) if isinstance(on, str) else tuple(on),
        kind=kind,
        envelope=envelope,
    )
    if maintain not in (True, False) and not isinstance(maintain, rules.MaintenancePolicy):
        raise InvalidInputError(
            f"maintain={maintain!r}: expected a MaintenancePolicy, True or False"
        )
    if maintain and auto_compact is not None:
        raise InvalidInputError(
            "maintain and auto_compact: expected one of them; maintenance compacts as well"
        )
    session, table = table_at(uri, **place)
    return Sink(session, table, schema, options, maintain)


@public
class Sink(Hinted):
    """Accepts batches or changes, and commits them; see `ingest`.

    Any number of tasks of the sink's loop may use it.

    Accepted rows are committed later: by interval or size, by `flush`, and at the end of the block.
    An error in the block, a cancellation or an error of the store drops the uncommitted rows, which
    then never become visible, and removes their files. After an error of the store, all later calls
    raise it again.
    """

    def __init__(
        self,
        session: Session,
        table: Table,
        schema: pa.Schema | None,
        options: IngestOptions,
        maintain: MaintenancePolicy | bool = False,
    ) -> None:
        self._session = session
        self._table = table
        self._schema = schema
        self._options = options
        self._maintain = maintain
        self._ingest: Ingest | None = None
        self._feed: Feed | None = None  # with `on`, once there is a table
        self._compactor: Compactor | None = None
        self._maintainer: Maintainer | None = None
        self._is_open = False
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Sink({self._table.uri!r}, {self.metrics.num_rows} rows)"

    @property
    def schema(self) -> pa.Schema | None:
        """Schema to which batches are cast; None before the first batch of a new table."""
        if self._ingest is None:
            return self._schema
        return self._ingest.schema

    @property
    def metrics(self) -> IngestMetrics:
        """Counters of the rows and files so far; a snapshot."""
        return IngestMetrics() if self._ingest is None else self._ingest.metrics

    @property
    def compaction(self) -> AutoCompactionMetrics | None:
        """Counters of the compactions in the background.

        None without `auto_compact`, before the block begins, and if there is no table yet.
        """
        return None if self._compactor is None else self._compactor.metrics

    @property
    def maintenance(self) -> MaintenanceMetrics | None:
        """Counters of the maintenance in the background.

        None without `maintain`, before the block begins, and if there is no table yet.
        """
        return None if self._maintainer is None else self._maintainer.metrics

    @property
    def last_sequence(self) -> int:
        """Number of the producer's last committed batch; 0 if there is none."""
        return 0 if self._ingest is None else self._ingest.last_sequence

    @property
    def dataset(self) -> Dataset | None:
        """Dataset of the last version that this sink has seen or made. None if there is no table
        yet.
        """
        return None if self._ingest is None else Dataset(self._ingest.last)

    async def write(
        self, data: Data, *, token: str | None = None, sequence: int | None = None
    ) -> bool:
        """Accept rows or changes for the next commit. Waits while the buffer is full.

        A batch whose call is cancelled while it waits is not accepted.

        Cost: PUTs of full files in the background, and two rounds per commit. With `on`, a commit
        is a LIST, and a merge by an index of the keys or by a scan of the key columns.

        Args:
            data: anything that `write_dataset` accepts; with `kind` or `envelope` a feed of
                changes. With a token or a producer, all of it is committed in one version, and held
                in memory until then; otherwise each of its batches is accepted separately.
            token: a unique name of these rows, which are skipped if rows with this name were
                already accepted, or are in one of the table's last versions; None: no name.
            sequence: number of this write among the producer's writes, ascending; the write is
                skipped if the number is not above those already accepted or committed. None: the
                next number.

        Returns:
            False if the rows were skipped.

        Raises:
            InvalidInputError: rows do not fit the table, or the sink is not open.
            CommitConflictError: another writer has committed the same batches, or changed the
                columns.
            AlanceError: the error that made the sink fail earlier.
        """
        self._check(token)
        if self._options.on is not None:
            return await self._change(data, "changes", token, sequence)
        pool = self._session.engine.pool
        if isinstance(data, pa.RecordBatch) and self._ingest is not None:
            schema = self._ingest.schema
            if not data.schema.equals(schema):
                batch = data
                data = await pool.run(lambda: sources.conform(batch, schema))
            return await self._ingest.write((data,), token, sequence)
        source = await sources.open_source(data, self.schema, pool)
        inner = self._ingest or await self._open(source.schema)
        if self.schema is not None and not source.schema.equals(self.schema):
            source = await sources.open_source(source.batches, self.schema, pool)
        if token is not None or self._options.producer is not None:
            batches = tuple([batch async for batch in source.batches])
            return await inner.write(batches, token, sequence)
        async for batch in source.batches:
            await inner.write((batch,), None, sequence)
        return True

    async def upsert(
        self, data: Data, *, token: str | None = None, sequence: int | None = None
    ) -> bool:
        """Accept rows that replace the rows with their keys, or are inserted. For sinks with `on`.

        Changes of a key take effect in the order in which they are accepted. In columns and members
        of structs that the data lacks, updated rows keep their values, and inserted rows are null.

        Cost: as `write`; a commit also takes the columns that the data lacks for updated rows.

        Args:
            data: anything that `write_dataset` accepts, with the key columns, and all or some other
                columns of the table.
            token, sequence: as for `write`.

        Returns:
            False if the rows were skipped.

        Raises:
            InvalidInputError: a key column, or a column or member that is not nullable, is missing;
                a key is null, or rows do not fit the table; the sink is not open, or has no `on`.
            CommitConflictError, AlanceError: as from `write`.
        """
        self._check(token)
        return await self._change(data, "upserts", token, sequence)

    async def delete(
        self, keys: Data, *, token: str | None = None, sequence: int | None = None
    ) -> bool:
        """Accept keys of rows to delete; keys without a row are ignored. For sinks with `on`.

        Cost: as `write`.

        Args:
            keys: anything that `write_dataset` accepts, with the key columns; other columns are
                ignored.
            token, sequence: as for `write`.

        Returns:
            False if the keys were skipped.

        Raises:
            InvalidInputError: a key column is missing or null; there is no table yet; the sink is
                not open, or has no `on`.
            CommitConflictError, AlanceError: as from `write`.
        """
        self._check(token)
        return await self._change(keys, "deletions", token, sequence)

    async def flush(self) -> int:
        """Commit all accepted rows, and return the number of a version in which they are visible.

        Cost: the files that are not yet written, and two rounds; no request if everything is
        committed.

        Raises:
            InvalidInputError: nothing has been written and there is no table, or the sink is not
                open.
            CommitConflictError: another writer has committed the same batches, or changed the
                columns.
            AlanceError: the error that made the sink fail.
        """
        self._check()
        if self._ingest is None:
            raise InvalidInputError(f"dataset {self._table.uri!r}: nothing was written yet")
        return (await self._ingest.flush()).version

    async def close(self) -> None:
        """Commit all accepted rows, and end the sink. May be called twice.

        Cost: as `flush`; with `auto_compact` also a last compaction, with `maintain` a last run of
        the maintenance.

        Raises:
            CommitConflictError: another writer has committed the same batches, or changed the
                columns.
            AlanceError: the error that made the sink fail.
        """
        is_open, self._is_open = self._is_open, False
        if is_open and self._ingest is not None:
            try:
                await self._ingest.close()
                for task in self._upkeep:
                    await task.close()
            except BaseException:
                await self.abort()
                raise

    async def abort(self) -> None:
        """Drop all uncommitted rows, and end the sink. May be called twice.

        Cost: DELETEs of the uncommitted files. Raises no error.
        """
        self._is_open = False
        for task in self._upkeep:
            await task.abort()
        if self._ingest is not None:
            await self._ingest.abort()

    async def __aenter__(self) -> Self:
        if self._is_open or self._ingest is not None:
            raise InvalidInputError(f"dataset {self._table.uri!r}: a sink has one block")
        await self._session.engine.pool.load(ingest_open)
        await self._begin(self._schema)
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.abort()

    async def _change(self, data: Data, form: str, token: str | None, sequence: int | None) -> bool:
        """Accept changes.

        Args:
            form: method of `Feed` that converts the data to changes.
        """
        options, pool = self._options, self._session.engine.pool
        if options.on is None:
            raise InvalidInputError(
                f"dataset {self._table.uri!r}: the sink appends; open it with `on` for changes"
            )
        own = set() if self._ingest is None else {*self._ingest.schema.names}
        source = await sources.open_source(data, None, pool, own)
        if self._ingest is None:
            if form == "deletions":
                raise InvalidInputError(
                    f"dataset {self._table.uri!r}: there is no table yet to delete from"
                )
            kind, envelope = (None, None) if form == "upserts" else (options.kind, options.envelope)
            await self._open(feed.table_schema(source.schema, kind, envelope))
        assert self._ingest is not None
        assert self._feed is not None
        parse: Callable[[Sequence[pa.RecordBatch]], ChangedKeys] = getattr(self._feed, form)
        if token is not None or options.producer is not None:
            batches = [batch async for batch in source.batches]
            changes = await pool.run(partial(parse, batches))
            return await self._accept(changes, token, sequence)
        async for batch in source.batches:
            await self._accept(await pool.run(partial(parse, [batch])), None, sequence)
        return True

    async def _accept(self, changes: ChangedKeys, token: str | None, sequence: int | None) -> bool:
        assert self._ingest is not None
        assert self._options.on is not None
        rows, deleted = changes.deletions_first(self._options.on)
        return await self._ingest.write(rows, token, sequence, deleted, changes.num_changes)

    async def _open(self, schema: pa.Schema) -> Ingest:
        """Return the running ingest; the first batch creates the table if it does not exist."""
        async with self._opening:
            if self._ingest is None:
                await self._begin(schema)
            assert self._ingest is not None
            return self._ingest

    async def _begin(self, schema: pa.Schema | None) -> None:
        """Open the ingest, and start the background upkeep.

        Does nothing if the table does not exist and `schema` is None.
        """
        least, policy = self._options.auto_compact, self._maintain
        pool = self._session.engine.pool
        if least is not None:
            await pool.load(upkeep, compact_plan)
        if policy:
            await pool.load(maintenance)
        options = self._options
        if options.on is None:
            opened = await ingest_open.open_ingest(self._session, self._table, schema, options)
        else:
            await pool.load(feed, stream)
            if schema is not None:  # raises before a table is created
                feed.Feed(schema, options.on, options.kind, options.envelope)
            opened = await ingest_open.open_ingest(
                self._session, self._table, schema, options, stream.MergeChunk
            )
        if opened is None:
            return
        if options.on is not None:
            try:
                self._feed = feed.Feed(opened.schema, options.on, options.kind, options.envelope)
            except BaseException:
                await opened.abort()
                raise
        self._ingest = opened
        last = self._ingest.last
        if policy:
            chosen = None if policy is True else policy
            self._maintainer = maintenance.Maintainer(last, chosen, None)
        elif least is not None:
            self._compactor = upkeep.Compactor(last, compact_plan.CompactionOptions(), least)
        for task in self._upkeep:
            self._ingest.on_commit = task.tell

    @property
    def _upkeep(self) -> list[UpkeepTask]:
        """Return the background tasks: at most one."""
        return [task for task in (self._compactor, self._maintainer) if task is not None]

    def _check(self, token: str | None = None) -> None:
        if not self._is_open:
            raise InvalidInputError(
                f"dataset {self._table.uri!r}: expected a sink inside of its `async with` block "
                "(`with` in alance.sync)"
            )
        if token is not None and not isinstance(token, str):
            raise InvalidInputError(f"token={token!r}: expected a text")
