"""The fragments of a manifest: many thousands, of which a read looks at a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.proto import table_pb2
from alance.format.table.fragment import Fragment

if TYPE_CHECKING:
    from alance.arrays import Int64s, UInt64s


@dataclass(frozen=True, slots=True)
class Records(Sequence[table_pb2.DataFragment]):
    """The records of fragments in a serialized manifest; each is parsed where it is asked for.

    Attributes:
        starts, stops: where each is in the content; shape (n,).
        deleted: rows of each; 0: not told, -1: none. Shape (n,).
    """

    content: bytes
    starts: Int64s
    stops: Int64s
    deleted: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> table_pb2.DataFragment: ...
    @overload
    def __getitem__(self, index: slice) -> list[table_pb2.DataFragment]: ...
    def __getitem__(
        self, index: int | slice
    ) -> table_pb2.DataFragment | list[table_pb2.DataFragment]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        record = self.content[self.starts[index] : self.stops[index]]
        try:
            return table_pb2.DataFragment.FromString(record)
        except DecodeError as error:
            raise CorruptFileError(f"fragment {index} of the manifest: {error}") from error


class Fragments(Sequence[Fragment]):
    """The fragments in row order; each is parsed when it is first asked for.

    Attributes:
        ids: shape (n,).
        num_rows: live rows of each, shape (n,); -1 where the manifest does not tell.
        repeated_id: of two fragments, as releases up to 0.16 have made them; None: all differ.

    Raises:
        CorruptFileError: an id of more than 32 bits; by `__getitem__` and iteration, a record that
            contradicts itself.
    """

    __slots__ = ("_made", "_messages", "_order", "ids", "num_rows", "repeated_id")

    def __init__(self, messages: Sequence[table_pb2.DataFragment]) -> None:
        count = len(messages)
        ids = np.fromiter((one.id for one in messages), np.uint64, count)
        rows = np.fromiter((one.physical_rows for one in messages), np.uint64, count)
        self._settle(messages, ids, rows)
        for number, one in enumerate(messages):
            if one.HasField("deletion_file"):
                self.num_rows[number] = self[number].num_rows or -1

    @classmethod
    def of_records(cls, records: Records, ids: UInt64s, rows: UInt64s) -> Fragments:
        """Fragments of which nothing but the numbers is parsed yet.

        Args:
            ids: shape (n,).
            rows: that are stored, deleted ones included; 0: not told. Shape (n,).
        """
        made = cls.__new__(cls)
        made._settle(records, ids, rows)
        deleted = records.deleted
        if len(deleted) and deleted.max() >= 0:
            left = made.num_rows - deleted
            left[(deleted == 0) | (made.num_rows < 0) | (left == 0)] = -1
            made.num_rows = np.where(deleted < 0, made.num_rows, left)
        return made

    def _settle(
        self, messages: Sequence[table_pb2.DataFragment], ids: UInt64s, rows: UInt64s
    ) -> None:
        """Take what is known of all, as if none had deleted rows."""
        self._messages = messages
        self._made: list[Fragment | None] = [None] * len(ids)
        if len(ids) and int(ids.max()) >> 32:
            raise CorruptFileError(f"fragment id {ids.max()}: expected at most 32 bits")
        self.ids: Int64s = ids.astype(np.int64)
        known = (rows > 0) & (rows < 1 << 62)
        self.num_rows: Int64s = np.where(known, rows, 0).astype(np.int64)
        self.num_rows[~known] = -1
        self.repeated_id: int | None = None
        self._order: Int64s | None = None
        if len(ids) > 1 and not bool((self.ids[1:] > self.ids[:-1]).all()):
            self._order = np.argsort(self.ids, kind="stable")
            ordered = self.ids[self._order]
            repeated = ordered[1:][ordered[1:] == ordered[:-1]]
            if len(repeated):
                self.repeated_id = int(repeated[0])

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        found = self._made[index]
        if found is None:
            found = self._made[index] = Fragment.from_protobuf(self._messages[index])
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fragments | tuple | list):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Fragments({len(self)})"

    @property
    def messages(self) -> Sequence[table_pb2.DataFragment]:
        """The records as they came, right or wrong."""
        return self._messages

    def position_of(self, fragment_id: int) -> int | None:
        """The place of a fragment in the list; None: not there."""
        if self._order is None:
            position = int(np.searchsorted(self.ids, fragment_id))
        else:
            found = int(np.searchsorted(self.ids, fragment_id, sorter=self._order))
            position = int(self._order[found]) if found < len(self) else found
        if position < len(self) and self.ids[position] == fragment_id:
            return position
        return None
