"""Changes by key that are committed together, combined to at most one change of each key.

The result equals the changes one after the other. A deletion or a row with all columns hides the
earlier changes of its key. Rows with some columns are put together: in each column the last value
of a key remains. If the key was deleted before them, the columns that none of them has are null.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.file.batches import one_array
from alance.format.keys import Keys
from alance.format.numbers import as_numbers, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, Mask


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """Changes that are committed together; each key occurs once.

    Attributes:
        rows: rows to upsert, with the key columns and some or all others. Updated rows keep their
            values in the columns that a batch lacks.
        replacing: rows to upsert; in updated rows, the columns that they lack become null.
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
        rows: key columns, and for upserts some or all other columns, in the order of the table.
        places: position of each change in the feed; shape (n,).
        is_deletion: True if the rows with these keys are deleted.
    """

    rows: pa.RecordBatch
    places: Int64s
    is_deletion: bool

    def has(self, name: str) -> bool:
        """True if these changes set a column."""
        return not self.is_deletion and self.rows.schema.get_field_index(name) >= 0


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
        keys = [Keys.of([part.rows.column(name) for name in on]).values for part in parts]
        table = _kernels.KeyTable(Keys(one_array(keys)).plain(), secrets.randbits(64))
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
    hides = [part.is_deletion or part.rows.num_columns == len(schema) for part in parts]
    hiding = order[np.array(hides)[owner[order]]]
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
    owner, order = _owners(parts), np.argsort(rank)
    _, keys = np.unique(keys, return_inverse=True)
    num_keys = int(keys.max()) + 1
    is_deleted = np.zeros(num_keys, np.bool_)
    is_deleted[keys[np.array([part.is_deletion for part in parts])[owner]]] = True
    values: dict[str, pa.Array] = {}
    places: dict[str, Int64s] = {}  # of the last value of each key; -1 if it has none
    for name in schema.names:
        sets = np.array([part.has(name) for part in parts])
        if not sets.any():
            continue
        values[name] = one_array([part.rows.column(name) for part in parts if part.has(name)])
        is_set = sets[owner]
        setting = order[is_set[order]]
        places[name] = np.full(num_keys, -1)
        places[name][keys[setting]] = (np.cumsum(is_set) - 1)[setting]
    patterns, numbers = np.unique(
        np.stack([is_deleted, *(place >= 0 for place in places.values())]),
        axis=1,
        return_inverse=True,
    )
    rows: list[pa.RecordBatch] = []
    replacing: list[pa.RecordBatch] = []
    for number, (replaces, *has) in enumerate(patterns.T):
        chosen = np.flatnonzero(numbers.reshape(-1) == number)
        names = [name for name, is_set in zip(places, has, strict=True) if is_set]
        arrays = [values[name].take(to_arrow(places[name][chosen])) for name in names]
        fields = [
            schema.field(name).with_type(array.type)
            for name, array in zip(names, arrays, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        (replacing if replaces and len(names) < len(schema) else rows).append(batch)
    return rows, replacing


def _owners(parts: Sequence[FeedPart]) -> Int64s:
    """Return the number of the part of each change; shape (changes,)."""
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
