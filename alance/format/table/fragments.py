"""The fragments of a manifest: many thousands, of which a read looks at a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from alance.errors import CorruptFileError
from alance.format.table.fragment import Fragment

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.proto import table_pb2


class Fragments(Sequence[Fragment]):
    """The fragments in row order; each is parsed when it is first asked for.

    Attributes:
        ids: shape (n,).
        num_rows: live rows of each, shape (n,); -1 where the manifest does not tell.

    Raises:
        CorruptFileError: two fragments with one id, or an id of more than 32 bits; by `__getitem__`
            and iteration, a record that contradicts itself.
    """

    __slots__ = ("_made", "_messages", "_order", "ids", "num_rows")

    def __init__(self, messages: Sequence[table_pb2.DataFragment]) -> None:
        count = len(messages)
        ids = np.fromiter((one.id for one in messages), np.uint64, count)
        rows = np.fromiter((one.physical_rows for one in messages), np.uint64, count)
        self._messages = messages
        self._made: list[Fragment | None] = [None] * count
        if count and int(ids.max()) >> 32:
            raise CorruptFileError(f"fragment id {ids.max()}: expected at most 32 bits")
        self.ids: npt.NDArray[np.int64] = ids.astype(np.int64)
        known = (rows > 0) & (rows < 1 << 62)
        self.num_rows: npt.NDArray[np.int64] = np.where(known, rows, 0).astype(np.int64)
        self.num_rows[~known] = -1
        for number, one in enumerate(messages):
            if one.HasField("deletion_file"):
                self.num_rows[number] = self[number].num_rows or -1
        self._order: npt.NDArray[np.int64] | None = None
        if count > 1 and not bool((self.ids[1:] > self.ids[:-1]).all()):
            self._order = np.argsort(self.ids, kind="stable")
            ordered = self.ids[self._order]
            if bool((ordered[1:] == ordered[:-1]).any()):
                raise CorruptFileError("two fragments of the manifest have the same id")

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
