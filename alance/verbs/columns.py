"""Verbs that change columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.deferred import Deferred
from alance.ops.version.options import CommitOptions
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self, Unpack

    from alance.ops.columns import add as columns_add
    from alance.ops.columns import alter as columns_alter
    from alance.ops.columns import join as columns_join
    from alance.ops.columns.alter import Alteration
    from alance.ops.columns.sources import Transforms
    from alance.ops.version.options import CommitArguments
    from alance.ops.write.sources import Data
else:
    columns_add = Deferred("alance.ops.columns.add")
    columns_alter = Deferred("alance.ops.columns.alter")
    columns_join = Deferred("alance.ops.columns.join")


class ColumnVerbs(Handle):
    """Add, alter and drop columns; join others."""

    __slots__ = ()

    async def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add columns.

        Each fragment gets one more data file with the new columns; those that it has stay as they
        are. A struct that exists gets the fields that it has not yet.

        Cost: a scan of the columns that are read, the new files, and two rounds for the commit;
        columns of nulls cost the commit alone. Where others add rows meanwhile, only their
        fragments are computed again.

        Args:
            transforms: one of
                - SQL text or a pyarrow expression by the new column's name;
                - a function, async or not, that is called with a batch of live rows and gives a
                  batch, table or frame of as many rows; see `alance.batch_udf`;
                - rows: one for each live row of the table, in its order, as `write_dataset` takes
                  them;
                - a pyarrow Field, a list of them, or a Schema: columns of nulls.
            read_columns: that the function gets; None: all. `_rowid` and `_rowaddr` may be there.
            batch_size: rows that are computed at once at most.

        Raises:
            InvalidInputError: a column that exists, bad SQL, rows too many or too few, values
                that do not fit. The table is as it was, the new files are removed.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_add)
        options = CommitOptions(**commit)
        after = await columns_add.add_columns(
            self._snapshot,
            transforms,
            read_columns=read_columns,
            batch_size=batch_size,
            options=options,
        )
        return self._on(after)

    async def alter_columns(
        self,
        *alterations: Alteration,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change names, nullability and types of columns.

        Names and nullability change the schema alone, after a scan for nulls where they become
        forbidden. A cast writes the column anew under a new field id, in one more file a fragment.

        Args:
            alterations: mappings with `path` (`a` or `a.b`, as of before all changes) and one or
                more of `name`, `nullable` (bool) and `data_type` (a pyarrow type).

        Raises:
            InvalidInputError: no such column, a name that is taken, nulls in a column that would
                forbid them, a value that the new type cannot hold (fractions of floats become
                shorter without an error), an index on a column that is cast; a cast and a column
                that forbids nulls in one call. The table is as it was.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_alter)
        options = CommitOptions(**commit)
        return self._on(await columns_alter.alter_columns(self._snapshot, alterations, options))

    async def drop_columns(
        self,
        columns: Sequence[str],
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Drop columns, or fields of structs (`a.b`).

        Only the schema changes: compaction and cleanup free the space. Indices of the columns go
        with them. Cost: two rounds of requests.

        Raises:
            InvalidInputError: no such column, or none would be left.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_alter)
        options = CommitOptions(**commit)
        return self._on(await columns_alter.drop_columns(self._snapshot, columns, options))

    async def merge(
        self,
        data: Data,
        left_on: str,
        right_on: str | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add the columns of other data, joined by a key: a left join.

        A row gets the values of the last row of the data that has its key, or nulls; a null key is
        equal to a null key. Cost: a scan of the key column, the new files, and two rounds for the
        commit; the data is held in memory.

        Args:
            data: anything that `write_dataset` takes; all its columns but the key are added.
            left_on: the key column of the table; `_rowid` and `_rowaddr` are some, too.
            right_on: that of the data; None: the same name.

        Raises:
            InvalidInputError: a column that exists, a key that is not there or of another type,
                rows without a match for a column that is not nullable. The table is as it was.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_join)
        options = CommitOptions(**commit)
        after = await columns_join.merge(self._snapshot, data, left_on, right_on, options=options)
        return self._on(after)

    async def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Give columns that exist other values, in all rows.

        New files take the place of the old values; the other columns are not touched. Indices of
        the columns no longer cover the fragments. Cost: a scan of the columns that are read, the
        new files, and two rounds for the commit.

        Args:
            transforms: what `add_columns` takes; values are cast to the columns' types.
            read_columns: that the function gets; None: all.
            batch_size: rows that are computed at once at most.

        Raises:
            InvalidInputError: a column that does not exist, values that its type cannot hold, rows
                too many or too few. The table is as it was.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_add)
        options = CommitOptions(**commit)
        after = await columns_add.replace_columns(
            self._snapshot,
            transforms,
            read_columns=read_columns,
            batch_size=batch_size,
            options=options,
        )
        return self._on(after)
