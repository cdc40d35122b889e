"""The fragments of an opened version, of which a read looks at a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from alance.ops.version.handle import FragmentHandle

if TYPE_CHECKING:
    from alance.ops.version.snapshot import Snapshot


class Handles(Sequence[FragmentHandle]):
    """The fragments of a version, each made when it is first asked for."""

    __slots__ = ("_made", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._made: list[FragmentHandle | None] = [None] * len(snapshot.manifest.fragments)

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> FragmentHandle: ...
    @overload
    def __getitem__(self, index: slice) -> list[FragmentHandle]: ...
    def __getitem__(self, index: int | slice) -> FragmentHandle | list[FragmentHandle]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        handle = self._made[index]
        if handle is None:
            fragment = self._snapshot.manifest.fragments[index]
            handle = self._made[index] = FragmentHandle(self._snapshot, fragment)
        return handle
