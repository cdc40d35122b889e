"""Inserted keys of a merge, as its transaction records them.

If two writers inserted the same new key, the table would have it twice. So the transaction contains
a filter of the keys. If the filters of two commits may have a key in common, the second commit is
refused and its merge runs again. Filters of other writers have other parameters and cannot be
compared, so the second merge then always runs again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.format.keys import key_values, plain_keys
from alance.format.numbers import ascending, is_first, to_arrow
from alance.format.proto import transaction_pb2
from alance.ops.write.sources import conform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Mask, UInt64s
    from alance.format.schema import Schema

    Filter = transaction_pb2.Transaction.KeyExistenceFilter

# A Bloom filter with one hash function: filters with any bit in common may share a key. Two filters
# of 50 keys each share a bit by chance in 4 % of cases; above MOST_KEYS nearly always.
KEY_FILTER_BYTES: Final = 8 << 10
MOST_KEYS: Final = 4096
EXACT_KEYS: Final = 16 << 10  # recorded hashes of keys that are not primary: at most 150 KiB
KEY_FILTER_SEED: Final = 0x616C616E6365
# These values identify the kind of filter; filters with other values are not compared.
NUMBER_OF_ITEMS: Final = 1
KEY_FILTER_PROBABILITY: Final = 0.5


def _no_hashes() -> UInt64s:
    return np.empty(0, np.uint64)


@dataclass(slots=True)
class InsertedKeys:
    """Hashes of the keys that a merge inserts. Can be pickled; `join` adds those of other tasks.

    Attributes:
        key_schema: key columns; empty if rows are not compared by columns of the table.
        field_ids: ids of the key columns.
        is_primary: True if the columns are the table's primary key, which must remain unique.
        hashes: distinct hashes, at most `limit`; None if the inserted keys are unknown, so that
            every key counts as inserted.
    """

    key_schema: pa.Schema
    field_ids: tuple[int, ...]
    is_primary: bool
    hashes: UInt64s | None = field(default_factory=_no_hashes)

    @classmethod
    def of(cls, schema: Schema, on: Sequence[str]) -> InsertedKeys:
        """Return an empty collection for the key columns of a table.

        If `on` is empty, the keys are unknown: every key counts as inserted.

        Args:
            schema: schema of the table.
            on: names or paths of the columns.
        """
        fields = [schema.field(name) for name in on]
        primary = schema.primary_key
        return cls(
            pa.schema([field.logical_arrow() for field in fields]),
            tuple(field.id for field in fields),
            bool(primary) and set(on) == set(primary),
            _no_hashes() if fields else None,
        )

    @property
    def limit(self) -> int:
        """Maximum number of recorded keys; if there are more, every key counts as inserted."""
        return MOST_KEYS if self.is_primary else EXACT_KEYS

    @property
    def num_bytes(self) -> int:
        """Memory of the hashes in bytes."""
        return 0 if self.hashes is None else self.hashes.nbytes

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add the keys of rows after a cast to the types of the table. CPU work.

        Rows without a key column, or with a null in a key column, have no key.

        Args:
            rows: rows that a commit inserts.

        Raises:
            InvalidInputError: values that do not fit the table.
            UnsupportedError: key columns of a type that cannot be a key.
        """
        names = self.key_schema.names
        if self.hashes is None or not set(names) <= set(rows.schema.names):
            return
        keys = key_values(conform(rows.select(names), self.key_schema).columns)
        self.add_hashes(key_hashes(keys))

    def add_hashes(self, hashes: UInt64s) -> None:
        """Add keys by their hashes.

        Args:
            hashes: hashes of the keys.
        """
        if self.hashes is not None:
            ordered = ascending(np.concatenate([self.hashes, hashes]))
            distinct = ordered[is_first(ordered)]
            self.hashes = distinct if len(distinct) <= self.limit else None

    def join(self, other: InsertedKeys) -> None:
        """Add the keys that another task of the same merge inserts.

        Args:
            other: inserted keys of that task.
        """
        if other.hashes is None:
            self.hashes = None
        else:
            self.add_hashes(other.hashes)

    def filter(self) -> Filter:
        """Filter of the inserted keys for the transaction.

        It lists the hashes. For a primary key, or if every key counts as inserted, it is a Bloom
        filter.
        """
        message = transaction_pb2.Transaction.KeyExistenceFilter()
        message.field_ids.extend(self.field_ids)
        # pylance compares only filters of primary keys
        if self.hashes is not None and not self.is_primary:
            message.exact.hashes.extend(self.hashes.tolist())
            return message
        bits = np.zeros(KEY_FILTER_BYTES * 8, np.uint8)
        bits[slice(None) if self.hashes is None else self.hashes % np.uint64(len(bits))] = 1
        message.bloom.bitmap = np.packbits(bits, bitorder="little").tobytes()
        message.bloom.num_bits = len(bits)
        message.bloom.number_of_items = NUMBER_OF_ITEMS
        message.bloom.probability = KEY_FILTER_PROBABILITY
        return message


def key_hashes(keys: pa.Array, chosen: Mask | None = None) -> UInt64s:
    """Return the hashes of the keys of some rows; rows without a key are omitted. CPU work.

    Args:
        keys: see `format.keys.key_values`.
        chosen: mask of the rows; None: all rows.
    """
    if chosen is not None:
        keys = keys.filter(to_arrow(chosen))
    keys = keys.drop_null() if keys.null_count else keys
    return plain_keys(keys).hashes(KEY_FILTER_SEED)
