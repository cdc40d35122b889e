"""Methods that change columns."""

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
    """Add, alter, drop, replace and join columns."""

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

        Each fragment gets one more data file with the new columns; existing files stay as they are.
        An existing struct gets the fields that it lacks.

        Cost: a scan of the columns that are read, the new files, and two rounds for the commit;
        columns of nulls cost the commit alone. If others append rows meanwhile, only the new
        fragments are computed again.

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
            read_columns: columns that the function gets, `_rowid` and `_rowaddr` included; None:
                all.
            batch_size: most rows that are computed at once.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column that exists, bad SQL, too many or too few rows, values that
                do not fit. The table is unchanged, and the new files are removed.
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

        Cost: a change of names and nullability is a commit, after a scan for nulls if nulls become
        forbidden. A cast writes the column again under a new field id, in one more file per
        fragment.

        Example:

            dataset = await dataset.alter_columns({"path": "price", "name": "cost"})
            print(dataset.schema.names)  # ['id', 'cost', 'kind', 'text', 'vector']

        Args:
            alterations: mappings with `path` (`a` or `a.b`, as before all changes) and at least one
                of `name`, `nullable` (bool) and `data_type` (a pyarrow type).
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: no such column, a name that is taken, nulls in a column that would
                forbid them, a value that the new type cannot hold (fractions of floats are
                shortened without an error), an index on a column that is cast, or a cast together
                with a column that forbids nulls. The table is unchanged.
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
            InvalidInputError: no such column, or no column would remain.
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

        A row gets the values of the last row of the data with its key, or nulls; null keys are
        equal.

        Cost: a scan of the key column, the new files, and two rounds for the commit. Memory: the
        data.

        Args:
            data: anything that `write_dataset` accepts; all its columns but the key are added.
            left_on: key column of the table, or `_rowid` or `_rowaddr`.
            right_on: key column of the data; None: the same name.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column that exists, a key that is missing or of another type, rows
                without a match for a column that is not nullable. The table is unchanged.
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
        """Replace the values of existing columns in all rows.

        New files take the place of the old values; other columns are not touched. Indices of the
        replaced columns no longer cover the fragments.

        Cost: a scan of the columns that are read, the new files, and two rounds for the commit.

        Args:
            transforms: as for `add_columns`; values are cast to the columns' types.
            read_columns: columns that the function gets; None: all.
            batch_size: most rows that are computed at once.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a column that does not exist, values that its type cannot hold, too
                many or too few rows. The table is unchanged.
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
