"""Methods that change rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from alance.base.calls import public
from alance.base.checks import check_choice, check_count, check_type
from alance.base.deferred import Deferred
from alance.base.hints import Uncalled
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops.read.options import ScanOptions
from alance.ops.version.conditions import bound
from alance.ops.version.options import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    MERGE_BYTES,
    BaseOptions,
    CommitOptions,
)
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self, Unpack

    import pyarrow as pa
    import pyarrow.compute as pc

    from alance.datasets import Dataset
    from alance.operations import Operation
    from alance.ops.blobs import files as blob_files
    from alance.ops.blobs.files import BlobOptions
    from alance.ops.merge import explained as merge_explained
    from alance.ops.merge import insert as merge_insert
    from alance.ops.merge import options as merge_options
    from alance.ops.merge.options import MergePlan
    from alance.ops.read.explain import Explanation
    from alance.ops.rows import delete, update
    from alance.ops.rows.update import Updates
    from alance.ops.version.conditions import Params
    from alance.ops.version.options import CommitArguments
    from alance.ops.write import options as write_options
    from alance.ops.write import write
    from alance.ops.write.options import WriteProgress
    from alance.ops.write.sources import Data
else:
    blob_files = Deferred("alance.ops.blobs.files")
    delete = Deferred("alance.ops.rows.delete")
    merge_explained = Deferred("alance.ops.merge.explained")
    merge_insert = Deferred("alance.ops.merge.insert")
    merge_options = Deferred("alance.ops.merge.options")
    update = Deferred("alance.ops.rows.update")
    write = Deferred("alance.ops.write.write")
    write_options = Deferred("alance.ops.write.options")


class RowVerbs(Handle):
    """Insert, delete, update and merge rows."""

    __slots__ = ()

    async def insert(
        self,
        data: Data,
        *,
        mode: Literal["append", "overwrite"] = "append",
        max_rows_per_file: int = MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = MAX_BYTES_PER_FILE,
        progress: WriteProgress | None = None,
        blobs: BlobOptions | None = None,
        target_bases: Iterable[str] | None = None,
        target_all_bases: bool | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Append rows to the table, or replace all of its rows.

        Cost: two rounds of requests if the rows fit in one object: the data, the transaction's file
        and a LIST; then the manifest.

        Example:

            dataset = await dataset.insert({"id": [100], "price": [10.0]})
            assert await dataset.count_rows() == 101

        Args:
            data: anything that `write_dataset` accepts; columns that it lacks become null.
            mode: `append`; or `overwrite` to replace rows and schema, which older versions retain.
            max_rows_per_file, max_bytes_per_file, progress, blobs: as for `write_dataset`.
            target_bases, target_all_bases: base paths to which new data files are written in turn;
                as for `write_dataset`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: the data does not fit the schema or the format, or the table lacks a
                base path.
            CommitConflictError: a concurrent commit rules this one out.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StoreError: the store failed.
        """
        check_choice("mode", mode, ("append", "overwrite"))
        await self._load(write)
        chosen = blobs or blob_files.BlobOptions()
        options = write_options.WriteOptions(
            limits=write_options.Limits(max_rows_per_file, max_bytes_per_file, blobs=chosen),
            progress=progress,
            commit=CommitOptions(**commit),
            bases=BaseOptions.of(None, target_bases, target_all_bases),
        )
        snapshot = self._snapshot
        with options.reporting():
            after = await write.write_on(
                snapshot.session,
                snapshot.table,
                snapshot.manifest,
                data,
                mode,
                options=options,
            )
        return self._on(after)

    async def delete(
        self,
        predicate: str | pc.Expression,
        *,
        params: Params = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Delete the rows for which a predicate is true, not null or false.

        Data files do not change; fragments without remaining rows are dropped. Concurrent writers
        may delete other rows of the same fragments, and append rows. `summary` has
        `num_deleted_rows`; a version is committed even if it is 0.

        Cost: a scan of the predicate's columns and the deletion vectors; then two rounds of
        requests. The first has PUTs of the transaction's file, and of a deletion file for each
        fragment that loses some, but not all, of its rows, and a LIST; the second has the PUT of
        the manifest. A predicate without columns, such as `true`, reads no data.

        Example:

            dataset = await dataset.delete("id >= 90")
            assert dataset.summary["num_deleted_rows"] == 10

        Args:
            predicate: SQL text or a pyarrow expression.
            params: values for the `?` in the text, in order, or a mapping for `:name`. The
                transaction records only the text.
            commit: see `alance.types.CommitArguments`; `max_retries` is the number of further
                attempts if other commits change the same rows or are first.

        Raises:
            InvalidInputError: bad SQL, an unknown column, a predicate that is not boolean, or wrong
                parameters.
            RetryableConflictError: other commits changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._load(delete)
        options = CommitOptions(**commit)
        condition = ScanOptions(filter=predicate, params=params)
        return self._on(await delete.delete(self._snapshot, condition, options))

    async def update(
        self,
        updates: Updates,
        where: str | pc.Expression | None = None,
        *,
        params: Params = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Set columns to new values, computed from each row's old values.

        The rows are moved to new files at the end of the table. With stable row ids they keep their
        `_rowid` and `_row_created_at_version`. `summary` counts the updated rows; a version is
        committed even if there are none.

        Cost: a scan of `where`'s columns, then of all columns of the matching rows; then two rounds
        of requests, as for `delete`, where the first also has the PUTs of the new data files.
        Memory: some batches, and 16 bytes per matching row.

        Example:

            dataset = await dataset.update({"price": "price * 2"}, where="id < 10")
            assert await dataset.get(3, "id", ["price"]) == {"price": 0.6}

        Args:
            updates: SQL texts or pyarrow expressions by column. Values are cast to the columns'
                types as in SQL: fractions are truncated, values out of range are an error.
            where: SQL text or a pyarrow expression; None: all rows.
            params: values for the `?` in the texts, those of `updates` first, or a mapping for
                `:name`.
            commit: see `alance.types.CommitArguments`; `max_retries` is the number of further
                attempts, on later versions, if other commits change the same fragments.

        Raises:
            InvalidInputError: an unknown column, bad SQL, wrong parameters, or values that a column
                cannot hold.
            UnsupportedError: an update of a field inside a column.
            RetryableConflictError: other commits changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._load(update)
        options = CommitOptions(**commit)
        return self._on(await update.update(self._snapshot, updates, where, params, options))

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsert:
        """Begin a merge of new data by key. Its methods choose the clauses, and `execute` runs it.

        Cost: no request before `execute`.

        Example:

            merge = dataset.merge_insert("id").when_matched_update_all()
            merge = merge.when_not_matched_insert_all()
            dataset = await merge.execute({"id": [7, 100], "price": [0.0, 10.0]})
            assert dataset.summary["num_updated_rows"] == 1

        Args:
            on: key columns; None: the table's primary key.

        Raises:
            InvalidInputError: `on` is neither a text nor an iterable. `execute` raises the errors
                of the merge.
        """
        check_type(
            "on", on, (str, Iterable, type(None)), "the name of a key column, or a list of names"
        )
        keys = None if on is None else (on,) if isinstance(on, str) else tuple(on)
        return MergeInsert(self, merge_options.MergePlan(keys))

    async def upsert(
        self,
        data: Data,
        on: str | Iterable[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        memory_bytes: int = MERGE_BYTES,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Update the rows with the keys of the data, and insert the other rows of the data.

        This is `merge_insert` with the clauses for update and insert.

        Cost: as `MergeInsert.execute`.

        Example:

            dataset = await dataset.upsert({"id": [7, 100], "price": [0.0, 10.0]}, "id")
            assert dataset.summary["num_inserted_rows"] == 1

        Args:
            data: anything that `write_dataset` accepts.
            on: key columns; None: the table's primary key.
            schema: schema of the data, for an iterable that may be empty.
            memory_bytes: as for `MergeInsert.memory_budget`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError, UnsupportedError, RetryableConflictError, CommitConflictError: as
                from `MergeInsert.execute`.
        """
        merge = self.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
        merge = merge.commit_options(**commit)
        after: Any = await merge.memory_budget(memory_bytes).execute(data, schema=schema)
        return after  # type: ignore[no-any-return]


@public
class MergeInsert(Uncalled):
    """A merge of new data into a dataset, created by `Dataset.merge_insert`.

    Immutable: each method returns another merge, and `execute` runs it. Rows are matched by their
    key columns: NaN matches NaN, 0.0 matches -0.0, and a key with a null matches nothing. If a row
    to change matches several rows of the data, `execute` raises an error.
    """

    __slots__ = ("_dataset", "_plan")

    def __init__(self, dataset: Handle, plan: MergePlan) -> None:
        self._dataset = dataset
        self._plan = plan

    def __repr__(self) -> str:
        return f"MergeInsert({self._dataset!r}, {self._plan!r})"

    def when_matched_update_all(
        self, condition: str | None = None, *, params: Params = None
    ) -> MergeInsert:
        """Update matched rows of the table with the values of the data.

        The rows are moved to the end of the table, and keep their row ids if these are stable.
        Columns that the data lacks keep their values.

        Args:
            condition: SQL text with columns such as `source.a` (the data) and `target.a` (the
                table). Matched rows for which it is not true are neither updated nor inserted.
                None: all matched rows are updated.
            params: values for `?` in the condition, in order, or a mapping for `:name`.
        """
        return self._with(when_matched="update", condition=bound(condition, params, "condition"))

    def when_matched_delete(self) -> MergeInsert:
        """Delete matched rows of the table; the data needs only the key columns."""
        return self._with(when_matched="delete", condition=None)

    def when_matched_fail(self) -> MergeInsert:
        """Make a match an error, which leaves the table unchanged."""
        return self._with(when_matched="fail", condition=None)

    def when_not_matched_insert_all(self) -> MergeInsert:
        """Insert rows of the data without a match, even several with the same key.

        Columns that the data lacks become null.
        """
        return self._with(inserts=True)

    def when_not_matched_by_source_delete(
        self, expr: str | None = None, *, params: Params = None
    ) -> MergeInsert:
        """Delete rows of the table that match no row of the data.

        Args:
            expr: SQL text over the table's columns; rows are deleted only if it is true for them.
                None: all rows without a match are deleted.
            params: values for `?` in the text, in order, or a mapping for `:name`.
        """
        return self._with(deletes_others=True, others=bound(expr, params, "expr"))

    def conflict_retries(self, max_retries: int) -> MergeInsert:
        """Set how often a merge is retried after other commits changed the same rows.

        Args:
            max_retries: 0 or more; the default is 10.

        Raises:
            InvalidInputError: the number is negative.
        """
        check_count("max_retries", max_retries, 0)
        return self._with(conflict_retries=max_retries)

    def retry_timeout(self, timeout: timedelta | float) -> MergeInsert:
        """Set the time after which no attempt begins; default 30 s.

        A retry whose commit has not begun by then is cancelled; the first attempt never is.

        Args:
            timeout: timedelta or seconds.

        Raises:
            InvalidInputError: a negative time, or neither a timedelta nor a number.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise InvalidInputError(f"timeout={timeout!r}: expected a timedelta or seconds")
        return self._with(retry_seconds=float(seconds))

    def target_bases(self, bases: Iterable[str]) -> MergeInsert:
        """Choose the base paths to which files of new fragments are written in turn.

        New columns of existing rows stay in the table's folder.

        Args:
            bases: names or paths; the table's own URI stands for its folder.

        Raises:
            InvalidInputError: `bases` is not a list of texts, or is empty. `execute` raises it for
                a base path that the table lacks.
        """
        return self._with(bases=BaseOptions.of(None, bases, None))

    def target_all_bases(self, include_primary: bool = True) -> MergeInsert:
        """Write files of new fragments to all base paths in turn, the table's folder first.

        Args:
            include_primary: False to exclude the table's folder.
        """
        return self._with(bases=BaseOptions.of(None, None, include_primary))

    def data_storage_version(self, version: FileVersion | str) -> MergeInsert:
        """Set the file version of new data files; default: the version of the table.

        Args:
            version: file version, such as `2.1`.

        Raises:
            InvalidInputError: there is no such version.
        """
        parsed = version if isinstance(version, FileVersion) else FileVersion.parse(version)
        return self._with(data_storage_version=parsed)

    def use_index(self, use_index: bool) -> MergeInsert:
        """Choose whether rows are found by an index of a key column.

        Args:
            use_index: True (the default): if the data has few rows, a key column has a B-tree or
                bitmap index, and rows without a match stay, only rows with these keys and rows that
                the index does not cover are read. False: the key columns are scanned.
        """
        return self._with(use_index=bool(use_index))

    def write_mode(self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]) -> MergeInsert:
        """Choose how to write updated rows if the data lacks some columns.

        Args:
            mode: `rewrite_rows` (the same as `auto`): whole rows are written to new fragments.
                `rewrite_columns`: only the data's columns are written, to a new file for each
                fragment with updated rows; for merges that only update.

        Raises:
            InvalidInputError: an unknown mode.
        """
        check_choice("mode", mode, ("auto", "rewrite_rows", "rewrite_columns"))
        return self._with(write_mode=mode)

    def memory_budget(self, num_bytes: int) -> MergeInsert:
        """Limit the bytes of the data's keys and rows in memory; default 256 MiB.

        Rows beyond a quarter of the budget, except rows of Tables and RecordBatches, are spilled to
        the folder for temporary files. If a hash table of the keys would not fit, the keys of both
        sides are spilled as well, in partitions that fit. In addition to the budget, some batches
        are in memory, and 32 bytes for each row of the data and each changed row of the table.

        Args:
            num_bytes: 1 or more.

        Raises:
            InvalidInputError: the number is less than 1.
        """
        check_count("num_bytes", num_bytes)
        return self._with(memory_bytes=num_bytes)

    def commit_options(
        self,
        **commit: Unpack[CommitArguments],
    ) -> MergeInsert:
        """Set the commit options: entries of the transaction, and the number of attempts.

        Args:
            properties: texts by key, recorded in the transaction.
            message: a commit message, recorded in the transaction.
            max_retries: maximum number of further attempts to commit if other commits are first,
                but change other rows.

        Raises:
            InvalidInputError: properties are not text, or the number of attempts is negative.
        """
        return self._with(commit=CommitOptions(**commit))

    async def explain(self, schema: pa.Schema | None = None) -> Explanation:
        """Return the clauses of the merge, and the cost of finding its matches.

        The cost is in requests, bytes and rounds; `print` shows it as text. Matches are not
        computed, so the number of rows to write is unknown.

        Cost: a read of footers, page tables and deletion files that are not in the cache, which
        does not put them there.

        Args:
            schema: schema of the data; None: the table's schema.

        Raises:
            InvalidInputError, UnsupportedError: `execute` would refuse the columns.
        """
        await self._dataset._load(merge_explained)
        base: Any = self._dataset
        return await merge_explained.explain_merge(base._snapshot, self._plan, schema)

    async def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """Return `explain` as a text.

        Cost: as `explain`.

        Args:
            schema: schema of the data; None: the table's schema.
            verbose: accepted as in pylance, without effect: the text always has all details.

        Raises:
            InvalidInputError, UnsupportedError: as from `explain`.
        """
        return str(await self.explain(schema))

    async def analyze_plan(self, data: Data, *, schema: pa.Schema | None = None) -> str:
        """Run the merge without a commit, remove its files, and return a report.

        The text is that of `explain`, followed by measurements of the run: rows; requests, bytes
        and time of its reads by reason.

        Cost: as `explain` and `execute`, without the commit.

        Args:
            data, schema: as for `execute`.

        Raises:
            InvalidInputError, UnsupportedError: as from `execute`.
        """
        await self._dataset._load(merge_explained)
        base: Any = self._dataset
        return await merge_explained.analyze_merge(base._snapshot, self._plan, data, schema)

    async def execute(self, data: Data, *, schema: pa.Schema | None = None) -> Dataset:
        """Merge data into the table, and commit.

        `summary` of the returned dataset has `num_inserted_rows`, `num_updated_rows` and
        `num_deleted_rows`; a version is committed even if all of them are 0. The data is read once.
        The key columns of the table and the columns of conditions are scanned. Columns that the
        data lacks are taken by address for updated rows.

        Cost: the scan and the takes; then two rounds of requests, as for `Dataset.delete`, where
        the first also has the PUTs of the new data files.

        Args:
            data: anything that `write_dataset` accepts, with columns in any order; it may lack
                columns.
            schema: schema of the data, for an iterable that may be empty.

        Raises:
            InvalidInputError: a merge without an effect; unknown columns, or missing key columns;
                values that cannot be cast; bad conditions; several rows of the data for a row of
                the table; or a match after `when_matched_fail`. The table is unchanged.
            UnsupportedError: key columns of lists or maps.
            RetryableConflictError: other commits changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._dataset._load(merge_insert)
        base: Any = self._dataset
        snapshot = await merge_insert.merge_insert(base._snapshot, self._plan, data, schema)
        return base._on(snapshot)  # type: ignore[no-any-return]

    async def execute_uncommitted(
        self, data: Data, *, schema: pa.Schema | None = None
    ) -> tuple[Operation, Mapping[str, int]]:
        """Write the files of the merge without a commit, for callers that commit by themselves.

        `alance.commit(dataset, operation)` commits the result on the dataset of the merge. It does
        not repeat the merge: if other commits changed rows of the same fragments, it raises a
        `CommitConflictError` or `RetryableConflictError`. Cleanup removes files that are never
        committed.

        Cost: as `execute`, without the commit.

        Args:
            data, schema: as for `execute`.

        Returns:
            The operation, which can be pickled, and the entries of `summary`.

        Raises:
            InvalidInputError, UnsupportedError: as from `execute`.
        """
        await self._dataset._load(merge_insert)
        base: Any = self._dataset
        return await merge_insert.merge_uncommitted(base._snapshot, self._plan, data, schema)

    def _with(self, **changes: Any) -> MergeInsert:
        return MergeInsert(self._dataset, replace(self._plan, **changes))
