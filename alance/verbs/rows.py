"""Verbs that change rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from alance.deferred import Deferred
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, Unpack

    import pyarrow.compute as pc

    from alance.ops.blobs import files as blob_files
    from alance.ops.blobs.files import BlobOptions
    from alance.ops.rows import delete, update
    from alance.ops.rows.update import Updates
    from alance.ops.version.commit_options import CommitArguments
    from alance.ops.write import options as write_options
    from alance.ops.write import write
    from alance.ops.write.options import Progress
    from alance.ops.write.sources import Data
else:
    blob_files = Deferred("alance.ops.blobs.files")
    delete = Deferred("alance.ops.rows.delete")
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
        progress: Callable[[Progress], object] | None = None,
        blobs: BlobOptions | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add rows behind those of the table, or in their place.

        Cost: two rounds of requests where the rows fit one object: they, the transaction's file
        and a LIST at once; then the manifest.

        Args:
            data: anything that `write_dataset` takes; columns that it lacks are null.
            mode: `append`, or `overwrite`: rows and schema are replaced, older versions stay.

        Raises:
            InvalidInputError: data that does not fit the schema, or that the format cannot hold.
            CommitConflictError: a concurrent commit rules this one out.
            CommitStateUnknownError: whether the commit landed could not be found out.
            StoreError: the store failed.
        """
        await self._load(write)
        chosen = blobs or blob_files.BlobOptions()
        options = write_options.WriteOptions(
            limits=write_options.Limits(max_rows_per_file, max_bytes_per_file, blobs=chosen),
            on_progress=progress,
            commit=CommitOptions(**commit),
        )
        snapshot = self._snapshot
        made = await write.write_on(
            snapshot.session,
            snapshot.table,
            snapshot.manifest,
            data,
            write_options.checked_mode(mode, "append", "overwrite"),
            options=options,
        )
        return type(self)(made)

    async def delete(
        self,
        predicate: str | pc.Expression,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Delete the rows for which a predicate is true; null counts as not true.

        Files of rows stay as they are, but for fragments that have no rows left, which are
        dropped. Others may delete other rows of the same fragments meanwhile; what they append
        stays. `summary` has `num_deleted_rows`; also where that is 0, there is a new version.

        Cost: a scan of the predicate's columns and the deletion vectors; a PUT for each fragment
        that loses rows, beside the transaction's file and a LIST; then the manifest. A predicate
        without columns, such as `true`, reads no data.

        Args:
            predicate: SQL text or a pyarrow expression.
            max_retries: attempts after the first one, where others changed the same rows or
                were first to make a version.

        Raises:
            InvalidInputError: bad SQL, an unknown column, no condition.
            RetryableConflictError: others changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._load(delete)
        options = CommitOptions(**commit)
        return type(self)(await delete.delete(self._snapshot, predicate, options))

    async def update(
        self,
        updates: Updates,
        where: str | pc.Expression | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Give rows new values, each computed from the row as it was.

        The rows move to new files at the end of the table; with stable row ids they keep their
        `_rowid` and their `_row_created_at_version`. `summary` has `num_rows_updated`; also where
        that is 0, there is a new version.

        Cost: a scan of `where`'s columns, then of all columns of the rows that match; their new
        files, and a PUT for each fragment that loses rows, beside the transaction's file and a
        LIST; then the manifest. Memory: some batches, and 16 bytes a row that matches.

        Args:
            updates: columns to SQL text or pyarrow expressions, cast to the columns' types as SQL
                does: a fraction is cut off, what is out of range is an error.
            where: None: all rows.
            max_retries: how often the update is computed again, on the latest version, where
                others changed the same fragments.

        Raises:
            InvalidInputError: an unknown column, bad SQL, values that a column cannot hold.
            UnsupportedError: a field inside of a column.
            RetryableConflictError: others changed the same rows at every attempt.
            CommitConflictError: a newer version rules this one out.
        """
        await self._load(update)
        options = CommitOptions(**commit)
        return type(self)(await update.update(self._snapshot, updates, where, options))
