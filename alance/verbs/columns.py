"""Methods that change columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.deferred import Deferred
from alance.base.progress import Reporting
from alance.ops.version.options import CommitOptions
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self, Unpack

    from alance.base.progress import OnProgress
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
    """Add, alter, drop, replace and join columns."""

    __slots__ = ()

    async def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        progress: OnProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add columns.

        Each fragment gets one more data file with the new columns; existing files do not change. An
        existing struct gets the fields that it lacks.

        Cost: a scan of the columns that are read, the new files, and two rounds for the commit;
        columns of nulls cost only the commit. If rows are appended meanwhile, only the additional
        fragments are computed in a further attempt.

        Example:

            dataset = await dataset.add_columns({"double": "price * 2"})
            assert await dataset.get(3, "id", ["double"]) == {"double": 0.6}

        Args:
            transforms: one of
                - a mapping of the new column's name to SQL text or a pyarrow expression;
                - a function, async or not, that is called with a batch of live rows and returns a
                  batch, table or frame of as many rows; see `alance.batch_udf`;
                - rows: a row for each live row of the table, in its order, in any form that
                  `write_dataset` accepts;
                - a pyarrow Field, a list of Fields, or a Schema: columns of nulls.
            read_columns: names of the columns that a function gets, which may include `_rowid` and
                `_rowaddr`; None: all columns of the table. Only for functions.
            batch_size: maximum number of rows computed at once; None: a size that suits the pages.
            progress: called with a `Progress` of the rows; True: a bar (docs/progress.md).
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column already exists, bad SQL, too many or too few rows, or values
                that do not fit. The table is unchanged, and the new files are removed.
            UnsupportedError: the format lacks a type, a struct of files before 2.2 would grow, or
                columns with values for a table with a MemWAL.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_add)
        options = CommitOptions(**commit)
        with Reporting(progress):
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
        progress: OnProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change names, nullability, types and order of columns.

        Cost: a commit for names, nullability and order, after a scan for nulls if a column becomes
        non-nullable. A cast writes the column again under a new field id, to one more file per
        fragment.

        Example:

            dataset = await dataset.alter_columns({"path": "price", "name": "cost"})
            print(dataset.schema.names)  # ['id', 'cost', 'kind', 'text', 'vector']

        Args:
            alterations: mappings with `path` (`a` or `a.b`, as before all changes) and at least one
                of `name`, `nullable` (bool), `data_type` (a pyarrow type) and `after`: the name of
                the column, or member of the same struct, to stand after; '' makes it the first.
            progress: called with a `Progress` of the rows; True: a bar (docs/progress.md).
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: there is no such column, a name is taken, a column that becomes
                non-nullable has nulls, the new type cannot hold a value (rounding of floats is no
                error), a column to cast has an index, columns are cast and made non-nullable in
                the same call, or `after` names no column beside it, or is of a field in a list, a
                map or a packed struct. The table is unchanged.
            UnsupportedError: a cast to a dictionary, an extension type or a type that the format
                lacks; of a struct's field in files before 2.1; or of a table with a MemWAL.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_alter)
        options = CommitOptions(**commit)
        with Reporting(progress):
            after = await columns_alter.alter_columns(self._snapshot, alterations, options)
        return self._on(after)

    async def drop_columns(
        self,
        columns: Sequence[str],
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Drop columns, or fields of structs (`a.b`), and their indices.

        Only the schema changes: compaction and cleanup free the space.

        Cost: two rounds of requests.

        Example:

            dataset = await dataset.drop_columns(["kind"])
            print(dataset.schema.names)  # ['id', 'price', 'text', 'vector']

        Args:
            columns: names or dotted paths.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: no such column, a member of a packed struct, or no column would
                remain.
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
        *,
        progress: OnProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Add the columns of other data, joined by a key: a left join.

        A row gets the values of the data's last row with the same key, or nulls; null keys are
        equal.

        Cost: a scan of the key column, the new files, and two rounds for the commit. Memory: that
        of the data.

        Args:
            data: anything that `write_dataset` accepts; all its columns except the key are added.
            left_on: key column of the table, or `_rowid` or `_rowaddr`.
            right_on: key column of the data; None: the same name.
            progress: called with a `Progress` of the rows; True: a bar (docs/progress.md).
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column already exists, a key is missing or of another type, or rows
                have no match and a column is not nullable. The table is unchanged.
            UnsupportedError: the table has a MemWAL.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_join)
        options = CommitOptions(**commit)
        with Reporting(progress):
            after = await columns_join.merge(
                self._snapshot, data, left_on, right_on, options=options
            )
        return self._on(after)

    async def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        progress: OnProgress | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Replace the values of existing columns in all rows.

        New files replace the old values; other columns are not rewritten. Indices of the replaced
        columns no longer cover the fragments.

        Cost: a scan of the columns that are read, the new files, and two rounds for the commit.

        Args:
            transforms: as for `add_columns`, but no fields without values; values are cast to the
                columns' types.
            read_columns: as for `add_columns`.
            batch_size: maximum number of rows computed at once; None: a size that suits the pages.
            progress: called with a `Progress` of the rows; True: a bar (docs/progress.md).
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column does not exist, its type cannot hold a value, there are too
                many or too few rows, or the table has no rows. The table is unchanged.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(columns_add)
        options = CommitOptions(**commit)
        with Reporting(progress):
            after = await columns_add.replace_columns(
                self._snapshot,
                transforms,
                read_columns=read_columns,
                batch_size=batch_size,
                options=options,
            )
        return self._on(after)
