"""Methods that read rows by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.base.deferred import Deferred
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from alance.ops.read import explain
    from alance.ops.read import keys as lookups
    from alance.ops.read.explain import Explanation
    from alance.ops.read.keys import KeyColumn, Missing
    from alance.ops.version.projection import Columns
else:
    explain = Deferred("alance.ops.read.explain")
    lookups = Deferred("alance.ops.read.keys")


class KeyVerbs(Handle):
    """Look up rows by key: by an index of the column if it has one, otherwise by a scan."""

    __slots__ = ()

    async def get(
        self, key: object, column: KeyColumn = None, columns: Columns = None
    ) -> dict[str, Any] | None:
        """Look up the row with a key.

        Concurrent callers share one lookup, so that hundreds of them cost the requests of one. A
        cancelled caller does not affect the others.

        Cost: with a B-tree or bitmap index on the column, one round of requests for the row if the
        index is cached, at most four rounds otherwise. Without an index, a scan of the column; see
        `explain_get`.

        Example:

            row = await dataset.get(7, "id")
            assert row["price"] == 0.7

        Args:
            key: a value of the column's kind; for several columns a tuple. A key that the column
                cannot hold, such as None, or 300 for a column of int8, matches no row.
            column: name or path of the key column, or several; None: the table's primary key.
                Integers, text, bytes (and UUIDs), decimals, dates and times can be keys.
            columns: as for `to_table`.

        Returns:
            Python values by column; None if no row has the key.

        Raises:
            InvalidInputError: a key of another kind, an unknown column, a column whose values
                cannot be keys (floats, booleans, lists), or several rows with the key.
            StoreError: the store failed.
        """
        await self._load(lookups)
        row: dict[str, Any] | None = await lookups.get(
            self._snapshot, key, column, columns, as_arrow=False
        )
        return row

    async def get_arrow(
        self, key: object, column: KeyColumn = None, columns: Columns = None
    ) -> pa.Table | None:
        """Look up the row with a key, as an Arrow table of one row.

        Use it instead of `get` for values that Python cannot hold exactly, such as years beyond
        9999 and nanoseconds.

        Cost: as `get`.

        Args:
            key, column, columns: as for `get`.

        Returns:
            None if no row has the key.

        Raises:
            InvalidInputError, StoreError: as from `get`.
        """
        await self._load(lookups)
        return await lookups.get(self._snapshot, key, column, columns, as_arrow=True)

    async def get_many(
        self,
        keys: Iterable[object],
        column: KeyColumn = None,
        columns: Columns = None,
        *,
        missing: Missing = "error",
    ) -> pa.Table:
        """Look up the rows with many keys, in the order of the keys, which may be repeated.

        Cost: as `get`, one lookup for all keys.

        Example:

            rows = await dataset.get_many([3, 1], "id", missing="skip")
            assert rows["id"].to_pylist() == [3, 1]

        Args:
            keys: a list, or an Arrow or numpy array; for several columns a list of tuples.
            column, columns: as for `get`.
            missing: treatment of a key without a row: `error` raises an error; `skip` omits the
                key; `null` returns a row of nulls for it, so that the result has a row for each
                key.

        Raises:
            RowNotFoundError: some keys have no row; the attribute `keys` lists them.
            InvalidInputError: as from `get`.
        """
        await self._load(lookups)
        return await lookups.get_many(self._snapshot, keys, column, columns, missing)

    async def explain_get(
        self, key: object, column: KeyColumn = None, columns: Columns = None
    ) -> Explanation:
        """Return the requests that `get` would send, and the index that it would use.

        Cost: as `Scanner.explain`.

        Args:
            key, column, columns: as for `get`.

        Raises:
            InvalidInputError: as from `get`.
        """
        await self._load(lookups, explain)
        snapshot = self._snapshot
        scan = await lookups.options_of(snapshot, [key], column, columns)
        return await explain.explain_scan(snapshot, *scan)
