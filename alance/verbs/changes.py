"""Methods that report changes of a table."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from alance.base.deferred import Deferred
from alance.io.loop.generators import outermost
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Unpack

    from alance.ops.changes import follow
    from alance.ops.changes.follow import Change, FollowArguments
else:
    follow = Deferred("alance.ops.changes.follow")


class ChangeVerbs(Handle):
    """Follow the changes of a table."""

    __slots__ = ()

    @outermost
    async def follow(
        self, since: int | str | None = None, **options: Unpack[FollowArguments]
    ) -> AsyncIterator[Change]:
        """Stream the changes of a table, version by version, and wait for the next ones.

            async for change in dataset.follow(since=token):
                apply(change.kind, change.rows)
                token = change.token

        For each version, deleted rows come first, then updated and then inserted rows, in batches.
        Each change has a token: a later call with the token continues exactly after that change, if
        it has the same columns, filter and `batch_size`. Compactions and indices are no changes.
        With stable row ids a row keeps its `_rowid` in all changes. Without them `_rowid` is the
        address, and an update that moves a row is a deletion and an insertion.

        Versions that this process commits are noticed at once. Other versions are noticed by
        polling: after 0.1 seconds, then after twice the time, up to `max_interval`.

        Cost: a LIST per poll. For each version, a GET of its manifest and of deletion files, and a
        scan of only the changed rows and requested columns. Memory: some 100 bytes for each row of
        the fragments that differ, and a batch.

        Example:

            await dataset.insert({"id": [100], "price": [10.0]})
            async for change in dataset.follow(wait=False):
                assert (change.kind, change.rows["id"].to_pylist()) == ("insert", [100])

        Args:
            since: a version after which to begin; a token; `snapshot` for the rows of this dataset
                as insertions, and then the changes after it; None: the version of this dataset.
            columns: names; None: all columns of each version. `_rowid` follows them.
            filter: SQL text or a pyarrow expression. The changes are those of matching rows: an
                update after which a row matches, or no longer matches, is an insertion or deletion.
            params: values for the `?` in the filter, in order, or a mapping for `:name`.
            before: True to also return the former values of updated and deleted rows; False:
                deleted rows have only `_rowid`, unless there is a filter.
            batch_size: maximum number of rows per batch.
            wait: True to wait for further versions; False to end at the latest version.
            max_interval: maximum seconds between polls.

        Raises:
            VersionNotFoundError: a version whose changes are needed has been removed; the message
                says from which version to begin again.
            NotFoundError: the table has been removed, or was dropped and created again.
            InvalidInputError: `since` is none of these, or a later version than this dataset's; an
                option is out of range; or the filter does not fit the table.
            ColumnNotFoundError: a version lacks one of the columns.
            CorruptFileError, StoreError: a file cannot be read.
        """
        await self._load(follow)
        chosen = follow.FollowOptions(**options)
        async with aclosing(follow.follow(self._snapshot, since, chosen)) as changes:
            async for change in changes:
                yield change
