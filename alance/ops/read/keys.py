"""Rows by key: a scan with a filter on the key columns, which uses indices.

Requests for the same columns in one turn of the event loop share a lookup. Only a few lookups run
concurrently; requests that arrive meanwhile wait for the next lookup.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable, Mapping, Sequence, Sized
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from alance.base.checks import check_choice
from alance.base.records import dataclass
from alance.errors import InvalidInputError, RowNotFoundError
from alance.format.numbers import python_value, to_arrow
from alance.format.paths import quoted
from alance.io.reading.joined import Joint
from alance.ops.read.options import ScanOptions
from alance.ops.read.ordering import output_schema
from alance.ops.read.scan import scanned
from alance.ops.version.conditions import KEY_BYTES, Among
from alance.ops.version.first_use import FILTER, LOOK_UP, parsed
from alance.ops.version.projection import plain_names

if TYPE_CHECKING:
    from collections.abc import Hashable

    from alance.base.arrays import Int64s, Mask
    from alance.format.schema import Schema
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

Missing: TypeAlias = Literal["error", "skip", "null"]
# Name of the key column, or names for tuple keys; None for the table's primary key.
KeyColumn: TypeAlias = "str | Sequence[str] | None"
_Row: TypeAlias = "dict[str, Any] | pa.Table | InvalidInputError"
_Lookups: TypeAlias = "Joint[list[pa.Array], tuple[_Row | None, bool]]"

KEY_MODULES: Final = ("alance.expr.keys", *FILTER, LOOK_UP)
FEW_COLUMNS: Final = 256  # columns whose bytes are counted in less time than a hop to a thread
# Maximum concurrent lookups of a kind; each one serves all waiting callers.
LOOKUPS_AT_ONCE: Final = 4
SHOWN_MISSING_KEYS: Final = 3  # maximum missing keys to list in an error


@dataclass(frozen=True, slots=True)
class TableKey:
    """Columns of a key.

    Attributes:
        paths: paths of the columns, as in `columns=`.
        is_single: True if keys are values of one column, False if they are tuples.
        filter: SQL text of the filter, for messages.
    """

    paths: tuple[str, ...]
    names: tuple[Sequence[str], ...]
    types: tuple[pa.DataType, ...]
    is_single: bool
    filter: str

    @classmethod
    def of(cls, schema: Schema, column: KeyColumn) -> TableKey:
        """Look up the key columns of a table.

        Raises:
            InvalidInputError: a column is unknown, its values cannot be keys, or `column` is None
                and the table has no primary key.
        """
        from alance.expr.keys import is_key_type
        from alance.expr.tree import plain_type

        paths = schema.primary_key if column is None else column
        if not paths:
            raise InvalidInputError("no key column: name it by `column`; there is no primary key")
        paths = (paths,) if isinstance(paths, str) else tuple(paths)
        types = tuple(plain_type(schema.field(path).logical_arrow().type) for path in paths)
        for path, type_ in zip(paths, types, strict=True):
            if not is_key_type(type_):
                raise InvalidInputError(f"column {path!r}: values of {type_} are no keys")
        names = tuple(schema.names_of(path) for path in paths)
        paths = tuple(n[0] if len(n) == 1 else path for n, path in zip(names, paths, strict=True))
        text = " AND ".join(f"{quoted(own)} IN ?" for own in names)
        is_single = isinstance(column, str) or (column is None and len(paths) == 1)
        return cls(paths, names, types, is_single, text)

    def arrays(self, keys: Iterable[object]) -> list[pa.Array]:
        """Convert keys to one array per column, in the column's type.

        Raises:
            InvalidInputError: a key does not fit the columns.
        """
        from alance.expr.keys import key_array

        if self.is_single:
            return [key_array(keys, self.types[0], self.paths[0])]
        tuples = [key if isinstance(key, tuple | list) else (key,) for key in keys]
        for key in tuples:
            if len(key) != len(self.paths):
                raise InvalidInputError(f"key {key!r}: expected a tuple of {len(self.paths)}")
        columns = [[key[number] for key in tuples] for number in range(len(self.paths))]
        return [
            key_array(*arguments) for arguments in zip(columns, self.types, self.paths, strict=True)
        ]

    def options(self, arrays: Sequence[pa.Array]) -> ScanOptions:
        """Return the options of a scan for keys.

        For tuple keys, the scan may return other rows, too.
        """
        values = [array.drop_null() if array.null_count else array for array in arrays]
        among: Any = Among(self.names, values, self.filter)  # a kind of filter for internal use
        return ScanOptions(filter=among)


@dataclass(frozen=True, slots=True)
class KeyReads:
    """Reads of a version's rows by key; there is one object per version, key and columns.

    Attributes:
        names: output columns.
        read: output columns and key columns of the scan.
        schema: schema of the scan.
        key_names: names of the key columns in `schema`.
        joints: join concurrent callers of `get`, by `as_arrow`.
    """

    snapshot: Snapshot
    keys: TableKey
    names: tuple[str, ...]
    read: Columns
    schema: pa.Schema
    key_names: tuple[str, ...]
    joints: Mapping[bool, _Lookups]

    @classmethod
    def of(cls, snapshot: Snapshot, column: KeyColumn, columns: Columns) -> KeyReads:
        """Prepare the reads for a key and output columns.

        Raises:
            InvalidInputError: as for `TableKey.of`, or an output column is unknown.
        """
        keys = TableKey.of(snapshot.schema, column)
        names = tuple(output_schema(snapshot, columns, ScanOptions()).names)
        if isinstance(columns, Mapping):
            of_keys = tuple(f"key {number} of {len(names)}" for number in range(len(keys.paths)))
            texts = [quoted(snapshot.schema.names_of(path)) for path in keys.paths]
            read: Columns = {**columns, **dict(zip(of_keys, texts, strict=True))}
        else:
            of_keys = keys.paths
            read = [*names, *(path for path in keys.paths if path not in names)]
        schema = output_schema(snapshot, read, ScanOptions())
        joints: dict[bool, _Lookups] = {
            kind: Joint(sys.maxsize, LOOKUPS_AT_ONCE) for kind in (False, True)
        }
        return cls(snapshot, keys, names, read, schema, of_keys, joints)

    async def rows(self, arrays: Sequence[pa.Array]) -> tuple[pa.Table, Int64s, Mask]:
        """Read the rows with these keys.

        Returns the rows; the row number for each key, -1 for a missing key; and the mask of keys
        that several rows have.
        """
        from alance.expr.keys import places_of

        snapshot = self.snapshot
        rows = scanned(snapshot, self.read, self.keys.options(arrays))
        async with aclosing(rows) as batches:
            parts = [batch async for batch in batches]

        def place() -> tuple[pa.Table, Int64s, Mask]:
            from alance.expr.tree import plain

            table = pa.Table.from_batches(parts, schema=self.schema)
            if len(parts) > 1:
                table = table.combine_chunks()
            parts.clear()  # freeing many pages of memory takes a while
            columns = [_flat(table[name]) for name in self.key_names]
            return table.select(self.names), *places_of(arrays, [plain(c) for c in columns])

        num_rows = sum([batch.num_rows for batch in parts])
        work = KEY_BYTES * (len(arrays[0]) + num_rows) + sum(map(_work, parts))
        return await snapshot.engine.decode(place, work)


async def _looked_up(
    reads: KeyReads, as_arrow: bool, requests: Sequence[list[pa.Array]]
) -> list[tuple[_Row | None, bool]]:
    """Read the rows of several callers' keys.

    Returns for each key the row, or None if there is no row, and True if several rows have the key.
    """
    columns = zip(*requests, strict=True)
    arrays = [pa.concat_arrays(parts) if len(parts) > 1 else parts[0] for parts in columns]
    table, places, are_several = await reads.rows(arrays)
    work = KEY_BYTES * len(places) * max(1, table.num_columns) + _work(table)
    listed = _single_rows if as_arrow else _listed
    rows = await reads.snapshot.engine.decode(partial(listed, _in_order(table, places)), work)
    return [
        (None if place < 0 else row, is_several)
        for row, place, is_several in zip(rows, places.tolist(), are_several.tolist(), strict=True)
    ]


async def get(
    snapshot: Snapshot, key: object, column: KeyColumn, columns: Columns, as_arrow: bool
) -> dict[str, Any] | pa.Table | None:
    """Return the row with a key; None if there is none.

    See `Dataset.get` and `Dataset.get_arrow`.
    """
    if isinstance(key, Mapping) and key:
        name = next(iter(key))
        raise InvalidInputError(f"key: got {type(key).__name__}; write get(value, {name!r})")
    reads = await _reads(snapshot, column, columns)
    row, is_several = await reads.joints[as_arrow].ask(
        reads.keys.arrays([key]), 1, partial(_looked_up, reads, as_arrow)
    )
    if is_several:
        raise _several(reads, key)
    if isinstance(row, InvalidInputError):
        raise row
    return row


async def get_many(
    snapshot: Snapshot,
    keys: Iterable[object],
    column: KeyColumn,
    columns: Columns,
    missing: Missing,
) -> pa.Table:
    """Return the rows with these keys, in the order of the keys; see `Dataset.get_many`."""
    check_choice("missing", missing, get_args(Missing))
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        hint = f"; write [{keys!r}], or get({keys!r}, column)" if isinstance(keys, int) else ""
        raise InvalidInputError(f"keys: expected several, found {type(keys).__name__}{hint}")
    if not isinstance(keys, Sized):
        keys = list(keys)
    reads = await _reads(snapshot, column, columns)
    work: float = KEY_BYTES * len(keys)
    arrays = await snapshot.engine.decode(lambda: reads.keys.arrays(keys), work)
    table, places, are_several = await reads.rows(arrays)
    if are_several.any():
        raise _several(reads, _key(arrays, int(np.flatnonzero(are_several)[0])))
    absent = np.flatnonzero(places < 0)
    if missing == "error" and len(absent):
        raise _missing(reads, [_key(arrays, number) for number in absent.tolist()])
    if missing == "skip":
        places = places[places >= 0]
    held, num_bytes = [table], _work(table)
    del table

    def ordered() -> pa.Table:
        return _in_order(held.pop(), places)  # which frees the rows as read

    return await snapshot.engine.decode(ordered, num_bytes)


async def options_of(
    snapshot: Snapshot, keys: Iterable[object], column: KeyColumn, columns: Columns
) -> tuple[Columns, ScanOptions]:
    """Return the scan that looks up keys, for `explain`."""
    reads = await _reads(snapshot, column, columns)
    return reads.read, reads.keys.options(reads.keys.arrays(keys))


async def _reads(snapshot: Snapshot, column: KeyColumn, columns: Columns) -> KeyReads:
    await snapshot.engine.pool.load(*KEY_MODULES)
    key: Hashable = column if column is None or isinstance(column, str) else tuple(column)
    names = plain_names(columns)
    # Use an object per event loop, because callers wait on their own loop.
    place = KeyReads, asyncio.get_running_loop(), key, names
    is_plain = columns is None or names is not None
    earlier: KeyReads | None = snapshot.remember.get(place) if is_plain else None
    if earlier is not None:
        return earlier
    reads = await parsed(snapshot, columns, partial(KeyReads.of, snapshot, column, columns))
    return snapshot.remember(place, lambda: reads) if is_plain else reads


def _listed(table: pa.Table) -> list[_Row]:
    """Convert rows to dicts; a row that Python cannot represent becomes an `InvalidInputError`."""
    try:
        listed: list[_Row] = table.to_pylist()
    except (OverflowError, ValueError) as error:
        if len(table) > 1:
            return [row for place in range(len(table)) for row in _listed(table.slice(place, 1))]
        cure = "`get_arrow` gives Arrow"
        return [InvalidInputError(f"a row with a value that Python has not: {error}; {cure}")]
    return listed


def _single_rows(table: pa.Table) -> list[_Row]:
    return [table.slice(place, 1) for place in range(len(table))]


def _in_order(table: pa.Table, places: Int64s) -> pa.Table:
    """Return the rows with these numbers, in this order; a row of nulls for -1."""
    if np.array_equal(places, np.arange(len(table))):
        return table
    if not (places < 0).any():
        return table.take(to_arrow(places))
    fields = [field.with_nullable(True) for field in table.schema]
    taken = table.take(to_arrow(places, places >= 0))
    return pa.Table.from_arrays(taken.columns, schema=pa.schema(fields, table.schema.metadata))


def _work(rows: pa.Table | pa.RecordBatch) -> float:
    """Return the bytes of rows; infinity if just counting these takes a while."""
    return rows.nbytes if rows.num_columns <= FEW_COLUMNS else math.inf


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _key(arrays: Sequence[pa.Array], number: int) -> Any:
    values = [python_value(array[number]) for array in arrays]
    return values[0] if len(values) == 1 else tuple(values)


def _several(reads: KeyReads, key: object) -> InvalidInputError:
    return InvalidInputError(
        f"{_where(reads)} = {key!r}: several rows have this key; a scan with a filter gives all"
    )


def _missing(reads: KeyReads, keys: list[Any]) -> RowNotFoundError:
    named = ", ".join(repr(key) for key in keys[:SHOWN_MISSING_KEYS])
    others = f" and {len(keys) - SHOWN_MISSING_KEYS} more" if len(keys) > SHOWN_MISSING_KEYS else ""
    return RowNotFoundError(f"no row with {_where(reads)} = {named}{others}", keys)


def _where(reads: KeyReads) -> str:
    return ", ".join(reads.keys.paths)
