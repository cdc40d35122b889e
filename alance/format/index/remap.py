"""Translation of row addresses by compactions, from old fragments to new ones.

Rows keep their order: the n-th live row of the old fragments of a group is the n-th row of its new
fragments. So counting translates an address, and only the deleted rows have to be in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError
from alance.format.numbers import places_in
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.reuse import Digest, Group, surviving, surviving_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.format.table.reuse import PastCompaction


class OldFragment(NamedTuple):
    """A fragment that a compaction replaces.

    Attributes:
        deleted: distinct offsets of deleted rows, ascending; shape (n,).
    """

    id: int
    num_physical_rows: int
    deleted: Int64s


class NewFragment(NamedTuple):
    """A fragment that a compaction writes; none of its rows is deleted."""

    id: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Translation of row addresses by one compaction.

    Live rows are numbered consecutively over all old fragments, and likewise over all new ones.

    Attributes:
        old_ids: ids of the old fragments, ascending; shape (f,).
        num_physical_rows: number of physical rows of each old fragment.
        first_rows: number of the first row of each old fragment.
        deleted: addresses of deleted rows, ascending.
        deleted_before: for each old fragment, number of deleted rows in fragments of lower ids.
        new_ids: ids of the new fragments.
        new_starts: number of the first row of each new fragment.
        staying: ids of fragments that the compaction did not touch, ascending.
    """

    old_ids: Int64s
    num_physical_rows: Int64s
    first_rows: Int64s
    deleted: Int64s
    deleted_before: Int64s
    new_ids: Int64s
    new_starts: Int64s
    staying: Int64s

    @classmethod
    def of(
        cls,
        groups: Sequence[tuple[Sequence[OldFragment], Sequence[NewFragment]]],
        staying: Iterable[int] = (),
    ) -> AddressMap:
        """Build the map of groups of old and new fragments.

        Args:
            groups: old and new fragments of each group, with equal numbers of live rows.
            staying: ids of fragments that the compaction did not touch.
        """
        old = [fragment for fragments, _ in groups for fragment in fragments]
        new = [fragment for _, fragments in groups for fragment in fragments]
        counts = _ints(fragment.num_physical_rows - len(fragment.deleted) for fragment in old)
        first_rows = np.cumsum(counts) - counts
        order = np.argsort(_ints(fragment.id for fragment in old))
        ascending = [old[place] for place in order.tolist()]
        deleted = [fragment.deleted + (fragment.id << 32) for fragment in ascending]
        num_deleted = _ints(len(fragment.deleted) for fragment in ascending)
        num_rows = _ints(fragment.num_rows for fragment in new)
        return cls(
            old_ids=_ints(fragment.id for fragment in ascending),
            num_physical_rows=_ints(fragment.num_physical_rows for fragment in ascending),
            first_rows=first_rows[order],
            deleted=np.concatenate([np.empty(0, np.int64), *deleted]),
            deleted_before=np.cumsum(num_deleted) - num_deleted,
            new_ids=_ints(fragment.id for fragment in new),
            new_starts=np.cumsum(num_rows) - num_rows,
            staying=np.sort(_ints(staying)),
        )

    @property
    def old_sizes(self) -> dict[int, int]:
        """Number of physical rows of each old fragment."""
        return dict(zip(self.old_ids.tolist(), self.num_physical_rows.tolist(), strict=True))

    def moved(self, addresses: Int64s) -> tuple[Int64s, Mask]:
        """Return the new addresses of live rows, and the mask of live rows in `addresses`.

        Deleted rows, and rows in fragments that the map does not contain, have no new address.
        """
        fragments, offsets = addresses >> 32, addresses & 0xFFFF_FFFF
        _, has_address = places_in(self.staying, fragments)
        places, is_old = places_in(self.old_ids, fragments)
        moved = addresses.copy()
        if is_old.any():
            dead_below, is_deleted = places_in(self.deleted, addresses)
            is_old &= ~is_deleted
            rows = np.flatnonzero(is_old)
            rows = rows[offsets[rows] < self.num_physical_rows[places[rows]]]
            place = places[rows]
            dead = dead_below[rows] - self.deleted_before[place]
            numbers = self.first_rows[place] + offsets[rows] - dead
            target = np.searchsorted(self.new_starts, numbers, "right") - 1
            moved[rows] = (self.new_ids[target] << 32) + numbers - self.new_starts[target]
            has_address[rows] = True
        return moved[has_address], has_address


def _ints(values: Iterable[int]) -> Int64s:
    return np.fromiter(values, np.int64)


@dataclass(frozen=True, slots=True)
class LateMoves:
    """Translation of row addresses by several compactions in sequence.

    Attributes:
        maps: map of each compaction, oldest first; then a map that drops the rows of fragments that
            the table does not have.
    """

    maps: tuple[AddressMap, ...]

    @classmethod
    def of(cls, compactions: Sequence[PastCompaction], fragments: Iterable[int]) -> LateMoves:
        """Build the translation for the compactions in a fragment-reuse index.

        Args:
            fragments: ids of the fragments of the table; rows that end in any other fragment get no
                new address.
        """
        ids = {*fragments}
        for compaction in compactions:
            for group in compaction.groups:
                ids.update(d.id for d in (*group.old_fragments, *group.new_fragments))
        maps = []
        for compaction in compactions:
            groups = [_moves_of(group) for group in compaction.groups]
            gone = {fragment.id for old, _ in groups for fragment in old}
            maps.append(AddressMap.of(groups, ids - gone))
        return cls((*maps, AddressMap.of((), fragments)))

    @property
    def old_sizes(self) -> dict[int, int]:
        """Number of physical rows of each old fragment of all compactions."""
        return {key: size for moves in self.maps for key, size in moves.old_sizes.items()}

    def moved(self, addresses: Int64s) -> tuple[Int64s, Mask]:
        """Translate addresses; see `AddressMap.moved`."""
        mask = np.ones(len(addresses), np.bool_)
        for moves in self.maps:
            addresses, has_address = moves.moved(addresses)
            mask[mask] = has_address
        return addresses, mask


Moves: TypeAlias = AddressMap | LateMoves


def _moves_of(group: Group) -> tuple[list[OldFragment], list[NewFragment]]:
    rows = surviving(group)
    old = []
    for digest in group.old_fragments:
        is_deleted = np.ones(digest.physical_rows, np.bool_)
        is_deleted[rows.get(digest.id, np.empty(0, np.int64))] = False
        old.append(OldFragment(digest.id, digest.physical_rows, np.flatnonzero(is_deleted)))
    new = [NewFragment(digest.id, digest.physical_rows) for digest in group.new_fragments]
    if sum(map(len, rows.values())) != sum(fragment.num_rows for fragment in new):
        raise CorruptFileError(
            f"index {FRAGMENT_REUSE}: {sum(map(len, rows.values()))} rows survived, "
            f"{sum(fragment.num_rows for fragment in new)} are in the new fragments"
        )
    return old, new


def group_of(old: Sequence[OldFragment], new: Sequence[NewFragment]) -> Group:
    """Build the fragment-reuse entry of a group of fragments. CPU work.

    Raises:
        InvalidInputError: old fragments are not in ascending order of ids, the order in which
            readers count rows.
    """
    ids = [fragment.id for fragment in old]
    if ids != sorted(ids):
        raise InvalidInputError(f"fragments {ids} rewritten together: expected ascending ids")
    return Group(
        changed_row_addrs=surviving_bytes(old),
        old_fragments=[
            Digest(id=number, physical_rows=num_rows, num_deleted_rows=len(deleted))
            for number, num_rows, deleted in old
        ],
        new_fragments=[Digest(id=number, physical_rows=num_rows) for number, num_rows in new],
    )
