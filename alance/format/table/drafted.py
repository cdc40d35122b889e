"""The fragments of a version in the making: those of the version before, with changes.

Only records that change are parsed. The bytes of all others are copied. So a commit to a table of
many thousands of fragments costs what its change costs, plus that copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.format.numbers import distinct
from alance.format.proto import table_pb2
from alance.format.table.fragments import Fragments, Records, field_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from alance.arrays import Int32s, Int64s


class DraftedFragments:
    """Fragments that are removed, changed and added. One call of `apply` owns it.

    Args:
        before: those that there are first; None: none.
    """

    def __init__(self, before: Fragments | None = None) -> None:
        self._before = Fragments(Records.of(())) if before is None else before
        self._is_kept = np.ones(len(self._before), np.bool_)
        self._changed: dict[int, table_pb2.DataFragment] = {}  # by position in `_before`
        self._added: list[table_pb2.DataFragment] = []

    @property
    def ids(self) -> Int64s:
        """Those that were there before, in their order, and then those that were added."""
        added = np.array([fragment.id for fragment in self._added], np.int64)
        return np.concatenate([self._before.ids[self._is_kept], added])

    @property
    def forms(self) -> list[table_pb2.DataFragment]:
        """Records such that each fragment is of the form of one of them; see `Records`."""
        return [
            *(
                self._before.forms[number]
                for number in distinct(self._untouched_forms().astype(np.int64))[0]
            ),
            *self.drafted,
        ]

    @property
    def drafted(self) -> list[table_pb2.DataFragment]:
        """Those that are not copied as they were."""
        return [*self._changed.values(), *self._added]

    def missing(self, fragment_ids: Collection[int]) -> list[int]:
        """Those of some ids that no fragment has; sorted."""
        numbers = np.array(sorted(fragment_ids), np.int64)
        return [int(number) for number in numbers[~np.isin(numbers, self.ids)]]

    def get(self, fragment_id: int) -> table_pb2.DataFragment:
        """The record of a fragment that is there, to be changed."""
        position = self._before.position_of(fragment_id)
        if position is None or not self._is_kept[position]:
            return next(fragment for fragment in self._added if fragment.id == fragment_id)
        return self._get(position)

    def all_like(
        self, is_one: Callable[[table_pb2.DataFragment], bool]
    ) -> Iterator[table_pb2.DataFragment]:
        """The records of the fragments whose form is one in question, to be changed.

        Args:
            is_one: tells by a record that may lack what a form lacks.
        """
        numbers = [number for number, form in enumerate(self._before.forms) if is_one(form)]
        if numbers:
            is_asked = self._is_kept & np.isin(self._before.records.form_of, numbers)
            for position in np.flatnonzero(is_asked).tolist():
                if position not in self._changed:
                    self._get(position)
        yield from filter(is_one, self.drafted)

    def add(self, fragment: table_pb2.DataFragment) -> table_pb2.DataFragment:
        """Add a copy of a fragment; gives that."""
        copy = table_pb2.DataFragment()
        copy.CopyFrom(fragment)
        self._added.append(copy)
        return copy

    def replace(self, fragment: table_pb2.DataFragment) -> None:
        """Put a copy of a record in the place of that of the same id, which is there."""
        position = self._before.position_of(fragment.id)
        if position is None or not self._is_kept[position]:
            self.get(fragment.id).CopyFrom(fragment)
            return
        copy = self._changed[position] = table_pb2.DataFragment()
        copy.CopyFrom(fragment)

    def remove(self, fragment_ids: Collection[int]) -> None:
        """Remove fragments."""
        gone = set(fragment_ids)
        is_gone = np.isin(self._before.ids, np.array(sorted(gone), np.int64))
        self._is_kept &= ~is_gone
        for position in np.flatnonzero(is_gone).tolist():
            self._changed.pop(position, None)
        self._added = [fragment for fragment in self._added if fragment.id not in gone]

    def content(self) -> bytes:
        """All of them as fields of a manifest, in ascending order of their ids."""
        if self._only_follow:
            added = map(field_bytes, self._added)
            return b"".join((self._before.records.content, *added))
        kept, count = np.flatnonzero(self._is_kept), len(self._before)
        # Numbers below `count` are positions in `_before`, others are places in `_added`.
        numbers = np.concatenate([kept, np.arange(count, count + len(self._added))])
        numbers = numbers[np.argsort(self.ids, kind="stable")]
        if not len(numbers):
            return b""
        is_copied = (numbers < count) & ~np.isin(numbers, [*self._changed])
        begins = np.ones(len(numbers), np.bool_)  # of runs of neighbours that are copied
        begins[1:] = (np.diff(numbers) != 1) | ~is_copied[1:] | ~is_copied[:-1]
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(numbers)) - 1
        parts = []
        for first, last in zip(numbers[starts].tolist(), numbers[ends].tolist(), strict=True):
            if first >= count:
                parts.append(field_bytes(self._added[first - count]))
            elif first in self._changed:
                parts.append(field_bytes(self._changed[first]))
            else:
                parts.append(self._before.records.fields(first, last))
        return b"".join(parts)

    @property
    def _only_follow(self) -> bool:
        """Whether those from before stay as they were, and those that were added follow them."""
        before = self._before
        if self._changed or not before.is_ascending or not self._is_kept.all():
            return False
        ids = [int(before.ids[-1])] if len(before) else []
        ids += [fragment.id for fragment in self._added]
        return ids == sorted(ids)

    def _get(self, position: int) -> table_pb2.DataFragment:
        fragment = self._changed.get(position)
        if fragment is None:
            fragment = self._changed[position] = self._before.records[position]
        return fragment

    def _untouched_forms(self) -> Int32s:
        is_untouched = self._is_kept.copy()
        is_untouched[[*self._changed]] = False
        return self._before.records.form_of[is_untouched]
