"""Changes by key that are committed together, combined to at most one change of each key.

The result equals the changes one after the other. A deletion or a row with all columns hides the
earlier changes of its key. Rows with some columns are put together: in each column the last value
of a key remains. If the key was deleted before them, the columns that none of them has are null.
The same holds for structs with some members, at any depth, with one exception. Changes that each
set some members of a struct to null, and together all members, make the struct null. One after the
other, they would give a struct of nulls.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.file.batches import one_array
from alance.format.keys import key_values, plain_keys
from alance.format.numbers import as_mask, as_numbers, bitmap, to_arrow
from alance.ops.merge.plan import is_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s, Mask


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """Changes that are committed together; each key occurs once.

    Attributes:
        rows: rows to upsert, with the key columns and some or all others. Updated rows keep their
            values in the columns and members of structs that a batch lacks.
        replacing: rows to upsert; in updated rows, the columns or members that they lack become
            null.
        deleted: key columns of the rows to delete.
        num_changes: number of changes before they were combined.
    """

    rows: tuple[pa.RecordBatch, ...]
    replacing: tuple[pa.RecordBatch, ...]
    deleted: tuple[pa.RecordBatch, ...]
    num_changes: int

    def deletions_first(
        self, on: Sequence[str]
    ) -> tuple[tuple[pa.RecordBatch, ...], tuple[pa.RecordBatch, ...]]:
        """Return the changes as keys to delete, and rows to upsert after that.

        Args:
            on: key columns.

        Returns:
            The rows, and the keys.
        """
        replaced = [rows.select(list(on)) for rows in self.replacing]
        return (*self.rows, *self.replacing), (*self.deleted, *replaced)


@dataclass(frozen=True, slots=True)
class FeedPart:
    """Changes of the same sort: upserts of the same columns, or deletions.

    Attributes:
        rows: key columns, and for upserts some or all other columns, in the order of the table;
            their structs may lack members.
        places: position of each change in the feed; shape (n,).
        is_deletion: True if the rows with these keys are deleted.
    """

    rows: pa.RecordBatch
    places: Int64s
    is_deletion: bool

    def hides(self, schema: pa.Schema) -> bool:
        """True if nothing of a key's earlier changes remains: all values are set or deleted."""
        return self.is_deletion or _has_all(self.rows.schema, schema)


def combine(schema: pa.Schema, on: Sequence[str], parts: Sequence[FeedPart]) -> ChangedKeys:
    """Combine the changes of each key. CPU work.

    Args:
        schema: columns of the table.
        on: key columns.
        parts: the changes. If several have the same position and key, any of them may win.
    """
    parts = [part for part in parts if part.rows.num_rows]
    count = sum(part.rows.num_rows for part in parts)
    replacing: list[pa.RecordBatch] = []
    if count:
        keys = [key_values([part.rows.column(name) for name in on]) for part in parts]
        table = _kernels.KeyTable(plain_keys(one_array(keys)), secrets.randbits(64))
        if len(table) < count:
            parts, replacing = _distinct(schema, parts, as_numbers(table.numbers()), len(table))
    return ChangedKeys(
        tuple(part.rows for part in parts if not part.is_deletion),
        tuple(replacing),
        tuple(part.rows for part in parts if part.is_deletion),
        count,
    )


def _distinct(
    schema: pa.Schema, parts: Sequence[FeedPart], keys: Int64s, num_keys: int
) -> tuple[list[FeedPart], list[pa.RecordBatch]]:
    """Return the changes with each key once, and the rows for `ChangedKeys.replacing`.

    Args:
        keys: number of the key of each change, below `num_keys`; shape (changes,).
    """
    owner = _owners(parts)
    order = np.argsort(np.concatenate([part.places for part in parts]), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    # 1. Drop the changes before the last deletion or whole row of their key.
    hides = np.array([part.hides(schema) for part in parts])
    hiding = order[hides[owner[order]]]
    last = np.full(num_keys, -1)
    last[keys[hiding]] = rank[hiding]  # of equal indices, numpy assigns the last
    is_there = rank >= last[keys]
    # 2. Put together the changes of keys that still have several.
    counts = np.bincount(keys[is_there], minlength=num_keys)
    is_last = is_there & (counts[keys] == 1)
    chosen = _filtered(parts, is_last)
    several = is_there & ~is_last
    if not several.any():
        return chosen, []
    rows, replacing = _joined(schema, _filtered(parts, several), keys[several], rank[several])
    return [*chosen, *(FeedPart(batch, np.zeros(0, np.int64), False) for batch in rows)], replacing


def _joined(
    schema: pa.Schema, parts: Sequence[FeedPart], keys: Int64s, rank: Int64s
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return a row per key with the last value of each column: `rows` and `replacing`.

    Args:
        parts: at least one upsert of each key, after its deletion if it has one.
        keys: number of the key of each change; shape (changes,).
        rank: position of each change in the feed, distinct; shape (changes,).
    """
    owner = _owners(parts)
    _, keys = np.unique(keys, return_inverse=True)
    num_keys = int(keys.max()) + 1
    is_deleted = np.zeros(num_keys, np.bool_)
    is_deleted[keys[np.array([part.is_deletion for part in parts])[owner]]] = True
    ends = np.cumsum([part.rows.num_rows for part in parts])[:-1]
    places = list(zip(parts, np.split(keys, ends), np.split(rank, ends), strict=True))
    columns: dict[str, _LastValues] = {}
    for field in schema:
        setters = [
            _Setter(part.rows.column(field.name), keys_of_part, rank_of_part)
            for part, keys_of_part, rank_of_part in places
            if not part.is_deletion and field.name in part.rows.schema.names
        ]
        if setters:
            columns[field.name] = _LastValues.of(field.type, setters, num_keys)
    shapes = [shape for column in columns.values() for shape in column.shapes()]
    patterns, numbers = np.unique(np.stack([is_deleted, *shapes]), axis=1, return_inverse=True)
    rows: list[pa.RecordBatch] = []
    replacing: list[pa.RecordBatch] = []
    for number in range(patterns.shape[1]):
        chosen = np.flatnonzero(numbers.reshape(-1) == number)
        arrays = {
            name: column.array(chosen)
            for name, column in columns.items()
            if column.form[chosen[0]] >= 0
        }
        fields = [schema.field(name).with_type(array.type) for name, array in arrays.items()]
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))
        replaces = is_deleted[chosen[0]] and not _has_all(batch.schema, schema)
        (replacing if replaces else rows).append(batch)
    return rows, replacing


class _Setter(NamedTuple):
    """Changes of a part that set a column or member: values, keys, ranks; each of shape (n,)."""

    values: pa.Array
    keys: Int64s
    rank: Int64s


@dataclass(frozen=True, slots=True)
class _LastValues:
    """Last value of each key in a column, or in a member of a struct.

    Attributes:
        type: type in the table.
        form: position in `arrays` of the array with the value of each key; 0 for structs with
            members, -1 if no change sets it; shape (keys,).
        arrays: values of all changes, an array for each type that they have (blobs have several).
        places: position of the value of each key in its array; shape (keys,).
        members: members that changes set, if changes set some members of a struct only.
        valid: mask of the keys for which the struct is not null; shape (keys,).
    """

    type: pa.DataType
    form: Int64s
    arrays: Sequence[pa.Array] = ()
    places: Int64s | None = None
    members: Mapping[str, _LastValues] | None = None
    valid: Mask | None = None

    @classmethod
    def of(cls, type_: pa.DataType, setters: Sequence[_Setter], num_keys: int) -> _LastValues:
        """Find the last values, given at least one setter."""
        if not all(is_whole(setter.values.type, type_) for setter in setters):
            return cls._of_members(type_, setters, num_keys)
        types = list(dict.fromkeys(setter.values.type for setter in setters))
        setters = sorted(setters, key=lambda setter: types.index(setter.values.type))
        arrays = [
            one_array([setter.values for setter in setters if setter.values.type == own])
            for own in types
        ]
        order = np.argsort(np.concatenate([setter.rank for setter in setters]))
        last = np.full(num_keys, -1)
        last[np.concatenate([setter.keys for setter in setters])[order]] = order
        starts = np.cumsum([0, *map(len, arrays)])[:-1]
        form = np.searchsorted(starts, last, "right") - 1
        return cls(type_, form, arrays, last - starts[form])

    @classmethod
    def _of_members(
        cls, type_: pa.DataType, setters: Sequence[_Setter], num_keys: int
    ) -> _LastValues:
        """Find the last values of each member.

        A struct is null if its last change with all members is null, and every later change too.
        """
        members = {}
        for child in type_:
            below = [
                _Setter(pc.struct_field(values, [child.name]), keys, rank)
                for values, keys, rank in setters
                if values.type.get_field_index(child.name) >= 0
            ]
            if below:
                members[child.name] = cls.of(child.type, below, num_keys)
        form, first = np.full(num_keys, -1), np.full(num_keys, -1)
        for values, keys, rank in setters:
            form[keys] = 0
            if is_whole(values.type, type_):
                np.maximum.at(first, keys, rank)
        valid = np.zeros(num_keys, np.bool_)
        for values, keys, rank in setters:
            valid[keys[as_mask(values.is_valid()) & (rank >= first[keys])]] = True
        return cls(type_, form, members=members, valid=valid)

    def shapes(self) -> list[Int64s]:
        """Return the forms of this value and of all members below it, by key.

        Keys whose forms are all equal have equal types.
        """
        below = () if self.members is None else self.members.values()
        return [self.form, *(shape for member in below for shape in member.shapes())]

    def array(self, keys: Int64s) -> pa.Array:
        """Return the values of keys that have the same shapes; at least one key."""
        if self.members is None:
            assert self.places is not None
            return self.arrays[self.form[keys[0]]].take(to_arrow(self.places[keys]))
        assert self.valid is not None
        arrays = {
            name: member.array(keys)
            for name, member in self.members.items()
            if member.form[keys[0]] >= 0
        }
        fields = [self.type.field(name).with_type(array.type) for name, array in arrays.items()]
        return pa.StructArray.from_buffers(
            pa.struct(fields), len(keys), [bitmap(self.valid[keys])], children=[*arrays.values()]
        )


def _has_all(columns: pa.Schema, schema: pa.Schema) -> bool:
    """True if rows have all columns of the table, and all members of its structs."""
    return len(columns) == len(schema) and all(
        is_whole(columns.field(field.name).type, field.type) for field in schema
    )


def _owners(parts: Sequence[FeedPart]) -> Int64s:
    """Return, for each change, the index of its part in `parts`; shape (changes,)."""
    return np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])


def _filtered(parts: Sequence[FeedPart], chosen: Mask) -> list[FeedPart]:
    masks = np.split(chosen, np.cumsum([part.rows.num_rows for part in parts])[:-1])
    return [
        FeedPart(chosen_rows(part.rows, mask), part.places[mask], part.is_deletion)
        for part, mask in zip(parts, masks, strict=True)
        if mask.any()
    ]


def chosen_rows(rows: pa.RecordBatch, chosen: Mask) -> pa.RecordBatch:
    """Return the rows that a mask selects; a view of the batch if it selects all."""
    return rows if chosen.all() else rows.filter(to_arrow(chosen))
