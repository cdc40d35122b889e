"""Fragments of a draft version: the previous version's fragments with changes.

Only changed records are parsed; the bytes of all others are copied. So a commit to a table with
many thousands of fragments costs the work for its change, and a copy of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.format.numbers import distinct
from alance.format.proto import copied, table_pb2
from alance.format.table.fragment import Fragments, Records, field_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from alance.base.arrays import Int32s, Int64s


class DraftedFragments:
    """Fragments with removals, changes and additions; owned by one call of `apply`.

    Args:
        before: fragments to start with; None for none.
    """

    def __init__(self, before: Fragments | None = None) -> None:
        self._before = Fragments(Records.of(())) if before is None else before
        self._is_kept = np.ones(len(self._before), np.bool_)
        self._changed: dict[int, table_pb2.DataFragment] = {}  # by position in `_before`
        self._added: list[table_pb2.DataFragment] = []

    @property
    def ids(self) -> Int64s:
        """Ids of the remaining old fragments in order, then of the added fragments."""
        added = np.array([fragment.id for fragment in self._added], np.int64)
        return np.concatenate([self._before.ids[self._is_kept], added])

    @property
    def forms(self) -> list[table_pb2.DataFragment]:
        """Distinct forms of unchanged fragments, and records of the others; see `Records`."""
        return [
            *(
                self._before.forms[number]
                for number in distinct(self._untouched_forms().astype(np.int64))[0]
            ),
            *self.drafted,
        ]

    @property
    def drafted(self) -> list[table_pb2.DataFragment]:
        """Records that are changed or added."""
        return [*self._changed.values(), *self._added]

    def missing(self, fragment_ids: Collection[int]) -> list[int]:
        """Return the ids that no fragment has; sorted."""
        numbers = np.array(sorted(fragment_ids), np.int64)
        missing: list[int] = numbers[~np.isin(numbers, self.ids)].tolist()
        return missing

    def get(self, fragment_id: int) -> table_pb2.DataFragment:
        """Return the mutable record of an existing fragment."""
        position = self._before.position_of(fragment_id)
        if position is None or not self._is_kept[position]:
            return next(fragment for fragment in self._added if fragment.id == fragment_id)
        return self._get(position)

    def all_like(
        self, is_one: Callable[[table_pb2.DataFragment], bool]
    ) -> Iterator[table_pb2.DataFragment]:
        """Yield the mutable records of the fragments whose form satisfies a predicate.

        Args:
            is_one: predicate on a form; `Records` says which parts of a record a form has.
        """
        numbers = [number for number, form in enumerate(self._before.forms) if is_one(form)]
        if numbers:
            is_asked = self._is_kept & np.isin(self._before.records.form_of, numbers)
            for position in np.flatnonzero(is_asked).tolist():
                if position not in self._changed:
                    self._get(position)
        yield from filter(is_one, self.drafted)

    def add(self, fragment: table_pb2.DataFragment) -> table_pb2.DataFragment:
        """Add a copy of a fragment and return the copy."""
        self._added.append(copied(fragment))
        return self._added[-1]

    def replace(self, fragment: table_pb2.DataFragment) -> None:
        """Replace the record of the existing fragment with the same id by a copy."""
        position = self._before.position_of(fragment.id)
        if position is None or not self._is_kept[position]:
            self.get(fragment.id).CopyFrom(fragment)
            return
        self._changed[position] = copied(fragment)

    def remove(self, fragment_ids: Collection[int]) -> None:
        gone = set(fragment_ids)
        is_gone = np.isin(self._before.ids, np.array(sorted(gone), np.int64))
        self._is_kept &= ~is_gone
        for position in np.flatnonzero(is_gone).tolist():
            self._changed.pop(position, None)
        self._added = [fragment for fragment in self._added if fragment.id not in gone]

    def content(self) -> bytes:
        """Serialize all fragments as fields of a manifest, in ascending order of their ids."""
        if self._only_follow:
            added = map(field_bytes, self._added)
            return b"".join((self._before.records.content, *added))
        retained, count = np.flatnonzero(self._is_kept), len(self._before)
        # Numbers below `count` are positions in `_before`; higher numbers, minus `count`, are
        # positions in `_added`.
        numbers = np.concatenate([retained, np.arange(count, count + len(self._added))])
        numbers = numbers[np.argsort(self.ids, kind="stable")]
        if not len(numbers):
            return b""
        is_copied = (numbers < count) & ~np.isin(numbers, [*self._changed])
        # Starts of runs of neighbours whose bytes are copied together.
        begins = np.ones(len(numbers), np.bool_)
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
        """True if no old fragment changed, and the ids of added fragments continue the old ids."""
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
