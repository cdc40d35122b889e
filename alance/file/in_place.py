"""Rows of open local files: what the page cache holds is read by the job that decodes it.

Little that it lacks is waited for there; of a file that it has not, reads ahead are better.

A column is read just before it is decoded, into memory that the column before it gave back: the
bytes are still in the processor's cache, and nothing is held ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance.errors import AlanceError
from alance.file.batches import empty_columns
from alance.file.fragment import FragmentTask
from alance.file.open import from_content
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import ByteRange, NotAtHand, answered
from alance.io import files

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from alance.file.fragment import Found, OpenFragment
    from alance.file.leaves import OpenLeaf
    from alance.file.states import ScanStates
    from alance.format.field import Field
    from alance.format.plans import Extent, Plan


class _Learned:
    """What a scan has learned, for its threads: the session's cache belongs to the loop."""

    def __init__(self, states: ScanStates) -> None:
        self._own = states.own

    def peek(self, key: Hashable) -> Any | None:
        return self._own.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        self._own[key] = value


@dataclass(frozen=True, slots=True)
class LocalRows:
    """The rows `start` to `stop` of a fragment whose files are open."""

    fragment: OpenFragment
    start: int
    stop: int
    states: ScanStates
    files: Mapping[str, files.OpenFile]  # by location

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    def decode(self) -> pa.RecordBatch | None:
        """The rows as Arrow; None where the page cache is of no use.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        schema = self.fragment.schema
        if self.states.is_cold:
            return None
        if not schema.fields:
            return empty_columns(self.num_rows)
        arrays = []
        for field in schema.fields:
            array = self._column(field)
            if array is None:
                return None
            arrays.append(array)
        fields = pa.schema([field.to_arrow() for field in schema.fields])
        return pa.RecordBatch.from_arrays(arrays, schema=fields)

    def _column(self, field: Field) -> pa.Array | None:
        ids = {field.id, *(leaf.field.id for leaf in leaf_columns(field))}
        leaves: dict[int, Found] = {}
        try:
            for leaf in self.fragment.leaves:
                if leaf.leaf.field.id in ids:
                    found = self._leaf(leaf)
                    if found is None:
                        return None
                    leaves[leaf.leaf.field.id] = found
        except AlanceError as error:
            error.add_note(f"in field {field.name!r}")
            raise
        return FragmentTask(self.fragment.schema, self.num_rows, leaves).column(field)

    def _leaf(self, one: OpenLeaf) -> Found | None:
        times = one.leaf.multiplier
        reading: Plan[Found] = one.column.read(
            self.start * times, self.stop * times, _Learned(self.states)
        )
        try:
            return answered(from_content(reading, one.column.container), self._read)
        except NotAtHand:
            return None

    def _read(self, wanted: Sequence[Extent]) -> list[memoryview]:
        contents: list[memoryview] = []
        for one in wanted:
            file = self.files.get(one.path)
            if file is None:
                raise NotAtHand
            if isinstance(one, ByteRange):
                content, is_held = files.read_held(file, (one.start, one.stop))
            else:
                opened = {one.path: (file, file.num_bytes)}
                content = files.read_pieces(opened, "", one)
                is_held = content is not None
            self.states.was_held(is_held=is_held)
            if content is None or self.states.is_cold:
                raise NotAtHand
            contents.append(content)
        return contents
