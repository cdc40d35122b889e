"""Addresses of rows that compaction moves: from old fragments to new ones.

Rows keep their order: the n-th live row of the old fragments of a group is the n-th row of its new
ones. So an address is translated by counting, and what is held is the deleted rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from alance.errors import CorruptFileError, InvalidInputError
from alance.format.numbers import places_in
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.reuse import Digest, Group, surviving, surviving_bytes
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.arrays import Int64s, Mask
    from alance.format.table.reuse import PastCompaction


class OldFragment(NamedTuple):
    """A fragment that is rewritten.

    Attributes:
        deleted: row offsets, ascending, each once; shape (n,).
    """

    id: int
    num_physical_rows: int
    deleted: Int64s


class NewFragment(NamedTuple):
    """A fragment that holds rows of old ones; none of them is deleted."""

    id: int
    num_rows: int


class Moves(Protocol):
    """Tells where rows went."""

    @property
    def old_sizes(self) -> dict[int, int]:
        """The physical rows of the fragments that are gone."""

    def moved(self, addresses: Int64s) -> tuple[Int64s, Mask]:
        """The new addresses of rows, and which rows have one; the others are left out."""


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Where the rows of some fragments went.

    Rows are numbered through all old fragments, deleted ones not counted, and so are those of the
    new ones.

    Attributes:
        old_ids: of the fragments that are gone, ascending; shape (f,).
        num_physical_rows: of each; `first_rows`: the number of its first row.
        deleted: addresses of deleted rows, ascending; `deleted_before`: how many of them are in
            fragments of lower ids.
        new_ids: of the new fragments; `new_starts`: the number of each one's first row.
        staying: ids of other fragments whose rows are kept as they are, ascending.
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
        """The map of groups of fragments; each group has as many live rows as new ones."""
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
        """The physical rows of the fragments that are gone."""
        return dict(zip(self.old_ids.tolist(), self.num_physical_rows.tolist(), strict=True))

    def moved(self, addresses: Int64s) -> tuple[Int64s, Mask]:
        """The new addresses of rows, and which rows have one; the others are left out.

        Rows that are deleted, or in fragments of which the map knows nothing, have none.

        Args:
            addresses: in any order; shape (n,).

        Returns:
            Addresses of the rows kept, in the order in which these came; and the mask, shape (n,).
        """
        fragments, offsets = addresses >> 32, addresses & 0xFFFF_FFFF
        _, is_kept = places_in(self.staying, fragments)
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
            is_kept[rows] = True
        return moved[is_kept], is_kept


def _ints(values: Iterable[int]) -> Int64s:
    return np.fromiter(values, np.int64)


@dataclass(frozen=True, slots=True)
class LateMoves:
    """Where rows went by several compactions, one after the other.

    Attributes:
        maps: of each of them, the oldest first; then one that keeps rows of fragments of interest.
    """

    maps: tuple[AddressMap, ...]

    @classmethod
    def of(cls, compactions: Sequence[PastCompaction], kept: Iterable[int]) -> LateMoves:
        """The moves that a fragment-reuse index tells of.

        Args:
            kept: the fragments whose rows are of interest in the end.

        Raises:
            CorruptFileError: groups whose rows do not add up.
        """
        ids = {*kept}
        for compaction in compactions:
            for group in compaction.groups:
                ids.update(d.id for d in (*group.old_fragments, *group.new_fragments))
        maps = []
        for compaction in compactions:
            groups = [_moves_of(group) for group in compaction.groups]
            gone = {fragment.id for old, _ in groups for fragment in old}
            maps.append(AddressMap.of(groups, ids - gone))
        return cls((*maps, AddressMap.of((), kept)))

    @property
    def old_sizes(self) -> dict[int, int]:
        """The physical rows of the fragments that are gone."""
        return {key: size for moves in self.maps for key, size in moves.old_sizes.items()}

    def moved(self, addresses: Int64s) -> tuple[Int64s, Mask]:
        """As `AddressMap.moved`."""
        mask = np.ones(len(addresses), np.bool_)
        for moves in self.maps:
            addresses, is_kept = moves.moved(addresses)
            mask[mask] = is_kept
        return addresses, mask


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
    """What a fragment-reuse index tells of fragments whose rows are in new ones; CPU work.

    Raises:
        InvalidInputError: the old ones are not in the order of their ids, by which readers count.
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
