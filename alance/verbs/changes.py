"""Methods that tell how a table changes."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from alance.deferred import Deferred
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
    """Follow a table."""

    __slots__ = ()

    @outermost
    async def follow(
        self, since: int | str | None = None, **options: Unpack[FollowArguments]
    ) -> AsyncIterator[Change]:
        """Stream the changes of a table, version by version, and wait for the next ones.

            async for change in dataset.follow(since=token):
                apply(change.kind, change.rows)
                token = change.token

        Of a version, deleted rows come first, then updated, then inserted ones, in batches. Each
        change has a token: a later call with it goes on behind that change, exactly, if it has the
        same columns, filter and `batch_size`. Compactions and indices make no changes. With stable
        row ids a row keeps its `_rowid` through all changes. Without them `_rowid` is the address,
        and an update that moves a row comes as a deletion and an insertion.

        Versions that this process commits are seen at once, those of others by a LIST after 0.1
        seconds, then after twice the time, up to `max_interval`.

        Cost: while nothing happens, a LIST for each look. For a version, a GET of its manifest, a
        scan of the fragments that differ, for the changed rows and columns alone, and the deletion
        files. Memory: some 100 bytes for each row of the fragments that differ, and a batch.

        Example:

            await dataset.insert({"id": [100], "price": [10.0]})
            async for change in dataset.follow(wait=False):
                assert (change.kind, change.rows["id"].to_pylist()) == ("insert", [100])

        Args:
            since: a version after which to begin; a token; `snapshot` for the rows of this dataset,
                as insertions, and then the changes after it. None: the version of this dataset.
            columns: names; None: all columns of each version. `_rowid` follows them.
            filter: SQL text or a pyarrow expression. The changes are those of the rows that it
                keeps: an update by which a row begins or ends to match is an insertion or deletion.
            params: values for the `?` of the filter, in order, or a mapping for `:name`.
            before: also give updated and deleted rows as they were. False: of deleted rows only
                `_rowid`, unless there is a filter.
            batch_size: rows of a batch at most.
            wait: False: end at the latest version.
            max_interval: seconds between looks, at most.

        Raises:
            VersionNotFoundError: a version whose changes are needed has been removed; the message
                names where to begin anew.
            NotFoundError: the table is gone, or was dropped and made again.
            InvalidInputError: `since` is none of these; an option is out of its range; a filter
                that does not fit the table.
            ColumnNotFoundError: a version lacks one of the columns.
            CorruptFileError, StoreError: a file cannot be read.
        """
        await self._load(follow)
        chosen = follow.FollowOptions(**options)
        async with aclosing(follow.follow(self._snapshot, since, chosen)) as changes:
            async for change in changes:
                yield change
