"""Changes by key in the forms of producers: rows to upsert, keys to delete, feeds of both.

Feeds are rows with a column for the kind of change, or envelopes of Debezium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.batches import empty_batch
from alance.format.keys import key_values
from alance.format.numbers import as_mask, as_numbers, python_value, to_arrow
from alance.ops.blobs.arrow import has_blobs
from alance.ops.merge.changed_keys import ChangedKeys, FeedPart, chosen_rows, combine
from alance.ops.merge.plan import check_inserted, narrowed
from alance.ops.write.sources import conform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s, Mask

# Kinds of changes: True if the row is deleted.
DELETION_BY_KIND: Final = {"insert": False, "update": False, "upsert": False, "delete": True}
DELETION_BY_OP: Final = {"c": False, "r": False, "u": False, "d": True}


@dataclass(frozen=True, slots=True)
class Feed:
    """Form of the changes that are written to a table.

    Attributes:
        schema: columns of the table.
        on: key columns.
        kind: name of the column with the kind of change; None: all rows are upserted.
        envelope: `debezium` if the rows are in columns `before` and `after`; None for plain rows.

    Raises:
        InvalidInputError: the table lacks a key column, or has a column with the name `kind`.
        UnsupportedError: key columns of a type that cannot be a key.
    """

    schema: pa.Schema
    on: tuple[str, ...]
    kind: str | None = None
    envelope: str | None = None

    def __post_init__(self) -> None:
        for name in self.on:
            if self.schema.get_field_index(name) < 0:
                raise InvalidInputError(
                    f"on: key column {name!r} is not among the columns of the table, "
                    f"{', '.join(self.schema.names)}"
                )
        if self.kind is not None and self.kind in self.schema.names:
            raise InvalidInputError(
                f"kind={self.kind!r}: the table has a column of this name; expected a column of "
                "the feed alone"
            )
        key_values([pa.nulls(0, field.type) for field in self.key_schema])

    @property
    def key_schema(self) -> pa.Schema:
        """Columns of the keys."""
        return pa.schema([self.schema.field(name) for name in self.on])

    def upserts(self, batches: Sequence[pa.RecordBatch]) -> ChangedKeys:
        """Convert batches of rows with all or some columns to upserts. CPU work.

        Raises:
            InvalidInputError: rows that lack a key or a column that is not nullable, or that do not
                fit the table.
        """
        return self._chosen([(self._rows(batch), False) for batch in batches])

    def deletions(self, batches: Sequence[pa.RecordBatch]) -> ChangedKeys:
        """Convert batches of keys to deletions; other columns are ignored. CPU work.

        Raises:
            InvalidInputError: a key column is missing or null, or does not fit the table.
        """
        return self._chosen([(self._keys(batch), True) for batch in batches])

    def changes(self, batches: Sequence[pa.RecordBatch]) -> ChangedKeys:
        """Convert batches of a feed to changes. CPU work.

        Raises:
            InvalidInputError: an unknown kind of change, or rows that `upserts` or `deletions`
                would refuse.
        """
        if self.kind is None and self.envelope is None:
            return self.upserts(batches)
        parts: list[FeedPart] = []
        first = 0
        for batch in batches:
            split = self._by_kind if self.envelope is None else self._enveloped
            parts += split(batch, first)
            first += 2 * batch.num_rows
        return combine(self.schema, self.on, parts)

    def _chosen(self, sorts: Sequence[tuple[pa.RecordBatch, bool]]) -> ChangedKeys:
        parts, first = [], 0
        for rows, is_deletion in sorts:
            places = np.arange(first, first + rows.num_rows)
            parts.append(FeedPart(rows, places, is_deletion))
            first += rows.num_rows
        return combine(self.schema, self.on, parts)

    def _by_kind(self, batch: pa.RecordBatch, first: int) -> list[FeedPart]:
        assert self.kind is not None
        is_deletion = _deletions(_column(batch, self.kind, "kind"), DELETION_BY_KIND, self.kind)
        places = np.arange(first, first + 2 * batch.num_rows, 2)
        rows = batch.drop_columns([self.kind])
        return [
            FeedPart(self._rows(chosen_rows(rows, ~is_deletion)), places[~is_deletion], False),
            FeedPart(self._keys(chosen_rows(rows, is_deletion)), places[is_deletion], True),
        ]

    def _enveloped(self, batch: pa.RecordBatch, first: int) -> list[FeedPart]:
        operations, after = _column(batch, "op", "envelope"), _struct(batch, "after")
        before = _struct(batch, "before") if "before" in batch.schema.names else None
        is_there = as_mask(operations.is_valid()) | as_mask(after.is_valid())
        if before is not None:
            is_there |= as_mask(before.is_valid())
        places = np.flatnonzero(is_there)  # without tombstones, which follow deletions
        operations, after = (array.take(to_arrow(places)) for array in (operations, after))
        is_deletion = _deletions(operations, DELETION_BY_OP, "op")
        if before is None:
            if is_deletion.any():
                raise InvalidInputError("envelope: a row of op 'd', and no column 'before'")
            before = pa.nulls(len(places), after.type)
        else:
            before = before.take(to_arrow(places))
        _check_images(after, ~is_deletion, "after")
        _check_images(before, is_deletion, "before")
        places = 2 * places + first
        rows = self._rows(_of_structs(after, ~is_deletion))
        gone = self._keys(_of_structs(before, is_deletion))
        return [
            FeedPart(rows, places[~is_deletion] + 1, False),
            FeedPart(gone, places[is_deletion], True),
            self._moved(rows, before.filter(to_arrow(~is_deletion)), places[~is_deletion]),
        ]

    def _moved(self, rows: pa.RecordBatch, before: pa.StructArray, places: Int64s) -> FeedPart:
        """Return the former keys of rows whose key has changed; they are deleted."""
        chosen = np.flatnonzero(as_mask(before.is_valid()))
        names = [field.name for field in before.type]
        if not set(self.on) <= set(names):
            chosen = chosen[:0]
        if not len(chosen):
            return FeedPart(empty_batch(self.key_schema), places[:0], True)
        old = pa.RecordBatch.from_struct_array(before.take(to_arrow(chosen)))
        old = conform(old.select(list(self.on)), self.key_schema)
        keys = key_values(old.columns)
        new = key_values([rows.column(name).take(to_arrow(chosen)) for name in self.on])
        # Without a full `before` image, the columns of the old row are null.
        differs = as_mask(pc.fill_null(pc.not_equal(keys, new), False))
        return FeedPart(chosen_rows(old, differs), places[chosen[differs]], True)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of the table that the batch has."""
        if not batch.num_rows:
            return empty_batch(self.schema)
        for name in self.on:
            _column(batch, name, "on")
        fields = [
            field if has_blobs(field) else narrowed(field, batch.schema.field(index))
            for field in self.schema
            if (index := batch.schema.get_field_index(field.name)) >= 0
        ]
        schema = pa.schema(fields)
        if schema.equals(self.schema):
            rows = conform(batch, self.schema)
            self._check_keys(rows)
            return rows
        rows = conform(batch, schema)
        self._check_keys(rows)
        key = ", ".join(f"{name} = {python_value(rows[name][0])!r}" for name in self.on)
        check_inserted(self.schema, rows, f"the rows, the first of which has the key {key}")
        return rows

    def _keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.num_rows:
            return empty_batch(self.key_schema)
        for name in self.on:
            _column(batch, name, "on")
        keys = conform(batch.select(list(self.on)), self.key_schema)
        self._check_keys(keys)
        return keys

    def _check_keys(self, rows: pa.RecordBatch) -> None:
        for name in self.on:
            column = rows.column(name)
            if column.null_count:
                row = int(np.flatnonzero(as_mask(column.is_null()))[0])
                raise InvalidInputError(
                    f"key column {name!r}: null in row {row}; a row without a key cannot be found"
                )


def table_schema(data: pa.Schema, kind: str | None, envelope: str | None) -> pa.Schema:
    """Return the columns of a new table for a feed.

    Raises:
        InvalidInputError: the envelopes have no struct of rows.
    """
    if envelope is not None:
        index = data.get_field_index("after")
        if index < 0 or not pa.types.is_struct(data.field(index).type):
            raise InvalidInputError("envelope: expected a struct `after` in the first rows")
        return pa.schema(list(data.field(index).type))
    return pa.schema([field for field in data if field.name != kind])


def _deletions(kinds: pa.Array, meanings: Mapping[str, bool], name: str) -> Mask:
    """Return the mask of the rows that are deleted.

    Raises:
        InvalidInputError: the kinds are not texts, or one is unknown.
    """
    if not len(kinds):
        return np.zeros(0, np.bool_)
    if pa.types.is_dictionary(kinds.type):
        encoded = kinds
    elif pa.types.is_null(kinds.type) or _is_text(kinds.type):
        encoded = kinds.cast(pa.large_string()).dictionary_encode()
    else:
        raise InvalidInputError(f"column {name!r}: {kinds.type}, expected texts")
    words = [str(word).lower() for word in encoded.dictionary.to_pylist()]
    is_unknown = np.array([word not in meanings for word in words] or [True])
    numbers = as_numbers(encoded.indices.fill_null(0)).astype(np.int64)
    wrong = is_unknown[numbers] | as_mask(kinds.is_null())
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"column {name!r}: {kinds[row].as_py()!r} in row {row}; expected one of "
            f"{', '.join(map(repr, meanings))}"
        )
    return np.array([meanings.get(word, False) for word in words])[numbers]


def _is_text(type_: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(type_) for check in checks)


def _column(batch: pa.RecordBatch, name: str, argument: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise InvalidInputError(
            f"{argument}: column {name!r} is not among the columns of the data, "
            f"{', '.join(batch.schema.names) or 'none'}"
        )
    return batch.column(index)


def _struct(batch: pa.RecordBatch, name: str) -> pa.StructArray:
    column = _column(batch, name, "envelope")
    if pa.types.is_null(column.type):
        return column.cast(pa.struct([]))
    if not pa.types.is_struct(column.type):
        raise InvalidInputError(f"column {name!r}: {column.type}, expected a struct of columns")
    return column


def _check_images(images: pa.StructArray, needed: Mask, name: str) -> None:
    missing = np.flatnonzero(needed & as_mask(images.is_null()))
    if len(missing):
        raise InvalidInputError(
            f"column {name!r}: null in event {missing[0]} of the envelopes, which needs this image"
        )


def _of_structs(structs: pa.StructArray, chosen: Mask) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(structs.filter(to_arrow(chosen)))
