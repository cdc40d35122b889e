"""Draft of the next version, which the steps of operations change.

A change that does not fit the previous version raises `InvalidInputError`.

Source: docs/format/table.md, "Building the next manifest".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.checks import some_of
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.field import check_primary_key
from alance.format.numbers import distinct
from alance.format.proto import copied, table_pb2
from alance.format.schema import check_not_reserved, check_null_characters
from alance.format.table.changes.lineage import mark_created
from alance.format.table.fragment import Fragments, Records, field_bytes
from alance.format.table.row_ids import extended_row_ids, num_row_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from alance.base.arrays import Int32s, Int64s
    from alance.file_version import FileVersion
    from alance.format.proto import file_pb2
    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.manifest import Manifest

MAX_FRAGMENT_ID: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a commit that are not in its transaction.

    Attributes:
        data_storage_version: file version of new data, for a creation or an Overwrite. If None,
            an Overwrite keeps the table's file version, and a creation takes the version of its
            files, or 2.2 without files.
        stable_row_ids: for a creation, True to assign stable row ids.
        writes_transaction_file: True to write a transaction file in addition to the manifest.
        base_paths: for a deep clone, base paths of the objects that its rows refer to.
    """

    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    writes_transaction_file: bool = True
    base_paths: tuple[table_pb2.BasePath, ...] = ()


DEFAULT_SETTINGS: Final = Settings()


@dataclass(slots=True)
class Draft:
    """The next version under construction; owned by one call of `apply`.

    Attributes:
        lineages: lineage of the previous version's spilled fragments, by fragment id.
        index_entries: for a Rewrite that defers index remapping, the new entries of the index
            section; else None.
        message: the manifest without its fragments; at first a copy of the previous one.
        fragments: fragments of the version; at first those of the previous version.
        indices: entries of the index section; shared with the previous version until replaced.
        stable: True if the table has stable row ids.
        next_fragment_id: lowest id that was never used.
    """

    previous: Manifest | None
    source: Manifest | None
    version: int
    settings: Settings
    lineages: Mapping[int, Lineage]
    index_entries: Sequence[table_pb2.IndexMetadata] | None
    message: table_pb2.Manifest = field(init=False)
    fragments: DraftedFragments = field(init=False)
    indices: list[table_pb2.IndexMetadata] = field(init=False)
    stable: bool = field(init=False)
    next_fragment_id: int = field(init=False)

    def __post_init__(self) -> None:
        """Start as a copy of the previous version; if that is None, as an empty table."""
        before = self.previous
        self.message = table_pb2.Manifest() if before is None else copied(before.head)
        self.fragments = DraftedFragments(None if before is None else before.fragments)
        self.indices = [] if before is None else list(before.indices)
        self.stable = self.settings.stable_row_ids if before is None else before.has_stable_row_ids
        highest = int(self.fragments.ids.max(initial=-1))
        if self.message.HasField("max_fragment_id"):
            highest = max(highest, self.message.max_fragment_id)
        self.next_fragment_id = highest + 1

    def add(
        self, fragments: Iterable[table_pb2.DataFragment], *, renumber: bool = False
    ) -> list[table_pb2.DataFragment]:
        """Add copies of fragments, and return them.

        A copy gets a new id if its id is 0, or with `renumber`.
        """
        added = []
        for fragment in fragments:
            copy = self.fragments.add(fragment)
            if renumber or copy.id == 0:
                if self.next_fragment_id > MAX_FRAGMENT_ID:
                    raise InvalidInputError("fragment ids have come to their end: 32 bits")
                copy.id = self.next_fragment_id
            self.next_fragment_id = max(self.next_fragment_id, copy.id + 1)
            added.append(copy)
        return added

    def add_new_rows(
        self, fragments: Iterable[table_pb2.DataFragment], *, renumber: bool = False
    ) -> None:
        """Add copies of fragments whose rows are all new in this version."""
        added = self.add(fragments, renumber=renumber)
        self.assign_row_ids(added)
        if self.stable:
            for fragment in added:
                mark_created(fragment, self.version)

    def assign_row_ids(self, fragments: Iterable[table_pb2.DataFragment]) -> list[int]:
        """Assign row ids to rows without one.

        Returns the number of leading rows that already had an id, for each fragment; empty if the
        table has no stable row ids.
        """
        had: list[int] = []
        if not self.stable:
            return had
        for fragment in fragments:
            if not fragment.physical_rows:
                raise InvalidInputError(
                    f"fragment {fragment.id}: no number of rows, which stable row ids need"
                )
            kind = fragment.WhichOneof("row_id_sequence")
            if kind not in (None, "inline_row_ids"):
                had.append(fragment.physical_rows)
                continue
            had.append(num_row_ids(fragment.inline_row_ids))
            fragment.inline_row_ids, self.message.next_row_id = extended_row_ids(
                fragment.inline_row_ids, fragment.physical_rows, self.message.next_row_id
            )
        return had

    def remove(self, fragment_ids: Iterable[int]) -> None:
        gone = set(fragment_ids)
        if missing := self.fragments.missing(gone):
            raise InvalidInputError(f"fragments {some_of(missing)} to be removed: not in the table")
        self.fragments.remove(gone)

    def replace(self, fragments: Iterable[table_pb2.DataFragment]) -> None:
        """Replace the records of fragments with the same ids."""
        new = {fragment.id: fragment for fragment in fragments}
        if missing := self.fragments.missing(new.keys()):
            raise InvalidInputError(f"fragments {some_of(missing)} to be updated: not in the table")
        for fragment in new.values():
            self.fragments.replace(fragment)

    def set_fields(self, fields: Iterable[file_pb2.Field]) -> None:
        new_fields = list(fields)
        named = {(field.id, field.name) for field in self.message.fields}
        for new in new_fields:
            if (new.id, new.name) not in named:
                check_null_characters(new.name)
        before = {field.name for field in self.message.fields if field.parent_id == -1}
        check_not_reserved(
            field.name for field in new_fields if field.parent_id == -1 and field.name not in before
        )
        check_primary_key(new_fields)
        self.message.ClearField("fields")
        self.message.fields.extend(new_fields)


class DraftedFragments:
    """Fragments with removals, changes and additions; owned by one call of `apply`."""

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
        """Yield the mutable records of fragments whose form (see `Records`) fits a predicate."""
        numbers = [number for number, form in enumerate(self._before.forms) if is_one(form)]
        if numbers:
            is_asked = self._is_kept & np.isin(self._before.records.form_of, numbers)
            for position in np.flatnonzero(is_asked).tolist():
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
