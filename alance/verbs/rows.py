"""Verbs that change rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from alance.checks import check_choice, check_count
from alance.deferred import Deferred
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
    from collections.abc import Iterable, Mapping
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
    from alance.ops.write.options import OnProgress
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
    """Insert, delete, update, merge."""

    __slots__ = ()

    async def insert(
        self,
        data: Data,
        *,
        mode: Literal["append", "overwrite"] = "append",
        max_rows_per_file: int = MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = MAX_BYTES_PER_FILE,
        progress: OnProgress | None = None,
        blobs: BlobOptions | None = None,
        target_bases: Iterable[str] | None = None,
        target_all_bases: bool | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add rows behind those of the table, or in their place.

        Cost: two rounds of requests where the rows fit one object: they, the transaction's file
        and a LIST at once; then the manifest.

        Args:
            data: anything that `write_dataset` takes; columns that it lacks are null.
            mode: `append`, or `overwrite`: rows and schema are replaced, older versions stay.
            progress: as of `write_dataset`.
            target_bases, target_all_bases: base paths that new data files go to, in turn.

        Raises:
            InvalidInputError: data that does not fit the schema, or that the format cannot hold; a
                base path that the table has not.
            CommitConflictError: a concurrent commit rules this one out.
            CommitStateUnknownError: whether the commit landed could not be found out.
            StoreError: the store failed.
        """
        check_choice("mode", mode, ("append", "overwrite"))
        await self._load(write)
        chosen = blobs or blob_files.BlobOptions()
        options = write_options.WriteOptions(
            limits=write_options.Limits(max_rows_per_file, max_bytes_per_file, blobs=chosen),
            on_progress=progress,
            commit=CommitOptions(**commit),
            bases=BaseOptions.of(None, target_bases, target_all_bases),
        )
        snapshot = self._snapshot
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
        """Delete the rows for which a predicate is true; null counts as not true.

        Data files stay as they are. Fragments that have no rows left are dropped. Meanwhile others
        may delete other rows of the same fragments, and append rows. `summary` has
        `num_deleted_rows`. There is a new version even if that is 0.

        Cost: a scan of the predicate's columns and the deletion vectors; a PUT for each fragment
        that loses rows, beside the transaction's file and a LIST; then the manifest. A predicate
        without columns, such as `true`, reads no data.

        Args:
            predicate: SQL text or a pyarrow expression.
            params: values for the `?` of the text, in their order, or by name for `:name`. The
                record of the transaction has the text alone.
            max_retries: attempts after the first one, where others changed the same rows or
                were first to make a version.

        Raises:
            InvalidInputError: bad SQL, an unknown column, no condition, wrong parameters.
            RetryableConflictError: others changed the same rows at every attempt.
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
        """Give rows new values, each computed from the row as it was.

        The rows move to new files at the end of the table. With stable row ids they keep their
        `_rowid` and `_row_created_at_version`. `summary` has `num_updated_rows`. There is a new
        version even if that is 0.

        Cost: a scan of `where`'s columns, then of all columns of the rows that match; their new
        files, and a PUT for each fragment that loses rows, beside the transaction's file and a
        LIST; then the manifest. Memory: some batches, and 16 bytes a row that matches.

        Args:
            updates: columns to SQL text or pyarrow expressions, cast to the columns' types as SQL
                does: a fraction is cut off, what is out of range is an error.
            where: None: all rows.
            params: values for the `?` of the texts, of `updates` first, or by name for `:name`.
            max_retries: how often the update is computed again, on the latest version, where
                others changed the same fragments.

        Raises:
            InvalidInputError: an unknown column, bad SQL, wrong parameters, values that a column
                cannot hold.
            UnsupportedError: a field inside of a column.
            RetryableConflictError: others changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._load(update)
        options = CommitOptions(**commit)
        return self._on(await update.update(self._snapshot, updates, where, params, options))

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsert:
        """A merge of new data by key, to be told what it does and then executed:

            await dataset.merge_insert("id").when_matched_update_all() \\
                .when_not_matched_insert_all().execute(data)

        Args:
            on: key columns; None: the table's primary key.
        """
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
        """Update the rows that have the same key, and insert the others.

        The same as `merge_insert` with both clauses, and `MergeInsert.execute`, which says the
        cost and the errors.

        Args:
            data: anything that `write_dataset` takes.
            on: the key columns; None: the table's primary key.
        """
        merge = self.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
        merge = merge.commit_options(**commit)
        after: Any = await merge.memory_budget(memory_bytes).execute(data, schema=schema)
        return after  # type: ignore[no-any-return]


class MergeInsert:
    """A merge of new data into a dataset, made by `Dataset.merge_insert`. Immutable: each method
    gives another one, and `execute` runs it.

    Rows are matched by their key columns: NaN matches every NaN, 0.0 matches -0.0, and a row with a
    null in its key matches none. If a row of the table is to be changed and matches several rows of
    the data, that is an error.
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
        """Matched rows of the table get the values of the data; they move to its end, and keep
        their row ids where those are stable. Columns that the data lacks keep their values.

        Args:
            condition: SQL text with columns as `source.a` (the data) and `target.a` (the table);
                matched rows for which it is not true stay, and are not inserted either.
            params: values for its `?`, in their order, or by name for `:name`.
        """
        return self._with(when_matched="update", condition=bound(condition, params, "condition"))

    def when_matched_delete(self) -> MergeInsert:
        """Matched rows of the table are deleted; the data need not have more than the keys."""
        return self._with(when_matched="delete", condition=None)

    def when_matched_fail(self) -> MergeInsert:
        """A match is an error, and the table stays as it is."""
        return self._with(when_matched="fail", condition=None)

    def when_not_matched_insert_all(self) -> MergeInsert:
        """Rows of the data without a match are added, also several of the same key; columns that
        the data lacks are null.
        """
        return self._with(inserts=True)

    def when_not_matched_by_source_delete(
        self, expr: str | None = None, *, params: Params = None
    ) -> MergeInsert:
        """Rows of the table without a match are deleted.

        Args:
            expr: SQL text over the table's columns; rows for which it is not true stay.
            params: values for its `?`, in their order, or by name for `:name`.
        """
        return self._with(deletes_others=True, others=bound(expr, params, "expr"))

    def conflict_retries(self, max_retries: int) -> MergeInsert:
        """How often the merge is run again on the latest version where others changed the same
        rows; 10 by default.
        """
        check_count("max_retries", max_retries, 0)
        return self._with(conflict_retries=max_retries)

    def retry_timeout(self, timeout: timedelta | float) -> MergeInsert:
        """After this time (timedelta, or seconds) no attempt begins, and one that is not the first
        is given up; 30 s by default.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise InvalidInputError(f"timeout={timeout!r}: expected a timedelta or seconds")
        return self._with(retry_seconds=float(seconds))

    def target_bases(self, bases: Iterable[str]) -> MergeInsert:
        """The base paths that files of new fragments go to, in turn: names or paths, or the
        table's own URI for its folder. New columns of existing rows stay in the table's folder.
        """
        return self._with(bases=BaseOptions.of(None, bases, None))

    def target_all_bases(self, include_primary: bool = True) -> MergeInsert:
        """Files of new fragments go to all base paths in turn, the table's folder first.

        Args:
            include_primary: False: not to the table's folder.
        """
        return self._with(bases=BaseOptions.of(None, None, include_primary))

    def data_storage_version(self, version: FileVersion | str) -> MergeInsert:
        """The file version of new data files; by default that of the table."""
        parsed = version if isinstance(version, FileVersion) else FileVersion.parse(version)
        return self._with(data_storage_version=parsed)

    def use_index(self, use_index: bool) -> MergeInsert:
        """Accepted as in pylance, without effect: the key columns are always scanned."""
        return self._with()

    def write_mode(self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]) -> MergeInsert:
        """How updated rows are written if the data lacks some columns.

        Args:
            mode: `rewrite_rows`, which `auto` is: whole rows, to new fragments.
                `rewrite_columns`: the data's columns alone, in a new file for each fragment that
                has such rows, of all its rows; for merges that do nothing but update.
        """
        check_choice("mode", mode, ("auto", "rewrite_rows", "rewrite_columns"))
        return self._with(write_mode=mode)

    def memory_budget(self, num_bytes: int) -> MergeInsert:
        """How many bytes of the data's keys and rows are held in memory; 256 MiB by default.

        Rows beyond a quarter of it, but for those of Tables and RecordBatches, wait in a file in
        the folder for temporary files. Where an index of the keys would not fit, the keys of both
        sides go there, too, cut into parts that fit. Beside it there are some batches, and 32
        bytes for each row of the data and each row of the table that changes.
        """
        check_count("num_bytes", num_bytes)
        return self._with(memory_bytes=num_bytes)

    def commit_options(
        self,
        **commit: Unpack[CommitArguments],
    ) -> MergeInsert:
        """What the transaction of the version records.

        Args:
            properties: of the transaction.
            max_retries: attempts to commit where others were first, but changed other rows.
        """
        return self._with(commit=CommitOptions(**commit))

    async def explain(self, schema: pa.Schema | None = None) -> Explanation:
        """What the merge would do, and the requests, bytes and rounds of finding its matches.
        `print` shows it as text. It does not know which rows match, so not what is written.

        Cost: footers, page tables and deletions that are not known yet are read; nothing is kept.

        Args:
            schema: of the data; None: that of the table.

        Raises:
            InvalidInputError, UnsupportedError: a merge that `execute` would refuse by its columns.
        """
        await self._dataset._load(merge_explained)
        base: Any = self._dataset
        return await merge_explained.explain_merge(base._snapshot, self._plan, schema)

    async def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """`explain` as a text.

        Args:
            schema: of the data; None: that of the table.
            verbose: accepted as in pylance, without effect: the text always has all details.
        """
        return str(await self.explain(schema))

    async def analyze_plan(self, data: Data, *, schema: pa.Schema | None = None) -> str:
        """Run the merge without a commit, and remove the files that it wrote. The text has what
        `explain` says, and then what the run did: rows; requests of its reads, bytes and time by
        reason.

        Cost, arguments and errors: those of `execute`, without the commit.
        """
        await self._dataset._load(merge_explained)
        base: Any = self._dataset
        return await merge_explained.analyze_merge(base._snapshot, self._plan, data, schema)

    async def execute(self, data: Data, *, schema: pa.Schema | None = None) -> Dataset:
        """Merge data into the table; `summary` of the dataset of the new version has
        `num_inserted_rows`, `num_updated_rows`, `num_deleted_rows`. There is a new version also
        where all of them are 0.

        The data is read once, the table on its key columns and those that conditions need. Of rows
        that are updated, columns that the data lacks are taken by address.

        Cost: that scan, and takes; the new files and a PUT for each fragment that loses rows,
        beside the transaction's file and a LIST; then the manifest.

        Args:
            data: anything that `write_dataset` takes; its columns in any order, and not all of
                them need be there.
            schema: of the data, where an iterable may be empty.

        Raises:
            InvalidInputError: a merge that does nothing; unknown columns, or key columns that are
                missing; values that do not cast; bad conditions; several rows of the data for a
                row of the table; a match where that is to fail. The table is as it was.
            UnsupportedError: key columns of lists or maps.
            RetryableConflictError: others changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._dataset._load(merge_insert)
        base: Any = self._dataset
        snapshot = await merge_insert.merge_insert(base._snapshot, self._plan, data, schema)
        return base._on(snapshot)  # type: ignore[no-any-return]

    async def execute_uncommitted(
        self, data: Data, *, schema: pa.Schema | None = None
    ) -> tuple[Operation, Mapping[str, int]]:
        """Write the files of the merge and make no version, for callers that commit on their own.

        `alance.commit(dataset, operation)` makes the version, on the dataset that the merge was
        made from. It is not computed again where others changed rows of the same fragments: that
        is a `CommitConflictError` or `RetryableConflictError` of the commit. Files that are never
        committed are removed by cleanup.

        Cost, arguments and errors: those of `execute`, without the commit.

        Returns:
            The operation, which can be pickled, and what `summary` would have.
        """
        await self._dataset._load(merge_insert)
        base: Any = self._dataset
        return await merge_insert.merge_uncommitted(base._snapshot, self._plan, data, schema)

    def _with(self, **changes: Any) -> MergeInsert:
        return MergeInsert(self._dataset, replace(self._plan, **changes))
