"""Verbs that read rows by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.deferred import Deferred
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
    """Rows by key: a scan with a filter `column IN keys`, and so by an index where there is one."""

    __slots__ = ()

    async def get(
        self, key: object, column: KeyColumn = None, columns: Columns = None
    ) -> dict[str, Any] | None:
        """The row with a key, as a dict of Python values by column; None where there is none.

        Callers that wait at the same time are one lookup: some hundred of them cost the requests
        of one, and one of them that is cancelled leaves the others alone.

        Cost: by a B-tree or bitmap index on the column one round of requests when warm, for the
        row; cold at most four. Without an index a scan of the column; `explain_get` tells.

        Args:
            key: a value of the column's kind; of several columns a tuple. One that the column
                cannot hold, as None, or 300 in a column of int8, is no row's.
            column: name or path of the key's column, or several; None: the table's primary key.
                Integers, text, bytes (and UUIDs), decimals, dates and times.
            columns: as for `to_table`.

        Raises:
            InvalidInputError: a key of another kind, an unknown column, one whose values are no
                keys (floats, booleans, lists); several rows with the key.
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
        """The row with a key as an Arrow table of one row; None if there is no such row.

        Use it instead of `get` for values that Python cannot hold exactly, such as years beyond
        9999 and nanoseconds.

        Args:
            key, column, columns: as for `get`.

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
        """The rows with some keys, in the order of these, repeated as they are.

        Cost: that of `get`: one lookup for all.

        Args:
            keys: a list, or an Arrow or numpy array; of several columns a list of tuples.
            column, columns: as for `get`.
            missing: what becomes of a key that no row has: `error`; `skip` leaves it out; `null`
                gives a row of nulls in its place, and so as many rows as keys.

        Raises:
            RowNotFoundError: keys that no row has, which its attribute `keys` names all.
            InvalidInputError: as from `get`.
        """
        await self._load(lookups)
        return await lookups.get_many(self._snapshot, keys, column, columns, missing)

    async def explain_get(
        self, key: object, column: KeyColumn = None, columns: Columns = None
    ) -> Explanation:
        """What `get` would ask of the store, before it does, and which index it would ask. Print it
        for a text.

        Cost: that of `Scanner.explain`.

        Raises:
            InvalidInputError: as from `get`.
        """
        await self._load(lookups, explain)
        scan = await lookups.options_of(self._snapshot, [key], column, columns)
        return await explain.explain_scan(self._snapshot, *scan)
